//! The `pgsteer` program. Everything it does is in the library beside it, where tests can reach it.

use std::process::ExitCode;

fn main() -> ExitCode {
    pgsteer_cli::main(std::env::args_os())
}
