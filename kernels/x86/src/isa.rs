//! Running intrinsics.

/// Runs an expression of intrinsics.
macro_rules! isa {
    ($e:expr) => {{
        // SAFETY: the token `self` exists only where these instructions may run; loads and stores go through references
        // to arrays of at least the accessed size.
        unsafe { $e }
    }};
}

pub(crate) use isa;
