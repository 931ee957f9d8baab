//! Host tests of Pocket.
