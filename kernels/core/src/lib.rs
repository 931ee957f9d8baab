//! Every kernel of Pocket once, generic over a small 16-lane machine.
//!
//! A chip is described by a token implementing [`Lanes`]: some thirty primitive operations on 16 lanes. All kernels
//! are written against that trait, so they give the same bits on every chip; the rules that make this true are in
//! `kernels/NUMERICS.md`. [`Scalar`] is the definition that every port is compared with.
//!
//! * weights: [`tile`] (formats), [`weights`] (a matrix view over an image)
//! * activations: [`quantize`], [`norm`], [`rope`], [`swiglu`](matmul), [`embed`]
//! * products: [`matmul`], in large batches as in `batch` or [`grid`]
//! * attention: [`cache`], [`attention`], [`exp`]
//! * sharing work: [`panel`]
#![no_std]
#![deny(missing_docs)]

#[cfg(target_endian = "big")]
compile_error!("Pocket images are little-endian and read in place: big-endian targets are not supported");

pub mod ahead;
pub mod attention;
mod batch;
pub mod cache;
pub mod embed;
pub mod exp;
pub mod grid;
pub mod lanes;
pub mod matmul;
pub mod norm;
pub mod panel;
pub mod quantize;
pub mod reduce;
pub mod rope;
pub mod scalar;
pub mod tile;
pub mod weights;

pub use lanes::{Job, Kernels, Lanes, WIDTH};
pub use scalar::Scalar;
