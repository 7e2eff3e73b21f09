//! The `pgsteer` program.
fn main() {}
