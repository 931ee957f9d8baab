//! Model files that mean harm.

use std::fs;

use pocket_pack::pack::{Options, PackError, pack_file};
use tempfile::TempDir;

use crate::pocket::{gguf, line, names, pocket};

/// A small model's file with another value in the place of a string of its metadata, filled up with spaces.
fn with_string(key: &str, value: &str) -> Vec<u8> {
    let mut file = fs::read(gguf("tiny-qwen3-q4_1")).unwrap();
    let at = file.windows(key.len()).position(|window| window == key.as_bytes()).expect("the model has the key");
    // A string's type, its length, its bytes.
    let (len, text) = file[at + key.len() + 4..].split_at_mut(8);
    let text = &mut text[..u64::from_le_bytes(len.try_into().unwrap()) as usize];
    text.fill(b' ');
    text[..value.len()].copy_from_slice(value.as_bytes());
    file
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
