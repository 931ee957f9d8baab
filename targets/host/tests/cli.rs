//! The command `pocket` as its users run it: what it prints, its exit codes, and what it leaves behind.

#[path = "cli/pocket.rs"]
mod pocket;

#[path = "cli/files.rs"]
mod files;
#[path = "cli/hostile.rs"]
mod hostile;
#[cfg(target_os = "linux")]
#[path = "cli/memory.rs"]
mod memory;
#[path = "cli/model.rs"]
mod model;
#[path = "cli/prefix.rs"]
mod prefix;
#[path = "cli/sign.rs"]
mod sign;
#[path = "cli/speech.rs"]
mod speech;
#[path = "cli/state.rs"]
mod state;
#[cfg(target_os = "linux")]
#[path = "cli/terminal.rs"]
mod terminal;
