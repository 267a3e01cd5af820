//! Chores in Rust: test, tidy, bless.
fn main() {}
