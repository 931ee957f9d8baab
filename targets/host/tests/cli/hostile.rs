//! Model files that mean harm.

use std::fs;

use pocket_pack::pack::{Options, PackError, pack_file};
use tempfile::TempDir;

use crate::pocket::{gguf, image, line, names, pocket, with_string};

/// What would set a terminal's title, begin a line, move its cursor, and turn the rest of the line around.
const COMMANDS: &str = "\x1b]0;x\x07\r\n\u{9b}\u{202e}";

/// A small model's file with other words of the same lengths.
fn with_words(words: &[(&str, &str)]) -> Vec<u8> {
    let mut file = fs::read(gguf("tiny-qwen3-q4_1")).unwrap();
    for (word, other) in words {
        assert_eq!(word.len(), other.len());
        // A string, with its length.
        let found = [&(word.len() as u64).to_le_bytes()[..], word.as_bytes()].concat();
        let at = file.windows(found.len()).position(|window| window == found).expect("the model has the word");
        file[at + 8..][..word.len()].copy_from_slice(other.as_bytes());
    }
    file
}

/// Refuses what a terminal would obey.
#[track_caller]
fn is_tame(text: &str) {
    let tame = |c: char| c == '\n' || !c.is_control() && !('\u{202a}'..='\u{202e}').contains(&c);
    assert!(text.chars().all(tame), "{text:?}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_template_that_fills_the_memory_does_not_take_the_packer_with_it() {
    let templates = [
        "{% set n = namespace(s='x') %}{% for i in range(50) %}{% set n.s = n.s ~ n.s %}{% endfor %}",
        "{% set n = namespace(s='x' * 99) %}{% for i in range(9) %}{% set n.s = n.s|replace('x', n.s) %}{% endfor %}",
        "{% set n = namespace(s=['x' * 9999]) %}{% for i in range(30) %}{% set n.s = [n.s, n.s] %}{% endfor %}{{ n.s ~ 1 }}",
    ];
    for template in templates {
        let folder = TempDir::new().unwrap();
        let [model, packed] = ["in.gguf", "out.pocket"].map(|name| folder.path().join(name));
        fs::write(&model, with_string("tokenizer.chat_template", template)).unwrap();
        // Should it be unbounded again, it must not take the machine down.
        let output = std::process::Command::new("sh")
            .args(["-c", r#"ulimit -v 4000000; exec "$@""#, "sh", env!("CARGO_BIN_EXE_pocket")])
            .args(line("pack {} -o {} --json", &[&model, &packed]))
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(0), "{template}: {}", String::from_utf8_lossy(&output.stderr));
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let note = report["notes"][0].as_str().unwrap();
        assert!(note.contains("without a chat template") && note.contains("more than 500 MB of memory"), "{note}");
        pocket(line("run {} -p Hello --raw -n 2", &[&packed])).ok();
        assert_eq!(names(folder.path()).len(), 2, "{:?}", names(folder.path()));
    }
}

#[test]
fn what_is_wrong_with_a_template_is_said_by_the_process_that_ran_it() {
    let folder = TempDir::new().unwrap();
    let [model, packed] = ["in.gguf", "out.pocket"].map(|name| folder.path().join(name));
    fs::write(&model, with_string("tokenizer.chat_template", "{{ raise_exception('not today') }}")).unwrap();
    let report = pocket(line("pack {} -o {} --json", &[&model, &packed])).json();
    let note = report["notes"][0].as_str().unwrap();
    assert!(note.ends_with("only: the chat template refuses [user, assistant]: not today"), "{note}");
}

#[test]
fn a_program_that_cannot_run_a_template_is_no_reason_to_leave_it_out() {
    let folder = TempDir::new().unwrap();
    let [program, packed] = ["none", "out.pocket"].map(|name| folder.path().join(name));
    let options = Options { template_program: Some(&program), ..Options::default() };
    let error = pack_file(&gguf("tiny-qwen3-q4_1"), &packed, &options, &mut |_| ()).unwrap_err();
    assert!(matches!(error, PackError::TemplateProgram { .. }), "{error}");
    assert!(names(folder.path()).is_empty());
}

#[test]
fn errors_about_strings_of_a_file_are_one_line_that_commands_no_terminal() {
    let name = format!("{COMMANDS}.x.weight");
    let files = [
        with_string("general.architecture", "\x1b]0;\n"),
        with_string("tokenizer.ggml.model", "\x1b]\n\x07"),
        with_string("tokenizer.ggml.pre", "\x1b[2J\n"),
        with_words(&[("ĠĠ ĠĠ", "\x1b]0;x\x07\n x")]),
        with_words(&[("blk.0.attn_norm.weight", &name), ("blk.1.attn_norm.weight", &name)]),
    ];
    for file in files {
        let folder = TempDir::new().unwrap();
        let [model, packed] = ["in.gguf", "out.pocket"].map(|name| folder.path().join(name));
        fs::write(&model, file).unwrap();
        let done = pocket(line("pack {} -o {}", &[&model, &packed]));
        is_tame(&done.err);
        assert_eq!(done.err.lines().count(), 1, "{}", done.err);
        let sentence = done.error(1);
        assert!(sentence.contains(r"\u{1b}"), "{sentence}");
    }
}

#[test]
fn what_an_image_says_of_itself_commands_no_terminal() {
    let folder = TempDir::new().unwrap();
    let [model, packed] = ["in.gguf", "out.pocket"].map(|name| folder.path().join(name));
    let name = "\x1b]0;\n\u{9b}\u{202e}";
    fs::write(&model, with_string("general.name", name)).unwrap();
    pocket(line("pack {} -o {}", &[&model, &packed])).ok();
    let text = pocket(line("inspect {}", &[&packed])).ok();
    is_tame(&text);
    assert!(text.contains(r"\u{1b}]0;\n\u{9b}\u{202e}"), "{text}");
    let text = pocket(line("inspect {} --json", &[&packed])).ok();
    is_tame(&text);
    let facts: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(facts["provenance"]["name"], name);
}

#[test]
fn what_a_template_says_commands_no_terminal() {
    let folder = TempDir::new().unwrap();
    let [model, packed] = ["in.gguf", "out.pocket"].map(|name| folder.path().join(name));
    let template = format!("{{{{ raise_exception('{COMMANDS}') }}}}");
    fs::write(&model, with_string("tokenizer.chat_template", &template)).unwrap();
    for command in ["pack {} -o {}", "pack {} -o {} --json"] {
        let text = pocket(line(command, &[&model, &packed])).ok();
        is_tame(&text);
        assert!(text.contains("]0;x"), "{text}");
    }
}

#[test]
fn a_golden_file_commands_no_terminal() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("golden.json");
    fs::write(&file, serde_json::json!({ COMMANDS: 1 }).to_string()).unwrap();
    let done = pocket(line("golden check {} {}", &[&file, &image()]));
    is_tame(&done.err);
    assert!(done.error(1).contains("no golden file"));
}
