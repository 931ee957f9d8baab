//! The command `pocket` as its users run it: what it prints, its exit codes, and what it leaves behind.

#[path = "cli/pocket.rs"]
mod pocket;

#[path = "cli/files.rs"]
mod files;
#[path = "cli/model.rs"]
mod model;
#[path = "cli/speech.rs"]
mod speech;
