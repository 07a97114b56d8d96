//! The command line of workflows: the program `workflow`, as a library.
//!
//! Every verb goes through [`workflow_sdk::operate::Operate`], so it sees and does what a page or a
//! program can, and no more. `workflow --help` lists the verbs; `docs/guide/cli.md` explains them.
//!
//! ```no_run
//! // no_run: it reads the arguments of the process.
//! fn main() -> std::process::ExitCode {
//!     workflow_cli::main()
//! }
//! ```

mod arguments;
mod clock;
mod exit;
mod failure;
mod output;
mod selection;
mod target;
mod verbs;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;

use arguments::Arguments;
pub use exit::Exit;
use failure::Failure;
use output::Output;

/// Runs the command line with the arguments of this process, and returns its exit code: see
/// [`Exit`].
#[must_use]
pub fn main() -> ExitCode {
    run(std::env::args_os()).into()
}

/// Runs the command line with these arguments; the first is the name of the program. Writes to the
/// standard output and the standard error of the process.
pub fn run(arguments: impl IntoIterator<Item = impl Into<OsString> + Clone>) -> Exit {
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(refused) => {
            // A closed standard error leaves nothing to say.
            let _ = refused.print();
            return if refused.use_stderr() { Exit::Usage } else { Exit::Ok };
        }
    };
    let mut output = Output::new(&arguments.global);
    match execute(arguments, &mut output) {
        Ok(exit) => exit,
        Err(failure) => output.fail(failure),
    }
}

fn execute(arguments: Arguments, output: &mut Output) -> Result<Exit, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new(Exit::Error, format!("cannot begin: {error}")))?;
    runtime.block_on(async {
        tokio::select! {
            biased;
            done = verbs::run(arguments, output) => done,
            interrupted = tokio::signal::ctrl_c() => match interrupted {
                Ok(()) => Ok(Exit::Interrupted),
                Err(error) => Err(Failure::new(Exit::Error, format!("cannot listen for signals: {error}"))),
            },
        }
    })
}
