//! The `pgsteer` program as a library, so that tests can drive its parts: each command is a module, and each ends in a
//! [`Failure`](exit::Failure) or not at all. It only uses what the `pgsteer` crate offers to everybody.

use std::ffi::OsString;
use std::process::ExitCode;

pub mod arguments;
pub mod bench;
pub mod breaker;
pub mod demo;
pub mod descriptors;
pub mod echo;
pub mod exit;
pub mod faults;
pub mod interrupt;
pub mod latency;
pub mod load;
pub mod logging;
pub mod output;
mod parser;
pub mod pieces;
pub mod route;
pub mod sockets;
pub mod topology;
pub mod url;

use tokio::runtime::Runtime;

use arguments::Command;
use exit::Failure;
use interrupt::Interrupt;
use output::Output;

/// Runs the program with its command line, the program's own name included.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let command = match arguments::read(arguments) {
        Ok(arguments) => arguments.command,
        Err(usage) if usage.asked_for => {
            return ended(Output::stdout().text(&usage.text));
        }
        Err(usage) => {
            output::complain(usage.text.trim_end());
            return ExitCode::from(2);
        }
    };
    let runtime = match &command {
        Command::Route(_) => route::runtime(),
        _ => Runtime::new().map_err(|error| Failure::work(format!("cannot start: {error}"))),
    };
    match runtime {
        Ok(runtime) => {
            let code = ended(runtime.block_on(run(command)));
            // A look-up that hangs in the system's resolver must not keep the process.
            runtime.shutdown_background();
            code
        }
        Err(failure) => failure.report(),
    }
}

async fn run(command: Command) -> Result<(), Failure> {
    let interrupt = Interrupt::on_signals();
    let mut output = Output::stdout();
    match command {
        Command::Demo(arguments) => demo::run(&arguments, output, &interrupt).await,
        Command::Topology(arguments) => {
            logging::to_stderr();
            topology::run(&arguments, &mut output, &interrupt).await
        }
        Command::Bench(arguments) => {
            logging::to_stderr();
            bench::run(&arguments, &mut output, &interrupt).await
        }
        Command::Url(arguments) => url::run(&arguments, &mut output),
        Command::Route(arguments) => route::run(&arguments, &mut output, &interrupt).await,
        Command::Echo(arguments) => {
            logging::to_stderr();
            echo::run(&arguments, &mut output, &interrupt).await
        }
        Command::Load(arguments) => {
            logging::to_stderr();
            load::run(&arguments, &mut output, &interrupt).await
        }
    }
}

fn ended(result: Result<(), Failure>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
