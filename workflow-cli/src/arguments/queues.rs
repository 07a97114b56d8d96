use clap::{Args, Subcommand};

use super::Author;

#[derive(Debug, Subcommand)]
pub(crate) enum QueuesVerb {
    /// List queues with their limits and runs
    List,
    /// List the gates of a queue
    Gates {
        /// The queue
        queue: String,
        /// The largest number of gates
        #[arg(long, default_value_t = 50, value_name = "NUMBER")]
        limit: u32,
        /// Where to go on: the cursor that the page before ended with
        #[arg(long, value_name = "CURSOR")]
        cursor: Option<String>,
    },
    /// Keep the runs of a queue from being claimed
    ///
    /// Runs under way go on until they end or wait. To stop them too, pause them one by one:
    /// workflow runs pause --where 'queue:NAME status:running'
    Pause {
        /// The queue
        queue: String,
        #[command(flatten)]
        author: Author,
    },
    /// Let the runs of a paused queue be claimed again
    Resume {
        /// The queue
        queue: String,
        #[command(flatten)]
        author: Author,
    },
    /// Set limits in place of all that the code declares; one that is not named here holds no more
    Limit(SetLimits),
    /// Take limits back that were set: those of the code hold again
    Unlimit {
        /// The queue
        queue: String,
        #[command(flatten)]
        author: Author,
    },
    /// Let a gate take several turns at once
    Weigh {
        /// The queue
        queue: String,
        /// The gate
        gate: String,
        /// How many runs the gate may begin per turn
        weight: u32,
        #[command(flatten)]
        author: Author,
    },
}

#[derive(Debug, Args)]
#[group(id = "limits", required = true, multiple = true, args = ["concurrency", "rate", "max_waiting", "gate_concurrency", "gate_rate", "gate_max_waiting"])]
pub(crate) struct SetLimits {
    /// The queue
    pub(crate) queue: String,
    /// How many runs of the queue are driven at once; with 0 none is claimed
    #[arg(long, value_name = "NUMBER")]
    pub(crate) concurrency: Option<u32>,
    /// How many runs begin per time, as 100/1m, or 100/1m,20 with a burst of 20
    #[arg(long, value_name = "RATE")]
    pub(crate) rate: Option<String>,
    /// How many runs may wait; further starts are refused
    #[arg(long, value_name = "NUMBER")]
    pub(crate) max_waiting: Option<u32>,
    /// How many runs behind each gate are driven at once
    #[arg(long, value_name = "NUMBER")]
    pub(crate) gate_concurrency: Option<u32>,
    /// How many runs behind each gate begin per time
    #[arg(long, value_name = "RATE")]
    pub(crate) gate_rate: Option<String>,
    /// How many runs may wait behind each gate
    #[arg(long, value_name = "NUMBER")]
    pub(crate) gate_max_waiting: Option<u32>,
    #[command(flatten)]
    pub(crate) author: Author,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LimitsVerb {
    /// List limits with the seats that are taken and the steps that wait
    List,
    /// List the steps that hold a seat of a limit, and those that wait for one
    Seats {
        /// The limit
        limit: String,
        /// Only seats of this key
        #[arg(long, value_name = "KEY")]
        key: Option<String>,
        /// The largest number of seats
        #[arg(long = "limit", default_value_t = 50, value_name = "NUMBER")]
        at_most: u32,
        /// Where to go on: the cursor that the page before ended with
        #[arg(long, value_name = "CURSOR")]
        cursor: Option<String>,
    },
    /// Set a rule in place of the whole one that the code declares
    Set {
        /// The limit
        limit: String,
        /// How many bodies of steps run at once, per key; 0 lets none begin
        #[arg(long, value_name = "NUMBER", required_unless_present = "rate")]
        concurrency: Option<u32>,
        /// How many bodies begin per time and key, as 100/1m, or 100/1m,20 with a burst of 20
        #[arg(long, value_name = "RATE")]
        rate: Option<String>,
        #[command(flatten)]
        author: Author,
    },
    /// Take a rule back that was set: that of the code holds again
    Clear {
        /// The limit
        limit: String,
        #[command(flatten)]
        author: Author,
    },
}
