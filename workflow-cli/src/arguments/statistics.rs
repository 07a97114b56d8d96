use clap::{Args, ValueEnum};
use workflow_sdk::operate::{Moment, StatisticsSpan, StatsBy};

#[derive(Debug, Args)]
pub(crate) struct Stats {
    /// The beginning: an age as 1h or 7d, or a time as 2026-11-01 or 2026-11-01T08:00Z
    #[arg(long, default_value = "1h", value_name = "TIME", value_parser = parse_moment)]
    pub(crate) since: Moment,
    /// The end, in the same form; default: now
    #[arg(long, value_name = "TIME", value_parser = parse_moment)]
    pub(crate) until: Option<Moment>,
    /// The length of a step; default: what fits the range
    #[arg(long, value_enum, value_name = "STEP")]
    pub(crate) step: Option<Step>,
    /// One line per queue, workflow or lane, in place of one per step
    #[arg(long, value_enum, value_name = "WHAT")]
    pub(crate) by: Option<By>,
    /// Only runs of this queue
    #[arg(long, value_name = "NAME")]
    pub(crate) queue: Option<String>,
    /// Only runs of this workflow
    #[arg(long, value_name = "NAME")]
    pub(crate) workflow: Option<String>,
    /// Only runs of this version
    #[arg(long, value_name = "NAME")]
    pub(crate) version: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Failures {
    /// Only what has failed since this time: an age as 1h or 7d, or a time as 2026-11-01
    #[arg(long, value_name = "TIME", value_parser = parse_moment)]
    pub(crate) since: Option<Moment>,
    /// Only failures of this workflow
    #[arg(long, value_name = "NAME")]
    pub(crate) workflow: Option<String>,
    /// The largest number of groups
    #[arg(long, default_value_t = 50, value_name = "NUMBER")]
    pub(crate) limit: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Step {
    Minute,
    Hour,
    Day,
}

impl From<Step> for StatisticsSpan {
    fn from(step: Step) -> Self {
        match step {
            Step::Minute => Self::Minute,
            Step::Hour => Self::Hour,
            Step::Day => Self::Day,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum By {
    Queue,
    Workflow,
    Lane,
}

impl From<By> for StatsBy {
    fn from(by: By) -> Self {
        match by {
            By::Queue => Self::Queue,
            By::Workflow => Self::Workflow,
            By::Lane => Self::Lane,
        }
    }
}

/// Reads a time; an age may stand without its sign.
pub(super) fn parse_moment(text: &str) -> Result<Moment, String> {
    let moment = format!("-{text}").parse().or_else(|_| text.parse());
    moment.map_err(|error: workflow_sdk::operate::OperateError| format!("{}; {}", error.message, error.help))
}
