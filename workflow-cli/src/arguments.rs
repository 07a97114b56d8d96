//! The command line as clap reads it. The doc comments are the help texts.

use std::net::SocketAddr;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

mod approvals;
mod audit;
mod bulk;
mod doctor;
mod events;
mod flow_tools;
mod flows;
mod inbox;
mod knowledge;
mod mcp;
mod queues;
mod runs;
mod schedules;
mod statistics;

pub(crate) use approvals::{ApprovalsVerb, Choose, Decide};
pub(crate) use audit::Audit;
pub(crate) use bulk::{BulkVerb, ListBulks};
pub(crate) use doctor::Examine;
pub(crate) use events::EventsVerb;
pub(crate) use flow_tools::FlowTools;
pub(crate) use flows::{
    CheckFlows, DeployFlows, DrawFlow, FlowDialect, FlowFiles, FlowVerb, FormatFlows, ListFlows, RunFlow, TestFlows,
};
pub(crate) use inbox::{InboxVerb, ListInbox};
pub(crate) use knowledge::{KbVerb, ListKb, SearchKb};
pub(crate) use mcp::Mcp;
pub(crate) use queues::{LimitsVerb, QueuesVerb, SetLimits};
pub(crate) use runs::{Change, ForkRun, ListRuns, Rank, RunsVerb, Selected, Signal, StartOptions, StartRun};
pub(crate) use schedules::{
    BackfillSchedule, CatchUpPolicy, CreateSchedule, NextTimes, OverlapPolicy, SchedulesVerb, Settings, UpdateSchedule,
};
pub(crate) use statistics::{Failures, Stats};

/// Looks at durable workflows and changes them.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100)]
#[command(after_help = "Exit codes: 0 done, 1 failed or refused, 2 wrong usage, 3 not allowed, 4 not found, \
                        5 the run failed, 6 the run was canceled, 7 waited too long, 8 partly done, 9 database or \
                        server not reachable, or database not migrated, 130 interrupted.")]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) verb: Option<Verb>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// The database: the path of an SQLite file, sqlite://PATH or postgres://USER@HOST/DATABASE.
    /// Or a server with the HTTP interface: https://HOST/PREFIX
    #[arg(long, global = true, env = "WORKFLOW_DATABASE_URL", hide_env_values = true, value_name = "DATABASE")]
    pub(crate) to: Option<String>,
    /// The token that a server asks for; better in the environment than on the command line
    #[arg(long, global = true, env = "WORKFLOW_TOKEN", hide_env_values = true, value_name = "TOKEN")]
    pub(crate) token: Option<String>,
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
    /// Where the database is named
    #[arg(skip)]
    pub(crate) naming: crate::target::Naming,
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
    /// Check, format and draw flows: workflows as documents
    #[command(subcommand)]
    Flow(FlowVerb),
    /// Find and show the documents of the knowledge base that flows write
    #[command(subcommand)]
    Kb(KbVerb),
    /// Read the messages that flows leave for people
    #[command(subcommand)]
    Inbox(InboxVerb),
    /// List the workers
    Workers,
    /// List the workflows, their versions and the workers of each
    Workflows,
    /// Show the bulk operations that --where has started, and stop them
    #[command(subcommand)]
    Bulk(BulkVerb),
    /// List what operators have changed, newest first
    Audit(Audit),
    /// Show how many runs were started and ended, and how long they waited and took
    Stats(Stats),
    /// List what fails, in groups of alike failures, the last one first
    Failures(Failures),
    /// Look for faults, each with the way out
    Doctor(Examine),
    /// Serve the pages of the dashboard to this machine
    Dashboard(Dashboard),
    /// Kill a worker in the middle of a step, and see the run go on
    Demo(Demo),
    /// Create a new project: a workflow, its worker, and tests that kill the worker
    New(New),
    /// Run the worker of this program
    Run(RunWorker),
    /// Serve the pages and the interface for operators over HTTP, with health and metrics, without
    /// a worker
    Serve(Serve),
    /// Let an agent check, deploy, start and follow flows, over MCP
    Mcp(Mcp),
    /// Replay unfinished runs under the code of this program, before a deploy
    Preflight {
        /// Let warnings count, too
        #[arg(long)]
        strict: bool,
    },
    /// Replay one run under the code of this program: say where it diverges, or that it fits
    Replay {
        /// The id of the run, or its beginning or end
        run: String,
    },
    /// Delete the ended runs that are older than the workers keep them, once, now
    Prune(Prune),
    /// Create the tables in a database, or bring them up to date
    Migrate(Migrate),
    /// Move a whole system to another database, as from SQLite to PostgreSQL
    Move(Move),
    /// Print a script that completes commands in a shell, with names of the database
    Completions {
        /// The shell
        #[arg(required_unless_present = "line")]
        shell: Option<Shell>,
        /// Print the names with which the last word of this line may go on; the scripts ask this
        #[arg(long, hide = true, conflicts_with = "shell", value_name = "LINE")]
        line: Option<String>,
    },
    /// Print the name and the version of this program
    Version,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Log {
    #[default]
    Text,
    Json,
    Off,
}

#[derive(Debug, Args)]
pub(crate) struct Dashboard {
    /// The address to listen on; only this machine is let in, whatever it is
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7777", value_parser = parse_address)]
    pub(crate) listen: SocketAddr,
    /// Show everything, and let nothing be changed
    #[arg(long)]
    pub(crate) read_only: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Migrate {
    /// Say whether the tables are up to date, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print the SQL that would be executed, for a tool of yours, and execute nothing
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) print_sql: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Prune {
    /// Count what would be deleted, and delete nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Delete without asking
    #[arg(long, short)]
    pub(crate) yes: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// Be the worker process of the demonstration in this directory
    #[arg(long, hide = true, value_name = "DIRECTORY")]
    pub(crate) worker: Option<std::path::PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct New {
    /// The directory of the project; its last part is the name of the package
    #[arg(value_name = "PATH")]
    pub(crate) path: std::path::PathBuf,
    /// The database of the program, as postgres://USER@HOST/DATABASE; default: an SQLite file
    #[arg(long, value_name = "DATABASE")]
    pub(crate) database: Option<String>,
}

#[derive(Debug, Default, Args)]
pub(crate) struct RunWorker {
    /// How many runs to drive at once, in place of what the code says
    #[arg(long, value_name = "RUNS", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) concurrency: Option<u32>,
    /// The queues to serve, as mail,reports, in place of what the code says
    #[arg(long, value_name = "QUEUES", value_delimiter = ',')]
    pub(crate) queues: Vec<String>,
    /// Work until nothing is due, then end: the worker drives no run, could claim none, and no
    /// schedule is due. It does not wait for runs that sleep or wait, or that others hold
    #[arg(long)]
    pub(crate) once: bool,
    /// The form of the log on the standard error; RUST_LOG says how much of it
    #[arg(long, value_enum, default_value_t = Log::Text, value_name = "FORM")]
    pub(crate) log: Log,
    /// Refuse a database whose tables are missing or old, in place of migrating it
    #[arg(long)]
    pub(crate) no_migrate: bool,
    /// Serve the pages of the dashboard, the interface for operators, /healthz, /readyz and
    /// /metrics on this address, as 127.0.0.1:7777; a program with flows serves these, too, and MCP
    /// at /mcp
    #[arg(long, value_name = "ADDRESS", value_parser = parse_address)]
    pub(crate) http: Option<SocketAddr>,
    /// Export the spans of runs and steps to this collector of OpenTelemetry, by HTTP, as
    /// http://localhost:4318; default: the one of OTEL_EXPORTER_OTLP_ENDPOINT, if it is set
    #[cfg(feature = "otlp")]
    #[arg(long, value_name = "URL")]
    pub(crate) traces: Option<String>,
    #[command(flatten)]
    pub(crate) tools: FlowTools,
}

#[derive(Debug, Args)]
#[command(after_help = "The interface and the pages take requests from this machine only, or, if \
                        WORKFLOW_HTTP_TOKEN is set, requests with this bearer token; both as an admin. A browser asks \
                        for a user and a password: `token` and the token. Health and metrics are open to all.")]
pub(crate) struct Serve {
    /// The address
    #[arg(long, default_value = "127.0.0.1:7777", value_name = "ADDRESS", value_parser = parse_address)]
    pub(crate) http: SocketAddr,
    /// Serve flows, too: checks, deploys, starts, answers to gates, and webhooks; and MCP at /mcp.
    /// WORKFLOW_GATE_SECRET, of at least 32 bytes, opens the tokens of gates; WORKFLOW_SECRET_HOOK
    /// is the secret `hook` of webhooks
    #[arg(long)]
    pub(crate) flows: bool,
    /// The form of the log on the standard error; RUST_LOG says how much of it
    #[arg(long, value_enum, default_value_t = Log::Text, value_name = "FORM")]
    pub(crate) log: Log,
}

#[derive(Debug, Args)]
#[command(after_help = "Stop all workers first. A move that was interrupted goes on if it is ordered again. Once it \
                        has begun, the source refuses every change; --undo ends that.")]
pub(crate) struct Move {
    /// The database that is moved; --to names the new one
    #[arg(long, value_name = "DATABASE")]
    pub(crate) from: String,
    /// Let the source be changed again, after a move that has begun and is not to go on
    #[arg(long)]
    pub(crate) undo: bool,
    /// Undo a move that has ended, too; the target must not be used from then on
    #[arg(long, requires = "undo")]
    pub(crate) yes: bool,
    /// The most rows that one commit copies
    #[arg(long, hide = true, default_value_t = 1000, value_name = "ROWS")]
    pub(crate) most_rows: u32,
}

/// The author and the reason of a change, for the audit log.
#[derive(Clone, Debug, Args)]
pub(crate) struct Author {
    /// Why the change is made; the audit log keeps it
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    /// The author of the change, for the audit log; default: the variable USER or LOGNAME, which
    /// containers do not set. A server takes the account of the token
    #[arg(long, env = "WORKFLOW_ACTOR", value_name = "NAME")]
    pub(crate) actor: Option<String>,
}

fn parse_address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "write an IP address and a port, as 127.0.0.1:7777".to_owned())
}
