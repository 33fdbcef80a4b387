//! Entry of `cargo xtask`.

fn main() {}
