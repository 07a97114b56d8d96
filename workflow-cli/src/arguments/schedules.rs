use clap::{Args, Subcommand};

use super::Author;

#[derive(Debug, Subcommand)]
pub(crate) enum SchedulesVerb {
    /// List schedules
    List {
        /// The largest number of schedules
        #[arg(long, default_value_t = 100, value_name = "NUMBER")]
        limit: u32,
    },
    /// Show a schedule and its next times
    Show {
        /// The schedule
        schedule: String,
    },
    /// Keep a schedule from starting runs
    Pause(OneSchedule),
    /// Let a paused schedule start runs again
    Resume(OneSchedule),
    /// Start a run now
    Trigger {
        /// The schedule
        schedule: String,
        /// Another input, as JSON; @FILE reads a file, - the standard input
        #[arg(long, short, value_name = "JSON")]
        input: Option<String>,
        #[command(flatten)]
        author: Author,
    },
    /// Take back what was changed: what the code declares holds again
    Revert(OneSchedule),
    /// Delete a schedule
    Delete(OneSchedule),
}

#[derive(Debug, Args)]
pub(crate) struct OneSchedule {
    /// The schedule
    pub(crate) schedule: String,
    #[command(flatten)]
    pub(crate) author: Author,
}
