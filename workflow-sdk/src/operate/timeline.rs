//! The history of a run as data for a drawing.

use std::collections::{BTreeSet, HashMap};

use serde::{Deserialize, Serialize};

use workflow_engine::model::{EventName, Run, RunId, RunStatus, StepAttempt, StepKind, Timestamp, step_name};
use workflow_engine::store::{HistoryRow, HistoryRows, HistoryScan};

use crate::Client;

use super::{OperateError, run};

mod bars;
mod spans;
#[cfg(test)]
mod tests;

/// The largest note of a wait that is read for a timeline, in bytes.
const NOTE_BYTES: u32 = 8 * 1024;
/// The most attempts that are read for a timeline, if it has fewer steps than these.
const MOST_ATTEMPTS: u32 = 10_000;

/// Asks for the timeline of a run: see
/// [`OperateRuns::timeline_window`](super::OperateRuns::timeline_window).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ListTimeline {
    /// The run.
    pub run: RunId,
    /// The number of the last step to leave out. Steps are numbered from 1 by the position of their
    /// outcome; those without an outcome follow, by key. Default: 0.
    #[serde(default)]
    pub from: u32,
    /// The largest number of steps. Default: 500. Range: 1 to [`ListTimeline::MAX_LIMIT`].
    #[serde(default = "default_limit")]
    pub limit: u32,
}

const fn default_limit() -> u32 {
    500
}

impl ListTimeline {
    /// The largest limit. It is bounded because a whole timeline is held in memory.
    pub const MAX_LIMIT: u32 = 5_000;

    /// Asks for the first steps of this run.
    #[must_use]
    pub fn new(run: RunId) -> Self {
        Self { run, from: 0, limit: default_limit() }
    }

    /// Leaves the steps up to this number out. The next part of a timeline begins at the sum of
    /// [`from`](ListTimeline::from) and [`limit`](ListTimeline::limit). Default: 0.
    #[must_use]
    pub fn from(mut self, steps: u32) -> Self {
        self.from = steps;
        self
    }

    /// Sets the largest number of steps. Default: 500. Range: 1 to [`ListTimeline::MAX_LIMIT`];
    /// another value is refused where the timeline is read.
    #[must_use]
    pub fn limit(mut self, steps: u32) -> Self {
        self.limit = steps;
        self
    }
}

/// The history of a run as data for a drawing: one row per step, with bars for its attempts and
/// waits, and the spans of the run above them.
///
/// The database keeps no record of claims and parks, so spans and marks are concluded from the
/// times of the steps. A crash, a park or a claim between which no step began or ended does not
/// show. A worker that gave the run back when it stopped looks like one that died. A body that a
/// crash cut off and that has ended since is one bar, from its first beginning to its end, and
/// [`repeated`](Bar::repeated) if that can be seen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct Timeline {
    /// The run.
    pub run: RunId,
    /// Its status.
    pub status: RunStatus,
    /// When its start was committed.
    pub from: Timestamp,
    /// When it ended; the time of the read if it has not ended.
    pub to: Timestamp,
    /// The states of the run, in the order of time. If the timeline is a window of the
    /// steps, only these steps show.
    pub spans: Vec<RunSpan>,
    /// The steps of the window, in the order in which they first began.
    pub rows: Vec<TimelineRow>,
    /// Moments of the run, in the order of time.
    pub marks: Vec<Mark>,
    /// The number of the last step that was left out at the beginning: see [`ListTimeline::from`].
    pub left_out: u32,
    /// `true` if no further step follows. Otherwise the next part of the timeline has more.
    pub complete: bool,
    /// `true` if attempts are missing that no part of the timeline has: of a step that has very
    /// many of them the first ones, and steps without an outcome if the run has more than 2,000
    /// attempts without one. The [history](super::OperateRuns::history) has them all.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
}

/// A time during which the run was in one state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct RunSpan {
    /// The state.
    pub state: SpanState,
    /// Its beginning.
    pub from: Timestamp,
    /// Its end. `None`: it goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Timestamp>,
}

/// The state of a run during a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SpanState {
    /// The run waited for its first claim.
    Queued,
    /// A worker drove the run.
    Ran,
    /// The run waited without a worker: for an event, a time or a next attempt.
    Parked,
    /// The run had failed, and waited until it was tried again.
    Failed,
    /// The run had lost its worker, and waited for another one.
    Lost,
}

/// One step of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct TimelineRow {
    /// The key of the step.
    pub step: String,
    /// The kind.
    pub kind: StepKind,
    /// Its attempts and waits, in the order of time.
    pub bars: Vec<Bar>,
    /// The run that a child step started, if it is known: in a fork it is not, once it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child: Option<RunId>,
    /// The event that a wait is for, while it waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<EventName>,
    /// The person or group that an approval asks, while it waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asks: Option<String>,
    /// The text of the last error, cut after 200 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Where the code calls the step: `src/orders.rs:42`, with the path that the compiler has for
    /// the file. Several places if more than one call has the name, or if scopes share it.
    ///
    /// It is the line in the program that noted it, which may be another release of this version.
    /// `None` for a step of a flow, for a step whose worker has not written it yet, which takes a
    /// second, and on a store in memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_line: Option<String>,
}

/// A part of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct Bar {
    /// The state.
    pub state: BarState,
    /// The number of the attempt; of a back-off, the number of the attempt that follows.
    pub attempt: i64,
    /// Its beginning.
    pub from: Timestamp,
    /// Its end. `None`: it goes on. Of a back-off and of a wait with a known end, it may lie in the
    /// future.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Timestamp>,
    /// `true` if the body began more than once, because a worker was lost meanwhile.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub repeated: bool,
}

/// The state of a [`Bar`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum BarState {
    /// The attempt ended with a value.
    Succeeded,
    /// The attempt ended with an error.
    Failed,
    /// The body runs.
    Running,
    /// The body was cut off: its worker was lost, or its call was dropped while the run goes on.
    /// When is unknown: the bar ends where its claim shows last.
    CutOff,
    /// The body had not ended when its run ended or was parked: its call was dropped, as by a race,
    /// a timeout or a failure beside it. When is unknown, as for [`CutOff`](BarState::CutOff).
    Dropped,
    /// The wait has ended.
    Waited,
    /// The step waits.
    Waiting,
    /// The time between a failed attempt and the next one.
    BackOff,
}

/// A moment of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct Mark {
    /// The time.
    pub at: Timestamp,
    /// The kind.
    pub kind: MarkKind,
}

/// The kind of a [`Mark`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum MarkKind {
    /// The run lost its worker, at this time or soon after it.
    Crashed,
    /// A worker claimed the run again, after a park or a crash.
    Resumed,
    /// The run was told to end, by a cancel or its deadline.
    Interrupted,
}

impl Timeline {
    /// Returns the timeline of a run with these attempts, which stand in the order in which their
    /// steps first began and then by number, as read at `now`. The rows have no source lines.
    #[must_use]
    pub fn of(run: &Run, attempts: &[StepAttempt], now: Timestamp) -> Self {
        Self::of_window(run, attempts, now, 0)
    }

    fn of_window(run: &Run, attempts: &[StepAttempt], now: Timestamp, left_out: u32) -> Self {
        let to = run.completed_at.unwrap_or(now);
        let claims = spans::claims(run, attempts, left_out > 0);
        let spans = spans::spans(run, attempts, &claims);
        let mut rows: Vec<TimelineRow> = Vec::new();
        for steps in attempts.chunk_by(|one, other| one.step_key == other.step_key) {
            rows.extend(bars::row(run, steps, &claims));
        }
        Self {
            run: run.id,
            status: run.status,
            from: run.created_at,
            to,
            marks: spans::marks(&spans, attempts),
            spans,
            rows,
            left_out,
            complete: true,
            cut: false,
        }
    }
}

/// The attempts of a window of a timeline.
struct Steps {
    /// In the order in which their steps first began, then by number.
    attempts: Vec<StepAttempt>,
    complete: bool,
    cut: bool,
}

impl Steps {
    /// Returns the steps with the numbers behind `from` up to `end`. `read` has them in the order
    /// of their numbers, and perhaps further ones.
    fn of_window(read: Vec<HistoryRow>, (from, end): (i64, i64)) -> Self {
        let mut cut = read.first().is_some_and(|row| row.is_cut);
        let attempts: Vec<StepAttempt> = read.into_iter().map(|row| row.row).collect();
        let mut number = from;
        let mut steps: Vec<&[StepAttempt]> = Vec::new();
        let mut complete = true;
        for step in attempts.chunk_by(|one, other| one.step_key == other.step_key) {
            number = step.iter().find_map(|row| row.position).unwrap_or(number.saturating_add(1));
            if number > end {
                complete = false;
                break;
            }
            cut |= step.first().is_some_and(|first| first.attempt > 1);
            steps.push(step);
        }
        steps.sort_by_key(|step| step.iter().map(|row| row.started_at).min());
        Self { attempts: steps.concat(), complete, cut }
    }
}

/// See [`OperateRuns::timeline_window`](super::OperateRuns::timeline_window).
pub(super) async fn timeline(client: &Client, list: ListTimeline) -> Result<Timeline, OperateError> {
    let ListTimeline { run: id, from, limit } = list;
    OperateError::check_limit(limit, ListTimeline::MAX_LIMIT, "steps")?;
    let rows = HistoryRows::Steps {
        after: i64::from(from),
        // One more shows whether further steps follow.
        limit: limit + 1,
        attempts: (MOST_ATTEMPTS / (limit + 1)).max(1),
    };
    let scan = HistoryScan { run: id, rows, payload_bytes: NOTE_BYTES };
    let read = client.read(client.store().history_page(&scan)).await?;
    // Read after the rows, so that they are not newer than the run.
    let run = run::found(client, id).await?;
    let now = client.now().await?;
    let Steps { attempts, complete, cut } =
        Steps::of_window(read, (i64::from(from), i64::from(from) + i64::from(limit)));
    let mut timeline = Timeline::of_window(&run, &attempts, now, from);
    if run.status == RunStatus::Parked {
        show_waits_for_seats(client, id, &mut timeline.rows).await?;
    }
    add_source_lines(client, &run, &mut timeline.rows).await?;
    Ok(Timeline { complete, cut, ..timeline })
}

/// Shows a step that waits for a seat of its limit: its row is open, although no body runs.
async fn show_waits_for_seats(client: &Client, run: RunId, rows: &mut [TimelineRow]) -> Result<(), OperateError> {
    let waits = client.read(client.store().seat_waits(run)).await?;
    for row in rows.iter_mut().filter(|row| waits.iter().any(|wait| wait.step_key == row.step)) {
        if let Some(bar) = row.bars.last_mut().filter(|bar| bar.state == BarState::Dropped) {
            (bar.state, bar.to) = (BarState::Waiting, None);
        }
    }
    Ok(())
}

/// Adds the source lines of these steps, by one lookup for all.
async fn add_source_lines(client: &Client, run: &Run, rows: &mut [TimelineRow]) -> Result<(), OperateError> {
    let steps: BTreeSet<&str> = rows.iter().map(|row| step_name(&row.step)).collect();
    if steps.is_empty() {
        return Ok(());
    }
    let (workflow, version) = (&run.lane.workflow, &run.lane.version);
    let read = client.read(client.store().source_lines(workflow, version, &steps)).await?;
    let lines: HashMap<String, String> = read.into_iter().map(|line| (line.step, line.lines)).collect();
    for row in rows {
        row.source_line = lines.get(step_name(&row.step)).cloned();
    }
    Ok(())
}
