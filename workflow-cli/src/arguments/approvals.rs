use clap::{Args, Subcommand};

use super::Author;

#[derive(Debug, Subcommand)]
pub(crate) enum ApprovalsVerb {
    /// List what waits, the longest waiting first
    List {
        /// The largest number of approvals
        #[arg(long, default_value_t = 50, value_name = "NUMBER")]
        limit: u32,
    },
    /// Approve
    Approve(Decide),
    /// Reject
    Reject(Decide),
}

#[derive(Debug, Args)]
pub(crate) struct Decide {
    /// The run: its id, or the beginning or end of the id
    pub(crate) run: String,
    /// The name of the approval
    pub(crate) approval: String,
    /// A note for the run
    #[arg(long, value_name = "TEXT")]
    pub(crate) note: Option<String>,
    #[command(flatten)]
    pub(crate) author: Author,
}
