use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum InboxVerb {
    /// List messages, the newest first
    List(ListInbox),
    /// Show a message, and mark it as read
    Read {
        /// The id of the message
        id: i64,
    },
}

#[derive(Debug, Args)]
pub(crate) struct ListInbox {
    /// The receiver; default: all
    #[arg(long, value_name = "NAME")]
    pub(crate) receiver: Option<String>,
    /// Also list messages that were read
    #[arg(long)]
    pub(crate) all: bool,
    /// The most messages, at most 200
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=200), value_name = "NUMBER")]
    pub(crate) limit: u32,
    /// Continue a list before the message of this id
    #[arg(long, value_name = "ID")]
    pub(crate) before: Option<i64>,
}
