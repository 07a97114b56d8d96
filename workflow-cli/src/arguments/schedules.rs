use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use workflow_sdk::operate::{ClearedSetting, Moment};

use crate::clock::parse_duration;

use super::statistics::parse_moment;
use super::{Author, Rank};

#[derive(Debug, Subcommand)]
pub(crate) enum SchedulesVerb {
    /// List schedules
    List {
        /// The largest number of schedules
        #[arg(long, default_value_t = 100, value_name = "NUMBER")]
        limit: u32,
        /// Where to go on: the cursor that the page before ended with
        #[arg(long, value_name = "CURSOR")]
        cursor: Option<String>,
    },
    /// Show a schedule and its next times
    Show {
        /// The schedule
        schedule: String,
    },
    /// List the next times of a schedule, or of an expression before a schedule has it
    Next(NextTimes),
    /// Create a schedule
    Create(Box<CreateSchedule>),
    /// Change a schedule; a setting that is not given stays
    Update(Box<UpdateSchedule>),
    /// Start the runs of past times; those that have a run are left out
    Backfill(BackfillSchedule),
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

#[derive(Debug, Args)]
pub(crate) struct NextTimes {
    /// The schedule
    #[arg(required_unless_present = "cron", conflicts_with = "cron")]
    pub(crate) schedule: Option<String>,
    /// A cron expression, in place of a schedule; no database is asked
    #[arg(long, value_name = "EXPRESSION")]
    pub(crate) cron: Option<String>,
    /// The time zone of the expression, as Europe/Berlin
    #[arg(long, visible_alias = "tz", value_name = "ZONE", default_value = "UTC", requires = "cron")]
    pub(crate) zone: String,
    /// How many times
    #[arg(long, default_value_t = 5, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) count: u32,
}

#[derive(Debug, Args)]
#[command(after_help = "A worker whose code declares a schedule of this name refuses to start from then on.")]
pub(crate) struct CreateSchedule {
    /// The name of the schedule
    pub(crate) schedule: String,
    /// The name of the workflow
    pub(crate) workflow: String,
    /// The input of each run as JSON; @FILE reads a file, - the standard input
    #[arg(long, short, default_value = "null", value_name = "JSON")]
    pub(crate) input: String,
    #[command(flatten)]
    pub(crate) settings: Settings,
    #[command(flatten)]
    pub(crate) author: Author,
}

#[derive(Debug, Args)]
#[command(after_help = "Of a schedule that code declares, a change holds until workflow schedules revert.")]
pub(crate) struct UpdateSchedule {
    /// The schedule
    pub(crate) schedule: String,
    /// Another input for each run, as JSON; @FILE reads a file, - the standard input
    #[arg(long, short, value_name = "JSON")]
    pub(crate) input: Option<String>,
    #[command(flatten)]
    pub(crate) settings: Settings,
    /// Take a setting away; may be given more than once
    #[arg(long, value_enum, value_name = "SETTING")]
    pub(crate) clear: Vec<Clear>,
    #[command(flatten)]
    pub(crate) author: Author,
}

/// The settings of a schedule.
#[derive(Debug, Args)]
pub(crate) struct Settings {
    /// A cron expression, as '0 7 * * MON-FRI'; may be given more than once
    #[arg(long, value_name = "EXPRESSION")]
    pub(crate) cron: Vec<String>,
    /// An interval, as 15m
    #[arg(long, value_parser = parse_duration, value_name = "TIME", conflicts_with = "cron")]
    pub(crate) every: Option<Duration>,
    /// How much later than its multiples an interval has its times, as 3m
    #[arg(long, value_parser = parse_duration, value_name = "TIME")]
    pub(crate) offset: Option<Duration>,
    /// A cron expression of times that are left out; may be given more than once
    #[arg(long, value_name = "EXPRESSION")]
    pub(crate) except: Vec<String>,
    /// The time zone of the expressions, as Europe/Berlin; default: UTC
    #[arg(long, visible_alias = "tz", value_name = "ZONE")]
    pub(crate) zone: Option<String>,
    /// The earliest time: 2026-12-24, 2026-12-24T08:00Z or now
    #[arg(long, value_parser = parse_time, value_name = "TIME")]
    pub(crate) from: Option<Moment>,
    /// The latest time, in the same form
    #[arg(long, value_parser = parse_time, value_name = "TIME")]
    pub(crate) until: Option<Moment>,
    /// Delay each run by up to this time, as 30s
    #[arg(long, value_parser = parse_duration, value_name = "TIME")]
    pub(crate) jitter: Option<Duration>,
    /// The fate of a time while a run of the schedule has not ended; default: skip
    #[arg(long, value_enum, value_name = "POLICY")]
    pub(crate) overlap: Option<OverlapPolicy>,
    /// The fate of times that passed without a worker; default: latest
    #[arg(long, value_enum, value_name = "POLICY")]
    pub(crate) catch_up: Option<CatchUpPolicy>,
    /// How late such a time may still start a run, as 2d; default: 1d, for skip 1m
    #[arg(long, value_parser = parse_duration, value_name = "TIME", requires = "catch_up")]
    pub(crate) window: Option<Duration>,
    /// End the schedule after this many runs
    #[arg(long, value_name = "NUMBER")]
    pub(crate) limit: Option<u64>,
    /// Pause the schedule when one of its runs fails
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL")]
    pub(crate) pause_on_failure: Option<bool>,
    /// The queue of the runs
    #[arg(long, value_name = "NAME")]
    pub(crate) queue: Option<String>,
    /// The gate of the queue behind which the runs wait
    #[arg(long, value_name = "NAME")]
    pub(crate) gate: Option<String>,
    /// The version of the workflow
    #[arg(long, value_name = "VERSION", id = "schedule_version")]
    pub(crate) version: Option<String>,
    /// The priority of the runs
    #[arg(long, value_enum)]
    pub(crate) priority: Option<Rank>,
    /// Fail a run that has not ended after this time, as 1h
    #[arg(long, value_parser = parse_duration, value_name = "TIME")]
    pub(crate) deadline: Option<Duration>,
    /// A tag of the runs; may be given more than once, and replaces all tags
    #[arg(long = "tag", value_name = "NAME=VALUE")]
    pub(crate) tags: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OverlapPolicy {
    /// It starts no run
    Skip,
    /// It waits, unless one waits already
    BufferOne,
    /// It waits for its turn; at most 100 wait
    BufferAll,
    /// The run is canceled first
    CancelOther,
    /// It starts beside the other run
    Allow,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CatchUpPolicy {
    /// The latest one starts
    Latest,
    /// Each one starts, at most 1,000
    All,
    /// None starts
    Skip,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Clear {
    From,
    Until,
    Limit,
    Gate,
    Priority,
    Deadline,
}

impl From<Clear> for ClearedSetting {
    fn from(clear: Clear) -> Self {
        match clear {
            Clear::From => Self::From,
            Clear::Until => Self::Until,
            Clear::Limit => Self::Limit,
            Clear::Gate => Self::Gate,
            Clear::Priority => Self::Priority,
            Clear::Deadline => Self::Deadline,
        }
    }
}

/// Reads a time of a schedule. An age lies in the past, and is refused: `30d` for the end of a
/// schedule is meant as a time of the future.
fn parse_time(text: &str) -> Result<Moment, String> {
    const FORM: &str = "write a day as 2026-12-24, a time as 2026-12-24T08:00Z, or now";
    match parse_moment(text) {
        Ok(Moment::Before(age)) if !age.is_zero() => Err(format!("an age lies in the past; {FORM}")),
        Err(_) => Err(FORM.to_owned()),
        moment => moment,
    }
}

#[derive(Debug, Args)]
pub(crate) struct BackfillSchedule {
    /// The schedule
    pub(crate) schedule: String,
    /// The beginning, which is not a part of it: an age as 14d, or a time as 2026-11-01T08:00Z
    #[arg(long, value_parser = parse_moment, value_name = "TIME")]
    pub(crate) from: Moment,
    /// The end, which is a part of it, in the same form
    #[arg(long, value_parser = parse_moment, value_name = "TIME", default_value = "now")]
    pub(crate) until: Moment,
    /// Refuse to start more runs than this
    #[arg(long, value_name = "NUMBER", default_value_t = workflow_sdk::Backfill::DEFAULT_MAX)]
    pub(crate) max: u32,
    /// Another input for these runs, as JSON; @FILE reads a file, - the standard input
    #[arg(long, short, value_name = "JSON")]
    pub(crate) input: Option<String>,
    /// Start the runs without asking
    #[arg(long, short)]
    pub(crate) yes: bool,
    /// Count the times and show the first and last of them, and start nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) author: Author,
}
