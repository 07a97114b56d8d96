//! The steps that hold a seat of a limit, and those that wait for one.

use serde::{Deserialize, Serialize};

use workflow_engine::model::{RunId, RunStatus, Timestamp};
use workflow_engine::store::{ListedSeat, SeatList};

use crate::Client;

use super::{Cursor, OperateError};

/// Asks for one page of the seats of a limit.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ListSeats {
    /// The name of the limit.
    pub limit_name: String,
    /// Only seats of this key. Default: those of all keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The place at which the page begins. Default: the beginning of the list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<Cursor>,
    /// The largest number of seats. Default: 50. Range: 1 to [`ListSeats::MAX_LIMIT`].
    #[serde(default = "default_limit")]
    pub limit: u32,
}

const fn default_limit() -> u32 {
    50
}

impl ListSeats {
    /// The largest limit. Each seat costs the read of its run.
    pub const MAX_LIMIT: u32 = 500;

    /// Asks for the first seats of this limit.
    #[must_use]
    pub fn new(limit_name: impl Into<String>) -> Self {
        Self { limit_name: limit_name.into(), key: None, cursor: None, limit: default_limit() }
    }

    /// Selects the seats of this key. Default: all keys.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Begins the page at this place. Default: the beginning.
    #[must_use]
    pub fn cursor(mut self, cursor: Cursor) -> Self {
        self.cursor = Some(cursor);
        self
    }

    /// Sets the largest number of seats. Default: 50. Range: 1 to [`ListSeats::MAX_LIMIT`]; another
    /// value is refused where the page is read.
    #[must_use]
    pub fn limit(mut self, seats: u32) -> Self {
        self.limit = seats;
        self
    }
}

/// One page of the seats of a limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct SeatPage {
    /// First the steps that have taken a seat, then those that wait, each by key and by the time at
    /// which they asked. So the waiting steps of a key come in the order of their turns.
    pub items: Vec<SeatView>,
    /// The place at which the next page begins. `None` at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Cursor>,
}

/// The state of a step under a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SeatState {
    /// It holds a seat: its body may run.
    Held,
    /// It has taken a seat, and the claim of its run was lost or given back since. The seat is
    /// free. The step asks again when its run goes on.
    Void,
    /// It waits for a seat.
    Waiting,
    /// It waits, and was called to take a seat that is free.
    Called,
}

/// A step that holds a seat of a limit or waits for one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct SeatView {
    /// The run.
    pub run: RunId,
    /// The workflow of the run.
    pub workflow: String,
    /// The status of the run.
    pub status: RunStatus,
    /// The key of the step.
    pub step: String,
    /// The key of the seat: steps of other keys do not count for each other.
    pub key: String,
    /// The state of the step.
    pub state: SeatState,
    /// When the step asked for the first time.
    pub asked_at: Timestamp,
    /// When the waiting step asks again by itself, because it waits for a rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asks_at: Option<Timestamp>,
}

impl From<ListedSeat> for SeatView {
    fn from(seat: ListedSeat) -> Self {
        let state = match (seat.epoch, seat.called_at) {
            (Some(epoch), _) if seat.run_status == RunStatus::Running && epoch == seat.run_epoch => SeatState::Held,
            (Some(_), _) => SeatState::Void,
            (None, Some(_)) => SeatState::Called,
            (None, None) => SeatState::Waiting,
        };
        let ListedSeat { run_id: run, workflow, run_status: status, step_key: step, key, asked_at, asks_at, .. } = seat;
        Self { run, workflow, status, step, key, state, asked_at, asks_at }
    }
}

/// The place of a seat in the list.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Place {
    waiting: bool,
    key: String,
    asked_at: Timestamp,
}

impl Place {
    /// Returns the place before the taken seats, or before the waiting steps, of this key or of all
    /// keys.
    fn before_all(waiting: bool, key: Option<&str>) -> Self {
        Self { waiting, key: key.unwrap_or_default().to_owned(), asked_at: Timestamp::from_micros(i64::MIN) }
    }
}

/// See [`Operate::seats`](super::Operate::seats).
pub(super) async fn seats(client: &Client, list: ListSeats) -> Result<SeatPage, OperateError> {
    let ListSeats { limit_name, key, cursor, limit } = list;
    OperateError::check_limit(limit, ListSeats::MAX_LIMIT, "seats")?;
    let of = format!("seats of {limit_name:?} {key:?}");
    let is_first = cursor.is_none();
    let mut place = match cursor {
        Some(cursor) => cursor.place(&of)?,
        None => Place::before_all(false, key.as_deref()),
    };
    let wanted = limit as usize;
    let mut found = read(client, &limit_name, key.as_deref(), &place, limit + 1).await?;
    if !place.waiting && found.len() <= wanted {
        place = Place::before_all(true, key.as_deref());
        let left = limit + 1 - u32::try_from(found.len()).unwrap_or(limit);
        found.extend(read(client, &limit_name, key.as_deref(), &place, left).await?);
    }
    if found.is_empty() && is_first {
        check_known(client, &limit_name).await?;
    }
    let has_more = found.len() > wanted;
    found.truncate(wanted);
    let last = found.last().filter(|_| has_more);
    let next = last.map(|seat| {
        let place = Place { waiting: seat.epoch.is_none(), key: seat.key.clone(), asked_at: seat.asked_at };
        Cursor::at_place(&place, &of)
    });
    Ok(SeatPage { next: next.transpose()?, items: found.into_iter().map(SeatView::from).collect() })
}

/// Reads seats behind a place, which are all taken or all waited for.
async fn read(
    client: &Client,
    limit: &str,
    key: Option<&str>,
    place: &Place,
    at_most: u32,
) -> Result<Vec<ListedSeat>, OperateError> {
    let list = SeatList { limit, waiting: place.waiting, after: (&place.key, place.asked_at), at_most };
    let mut found = client.read(client.store().listed_seats(list)).await?;
    // The seats are sorted by their keys, so those of one key stand together.
    found.truncate(found.iter().take_while(|seat| key.is_none_or(|key| seat.key == key)).count());
    Ok(found)
}

/// Refuses a limit that was neither declared nor set.
async fn check_known(client: &Client, limit: &str) -> Result<(), OperateError> {
    let known = client.read(client.store().limits()).await?;
    if known.iter().any(|record| record.name == limit) {
        return Ok(());
    }
    Err(OperateError::unknown_name("limit", limit, known.iter().map(|record| record.name.as_str())))
}
