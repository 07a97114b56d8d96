use std::path::PathBuf;

use clap::Args;
use workflow_tools::http::Network;

/// The tools of a worker that runs flows and has no code of an application.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Flows, in a program without a worker of its own")]
pub(crate) struct FlowTools {
    /// Run flows, with the tools of all actions of the dialect opcode, and http, log, in-app, kb.*.
    /// The variable WORKFLOW_FLOW_SECRET_BANK is the secret `bank`, for every flow
    #[arg(long)]
    pub(crate) flows: bool,
    /// Let the tools fs.* use the files below this directory
    #[arg(long, value_name = "DIRECTORY", requires = "flows")]
    pub(crate) files: Option<PathBuf>,
    /// Let requests reach this private network or address, as 127.0.0.1 or 10.1.0.0/16
    #[arg(long, value_name = "NETWORK", requires = "flows")]
    pub(crate) network: Vec<Network>,
    /// Let shell.run and shell.exec run this program, as python3=/usr/bin/python3, in the directory
    /// of --files
    #[arg(long, value_name = "NAME=PATH", requires = "files")]
    pub(crate) program: Vec<String>,
    /// Run the programs of --program as this account, by its numbers, as 2001:2001. A worker that
    /// is root needs it, and no other worker can use it
    #[arg(long, value_name = "UID:GID", requires = "program", value_parser = parse_account)]
    pub(crate) program_user: Option<(u32, u32)>,
}

/// Reads the numbers of a user and a group.
fn parse_account(text: &str) -> Result<(u32, u32), String> {
    let numbers = text.split_once(':').map(|(user, group)| (user.parse(), group.parse()));
    match numbers {
        Some((Ok(user), Ok(group))) => Ok((user, group)),
        _ => Err("write UID:GID with numbers, as 2001:2001; `id NAME` prints those of an account".to_owned()),
    }
}
