//! Packer of Pocket.
