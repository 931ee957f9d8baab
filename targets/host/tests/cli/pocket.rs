//! Runs the binary in a folder of its own.

use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use tempfile::TempDir;

/// A folder with the images that most tests only read.
static IMAGES: LazyLock<TempDir> = LazyLock::new(|| TempDir::new().expect("a temporary folder"));

/// What a command did.
pub(crate) struct Done {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Done {
    /// Stdout of a command that succeeded.
    pub(crate) fn ok(self) -> String {
        assert_eq!(self.code, Some(0), "stderr: {}", self.err);
        self.out
    }

    /// Stdout of a command that succeeded, as JSON.
    pub(crate) fn json(self) -> serde_json::Value {
        let out = self.ok();
        serde_json::from_str(&out).unwrap_or_else(|e| panic!("stdout is not JSON ({e}): {out}"))
    }

    /// The sentence of a command that failed with this code.
    pub(crate) fn error(self, code: i32) -> String {
        assert_eq!(self.code, Some(code), "stdout: {} stderr: {}", self.out, self.err);
        let lines: Vec<&str> = self.err.lines().collect();
        let last = lines.last().unwrap_or(&"");
        let sentence = last.strip_prefix("error: ").unwrap_or_else(|| panic!("no sentence: {}", self.err));
        sentence.to_owned()
    }
}

/// Runs `pocket` with these arguments.
pub(crate) fn pocket<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Done {
    pocket_with("", arguments)
}

/// Runs `pocket` with these arguments and this on stdin.
pub(crate) fn pocket_with<A: AsRef<OsStr>>(stdin: &str, arguments: impl IntoIterator<Item = A>) -> Done {
    let mut child = Command::new(env!("CARGO_BIN_EXE_pocket"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("pocket starts");
    // A command that does not read its stdin may be gone already.
    let _ = child.stdin.take().expect("a pipe").write_all(stdin.as_bytes());
    let output = child.wait_with_output().expect("pocket ends");
    Done {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).expect("stdout is UTF-8"),
        err: String::from_utf8(output.stderr).expect("stderr is UTF-8"),
    }
}

/// A line of arguments, split at spaces, with paths put in for `{}`.
pub(crate) fn line(text: &str, paths: &[&Path]) -> Vec<String> {
    let mut paths = paths.iter();
    let argument = |word: &str| match word {
        "{}" => paths.next().expect("a path for every {}").display().to_string(),
        word => word.to_owned(),
    };
    text.split_whitespace().map(argument).collect()
}

/// A GGUF file of the fixtures.
pub(crate) fn gguf(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../host-test/fixtures/gguf").join(format!("{name}.gguf"))
}

/// A small model's file with another value in the place of a string of its metadata, filled up with spaces.
pub(crate) fn with_string(key: &str, value: &str) -> Vec<u8> {
    let mut file = std::fs::read(gguf("tiny-qwen3-q4_1")).expect("the fixture is there");
    let at = file.windows(key.len()).position(|window| window == key.as_bytes()).expect("the model has the key");
    // A string's type, its length, its bytes.
    let (len, text) = file[at + key.len() + 4..].split_at_mut(8);
    let text = &mut text[..u64::from_le_bytes(len.try_into().expect("8 bytes")) as usize];
    text.fill(b' ');
    text[..value.len()].copy_from_slice(value.as_bytes());
    file
}

/// The image of a small model.
pub(crate) fn image() -> PathBuf {
    static IMAGE: LazyLock<PathBuf> = LazyLock::new(|| packed(&gguf("tiny-qwen3-q4_1"), "tiny.pocket"));
    IMAGE.clone()
}

/// The image of SmolLM2-135M-Instruct, which `ci/setup` fetches.
pub(crate) fn smollm2() -> PathBuf {
    static IMAGE: LazyLock<PathBuf> = LazyLock::new(|| {
        let name = "models/SmolLM2-135M-Instruct.Q4_1.gguf";
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name);
        assert!(file.is_file(), "{name} is missing: run ci/setup in the repository's root to fetch it");
        packed(&file, "smollm2.pocket")
    });
    IMAGE.clone()
}

fn packed(gguf: &Path, name: &str) -> PathBuf {
    let image = IMAGES.path().join(name);
    pocket(line("pack {} -o {}", &[gguf, &image])).ok();
    image
}

/// The files in a folder.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("the folder is there");
    entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect()
}
