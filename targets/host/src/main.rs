//! The command `pocket`.

fn main() {}
