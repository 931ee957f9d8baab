//! A language model on a machine with nothing under it.
//!
//! Boots on QEMU's `virt` board with 300 MB of RAM, finds the model image where the loader put it, checks it, prints
//! the memory plan, and does what the command line says:
//!
//! * `hash 1,2,3`: the SHA-256 of the logits' bits of all positions of these tokens
//! * `answer 24 Why is the sky blue?`: a greedy reply of at most 24 tokens, then the hash of the last logits
//!
//! The exit status is 0 if that was done, 1 after an error, 2 for a command line that says nothing of the kind, 101
//! after a panic and 102 after an exception.
#![cfg_attr(target_os = "none", no_std, no_main)]

#[cfg(target_os = "none")]
mod command;
#[cfg(target_os = "none")]
mod cores;
#[cfg(all(target_os = "none", feature = "defmt"))]
mod log;
#[cfg(target_os = "none")]
mod machine;
#[cfg(target_os = "none")]
mod semihosting;
#[cfg(target_os = "none")]
mod stack;
#[cfg(target_os = "none")]
mod uart;

/// On a machine with an operating system there is nothing to do.
#[cfg(not(target_os = "none"))]
fn main() -> std::process::ExitCode {
    eprintln!("this program boots on bare metal; build it for aarch64-unknown-none and run it with ci/virt");
    std::process::ExitCode::FAILURE
}
