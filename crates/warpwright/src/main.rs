//! The program: flags, wiring, terminal, reports.
fn main() {}
