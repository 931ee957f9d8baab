//! Compares the table with the template over many chats.

use pocket_runtime::text::{ChatTemplate, RenderOptions, Role, TextError, Turn};

use super::super::error::TemplateError;
use super::super::section::AlignedBytes;
use super::jinja::{Jinja, name};
use super::table::{ALL_ROLES, Draft, Step, THINKING};
use crate::printable::printable;

/// Contents that a template might treat in its own way.
const CONTENTS: [&str; 16] = [
    "plain",
    "",
    " before",
    "behind ",
    "\nbefore",
    "behind\n",
    "\n\n around \n\n",
    "  ",
    "\n",
    "two\n\nparagraphs",
    "<b> & \"double\" 'single' \\n",
    "{{ braces }} {% percent %} {# hash #}",
    "ünï 漢字 😀",
    "\t\u{A0}wide\u{3000}\r\n",
    "[INST] in brackets [/INST]",
    "user: assistant: system:",
];
/// Turns of the longest usual chat.
const USUAL_TURNS: usize = 7;
/// Turns of the longest unusual chat.
const UNUSUAL_TURNS: usize = 4;

/// Checks the table, and takes out of it the steps of unusual chats that do not fit.
pub(super) fn check(jinja: &Jinja, draft: &mut Draft) -> Result<(), TemplateError> {
    let mut section = AlignedBytes::new(&draft.pack());
    for roles in chats() {
        let usual = Step::of(&roles, false).into_iter().all(Step::is_usual);
        // Every content in every place of usual chats; of the others a few.
        let shifts = if usual { CONTENTS.len() } else { 3 };
        for shift in 0..shifts {
            let content = |turn: usize| CONTENTS[(shift + turn * 5) % CONTENTS.len()];
            let turns: Vec<Turn<'_>> =
                roles.iter().enumerate().map(|(at, &role)| Turn { role, content: content(at) }).collect();
            for (mode, thinking) in THINKING.into_iter().enumerate() {
                for generation_prompt in [false, true] {
                    let options = RenderOptions { generation_prompt, thinking };
                    let Some(difference) = compare(jinja, &section, &turns, options)? else {
                        continue;
                    };
                    let steps = Step::of(&roles, generation_prompt);
                    let unusual: Vec<Step> = steps.into_iter().filter(|step| !step.is_usual()).collect();
                    if unusual.is_empty() {
                        return Err(inexpressible(difference));
                    }
                    for step in unusual {
                        *draft.tables[mode].text(step) = None;
                    }
                    section = AlignedBytes::new(&draft.pack());
                }
            }
        }
    }
    Ok(())
}

/// Renders a chat in both ways and says how they differ.
fn compare(
    jinja: &Jinja,
    section: &[u8],
    turns: &[Turn<'_>],
    options: RenderOptions,
) -> Result<Option<String>, TemplateError> {
    let template = ChatTemplate::open(section).map_err(TemplateError::Unsound)?;
    let mut protected = vec![0..0; turns.len()];
    let size = |out: &mut [u8], protected: &mut [_]| template.render(turns, options, out, protected).map(|_| ());
    let mut out = match size(&mut [], &mut protected) {
        Ok(()) => Vec::new(),
        Err(TextError::RenderTooLong { need, .. }) => vec![0; need as usize],
        // The table has no place for such a chat, whatever the template does with it.
        Err(TextError::TurnOrder { .. }) => return Ok(None),
        Err(other) => return Err(TemplateError::Unsound(other)),
    };
    let table = template.render(turns, options, &mut out, &mut protected).map_err(TemplateError::Unsound)?;
    let roles: Vec<Role> = turns.iter().map(|turn| turn.role).collect();
    let chat = describe(&roles);
    Ok(match jinja.render(turns, options) {
        Err(refusal) => Some(format!("it refuses the chat {chat} ({})", refusal.0)),
        Ok(program) if program == table.text => None,
        Ok(program) => Some(difference(&chat, &program, table.text)),
    })
}

/// Where two renderings differ, in a sentence.
fn difference(chat: &str, program: &str, table: &str) -> String {
    let pairs = program.char_indices().zip(table.chars());
    let same = pairs.take_while(|&((_, a), b)| a == b).last().map_or(0, |((at, a), _)| at + a.len_utf8());
    let from = |text: &str| printable(text.get(same..).unwrap_or_default());
    format!(
        "in the chat {chat} it writes \"{}\" where a table writes \"{}\", behind \"{}\"",
        from(program),
        from(table),
        printable(program.get(..same).unwrap_or_default().trim_start())
    )
}

/// All unusual chats up to a length, and longer usual ones.
fn chats() -> Vec<Vec<Role>> {
    let mut all: Vec<Vec<Role>> = Vec::new();
    let mut longest: Vec<Vec<Role>> = vec![vec![]];
    for _ in 0..UNUSUAL_TURNS {
        let longer = |chat: &Vec<Role>| ALL_ROLES.map(|role| [chat.as_slice(), &[role]].concat());
        longest = longest.iter().flat_map(longer).collect();
        all.extend(longest.iter().cloned());
    }
    let alternating: Vec<Role> = [Role::User, Role::Assistant].into_iter().cycle().take(USUAL_TURNS).collect();
    for turns in UNUSUAL_TURNS..=USUAL_TURNS {
        all.push(alternating[..turns].to_vec());
        all.push([&[Role::System], &alternating[..turns - 1]].concat());
    }
    all
}

/// The roles of a chat as a list.
pub(super) fn describe(roles: &[Role]) -> String {
    let names: Vec<&str> = roles.iter().map(|&role| name(role)).collect();
    format!("[{}]", names.join(", "))
}

/// A template that depends on more than a table can say.
pub(super) fn inexpressible(what: String) -> TemplateError {
    TemplateError::Inexpressible { what }
}
