//! Templates that can't be a table are refused in a sentence that says why.

use pocket_pack::text::{AlignedBytes, TemplateError, build_template, build_tokenizer};
use pocket_runtime::text::Tokenizer;

use crate::support::*;

/// The sentence with which a template is refused.
fn refusal(jinja: &str) -> String {
    match try_pack(jinja) {
        Ok(_) => panic!("the template is packed: {jinja}"),
        Err(error) => error.to_string(),
    }
}

/// A template is refused, and the sentence has these words.
fn refused(jinja: &str, words: &[&str]) {
    let sentence = refusal(jinja);
    for word in words {
        assert!(sentence.contains(word), "{sentence:?} does not say {word:?}");
    }
}

#[test]
fn a_template_that_refuses_every_chat_is_refused() {
    refused("{{ raise_exception('only with tools') }}", &["refuses [user", "only with tools"]);
    let once = "{% if messages|length > 2 %}{{ raise_exception('one question only') }}{% endif %}";
    refused(&[once, CHATML].concat(), &["refuses [user, assistant, user", "one question only"]);
}

#[test]
fn a_template_that_is_no_jinja_is_refused() {
    refused("{% for m in messages %}", &["can't be read"]);
    refused("{{ messages[0].content | no_such_filter }}", &["refuses [user", "no_such_filter"]);
}

#[test]
fn a_template_that_never_ends_is_stopped() {
    let forever = "{% for a in range(9999) %}{% for b in range(9999) %}{% for c in range(9999) %}{% set x = c %}{% endfor %}{% endfor %}{% endfor %}";
    refused(forever, &["refuses [user", "fuel"]);
}

#[test]
fn a_template_that_takes_or_writes_too_much_is_refused() {
    // It ends for each chat, but there are thousands of them.
    let slow = "{% for a in range(9000) %}{% set x = a %}{% endfor %}";
    refused(&[slow, CHATML].concat(), &["too many steps"]);
    refused(&["{{ 'x' * 2000000 }}", CHATML].concat(), &["more than 1048576 bytes"]);
    let endless = "{% for a in range(9000) %}{{ 'x' * 1000000 }}{% endfor %}";
    refused(&[endless, CHATML].concat(), &["more than 1048576 bytes"]);
}

#[test]
fn a_templates_own_words_are_made_fit_to_print() {
    let sentence = refusal("{{ raise_exception('\u{1b}[2J\n' ~ 'x' * 5000) }}");
    assert!(sentence.contains("\\u{1b}[2J\\nxxx") && sentence.ends_with('…'), "{sentence}");
    assert!(!sentence.contains('\u{1b}') && sentence.len() < 400, "{sentence}");
}

#[test]
fn the_date_of_today_is_not_to_be_had() {
    refused("{{ strftime_now('%d') }}{{ messages[0].content }}", &["refuses [user", "strftime_now"]);
}

#[test]
fn what_depends_on_more_than_neighbours_is_refused() {
    refused(LATE_SYSTEM, &["can't be expressed as a turn table", "[system, user, assistant"]);
    // Counts its turns.
    refused(
        "{% for m in messages %}<|im_start|>{{ m.role }} {{ loop.index }}\n{{ m.content }}<|im_end|>\n{% endfor %}",
        &["can't be expressed as a turn table: in the chat [", "where a table writes"],
    );
    // Forgets what was long ago.
    refused(
        "{% for m in messages[-3:] %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}",
        &["can't be expressed as a turn table"],
    );
    // Repeats a content.
    refused("{% for m in messages %}{{ m.content }}{{ m.content }}{% endfor %}", &["each content once and in order"]);
    // Writes no system content.
    refused(
        "{% for m in messages %}{% if m.role != 'system' %}<|im_start|>{{ m.content }}<|im_end|>{% endif %}{% endfor %}",
        &["each content once and in order in the chat [system, user"],
    );
}

#[test]
fn what_changes_contents_is_refused() {
    let with = |content: &str| CHATML.replace("message['content']", content);
    refused(&with("message['content'] | upper"), &["can't be expressed as a turn table"]);
    refused(&with("message['content'] | replace('\n', ' ')"), &["can't be expressed as a turn table"]);
    refused(&with("(message['content'] or 'nothing')"), &["can't be expressed as a turn table", "nothing"]);
    refused(&with("message['content'].replace(' ', '')"), &["can't be expressed as a turn table"]);
}

#[test]
fn what_is_cut_off_contents_may_differ_by_end_and_role() {
    let content = "(message['content'].lstrip('\n') if message.role == 'user' else message['content'].rstrip())";
    let packed = pack(&CHATML.replace("message['content']", "CONTENT").replace("CONTENT", content));
    let both = "\n \n";
    assert_eq!(
        packed.text(&[user(&format!("{both}a{both}")), assistant(&format!("{both}b{both}"))], NO_REPLY),
        "<|im_start|>user\n \na\n \n<|im_end|>\n<|im_start|>assistant\n\n \nb<|im_end|>\n"
    );
}

#[test]
fn a_reply_that_nothing_ends_is_refused() {
    let mut source = tokenizer_source();
    source.eos = None;
    let section = AlignedBytes::new(&build_tokenizer(&source).expect("the tokenizer is sound"));
    let tokenizer = Tokenizer::open(&section).expect("what was packed opens");
    let plain = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}";
    let error = build_template(plain, &tokenizer).expect_err("nothing ends a reply");
    assert!(matches!(error, TemplateError::NoStopToken { .. }), "{error}");
    assert!(build_template(CHATML, &tokenizer).is_ok(), "a mark behind the reply suffices");
    assert!(try_pack(plain).is_ok(), "so does the tokenizer's own token");
}

#[test]
fn the_same_template_is_packed_into_the_same_bytes() {
    assert_eq!(pack(THINKING).0[..], pack(THINKING).0[..]);
}
