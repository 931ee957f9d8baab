//! Baked prefixes.

use std::fs;

use tempfile::TempDir;

use crate::pocket::{gguf, image, line, names, pocket};

const SYSTEM: &str = "You are brief. The quick brown fox knows everything.";

#[test]
fn a_baked_prefix_gives_its_instructions_by_itself_and_the_same_reply() {
    let folder = TempDir::new().unwrap();
    let [text, out] = ["system.txt", "a.pocket"].map(|name| folder.path().join(name));
    fs::write(&text, format!("{SYSTEM}\n")).unwrap();
    let model = gguf("tiny-qwen3-q4_1");
    for kv in ["f16", "i8"] {
        let report = pocket(line(&format!("pack {{}} -o {{}} --prefix {{}} --kv {kv} --json"), &[&model, &out, &text]));
        let tokens = report.json()["prefix_tokens"].as_u64().unwrap();
        assert!(tokens > 8, "{tokens}");
        pocket(line("verify {}", &[&out])).ok();
        // With the other kind of cache the prefix is of no use, and the reply no other.
        for kv in ["f16", "i8"] {
            let reply = |image: &std::path::Path, system: Option<&str>| {
                let mut arguments =
                    line(&format!("run {{}} -p fox -n 12 --greedy --json --context 200 --kv {kv}"), &[image]);
                arguments.extend(system.map(|system| format!("--system={system}")));
                let said = pocket(arguments).json();
                (said["text"].clone(), said["prompt_tokens"].clone())
            };
            let want = reply(&image(), Some(SYSTEM));
            assert_eq!(reply(&out, None), want, "{kv}");
            assert_eq!(reply(&out, Some(SYSTEM)), want);
            assert_eq!(reply(&out, Some("Other instructions.")), reply(&image(), Some("Other instructions.")));
        }
    }
    let text = pocket(line("pack {} -o {} --prefix {}", &[&model, &out, &text])).ok();
    assert!(text.contains("a prefix of"), "{text}");
}

#[test]
fn a_prefix_that_cannot_be_leaves_nothing() {
    let folder = TempDir::new().unwrap();
    let [text, out] = ["system.txt", "a.pocket"].map(|name| folder.path().join(name));
    let pack = || pocket(line("pack {} -o {} --prefix {}", &[&gguf("tiny-qwen3-q4_1"), &out, &text])).error(1);
    assert!(pack().contains("system.txt"));
    fs::write(&text, [0xff, 0xfe, b'a']).unwrap();
    assert!(pack().contains("system.txt"));
    fs::write(&text, "the fox ".repeat(3000)).unwrap();
    let sentence = pack();
    assert!(sentence.contains("prefix") && sentence.contains("shorten"), "{sentence}");
    assert_eq!(names(folder.path()), ["system.txt"]);
}
