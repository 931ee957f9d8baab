//! Pocket.
#![no_std]
