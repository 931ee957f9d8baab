//! Sessions that go on where others ended.

use std::fs;
use std::path::Path;

use pocket_runtime::State;
use tempfile::TempDir;

use crate::pocket::{Done, gguf, image, line, names, pocket, pocket_with, with_string};

/// Two turns of one session, which is saved at its end: what was said, and the state.
fn in_one_session(folder: &Path, prompts: [&str; 2], flags: &str) -> (String, Vec<u8>) {
    let state = folder.join("one");
    let chat = format!("chat {{}} --greedy --save-state {{}} {flags}");
    let said = pocket_with(&format!("{}\n{}\n", prompts[0], prompts[1]), line(&chat, &[&image(), &state])).ok();
    (said, fs::read(state).unwrap())
}

/// The same in two runs of which the second goes on from the first.
fn in_two(folder: &Path, prompts: [&str; 2], [flags, other]: [&str; 2]) -> (String, Vec<u8>) {
    let [first, second] = ["first", "second"].map(|name| folder.join(name));
    let run = |files: &str, paths: &[&Path], prompt: &str| {
        let mut arguments = line(&format!("run {{}} --greedy {files}"), &[&[image().as_path()], paths].concat());
        arguments.push(format!("--prompt={prompt}"));
        pocket(arguments).ok()
    };
    let said = run(&format!("--save-state {{}} {flags}"), &[&first], prompts[0]);
    let more = run(&format!("--state {{}} --save-state {{}} {other}"), &[&first, &second], prompts[1]);
    (said + &more, fs::read(second).unwrap())
}

#[test]
fn what_goes_on_from_a_state_is_what_never_stopped() {
    let folder = TempDir::new().unwrap();
    let prompts = ["The quick brown fox", "And then?"];
    for flags in ["-n 5", "-n 9 --kv i8", "-n 40 --stop e"] {
        let one = in_one_session(folder.path(), prompts, flags);
        assert!(one.1.len() > 128);
        // Neither the kernels nor the context are part of a state.
        let other = format!("{flags} --isa scalar --workers 3 --batch 7 --context 300");
        assert_eq!(in_two(folder.path(), prompts, [flags, flags]), one, "{flags}");
        assert_eq!(in_two(folder.path(), prompts, [flags, &other]), one, "{flags}");
        // Text as it stands; a chat puts a line's end behind every line.
        let flags = format!("{flags} --raw");
        let one = in_one_session(folder.path(), prompts, &flags);
        let lines = prompts.map(|prompt| format!("{prompt}\n"));
        assert_eq!(in_two(folder.path(), [&lines[0], &lines[1]], [&flags, &flags]), one, "{flags}");
    }
}

#[test]
fn a_chat_goes_on_from_a_state_and_may_forget_it() {
    let folder = TempDir::new().unwrap();
    let state = folder.path().join("state");
    let chat = |input: &str, flags: &str| {
        let arguments = line(&format!("chat {{}} -n 6 --greedy {flags}"), &[&image(), &state, &state]);
        pocket_with(input, arguments).ok()
    };
    let whole = chat("Hello\nWell?\nAnd now?\n", "");
    let mut parts = chat("Hello\n/quit\n", "--save-state {}");
    // The same file, before and after.
    parts += &chat("Well?\n", "--state {} --save-state {}");
    parts += &chat("And now?\n", "--state {}");
    assert_eq!(parts, whole);
    assert_eq!(chat("/reset\nHello\n", "--state {}"), chat("Hello\n", ""));
    assert_eq!(names(folder.path()), ["state"]);
}

#[test]
fn the_state_of_a_reply_that_was_cut_holds_what_was_shown() {
    let folder = TempDir::new().unwrap();
    let state = folder.path().join("state");
    let run = "run {} --raw --greedy -p Fox -n 24 --json --save-state {}";
    let free = pocket(line(run, &[&image(), &state])).json()["text"].as_str().unwrap().to_owned();
    for stop in [&free[..2], &free[3..5], &free[free.len() - 1..]] {
        let mut arguments = line(run, &[&image(), &state]);
        arguments.push(format!("--stop={stop}"));
        let shown = pocket(arguments).json()["text"].as_str().unwrap().to_owned();
        assert_eq!(shown, free[..free.find(stop).unwrap()]);
        let bytes = fs::read(&state).unwrap();
        let held = State::open(&bytes).unwrap().tokens().map(|id| id.to_string()).collect::<Vec<_>>().join(",");
        assert_eq!(pocket_with(&held, line("detokenize {}", &[&image()])).ok(), format!("Fox{shown}"));
    }
}

#[test]
fn a_state_says_how_much_it_holds() {
    let folder = TempDir::new().unwrap();
    let state = folder.path().join("state");
    let first = pocket(line("run {} -p Hello -n 5 --save-state {} --json", &[&image(), &state])).json();
    let held = first["prompt_tokens"].as_u64().unwrap() + first["reply_tokens"].as_u64().unwrap();
    let second = pocket(line("run {} -p Hello -n 5 --state {} --json", &[&image(), &state])).json();
    assert_eq!((&first["state_tokens"], &second["state_tokens"]), (&0.into(), &held.into()));
    let done = pocket(line("run {} -p Hello -n 5 --state {}", &[&image(), &state]));
    assert!(done.err.contains(&format!("{held} tokens taken up")), "{}", done.err);
}

#[test]
fn a_state_that_cannot_be_taken_up_is_refused_in_a_sentence() {
    let folder = TempDir::new().unwrap();
    let [state, other, out] = ["the.state", "other.pocket", "out"].map(|name| folder.path().join(name));
    let refused = |image: &Path, flags: &str| {
        let run = format!("run {{}} -p Hello -n 2 --state {{}} --save-state {{}} {flags}");
        let done: Done = pocket(line(&run, &[image, &state, &out]));
        assert_eq!((done.out.as_str(), done.err.lines().count()), ("", 1), "{}", done.err);
        let sentence = done.error(1);
        assert!(sentence.contains("the.state"), "{sentence}");
        assert!(!out.exists());
        sentence
    };
    assert!(refused(&image(), "").contains("cannot be read"));
    pocket(line("run {} -p Hello -n 5 --save-state {}", &[&image(), &state])).ok();
    pocket(line("pack {} -o {}", &[&gguf("tiny-qwen3-q4_0"), &other])).ok();
    assert!(refused(&other, "").contains("saved with another model"));
    assert!(refused(&image(), "--kv i8").contains("use --kv f16"));
    assert!(refused(&image(), "--context 4 --batch 4").contains("use a larger --context"));
    let whole = fs::read(&state).unwrap();
    for (bytes, words) in [
        (&b"no state"[..], "no saved state"),
        (&whole[..whole.len() - 1], "cut short"),
        (&[&whole[..200], &[whole[200] ^ 1], &whole[201..]].concat(), "is damaged; save it again"),
    ] {
        fs::write(&state, bytes).unwrap();
        let sentence = refused(&image(), "");
        assert!(sentence.contains(words), "{sentence}");
    }
    // A state has its instructions already.
    assert_eq!(pocket(line("run {} -p x --system y --state {}", &[&image(), &state])).code, Some(2));
}

#[test]
fn a_chat_that_its_template_would_write_anew_has_no_state() {
    let folder = TempDir::new().unwrap();
    let [model, packed, state] = ["in.gguf", "out.pocket", "state"].map(|name| folder.path().join(name));
    // A reply begins with a mark that is gone when something follows it.
    let template = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>{% endfor %}\
                    {% if add_generation_prompt %}<|im_start|>assistant\n#{% endif %}";
    fs::write(&model, with_string("tokenizer.chat_template", template)).unwrap();
    pocket(line("pack {} -o {}", &[&model, &packed])).ok();
    for command in ["run {} -p Hello --save-state {}", "run {} -p Hello --state {}", "chat {} --save-state {}"] {
        let sentence = pocket(line(command, &[&packed, &state])).error(1);
        assert!(sentence.contains("use --raw"), "{sentence}");
    }
    pocket(line("run {} -p Hello -n 2 --raw --save-state {}", &[&packed, &state])).ok();
    pocket(line("run {} -p Hello -n 2 --raw --state {}", &[&packed, &state])).ok();
    // Without a state such a chat goes on as ever.
    assert_eq!(pocket_with("Hello\nWell?\n", line("chat {} -n 3", &[&packed])).ok().lines().count(), 2);
}

#[test]
fn a_run_that_fails_saves_nothing() {
    let folder = TempDir::new().unwrap();
    let state = folder.path().join("state");
    let run = |flags: &str| pocket(line(&format!("run {{}} --save-state {{}} {flags}"), &[&image(), &state])).error(1);
    assert!(run("-p Hello-world-out-there --context 2 --batch 2").contains("does not fit"));
    assert!(names(folder.path()).is_empty());
    fs::write(&state, "before").unwrap();
    run("-p Hello --temperature=-1");
    assert_eq!((names(folder.path()), fs::read(&state).unwrap()), (vec!["state".to_owned()], b"before".to_vec()));
    let nowhere = folder.path().join("no/state");
    let sentence = pocket(line("run {} -p Hello -n 2 --save-state {}", &[&image(), &nowhere])).error(1);
    assert!(sentence.contains("no/state cannot be written"), "{sentence}");
    assert_eq!(names(folder.path()), ["state"]);
}
