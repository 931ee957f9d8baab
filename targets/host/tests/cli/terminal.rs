//! A model's text on a terminal.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::process::{Command, Stdio};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::pocket::{image, line, pocket};

/// What `pocket` writes to a terminal.
fn on_a_terminal(arguments: Vec<String>) -> String {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
    let slave = OpenOptions::new().read(true).write(true).open(name).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_pocket"));
    command.args(arguments).stdin(Stdio::null()).stdout(slave).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    // The other end closes with the last process that has it.
    drop(command);
    let mut written = Vec::new();
    // Which is an error of reading.
    let _ = File::from(master).read_to_end(&mut written);
    assert!(child.wait().unwrap().success());
    // The system puts a carriage return before every line's end.
    String::from_utf8(written).unwrap().replace("\r\n", "\n")
}

#[test]
fn a_reply_commands_no_terminal_and_is_exact_elsewhere() {
    // Noise: every byte is as likely as any other.
    let run = line("run {} -p Hello --raw -n 400 --temperature 9 --top-k 0 --top-p 1 --seed 1", &[&image()]);
    let exact = pocket(&run).ok();
    let commands = |c: &char| c.is_control() && !['\n', '\t'].contains(c);
    assert!(exact.contains('\x1b'), "{exact:?}");
    let shown = on_a_terminal(run);
    assert!(!shown.chars().any(|c| commands(&c)), "{shown:?}");
    let escape = |c: char| if commands(&c) { c.escape_debug().to_string() } else { c.to_string() };
    assert_eq!(shown, exact.chars().map(escape).collect::<String>());
}
