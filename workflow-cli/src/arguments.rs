//! The command line as clap reads it. The doc comments are the help texts.

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

mod approvals;
mod audit;
mod bulk;
mod events;
mod queues;
mod runs;
mod schedules;

pub(crate) use approvals::{ApprovalsVerb, Decide};
pub(crate) use audit::Audit;
pub(crate) use bulk::{BulkVerb, ListBulks};
pub(crate) use events::EventsVerb;
pub(crate) use queues::{LimitsVerb, QueuesVerb, SetLimits};
pub(crate) use runs::{Change, ForkRun, ListRuns, Rank, RunsVerb, Selected, Signal, StartRun};
pub(crate) use schedules::SchedulesVerb;

/// Looks at durable workflows and changes them.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100)]
#[command(after_help = "Exit codes: 0 done, 1 failed or refused, 2 wrong usage, 4 not found, 5 the run failed, \
                        6 the run was canceled, 7 waited too long, 8 partly done, 9 database not reachable or \
                        not migrated, 130 interrupted.")]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) verb: Option<Verb>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// The database: the path of an SQLite file, sqlite://PATH or postgres://USER@HOST/DATABASE
    #[arg(long, global = true, env = "WORKFLOW_DATABASE_URL", hide_env_values = true, value_name = "DATABASE")]
    pub(crate) to: Option<String>,
    /// The PostgreSQL schema of the tables
    #[arg(long, global = true, env = "WORKFLOW_SCHEMA", default_value = "workflow", value_name = "NAME")]
    pub(crate) schema: String,
    /// How long the database may take to answer, as 10s or 1m
    #[arg(long, global = true, default_value = "30s", value_name = "TIME", value_parser = crate::clock::parse_duration)]
    pub(crate) timeout: std::time::Duration,
    /// The form of the output: a table, one JSON document, one JSON document per line, or ids alone
    #[arg(long, short, global = true, value_enum, default_value_t = Format::Table)]
    pub(crate) output: Format,
    /// Short for --output json
    #[arg(long, global = true, conflicts_with = "output")]
    pub(crate) json: bool,
    /// When to use colors; NO_COLOR in the environment turns them off, too
    #[arg(long, global = true, value_enum, default_value_t = When::Auto, value_name = "WHEN")]
    pub(crate) color: When,
    /// Draw with ASCII characters alone
    #[arg(long, global = true)]
    pub(crate) ascii: bool,
    /// Show times in UTC, not in the zone of this machine
    #[arg(long, global = true)]
    pub(crate) utc: bool,
    /// Show times in full (RFC 3339), not shortened
    #[arg(long, global = true)]
    pub(crate) iso: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Table,
    Json,
    Jsonl,
    Ids,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum When {
    Auto,
    Always,
    Never,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Start, find, show and change runs
    #[command(subcommand)]
    Runs(RunsVerb),
    /// Count the runs of each state
    Counts,
    /// List what waits for a person's approval, and decide it
    #[command(subcommand)]
    Approvals(ApprovalsVerb),
    /// Show queues, pause them and set their limits
    #[command(subcommand)]
    Queues(QueuesVerb),
    /// Show the limits for steps and set them
    #[command(subcommand)]
    Limits(LimitsVerb),
    /// Show schedules and change them
    #[command(subcommand)]
    Schedules(SchedulesVerb),
    /// Deliver events to the runs that wait for them
    #[command(subcommand)]
    Events(EventsVerb),
    /// List the workers
    Workers,
    /// List the workflows, their versions and the workers of each
    Workflows,
    /// Show the bulk operations that --where has started, and stop them
    #[command(subcommand)]
    Bulk(BulkVerb),
    /// List what operators have changed, newest first
    Audit(Audit),
    /// Look for faults, each with the way out
    Doctor,
    /// Kill a worker in the middle of a step, and see the run go on
    Demo(Demo),
    /// Run the worker of this program
    Run(RunWorker),
    /// Replay unfinished runs under the code of this program, before a deploy
    Preflight {
        /// Let warnings count, too
        #[arg(long)]
        strict: bool,
    },
    /// Create the tables in a database, or bring them up to date
    Migrate,
    /// Print a script that completes commands in a shell
    Completions {
        /// The shell
        shell: Shell,
    },
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Log {
    #[default]
    Text,
    Json,
    Off,
}

#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// Be the worker process of the demonstration in this directory
    #[arg(long, hide = true, value_name = "DIRECTORY")]
    pub(crate) worker: Option<std::path::PathBuf>,
}

#[derive(Debug, Default, Args)]
pub(crate) struct RunWorker {
    /// How many runs to drive at once, in place of what the code says
    #[arg(long, value_name = "RUNS")]
    pub(crate) concurrency: Option<u32>,
    /// The form of the log on the standard error; RUST_LOG says how much of it
    #[arg(long, value_enum, default_value_t = Log::Text, value_name = "FORM")]
    pub(crate) log: Log,
    /// Refuse a database whose tables are missing or old, in place of migrating it
    #[arg(long)]
    pub(crate) no_migrate: bool,
}

/// The author and the reason of a change, for the audit log.
#[derive(Clone, Debug, Args)]
pub(crate) struct Author {
    /// Why the change is made; the audit log keeps it
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    /// The author of the change, for the audit log; default: the user of this process
    #[arg(long, env = "WORKFLOW_ACTOR", value_name = "NAME")]
    pub(crate) actor: Option<String>,
}
