//! Generates and checks the table of behaviours and their tests.

fn main() {}
