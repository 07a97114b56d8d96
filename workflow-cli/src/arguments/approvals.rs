use clap::{Args, Subcommand};

use super::Author;

#[derive(Debug, Subcommand)]
pub(crate) enum ApprovalsVerb {
    /// List the approvals and decisions that wait, the longest waiting first
    List {
        /// The largest number of them
        #[arg(long, default_value_t = 50, value_name = "NUMBER")]
        limit: u32,
        /// Where to go on: the cursor that the page before ended with
        #[arg(long, value_name = "CURSOR")]
        cursor: Option<String>,
    },
    /// Show what is asked: the question, the values to decide by, and the options
    Show {
        /// The run: its id, or the beginning or end of the id
        run: String,
        /// The name of the approval or decision; default: all that the run waits for
        approval: Option<String>,
    },
    /// Approve
    Approve(Decide),
    /// Reject
    Reject(Decide),
    /// Answer a decision of a flow with one of its options
    Choose(Choose),
}

#[derive(Debug, Args)]
pub(crate) struct Choose {
    /// The run: its id, or the beginning or end of the id
    pub(crate) run: String,
    /// The name of the decision
    pub(crate) decision: String,
    /// One of its options; with --as-json any value
    pub(crate) choice: String,
    /// Read the choice as JSON, for a decision without options
    #[arg(long = "as-json")]
    pub(crate) as_json: bool,
    /// A note for the run
    #[arg(long, value_name = "TEXT")]
    pub(crate) note: Option<String>,
    #[command(flatten)]
    pub(crate) author: Author,
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
