use clap::{Args, Subcommand};

use super::Author;

#[derive(Debug, Subcommand)]
pub(crate) enum BulkVerb {
    /// List bulk operations, newest first
    List(ListBulks),
    /// Show a bulk operation: how far it has come, and the runs that it could not change
    Show {
        /// The id of the operation
        bulk: String,
        /// Follow it to its end
        #[arg(long)]
        wait: bool,
    },
    /// End a bulk operation before it has dealt with all runs
    Stop {
        /// The id of the operation
        bulk: String,
        #[command(flatten)]
        author: Author,
    },
}

#[derive(Debug, Args)]
pub(crate) struct ListBulks {
    /// The largest number of operations
    #[arg(long, default_value_t = 50, value_name = "NUMBER")]
    pub(crate) limit: u32,
    /// Where to go on: the cursor that the page before ended with
    #[arg(long, value_name = "CURSOR")]
    pub(crate) cursor: Option<String>,
}
