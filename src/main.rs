//! The command-line tool `iverson`.
//!
//! Results go to standard output, problems and progress to standard error. Exit codes: 0 done; 1 the program or its data is wrong, or
//! a check failed; 2 the command line is wrong; 3 the program needs something that is not supported yet; 70 a bug of the compiler.

mod cli;

fn main() -> std::process::ExitCode {
    cli::main()
}
