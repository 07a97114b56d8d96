//! Schedules, in pages.

use serde::{Deserialize, Serialize};

use workflow_engine::model::{StoredSchedule, Timestamp};
use workflow_engine::schedule::{Declaration, InvalidSchedule, Occurrence, Origin, Record, ScheduleState};

use crate::{BackfillPreview, Client};

use super::{BackfillSchedule, Cursor, OperateError};

/// How many of the next occurrences a view has.
const NEXT: usize = 5;
/// The most occurrences of one answer.
const MOST_NEXT: u32 = 1_000;
/// The most schedules whose names are read to find one that is near.
const MOST_NAMES: u32 = 1_000;
/// The name of the list in its cursors.
const LIST: &str = "schedules";

/// Asks for one page of schedules: see [`Operate::schedules`](super::Operate::schedules).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ListSchedules {
    /// The place at which the page begins: [`SchedulePage::next`]. Default: the beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<Cursor>,
    /// The largest number of schedules. Default: 50. Range: 1 to [`ListSchedules::MAX_LIMIT`].
    #[serde(default = "default_limit")]
    pub limit: u32,
}

const fn default_limit() -> u32 {
    50
}

impl Default for ListSchedules {
    fn default() -> Self {
        Self { cursor: None, limit: default_limit() }
    }
}

impl ListSchedules {
    /// The largest limit. It is bounded because a whole page is held in memory.
    pub const MAX_LIMIT: u32 = 500;

    /// Asks for the first schedules.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Begins the page at this place. Default: the beginning.
    #[must_use]
    pub fn cursor(mut self, cursor: Cursor) -> Self {
        self.cursor = Some(cursor);
        self
    }

    /// Sets the largest number of schedules. Default: 50. Range: 1 to
    /// [`ListSchedules::MAX_LIMIT`]; another value is refused where the page is read.
    #[must_use]
    pub fn limit(mut self, schedules: u32) -> Self {
        self.limit = schedules;
        self
    }
}

/// One page of schedules.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct SchedulePage {
    /// The schedules, in the order of their names.
    pub items: Vec<ScheduleView>,
    /// The schedules of the page that this program does not understand.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unreadable: Vec<UnreadableView>,
    /// The place at which the next page begins. `None` at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Cursor>,
}

/// A schedule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct ScheduleView {
    /// The name.
    pub name: String,
    /// Where the schedule comes from.
    pub origin: Origin,
    /// The declaration that holds.
    pub declaration: Declaration,
    /// The declaration of the code, if an operator has set another one in its place: the schedule
    /// is in drift.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drifted_from: Option<Declaration>,
    /// Its next and its last occurrence, its runs, its pause and its counters.
    pub state: ScheduleState,
    /// Its next occurrences after the time of the read, at most five, if it is not paused.
    pub next: Vec<Timestamp>,
}

/// A schedule that this program does not understand: a later release wrote it, or the zone data of
/// this program lacks its time zone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct UnreadableView {
    /// The name.
    pub name: String,
    /// The reason.
    pub reason: String,
    /// The time zone that the zone data of this program lacks, if that is the reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unknown_zone: Option<String>,
}

/// An occurrence of a schedule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct OccurrenceView {
    /// The time, without the jitter.
    pub at: Timestamp,
    /// The time in the zone of the schedule: `2026-11-24T08:00:00+01:00[Europe/Berlin]`.
    pub local: String,
}

impl From<Occurrence> for OccurrenceView {
    fn from(Occurrence { at, local, .. }: Occurrence) -> Self {
        Self { at, local }
    }
}

/// The occurrences whose runs a backfill would start, whether they have a run or not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct BackfillView {
    /// The number of occurrences.
    pub count: u32,
    /// The first ones, at most five.
    pub first: Vec<OccurrenceView>,
    /// The last ones, at most five.
    pub last: Vec<OccurrenceView>,
}

impl From<BackfillPreview> for BackfillView {
    fn from(BackfillPreview { count, first, last }: BackfillPreview) -> Self {
        let views = |all: Vec<Occurrence>| all.into_iter().map(OccurrenceView::from).collect();
        Self { count, first: views(first), last: views(last) }
    }
}

/// See [`Operate::next_occurrences`](super::Operate::next_occurrences).
pub(super) async fn next(client: &Client, schedule: &str, count: u32) -> Result<Vec<OccurrenceView>, OperateError> {
    OperateError::check_limit(count, MOST_NEXT, "occurrences")?;
    let next = client.schedule(schedule).next(count as usize).await?;
    Ok(next.into_iter().map(OccurrenceView::from).collect())
}

/// See [`Operate::backfill_preview`](super::Operate::backfill_preview).
pub(super) async fn backfill_preview(client: &Client, order: BackfillSchedule) -> Result<BackfillView, OperateError> {
    Ok(order.prepare(client)?.preview().await?.into())
}

/// See [`Operate::schedules`](super::Operate::schedules).
pub(super) async fn schedules(client: &Client, list: ListSchedules) -> Result<SchedulePage, OperateError> {
    let ListSchedules { cursor, limit } = list;
    OperateError::check_limit(limit, ListSchedules::MAX_LIMIT, "schedules")?;
    let after = cursor.map(|cursor| cursor.place::<String>(LIST)).transpose()?;
    let store = client.store();
    let mut rows = client.read(store.schedules(after.as_deref(), limit + 1)).await?;
    let now = client.now().await?;
    let has_more = rows.len() > usize::try_from(limit).unwrap_or(usize::MAX);
    if has_more {
        rows.pop();
    }
    let last = rows.last().filter(|_| has_more);
    let next = last.map(|row| Cursor::at_place(&row.name, LIST)).transpose()?;
    let (mut items, mut unreadable) = (Vec::new(), Vec::new());
    for row in rows {
        match view(&row, now) {
            Ok(schedule) => items.push(schedule),
            Err(schedule) => unreadable.push(schedule),
        }
    }
    Ok(SchedulePage { items, unreadable, next })
}

/// See [`Operate::schedule`](super::Operate::schedule).
pub(super) async fn schedule(client: &Client, name: &str) -> Result<ScheduleView, OperateError> {
    let store = client.store();
    let Some(row) = client.read(store.schedule(name)).await? else {
        let known = client.read(store.schedules(None, MOST_NAMES)).await?;
        return Err(OperateError::unknown_name("schedule", name, known.iter().map(|row| row.name.as_str())));
    };
    let now = client.now().await?;
    view(&row, now).map_err(|unreadable| OperateError::not_understood(unreadable.reason))
}

/// Returns a schedule as it is shown, or the reason why this program does not understand it.
fn view(row: &StoredSchedule, now: Timestamp) -> Result<ScheduleView, UnreadableView> {
    let unreadable = |reason: String, unknown_zone| UnreadableView { name: row.name.clone(), reason, unknown_zone };
    let record = Record::of(row).map_err(|error| unreadable(error.to_string(), None))?;
    let calendar = record.calendar(&row.name).map_err(|error| {
        let reason = error.to_string();
        let unknown_zone = match error {
            InvalidSchedule::Zone { zone, .. } => Some(zone),
            _ => None,
        };
        unreadable(reason, unknown_zone)
    })?;
    let declaration = record.declaration().clone();
    let Record { origin, declared, changed, state } = record;
    // Without a worker, the next occurrence may lie far in the past.
    let first = state.next_at.and_then(|at| if at > now { Some(at) } else { calendar.next_after(now) });
    let first = first.filter(|_| state.paused.is_none());
    let next = std::iter::successors(first, |at| calendar.next_after(*at)).take(NEXT).collect();
    let drifted_from = changed.is_some().then_some(declared);
    Ok(ScheduleView { name: row.name.clone(), origin, declaration, drifted_from, state, next })
}
