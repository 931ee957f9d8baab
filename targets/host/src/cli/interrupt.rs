//! Ctrl-C: ends a reply while there is one, and the program otherwise.

use std::process;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};

/// Whether a reply is being generated.
static REPLYING: AtomicBool = AtomicBool::new(false);
/// Whether it shall end.
static CANCEL: AtomicBool = AtomicBool::new(false);
/// What a shell expects of a program that Ctrl-C ended.
const INTERRUPTED: i32 = 130;

/// From now on Ctrl-C ends replies first.
pub(super) fn listen() -> Result<()> {
    ctrlc::set_handler(|| {
        if REPLYING.load(Ordering::SeqCst) {
            CANCEL.store(true, Ordering::SeqCst);
        } else {
            eprintln!();
            process::exit(INTERRUPTED);
        }
    })
    .context("the system does not report Ctrl-C")
}

/// What Ctrl-C sets while a reply is made.
pub(super) fn flag() -> &'static AtomicBool {
    &CANCEL
}

/// Runs code that makes a reply.
pub(super) fn while_replying<T>(reply: impl FnOnce() -> T) -> T {
    CANCEL.store(false, Ordering::SeqCst);
    REPLYING.store(true, Ordering::SeqCst);
    let result = reply();
    REPLYING.store(false, Ordering::SeqCst);
    result
}
