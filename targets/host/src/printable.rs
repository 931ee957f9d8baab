//! Strings of files, made fit for a terminal.
//!
//! What a file says, or the model in it, is a stranger's. Written as it is it could move a terminal's cursor, set its
//! title, or show the rest of a line backwards. So names in errors are escaped where the error is made, and what the
//! command line prints is once more looked through where it is printed.

/// Characters of the longest name that is shown.
const NAME: usize = 64;

/// A name or a word: escaped, and cut at 64 characters.
pub(crate) fn printable(text: impl AsRef<[u8]>) -> String {
    printable_up_to(NAME, &String::from_utf8_lossy(text.as_ref()))
}

/// Text made fit to stand between quotes: escaped, and cut at so many characters.
pub(crate) fn printable_up_to(most: usize, text: &str) -> String {
    let mut shown: String = text.chars().take(most).flat_map(char::escape_debug).collect();
    if text.chars().nth(most).is_some() {
        shown.push('…');
    }
    shown
}

/// Text made fit for a line: line ends, and what a terminal obeys or hides, are escaped.
pub(crate) fn one_line(text: &str) -> String {
    escaped(text, is_hidden, |c| c.escape_debug().to_string())
}

/// A model's text made fit for a terminal: line ends and tabs stay, and so do the marks that some scripts need.
pub(crate) fn many_lines(text: &str) -> String {
    escaped(text, |c| c.is_control() && c != '\n' && c != '\t', |c| c.escape_debug().to_string())
}

/// JSON of the same value in which what a terminal obeys or hides is escaped.
pub(crate) fn json(text: &str) -> String {
    let unit = |unit: &u16| format!("\\u{unit:04x}");
    // The line ends of strings are escaped already; others are JSON's own.
    escaped(text, |c| is_hidden(c) && c != '\n', |c| c.encode_utf16(&mut [0; 2]).iter().map(unit).collect())
}

fn escaped(text: &str, hidden: impl Fn(char) -> bool, escape: impl Fn(char) -> String) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if hidden(c) {
            shown.push_str(&escape(c));
        } else {
            shown.push(c);
        }
    }
    shown
}

/// Control characters, and those that change the order of others or do not show.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{AD}' | '\u{61C}' | '\u{180E}' | '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}')
        || matches!(c, '\u{2060}'..='\u{206F}' | '\u{FEFF}' | '\u{FFF9}'..='\u{FFFB}' | '\u{E0000}'..='\u{E0FFF}')
}

#[cfg(test)]
mod tests {
    use super::{is_hidden, json, many_lines, one_line, printable};

    #[test]
    fn what_a_terminal_obeys_or_hides_is_escaped() {
        assert_eq!(
            one_line("a\"\\é\u{301}\x1b]0;x\x07\r\n\u{9b}\u{202e}"),
            "a\"\\é\u{301}\\u{1b}]0;x\\u{7}\\r\\n\\u{9b}\\u{202e}"
        );
        assert_eq!(many_lines("a\tb\nאב\u{200f}\x1b[2J\u{9b}"), "a\tb\nאב\u{200f}\\u{1b}[2J\\u{9b}");
        let hidden: String = ('\0'..=char::MAX).filter(|&c| is_hidden(c)).collect();
        assert!(!one_line(&hidden).chars().any(is_hidden));
        assert!(!printable(&hidden).chars().any(is_hidden));
        let text = serde_json::to_string(&hidden).unwrap();
        assert!(!json(&text).chars().any(is_hidden));
        assert_eq!(serde_json::from_str::<String>(&json(&text)).unwrap(), hidden);
    }
}
