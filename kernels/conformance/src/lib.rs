//! Bit-for-bit conformance of a port of the Pocket kernels with `Scalar`.
//!
//! Every primitive of [`Lanes`](pocket_kernels::Lanes) and every kernel is run on the same operands by the port and by
//! [`Scalar`](pocket_kernels::Scalar), the definition, and the results are compared as bits. The suite has no `std` and
//! no allocator, so the same code runs on a host, in an emulator and on a board: the caller lends a [`Scratch`] and
//! something to print to.
//!
//! ```
//! use pocket_kernels::Scalar;
//! use pocket_kernels_conformance::{Case, Scratch, replay};
//!
//! static SCRATCH: std::sync::Mutex<Scratch> = std::sync::Mutex::new(Scratch::new());
//! let mut report = String::new();
//! let case: Case = "matmul_q4a64:17".parse().map_err(|_| core::fmt::Error)?;
//! let outcome = replay(Scalar, case, &mut SCRATCH.lock().unwrap(), &mut report)?;
//! assert_eq!((outcome.cases, outcome.failures), (1, 0));
//! # Ok::<(), core::fmt::Error>(())
//! ```
//!
//! * [`run`] compares everything and reports failures.
//! * [`hash_only`] runs the port alone; its hash must be [`HASH`]. For chips on which `Scalar` takes too long.
//! * [`replay`] runs one [`Case`] and prints all its wrong elements.
//!
//! # What equality means
//! Any NaN equals any NaN: payload and sign of a NaN are not part of the contract, so they are replaced by one pattern
//! before comparing and hashing. Where a kernel reports values that are not finite, the report is compared and the
//! output, which nobody may use then, is not. The sign of a zero maximum is not compared.
#![no_std]
#![deny(missing_docs)]
#![forbid(unsafe_code)]

mod attention;
mod cache;
mod cases;
mod data;
mod elementary;
mod floats;
mod integers;
mod matmul;
mod products;
mod report;
mod rope;
mod rows;
mod scratch;
mod suite;

pub use cases::{Case, UnknownCase};
pub use scratch::Scratch;
pub use suite::{HASH, Outcome, hash_only, replay, run};
