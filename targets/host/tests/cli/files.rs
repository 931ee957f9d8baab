//! Packing and looking at images, and that nothing half-done is left behind.

use std::fs;

use tempfile::TempDir;

use crate::pocket::{gguf, image, line, names, pocket};

#[test]
fn pack_reports_what_it_did() {
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("a.pocket");
    let report = pocket(line("pack {} -o {} --json", &[&gguf("tiny-qwen3-q4_1"), &out])).json();
    assert_eq!(report["image_bytes"], fs::metadata(&out).unwrap().len());
    assert_eq!(report["conversions"].as_array().unwrap().len(), 0);
    let text = pocket(line("pack {} -o {} --quant q4", &[&gguf("tiny-qwen3-f32"), &out])).ok();
    assert!(text.contains("relative error at most"), "{text}");
    assert_eq!(names(folder.path()), ["a.pocket"]);
}

#[test]
fn pack_writes_nothing_when_it_fails() {
    let folder = TempDir::new().unwrap();
    let (input, output) = (folder.path().join("in.gguf"), folder.path().join("out.pocket"));
    fs::write(&input, b"GGUF but not really").unwrap();
    let sentence = pocket(line("pack {} -o {}", &[&input, &output])).error(1);
    assert!(!sentence.is_empty());
    let whole = fs::read(gguf("tiny-qwen3-q8_0")).unwrap();
    fs::write(&input, &whole[..whole.len() / 2]).unwrap();
    pocket(line("pack {} -o {}", &[&input, &output])).error(1);
    assert_eq!(names(folder.path()), ["in.gguf"]);
    // What was there before stays.
    fs::write(&output, b"before").unwrap();
    pocket(line("pack {} -o {}", &[&input, &output])).error(1);
    assert_eq!(fs::read(&output).unwrap(), b"before");
}

#[test]
fn pack_names_the_file_that_is_not_there() {
    let folder = TempDir::new().unwrap();
    let input = folder.path().join("none.gguf");
    let sentence = pocket(line("pack {} -o {}", &[&input, &folder.path().join("x.pocket")])).error(1);
    assert!(sentence.contains("none.gguf"), "{sentence}");
    let sentence = pocket(line("pack {} -o {}", &[&gguf("tiny-qwen3-q8_0"), &folder.path().join("no/x")])).error(1);
    assert!(sentence.contains("no"), "{sentence}");
    assert!(names(folder.path()).is_empty());
}

#[test]
fn verify_names_what_is_damaged() {
    let folder = TempDir::new().unwrap();
    let damaged = folder.path().join("damaged.pocket");
    let whole = fs::read(image()).unwrap();
    let said = pocket(line("verify {}", &[&image()])).ok();
    assert!(said.contains("as they were packed"), "{said}");
    let facts = pocket(line("inspect {} --json", &[&image()])).json();
    for section in facts["sections"].as_array().unwrap() {
        let [offset, len] = ["offset", "bytes"].map(|key| section[key].as_u64().unwrap() as usize);
        for at in [offset, offset + len / 2, offset + len - 1] {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x10;
            fs::write(&damaged, &bytes).unwrap();
            let sentence = pocket(line("verify {}", &[&damaged])).error(1);
            let name = section["name"].as_str().unwrap();
            assert!(sentence.contains("damaged.pocket") && sentence.contains(name), "{name} at {at}: {sentence}");
        }
    }
}

#[test]
fn inspect_shows_shape_sections_and_formats() {
    let facts = pocket(line("inspect {} --json", &[&image()])).json();
    assert_eq!(facts["config"]["layers"], 3);
    assert_eq!(facts["config"]["vocabulary"], 1024);
    assert_eq!(facts["tokenizer"]["vocabulary"], 1024);
    assert!(facts["bits_per_weight"].as_f64().unwrap() > 4.0);
    let text = pocket(line("inspect {}", &[&image()])).ok();
    for word in ["weights", "tensor directory", "q4a", "bits a weight", "source_sha256"] {
        assert!(text.contains(word), "no {word} in {text}");
    }
}

#[test]
fn what_is_no_image_is_refused_in_a_sentence() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("x.pocket");
    let sentence = pocket(line("inspect {}", &[&file])).error(1);
    assert!(sentence.contains("x.pocket cannot be read"), "{sentence}");
    fs::write(&file, b"").unwrap();
    let sentence = pocket(line("inspect {}", &[&file])).error(1);
    assert!(sentence.contains("cut short"), "{sentence}");
    fs::write(&file, [7; 4096]).unwrap();
    let sentence = pocket(line("run {} -p x", &[&file])).error(1);
    assert!(sentence.contains("not a Pocket image"), "{sentence}");
    let whole = fs::read(image()).unwrap();
    fs::write(&file, &whole[..whole.len() - 1]).unwrap();
    let sentence = pocket(line("plan {}", &[&file])).error(1);
    assert!(sentence.contains("cut short"), "{sentence}");
    let sentence = pocket(line("inspect {}", &[folder.path()])).error(1);
    assert!(sentence.contains("no regular file"), "{sentence}");
}

#[test]
fn help_and_usage() {
    let help = pocket(["--help"]).ok();
    for command in ["pack", "inspect", "plan", "run", "chat", "bench", "logits", "tokenize", "detokenize", "golden"] {
        assert!(help.contains(&format!("\n  {command} ")), "no {command} in {help}");
        assert!(pocket([command, "--help"]).ok().contains("Usage: pocket"));
    }
    for wrong in ["", "fly", "run", "plan x --budget 3XB", "run x -p y --isa mmx", "run x -p y --greedy --top-k 3"] {
        assert_eq!(pocket(wrong.split_whitespace()).code, Some(2), "{wrong}");
    }
}

#[test]
fn plan_counts_image_arena_and_stacks() {
    let plan = pocket(line("plan {} --context 200 --batch 16 --workers 3 --kv i8 --json", &[&image()])).json();
    let number = |name: &str| plan[name].as_u64().unwrap();
    assert_eq!((number("context"), number("batch"), number("workers")), (200, 16, 3));
    assert_eq!(number("image_bytes"), fs::metadata(image()).unwrap().len());
    // A call's and two workers' jobs'.
    assert_eq!(number("stack_bytes"), (40 + 2 * 32) << 10);
    assert_eq!(number("peak_bytes"), number("image_bytes") + number("arena_bytes") + number("stack_bytes"));
    let ends = plan["regions"].as_array().unwrap().iter();
    let ends = ends.map(|region| region["offset"].as_u64().unwrap() + region["bytes"].as_u64().unwrap());
    assert!(ends.max().unwrap() <= number("arena_bytes"));
    let text = pocket(line("plan {}", &[&image()])).ok();
    assert!(text.contains("attention cache") && text.contains('█') && text.contains("context "), "{text}");
}

#[test]
fn plan_says_which_context_fits_the_budget() {
    let plan = |arguments: &str| pocket(line(&format!("plan {{}} {arguments} --json"), &[&image()]));
    let peak = |context: u64| plan(&format!("--context {context}")).json()["peak_bytes"].as_u64().unwrap();
    let budget = peak(300);
    let fits = plan(&format!("--context 300 --budget {budget}")).json();
    assert_eq!(fits["fits"], true);
    let longest = fits["largest_context"].as_u64().unwrap();
    assert!(longest >= 300 && peak(longest) <= budget && peak(longest + 1) > budget, "{longest}");
    let done = plan(&format!("--context 301 --budget {}", budget - 1));
    let shown: serde_json::Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!(shown["fits"], false);
    let longest = shown["largest_context"].as_u64().unwrap();
    let sentence = done.error(3);
    assert!(sentence.contains(&format!("the largest context that fits is {longest}")), "{sentence}");
    let sentence = plan("--budget 1kB").error(3);
    assert!(sentence.contains("no context fits"), "{sentence}");
    assert_eq!(plan("--budget 1GiB").json()["budget_bytes"], 1 << 30);
    assert_eq!(plan("--budget 1.5GB").json()["budget_bytes"], 1_500_000_000);
    let sentence = plan("--context 0").error(1);
    assert!(sentence.contains("context of 0 positions"), "{sentence}");
}
