//! The command-line tool `iverson`.
fn main() {}
