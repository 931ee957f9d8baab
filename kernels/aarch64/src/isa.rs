//! Running intrinsics.

/// Runs an expression of intrinsics of Neon and of what the token at hand stands for.
macro_rules! isa {
    ($e:expr) => {{
        // SAFETY: Neon is in the baseline of every target that has this module, and what is beyond it runs in methods
        // of the token alone that exists only where it may; loads and stores go through references to arrays of at
        // least the accessed size.
        unsafe { $e }
    }};
}

pub(crate) use isa;
