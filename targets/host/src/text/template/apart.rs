//! Runs a chat template in a process of its own, whose memory and time the system bounds.
//!
//! The engine counts steps, and what is written; nobody counts what is kept in variables, and a text that doubles with
//! every step of a loop is larger than any memory long before the steps run out. No look at a template says so before,
//! and a process that lacks memory cannot take it back. So whoever packs starts the command `pocket` for it:
//!
//! ```text
//! who packs                                                  pocket template-table
//! length of the tokenizer (u64), tokenizer, template  ─────▶ bounds itself, packs the template
//! section                                             ◀───── on stdout, exit code 0
//! why there is none                                   ◀───── on stderr, exit code 1
//! ```
//!
//! Any other end was the template's doing: memory that was not granted, or a signal. The bounds are Linux's; elsewhere
//! the process has none, and the template can still fill the memory of the machine.

use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use pocket_runtime::text::Tokenizer;

use super::super::error::TemplateError;
use super::super::section::AlignedBytes;
use super::build_template;

/// The hidden command that the process runs.
pub(crate) const TEMPLATE_COMMAND: &str = "template-table";
/// Address space of the process: program, tokenizer, and what the template takes. Usual ones take less than 1 MB.
const MEMORY_BYTES: u64 = 500_000_000;
/// Time of a processor. Usual templates take less than a second.
const SECONDS: u64 = 60;

/// As [`build_template`], in a process of `program`, the command `pocket`; `tokenizer` is the tokenizer's section.
///
/// # Errors
/// The outer one if there can be no such process; the inner one says what is wrong with the template.
pub(crate) fn build_template_apart(
    program: &Path,
    jinja: &str,
    tokenizer: &[u8],
) -> io::Result<Result<Vec<u8>, TemplateError>> {
    let mut command = Command::new(program);
    command.arg(TEMPLATE_COMMAND).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let len = (tokenizer.len() as u64).to_le_bytes();
    let mut stdin = child.stdin.take().expect("a pipe was asked for");
    // One that does not read to the end is judged by how it ended.
    let _ = [&len[..], tokenizer, jinja.as_bytes()].into_iter().try_for_each(|part| stdin.write_all(part));
    drop(stdin);
    let done = child.wait_with_output()?;
    match done.status.code() {
        Some(0) => Ok(Ok(done.stdout)),
        Some(1) => {
            let said = String::from_utf8_lossy(&done.stderr);
            let reason = said.trim_end().trim_start_matches("error: ").to_owned();
            Ok(Err(TemplateError::Apart { reason }))
        }
        Some(2) => Err(io::Error::other("it is not the command `pocket` of this release")),
        _ => Ok(Err(TemplateError::Exhausts { bytes: MEMORY_BYTES, seconds: SECONDS })),
    }
}

/// What the process does.
pub(crate) fn serve_template(mut input: impl Read, mut output: impl Write) -> Result<()> {
    bound().context("the system does not bound the memory of a process")?;
    let mut len = [0; 8];
    input.read_exact(&mut len)?;
    let mut tokenizer = Vec::new();
    input.by_ref().take(u64::from_le_bytes(len)).read_to_end(&mut tokenizer)?;
    let mut jinja = String::new();
    input.read_to_string(&mut jinja)?;
    let tokenizer = AlignedBytes::new(&tokenizer);
    let section = build_template(&jinja, &Tokenizer::open(&tokenizer)?)?;
    Ok(output.write_all(&section)?)
}

/// Bounds this process, for good. A template that ends it leaves no core file either.
#[cfg(target_os = "linux")]
fn bound() -> io::Result<()> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    for (resource, most) in [(Resource::As, MEMORY_BYTES), (Resource::Cpu, SECONDS), (Resource::Core, 0)] {
        let Rlimit { current, maximum } = getrlimit(resource);
        let most = Some([current, maximum].into_iter().flatten().fold(most, u64::min));
        setrlimit(resource, Rlimit { current: most, maximum: most })?;
    }
    Ok(())
}

/// Other systems have no such bound, or one that does not hold.
#[cfg(not(target_os = "linux"))]
fn bound() -> io::Result<()> {
    Ok(())
}
