//! Commands that compute logits: `logits`, `golden`, `bench`.

use std::fs;

use tempfile::TempDir;

use crate::pocket::{gguf, image, line, names, pocket};

const IDS: &str = "5,17,900,3,3,256,41,1000,7,8,9,10";

#[test]
fn logits_are_a_numpy_array_of_every_position() {
    let folder = TempDir::new().unwrap();
    let (all, one) = (folder.path().join("all.npy"), folder.path().join("one.npy"));
    pocket(line(&format!("logits {{}} --ids {IDS} -o {{}}"), &[&image(), &all])).ok();
    let bytes = fs::read(&all).unwrap();
    assert_eq!(&bytes[..8], b"\x93NUMPY\x01\x00");
    let header = usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    assert!((10 + header).is_multiple_of(64) && bytes[9 + header] == b'\n');
    let dict = std::str::from_utf8(&bytes[10..10 + header]).unwrap();
    assert!(dict.contains("'shape': (12, 1024)") && dict.contains("'<f4'"), "{dict}");
    assert_eq!(bytes.len(), 10 + header + 12 * 1024 * 4);
    // Any other way gives the same bits.
    let other = format!("logits {{}} --ids {IDS} -o {{}} --isa scalar --workers 3 --batch 5 --context 12");
    pocket(line(&other, &[&image(), &one])).ok();
    assert_eq!(bytes, fs::read(&one).unwrap());
}

#[test]
fn logits_leave_nothing_behind_when_they_fail() {
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("x.npy");
    let logits = |arguments: &str| pocket(line(&format!("logits {{}} -o {{}} {arguments}"), &[&image(), &out]));
    let sentence = logits("--ids 1,5000").error(1);
    assert!(sentence.contains("token 5000 is not in the vocabulary"), "{sentence}");
    let sentence = logits("--ids 1,2,3 --context 2 --batch 1").error(1);
    assert!(sentence.contains("the context holds 2 positions and 3 are needed"), "{sentence}");
    assert_eq!(logits("--ids 1,x").code, Some(2));
    let sentence = logits("--ids [] ").error(1);
    assert!(sentence.contains("no tokens were given"), "{sentence}");
    assert!(names(folder.path()).is_empty());
    let sentence = pocket(line("logits {} --ids 1 -o {}", &[&image(), folder.path()])).error(1);
    assert!(sentence.contains("no regular file"), "{sentence}");
}

#[test]
fn golden_files_hold_in_every_way() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("golden.json");
    for kv in ["f16", "i8"] {
        pocket(line(&format!("golden record {{}} --ids {IDS} --kv {kv} -o {{}}"), &[&image(), &file])).ok();
        let check = pocket(line("golden check {} {} --workers 1,3 --batch 1,5,64 --json", &[&file, &image()])).json();
        assert_eq!(check["same"], true);
        assert_eq!(check["positions"], 12);
        let checks = check["checks"].as_array().unwrap();
        assert!(checks.len().is_multiple_of(2 * 2 * 3), "instruction sets × workers × batches × rewind");
        assert!(checks.iter().any(|check| check["isa"] == "scalar" && check["rewound"] == true));
    }
    let text = pocket(line("golden check {} {} --isa scalar", &[&file, &image()])).ok();
    assert!(text.contains("the same bits at 12 positions"), "{text}");
}

#[test]
fn golden_check_names_the_first_difference() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("golden.json");
    pocket(line(&format!("golden record {{}} --ids {IDS} -o {{}}"), &[&image(), &file])).ok();
    let mut golden: serde_json::Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    for position in [9, 11] {
        golden["logits"][position] = "0".repeat(64).into();
    }
    fs::write(&file, golden.to_string()).unwrap();
    let done = pocket(line("golden check {} {} --isa scalar --workers 2 --batch 7 --json", &[&file, &image()]));
    let shown: serde_json::Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!(shown["checks"][0]["first_difference"], 9);
    let sentence = done.error(1);
    assert!(sentence.contains("position 9 with scalar, 2 workers, batch 7"), "{sentence}");
}

#[test]
fn golden_files_belong_to_a_model() {
    let folder = TempDir::new().unwrap();
    let (file, other) = (folder.path().join("golden.json"), folder.path().join("other.pocket"));
    pocket(line("pack {} -o {}", &[&gguf("tiny-qwen3-q4_0"), &other])).ok();
    pocket(line(&format!("golden record {{}} --ids {IDS} -o {{}}"), &[&other, &file])).ok();
    let sentence = pocket(line("golden check {} {}", &[&file, &image()])).error(1);
    assert!(sentence.contains("recorded for another model (other)"), "{sentence}");
    fs::write(&file, "{}").unwrap();
    let sentence = pocket(line("golden check {} {}", &[&file, &image()])).error(1);
    assert!(sentence.contains("no golden file"), "{sentence}");
    let sentence = pocket(line("golden check {} {}", &[&folder.path().join("none"), &image()])).error(1);
    assert!(sentence.contains("cannot be read"), "{sentence}");
}

#[test]
fn bench_measures_speed_and_memory_in_one_run() {
    let bench = "bench {} --prefill 32 --decode 8 --workers 1,2 --json";
    let figures = pocket(line(bench, &[&image()])).json();
    assert!(figures["read_gb_s"].as_f64().unwrap() > 0.0);
    // The embedding is also the head and is read; so everything is, and the image has little else.
    let weights = figures["weight_bytes_per_token"].as_u64().unwrap();
    assert!(weights > 0 && weights < fs::metadata(image()).unwrap().len());
    let runs = figures["runs"].as_array().unwrap();
    assert_eq!(runs.iter().map(|run| run["workers"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 2]);
    for run in runs {
        assert_eq!(run["depth"], 32);
        for name in ["prefill_tok_s", "decode_tok_s", "bus_share", "read_gb_s"] {
            assert!(run[name].as_f64().unwrap() > 0.0, "{name}");
        }
    }
    let sentence = pocket(line("bench {} --prefill 999999", &[&image()])).error(1);
    assert!(sentence.contains("the model's context"), "{sentence}");
}
