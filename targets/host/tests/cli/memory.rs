//! A process whose address space is capped at what was planned.

use std::process::Command;

use tempfile::TempDir;

use crate::pocket::{line, pocket, pocket_with};

/// What a process has beside image and arena: the program, its libraries, stacks and heap; of a release build some 9 MB.
const OVERHEAD: u64 = 24_000_000;
const CONTEXT: u64 = 2048;

#[test]
fn a_session_of_2048_tokens_runs_to_its_end_in_the_planned_memory() {
    let folder = TempDir::new().unwrap();
    let image = folder.path().join("shape.pocket");
    pocket(line("synth -o {}", &[&image])).ok();
    // Words of which somewhat fewer tokens are made than fit; a reply fills the rest.
    let word = "the cat of an old house ";
    let per_word = pocket_with(word, line("tokenize {}", &[&image])).json().as_array().unwrap().len() as u64;
    let prompt = word.repeat((1900 / per_word) as usize);
    for workers in [1, 2] {
        let plan = format!("plan {{}} --context {CONTEXT} --workers {workers} --json");
        let peak = pocket(line(&plan, &[&image])).json()["peak_bytes"].as_u64().unwrap();
        assert!(peak < 300_000_000, "{peak}");
        let run = |bytes: u64| {
            let output = Command::new("sh")
                .args(["-c", r#"ulimit -v "$1"; shift; exec "$@""#, "sh", &(bytes / 1024).to_string()])
                .arg(env!("CARGO_BIN_EXE_pocket"))
                .args(line("run {} --raw --json -n 2048 --greedy", &[&image]))
                .args(["--context", &CONTEXT.to_string(), "--workers", &workers.to_string(), "-p", &prompt])
                // The system's allocator would set addresses aside for every thread, without using them.
                .env("MALLOC_ARENA_MAX", "1")
                .output()
                .unwrap();
            (output.status.code(), output.stdout, String::from_utf8(output.stderr).unwrap())
        };
        let (code, out, err) = run(peak + OVERHEAD);
        assert_eq!(code, Some(0), "{err}");
        let done: serde_json::Value = serde_json::from_slice(&out).unwrap();
        let [heard, said] = ["prompt_tokens", "reply_tokens"].map(|tokens| done[tokens].as_u64().unwrap());
        assert!(heard > 1500, "{heard} tokens");
        assert_eq!((heard + said, done["ending"].as_str()), (CONTEXT, Some("full context")));
        let measured = done["memory"]["measured"]["peak"].as_u64().unwrap();
        assert!(measured < peak + OVERHEAD, "{measured} bytes were resident, {peak} planned");
        // With less there is a sentence and no reply.
        let (code, out, err) = run(peak - 1_000_000);
        assert_eq!((code, out.len()), (Some(1), 0), "{err}");
        assert!(err.contains("error: the system grants no 30.8 MB for the arena"), "{err}");
    }
}
