//! The program `workflow`.

use std::process::ExitCode;

fn main() -> ExitCode {
    workflow_cli::kit("workflow").main()
}
