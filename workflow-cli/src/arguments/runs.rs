use std::collections::BTreeMap;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use workflow_sdk::{LimitRule, Priority, Timestamp};

use crate::clock::{parse_duration, parse_instant};

use super::Author;

#[derive(Debug, Subcommand)]
pub(crate) enum RunsVerb {
    /// Start a run
    Start(Box<StartRun>),
    /// List runs, newest first
    List(ListRuns),
    /// Show a run: its state, where its time went, and its steps
    Show {
        /// The run: its id, or the beginning or end of the id
        run: String,
        /// Show it again whenever it has changed, until it has ended
        #[arg(long)]
        watch: bool,
    },
    /// Show each attempt of each step of a run
    History {
        /// The run: its id, or the beginning or end of the id
        run: String,
        /// The largest number of attempts
        #[arg(long, default_value_t = 100, value_name = "NUMBER")]
        limit: u32,
        /// Where to go on: the cursor that the page before ended with
        #[arg(long, value_name = "CURSOR")]
        cursor: Option<String>,
    },
    /// Say in one sentence why a run does not go on
    Explain {
        /// The run: its id, or the beginning or end of the id
        run: String,
    },
    /// Wait for a run and print its output
    Result {
        /// The run: its id, or the beginning or end of the id
        run: String,
        /// How long to wait for the end of the run; 0s does not wait
        #[arg(long, default_value = "365d", value_parser = parse_duration, value_name = "TIME")]
        wait: Duration,
    },
    /// Ask runs to end: they undo what they have to, and end as canceled
    ///
    /// A second cancel of one run that is named ends it at once. One of several runs, or with
    /// --where, leaves a run as it is that was asked before.
    Cancel(Change),
    /// End runs as canceled at once, without undoing anything
    Terminate(Change),
    /// Keep runs from going on
    Pause(Change),
    /// Let paused runs go on
    Resume(Change),
    /// Set how soon runs are claimed that have not begun
    SetPriority {
        /// The priority
        #[arg(value_enum)]
        priority: Rank,
        #[command(flatten)]
        change: Change,
    },
    /// Move runs to another queue (a whole database: workflow move)
    MoveTo {
        /// The queue
        queue: String,
        #[command(flatten)]
        change: Change,
    },
    /// Try failed runs again from where they failed
    Retry {
        /// Fail each run if it has not ended after this time, as 1h; default: its own deadline
        #[arg(long, value_parser = parse_duration, value_name = "TIME")]
        deadline: Option<Duration>,
        #[command(flatten)]
        change: Change,
    },
    /// Delete ended runs with all that belongs to them
    Delete(Change),
    /// Start a new run from the history of another one
    Fork(ForkRun),
    /// Send a signal to runs
    Signal(Signal),
}

#[derive(Debug, Args)]
pub(crate) struct ListRuns {
    /// The search, as 'status:failed workflow:check* started:>-1h'
    #[arg(value_name = "QUERY")]
    pub(crate) query: Vec<String>,
    /// The largest number of runs
    #[arg(long, default_value_t = 50, value_name = "NUMBER", conflicts_with = "all")]
    pub(crate) limit: u32,
    /// Where to go on: the cursor that the page before ended with
    #[arg(long, value_name = "CURSOR", conflicts_with = "all")]
    pub(crate) cursor: Option<String>,
    /// List all that match, page by page
    #[arg(long)]
    pub(crate) all: bool,
    /// Show the list again whenever one of its runs has changed
    #[arg(long, conflicts_with_all = ["all", "cursor"])]
    pub(crate) watch: bool,
}

/// The options of every start.
#[derive(Debug, Args)]
pub(crate) struct StartOptions {
    /// The input as JSON; @FILE reads a file, - the standard input
    #[arg(long, short, default_value = "null", value_name = "JSON")]
    pub(crate) input: String,
    /// An idempotency key: a second start with it starts nothing
    #[arg(long)]
    pub(crate) key: Option<String>,
    /// The queue
    #[arg(long, value_name = "NAME")]
    pub(crate) queue: Option<String>,
    /// Start after this time, as 10m
    #[arg(long = "in", value_parser = parse_duration, value_name = "TIME")]
    pub(crate) delay: Option<Duration>,
    /// A tag to find the run by; may be given more than once
    #[arg(long = "tag", value_name = "NAME=VALUE")]
    pub(crate) tags: Vec<String>,
    /// Wait for the end of the run and print its output
    #[arg(long, value_parser = parse_duration, value_name = "TIME", num_args = 0..=1, default_missing_value = "365d")]
    pub(crate) wait: Option<Duration>,
    #[command(flatten)]
    pub(crate) author: Author,
}

#[derive(Debug, Args)]
pub(crate) struct StartRun {
    /// The name of the workflow
    pub(crate) workflow: String,
    #[command(flatten)]
    pub(crate) options: StartOptions,
    /// The gate of the queue behind which the run waits
    #[arg(long, value_name = "NAME")]
    pub(crate) gate: Option<String>,
    /// The version of the workflow
    #[arg(long, value_name = "VERSION", id = "workflow_version")]
    pub(crate) version: Option<String>,
    /// The priority
    #[arg(long, value_enum)]
    pub(crate) priority: Option<Rank>,
    /// Fail the run if it has not ended after this time, as 1h
    #[arg(long, value_parser = parse_duration, value_name = "TIME")]
    pub(crate) deadline: Option<Duration>,
    /// Start at this time, as 2026-12-01T08:00Z or 2026-12-01T08:00+01:00
    #[arg(long, value_parser = parse_instant, value_name = "INSTANT", conflicts_with = "delay")]
    pub(crate) at: Option<Timestamp>,
    /// A single key: while a run of the workflow with it has not ended, no other one is started
    #[arg(long, value_name = "KEY", conflicts_with = "key")]
    pub(crate) single: Option<String>,
    /// Show the run again whenever it has changed, until it has ended
    #[arg(long, conflicts_with = "wait")]
    pub(crate) follow: bool,
    /// The limits of the steps of a flow
    #[arg(skip)]
    pub(crate) limits: BTreeMap<String, LimitRule>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Rank {
    Urgent,
    High,
    Normal,
    Low,
}

impl Rank {
    pub(crate) fn priority(self) -> Priority {
        match self {
            Self::Urgent => Priority::Urgent,
            Self::High => Priority::High,
            Self::Normal => Priority::Normal,
            Self::Low => Priority::Low,
        }
    }
}

/// The runs that a change is about.
#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
pub(crate) struct Selected {
    /// The runs: ids, or their beginnings or ends; - reads them from the standard input
    #[arg(value_name = "RUN")]
    pub(crate) runs: Vec<String>,
    /// All runs that match a query, in place of ids
    #[arg(long = "where", value_name = "QUERY", conflicts_with = "runs")]
    pub(crate) query: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Confirm {
    /// Change what --where finds without asking
    #[arg(long, short)]
    pub(crate) yes: bool,
    /// Say what would be changed, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Leave what --where finds to the workers, and do not wait for them
    #[arg(long, alias = "no-wait", requires = "query")]
    pub(crate) detach: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Change {
    #[command(flatten)]
    pub(crate) selected: Selected,
    #[command(flatten)]
    pub(crate) confirm: Confirm,
    #[command(flatten)]
    pub(crate) author: Author,
}

#[derive(Debug, Args)]
pub(crate) struct Signal {
    /// The name of the signal
    #[arg(long, value_name = "NAME")]
    pub(crate) name: String,
    /// The payload as JSON; @FILE reads a file
    #[arg(long, default_value = "null", value_name = "JSON")]
    pub(crate) payload: String,
    /// An idempotency key: a second signal with it changes nothing
    #[arg(long)]
    pub(crate) key: Option<String>,
    #[command(flatten)]
    pub(crate) change: Change,
}

#[derive(Debug, Args)]
pub(crate) struct ForkRun {
    /// The run whose history to copy: its id, or the beginning or end of the id
    pub(crate) run: String,
    /// The key of the step from which the new run goes on; default: from the beginning
    #[arg(long, value_name = "STEP")]
    pub(crate) from: Option<String>,
    /// Another input, as JSON; @FILE reads a file, - the standard input
    #[arg(long, short, value_name = "JSON")]
    pub(crate) input: Option<String>,
    /// Another version of the workflow
    #[arg(long, value_name = "VERSION", id = "workflow_version")]
    pub(crate) version: Option<String>,
    /// Another queue
    #[arg(long, value_name = "NAME")]
    pub(crate) queue: Option<String>,
    /// An idempotency key of the new run
    #[arg(long)]
    pub(crate) key: Option<String>,
    #[command(flatten)]
    pub(crate) author: Author,
}
