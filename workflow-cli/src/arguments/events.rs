use clap::Subcommand;

use super::Author;

#[derive(Debug, Subcommand)]
pub(crate) enum EventsVerb {
    /// Deliver an event to every run that waits for it
    Emit {
        /// The name of the event
        name: String,
        /// The key of the event
        key: String,
        /// The payload as JSON; @FILE reads a file, - the standard input
        #[arg(long, default_value = "null", value_name = "JSON")]
        payload: String,
        #[command(flatten)]
        author: Author,
    },
}
