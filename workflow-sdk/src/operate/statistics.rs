//! How many runs were started and ended, how long they waited and took.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use workflow_engine::model::{Lane, RunStatistics, StatisticsRow, StatisticsSpan, Timestamp};
use workflow_engine::store::{SCAN_BUDGET, StatisticsScan};

use crate::Client;

use super::{Moment, OperateError, OperateErrorCode};

/// The largest number of steps of one answer.
const MOST_STEPS: u64 = 10_000;

/// Asks for statistics: see [`OperateStatistics::stats`](super::OperateStatistics::stats).
///
/// ```
/// use workflow_sdk::operate::{ListStats, StatsBy};
///
/// let day = ListStats::new().since("-1d".parse()?).by(StatsBy::Workflow);
/// let text = serde_json::to_string(&day)?;
/// assert_eq!(text, r#"{"since":"-1d","by":"workflow"}"#);
/// assert_eq!(serde_json::from_str::<ListStats>(&text)?, day);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ListStats {
    /// The beginning of the range. It is moved back to the beginning of its step. Default: an hour
    /// before the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Moment>,
    /// The end of the range. Default: now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Moment>,
    /// The length of a step. Default: a minute in a range of at most two hours, a day in one of
    /// more than seven days, else an hour.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<StatisticsSpan>,
    /// Says for what the answer has a group. Default: one group for all.
    #[serde(default, skip_serializing_if = "StatsBy::is_all")]
    pub by: StatsBy,
    /// Only runs of this queue. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Only runs of this workflow. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow: Option<String>,
    /// Only runs of this version. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// Says for what statistics have a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StatsBy {
    /// One group for all runs.
    #[default]
    All,
    /// A group per queue.
    Queue,
    /// A group per workflow.
    Workflow,
    /// A group per queue, workflow and version.
    Lane,
}

impl StatsBy {
    // The form that serde asks for.
    #[allow(clippy::trivially_copy_pass_by_ref)]
    fn is_all(&self) -> bool {
        *self == Self::All
    }

    fn group_of(self, lane: Lane) -> (Option<String>, Option<String>, Option<String>) {
        let Lane { queue, workflow, version } = lane;
        match self {
            Self::All => (None, None, None),
            Self::Queue => (Some(queue), None, None),
            Self::Workflow => (None, Some(workflow), None),
            Self::Lane => (Some(queue), Some(workflow), Some(version)),
        }
    }
}

impl ListStats {
    /// Asks for the last hour.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the beginning of the range. Default: an hour before the end.
    #[must_use]
    pub fn since(mut self, since: Moment) -> Self {
        self.since = Some(since);
        self
    }

    /// Sets the end of the range. Default: now.
    #[must_use]
    pub fn until(mut self, until: Moment) -> Self {
        self.until = Some(until);
        self
    }

    /// Sets the length of a step. Default: see [`ListStats::step`](field@ListStats::step).
    #[must_use]
    pub fn step(mut self, step: StatisticsSpan) -> Self {
        self.step = Some(step);
        self
    }

    /// Sets what the answer has a group for. Default: one group for all runs.
    #[must_use]
    pub fn by(mut self, by: StatsBy) -> Self {
        self.by = by;
        self
    }

    /// Counts only runs of this queue. Default: all.
    #[must_use]
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        self.queue = Some(queue.into());
        self
    }

    /// Counts only runs of this workflow. Default: all.
    #[must_use]
    pub fn workflow(mut self, workflow: impl Into<String>) -> Self {
        self.workflow = Some(workflow.into());
        self
    }

    /// Counts only runs of this version. Default: all.
    #[must_use]
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.version = Some(version.into());
        self
    }

    fn wants(&self, lane: &Lane) -> bool {
        let is = |wanted: &Option<String>, name: &str| wanted.as_ref().is_none_or(|wanted| wanted == name);
        is(&self.queue, &lane.queue) && is(&self.workflow, &lane.workflow) && is(&self.version, &lane.version)
    }

    /// Returns the range and the step, if the list is read at `now`.
    fn range(&self, now: Timestamp) -> Result<Range, OperateError> {
        let until = self.until.map_or(now, |until| until.at(now));
        let since = self.since.map_or(until - StatisticsSpan::Hour.length(), |since| since.at(now));
        if since >= until {
            let message = format!("the range from {since} to {until} is empty");
            return Err(OperateError::new(OperateErrorCode::BadInput, message, "let `since` be before `until`"));
        }
        let length = until.since(since);
        let step = self.step.unwrap_or(match length {
            _ if length <= 2 * StatisticsSpan::Hour.length() => StatisticsSpan::Minute,
            _ if length <= 7 * StatisticsSpan::Day.length() => StatisticsSpan::Hour,
            _ => StatisticsSpan::Day,
        });
        if length.as_secs() / step.seconds() > MOST_STEPS {
            let message = format!("the range from {since} to {until} has more than {MOST_STEPS} steps");
            let help = "ask for longer steps, or a shorter range";
            return Err(OperateError::new(OperateErrorCode::BadLimit, message, help));
        }
        Ok(Range { since: step.begin(since), until, step })
    }
}

/// A range with its steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    since: Timestamp,
    until: Timestamp,
    step: StatisticsSpan,
}

/// Statistics of a range of time.
///
/// They are close, but not exact: a process that is killed loses the counts of its last second, and
/// runs that are started within a transaction of the application are not among the started ones.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct StatsPage {
    /// The beginning of the range: that of its first step.
    pub since: Timestamp,
    /// The end of the range.
    pub until: Timestamp,
    /// The length of a step.
    pub step: StatisticsSpan,
    /// The groups that have counts, in the order of their names. Without
    /// [`by`](field@ListStats::by) exactly one, which may have none.
    pub groups: Vec<StatsGroup>,
    /// `false` if the range has more than [`SCAN_BUDGET`] rows: `since` then says how far back the
    /// statistics go.
    pub complete: bool,
}

/// The statistics of one group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct StatsGroup {
    /// The queue, if the groups are queues or lanes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// The workflow, if the groups are workflows or lanes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow: Option<String>,
    /// The version, if the groups are lanes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The counts of the whole range.
    pub total: Stats,
    /// The steps that have counts, in the order of time.
    pub steps: Vec<StatsStep>,
}

/// The statistics of one step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct StatsStep {
    /// When it begins.
    pub begins_at: Timestamp,
    /// Its length in seconds. It is more than that of the step which was asked for if the counts
    /// have been folded since: those of minutes after two hours, those of hours after 45 days.
    pub seconds: u64,
    /// The counts.
    #[serde(flatten)]
    pub stats: Stats,
}

/// Counts of runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct Stats {
    /// Runs that were started.
    pub started: u64,
    /// Runs that a worker claimed for the first time.
    pub begun: u64,
    /// Runs that succeeded.
    pub succeeded: u64,
    /// Runs that failed.
    pub failed: u64,
    /// Runs that were canceled.
    pub canceled: u64,
    /// Attempts of runs and steps that failed and were followed by another one.
    pub retries: u64,
    /// Started runs per second.
    pub start_rate: f64,
    /// Ended runs per second.
    pub end_rate: f64,
    /// The mean time from the start of a run to its first claim, in microseconds. A delay that was
    /// asked for is a part of it. `None` if no run has begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_wait_us: Option<u64>,
    /// The mean time from the first claim of a run to its end, in microseconds. `None` if no worker
    /// has ended a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_duration_us: Option<u64>,
    /// The median of these times, estimated from a histogram whose ranges double.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p50_us: Option<u64>,
    /// The time that 95 of 100 runs do not exceed, as [`Stats::p50_us`] is estimated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p95_us: Option<u64>,
    /// The time that 99 of 100 runs do not exceed, as [`Stats::p50_us`] is estimated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_us: Option<u64>,
}

impl Stats {
    /// Returns the counts of this length of time.
    fn of(counts: &RunStatistics, length: Duration) -> Self {
        let RunStatistics { started, begun, succeeded, failed, canceled, retries, waited, worked, ref durations } =
            *counts;
        let seconds = length.as_secs_f64().max(f64::MIN_POSITIVE);
        let quantile =
            |fraction| durations.quantile(fraction).map(|it| u64::try_from(it.as_micros()).unwrap_or(u64::MAX));
        Self {
            started,
            begun,
            succeeded,
            failed,
            canceled,
            retries,
            start_rate: started as f64 / seconds,
            end_rate: (succeeded + failed + canceled) as f64 / seconds,
            mean_wait_us: waited.checked_div(begun),
            mean_duration_us: worked.checked_div(durations.count()),
            p50_us: quantile(0.5),
            p95_us: quantile(0.95),
            p99_us: quantile(0.99),
        }
    }

    /// Returns how many runs have ended.
    #[must_use]
    pub const fn ended(&self) -> u64 {
        self.succeeded + self.failed + self.canceled
    }
}

/// See [`OperateStatistics::stats`](super::OperateStatistics::stats).
pub(super) async fn stats(client: &Client, list: ListStats) -> Result<StatsPage, OperateError> {
    let now = client.now().await?;
    let range = list.range(now)?;
    let mut rows = Vec::new();
    let mut complete = true;
    // Longer spans begin earlier. Each is read as far back as the budget allows.
    for span in StatisticsSpan::ALL {
        let limit = SCAN_BUDGET.saturating_sub(u32::try_from(rows.len()).unwrap_or(u32::MAX));
        // A span that is longer than a step may begin before the range, and lies partly in it.
        let from = span.begin(range.since);
        let scan = StatisticsScan { span, from, before: range.until, limit: limit + 1 };
        let mut found = client.read(client.store().statistics(&scan)).await?;
        if found.len() > limit as usize {
            complete = false;
            // Of the last span, some rows may be missing.
            let last = found.last().map(|row| row.begins_at);
            found.retain(|row| Some(row.begins_at) != last);
        }
        rows.extend(found);
        if !complete {
            break;
        }
    }
    Ok(page(&list, range, rows, complete, now))
}

/// Puts the rows of a range together.
fn page(list: &ListStats, range: Range, rows: Vec<StatisticsRow>, complete: bool, now: Timestamp) -> StatsPage {
    let Range { since, until, step } = range;
    let oldest = rows.iter().map(|row| row.begins_at).min();
    let since = if complete { since } else { oldest.unwrap_or(until) };
    let mut groups: BTreeMap<_, BTreeMap<(Timestamp, StatisticsSpan), RunStatistics>> = BTreeMap::new();
    if list.by == StatsBy::All {
        groups.entry((None, None, None)).or_default();
    }
    for StatisticsRow { span, begins_at, lane, counts, .. } in rows {
        if list.wants(&lane) {
            let span = span.max(step);
            let steps = groups.entry(list.by.group_of(lane)).or_default();
            steps.entry((span.begin(begins_at), span)).or_default().add(&counts);
        }
    }
    // The part of a span that lies in the future, or before the range, has no runs.
    let length = |begins_at: Timestamp, end: Timestamp| end.min(now).min(until).since(begins_at.min(now));
    let group = |((queue, workflow, version), steps): (_, BTreeMap<(Timestamp, StatisticsSpan), RunStatistics>)| {
        let mut sum = RunStatistics::default();
        steps.values().for_each(|counts| sum.add(counts));
        let step_of = |((begins_at, span), counts): ((Timestamp, StatisticsSpan), RunStatistics)| StatsStep {
            begins_at,
            seconds: span.seconds(),
            stats: Stats::of(&counts, length(begins_at, begins_at + span.length())),
        };
        let begin = steps.keys().next().map_or(since, |(begins_at, _)| since.min(*begins_at));
        let total = Stats::of(&sum, length(begin, until));
        StatsGroup { queue, workflow, version, total, steps: steps.into_iter().map(step_of).collect() }
    };
    StatsPage { since, until, step, groups: groups.into_iter().map(group).collect(), complete }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const NOW: Timestamp = Timestamp::from_micros(1_800_000_030_000_000);

    fn row(span: StatisticsSpan, before_now: Duration, workflow: &str, version: &str) -> StatisticsRow {
        let mut counts = RunStatistics { started: 6, begun: 2, succeeded: 3, waited: 10, ..RunStatistics::default() };
        (0..3).for_each(|_| counts.durations.note(Duration::from_millis(3)));
        counts.worked = 9_000;
        let lane = Lane { queue: "default".into(), workflow: workflow.into(), version: version.into() };
        let process = StatisticsRow::ALL_PROCESSES;
        StatisticsRow { span, begins_at: span.begin(NOW - before_now), process, lane, counts }
    }

    #[test]
    fn the_step_fits_the_range() {
        for (since, step) in [
            ("-1h", StatisticsSpan::Minute),
            ("-2h", StatisticsSpan::Minute),
            ("-3h", StatisticsSpan::Hour),
            ("-7d", StatisticsSpan::Hour),
            ("-8d", StatisticsSpan::Day),
        ] {
            let range = ListStats::new().since(since.parse().unwrap()).range(NOW).unwrap();
            assert_eq!(range.step, step, "{since}");
            assert_eq!(range.since, step.begin(range.since));
        }
        let code = |list: ListStats| list.range(NOW).unwrap_err().code;
        assert_eq!(code(ListStats::new().since("now".parse().unwrap())), OperateErrorCode::BadInput);
        let year = ListStats::new().since("-365d".parse().unwrap());
        assert_eq!(code(year.step(StatisticsSpan::Minute)), OperateErrorCode::BadLimit);
    }

    #[test]
    fn rows_of_a_step_add_up_by_group() {
        let minute = |ago: u32, workflow, version| row(StatisticsSpan::Minute, ago * 60 * SECOND, workflow, version);
        let rows = vec![minute(1, "b", "1"), minute(1, "a", "1"), minute(1, "a", "2"), minute(5, "a", "1")];
        let list = ListStats::new().by(StatsBy::Workflow);
        let page = page(&list, list.range(NOW).unwrap(), rows, true, NOW);
        let started = |group: &StatsGroup| group.steps.iter().map(|step| step.stats.started).collect::<Vec<_>>();
        let shape = page.groups.iter().map(|group| (group.workflow.as_deref(), group.total.started, started(group)));
        assert_eq!(shape.collect::<Vec<_>>(), [(Some("a"), 18, vec![6, 12]), (Some("b"), 6, vec![6])]);
        let step = &page.groups[0].steps[1];
        assert_eq!((step.seconds, step.stats.mean_wait_us, step.stats.mean_duration_us), (60, Some(5), Some(3000)));
        assert_eq!((step.stats.start_rate, step.stats.end_rate), (0.2, 0.1));
        assert!((2_000..=4_000).contains(&step.stats.p95_us.unwrap()));
    }

    #[test]
    fn folded_rows_keep_their_length() {
        let rows = vec![
            row(StatisticsSpan::Minute, 60 * SECOND, "a", "1"),
            row(StatisticsSpan::Hour, 3 * 3600 * SECOND, "a", "1"),
        ];
        let list = ListStats::new().since("-4h".parse().unwrap()).step(StatisticsSpan::Minute);
        let page = page(&list, list.range(NOW).unwrap(), rows, true, NOW);
        let lengths: Vec<u64> = page.groups[0].steps.iter().map(|step| step.seconds).collect();
        assert_eq!(lengths, [3600, 60]);
    }

    #[test]
    fn without_counts_there_is_one_empty_group() {
        let list = ListStats::new();
        let range = list.range(NOW).unwrap();
        let empty = page(&list, range, Vec::new(), true, NOW);
        assert_eq!((empty.groups.len(), empty.groups[0].total), (1, Stats::default()));
        let other = ListStats::new().by(StatsBy::Lane).workflow("none");
        let rows = vec![row(StatisticsSpan::Minute, SECOND, "a", "1")];
        assert_eq!(page(&other, range, rows, true, NOW).groups, []);
    }
}
