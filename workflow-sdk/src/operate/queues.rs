//! Queues and their gates.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use workflow_engine::model::{Lane, QueueLimits, QueuePause, QueueRecord, Timestamp};
use workflow_engine::store::{GateList, ListedGate, WaitingPlace, WorkerRecord};

use crate::Client;

use super::counts::{AT_MOST, Count};
use super::outcome::warning_about;
use super::{Cursor, OperateError};

/// The most lanes that are looked at for the names of queues and workflows.
pub(super) const MOST_LANES: u32 = 10_000;
/// The most queues in an answer: each costs three reads.
const MOST_QUEUES: usize = 1_000;

/// A queue: one that was declared, limited or paused, or in which a run was ever started.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct QueueView {
    /// The name.
    pub name: String,
    /// The limits that the worker declared which started last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub declared: Option<QueueLimits>,
    /// The limits that an operator has set in their place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overridden: Option<QueueLimits>,
    /// The limits that hold.
    pub limits: QueueLimits,
    /// The pause, if the queue is paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause: Option<QueuePause>,
    /// `true` if a run was ever started behind a gate of the queue.
    pub has_gates: bool,
    /// The runs of the queue that workers drive.
    pub running: Count,
    /// The runs that wait and have not begun, due or not.
    pub waiting: Count,
    /// Since when the run is due that is due for the longest time. `None`: none is due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest_due: Option<Timestamp>,
    /// How many live workers serve a lane of the queue.
    pub workers: u32,
}

/// Asks for one page of the gates of a queue: see [`Operate::gates`](super::Operate::gates).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ListGates {
    /// The queue.
    pub queue: String,
    /// The place at which the page begins: [`GatePage::next`]. Default: the beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<Cursor>,
    /// The largest number of gates. Default: 50. Range: 1 to [`ListGates::MAX_LIMIT`].
    #[serde(default = "default_limit")]
    pub limit: u32,
}

const fn default_limit() -> u32 {
    50
}

impl ListGates {
    /// The largest limit. Each gate costs two counts.
    pub const MAX_LIMIT: u32 = 200;

    /// Asks for the first gates of this queue.
    #[must_use]
    pub fn new(queue: impl Into<String>) -> Self {
        Self { queue: queue.into(), cursor: None, limit: default_limit() }
    }

    /// Begins the page at this place. Default: the beginning.
    #[must_use]
    pub fn cursor(mut self, cursor: Cursor) -> Self {
        self.cursor = Some(cursor);
        self
    }

    /// Sets the largest number of gates. Default: 50. Range: 1 to [`ListGates::MAX_LIMIT`]; another
    /// value is refused where the page is read.
    #[must_use]
    pub fn limit(mut self, gates: u32) -> Self {
        self.limit = gates;
        self
    }
}

/// One page of the gates of a queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct GatePage {
    /// The gates, in the order of their names.
    pub items: Vec<GateView>,
    /// The place at which the next page begins. `None` at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Cursor>,
}

/// A gate of a queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct GateView {
    /// The name.
    pub name: String,
    /// How many runs it gives in one turn.
    pub weight: u32,
    /// The runs behind the gate that workers drive.
    pub running: Count,
    /// The runs behind the gate that wait and have not begun, due or not.
    pub waiting: Count,
}

impl From<ListedGate> for GateView {
    fn from(gate: ListedGate) -> Self {
        let ListedGate { gate: name, weight, running, waiting, .. } = gate;
        Self { name, weight, running: Count::of(running), waiting: Count::of(waiting) }
    }
}

/// See [`Operate::queues`](super::Operate::queues).
pub(super) async fn queues(client: &Client) -> Result<Vec<QueueView>, OperateError> {
    let store = client.store();
    let workers = client.read(store.workers()).await?;
    let records = known(client).await?;
    let mut queues = Vec::new();
    for record in records.into_values().take(MOST_QUEUES) {
        let name = record.name.as_str();
        let place = WaitingPlace { queue: name, gate: None, max_waiting: AT_MOST };
        let running = Count::of(client.read(store.running_in(name, AT_MOST)).await?);
        let waiting = Count::of(client.read(store.waiting_in(place)).await?);
        let oldest_due = client.read(store.oldest_due(name)).await?;
        queues.push(view(record, &workers, running, waiting, oldest_due));
    }
    Ok(queues)
}

/// Returns the record of every known queue, by name.
async fn known(client: &Client) -> Result<BTreeMap<String, QueueRecord>, OperateError> {
    let store = client.store();
    let lanes: Vec<Lane> = client.read(store.lanes(MOST_LANES)).await?;
    let names: BTreeSet<String> = lanes.into_iter().map(|lane| lane.queue).collect();
    let mut records: BTreeMap<String, QueueRecord> =
        names.into_iter().map(|name| (name.clone(), QueueRecord::new(name))).collect();
    records.extend(client.read(store.queues()).await?.into_iter().map(|record| (record.name.clone(), record)));
    Ok(records)
}

/// Returns a warning about a queue that has no record, no run and no worker. Such a name may be
/// mistyped, or the order comes before the queue.
pub(super) async fn warning(client: &Client, queue: &str) -> Result<Option<String>, OperateError> {
    let others = others_of_unknown(client, queue).await?;
    Ok(others.map(|names| warning_about("queue", queue, names.iter().map(String::as_str))))
}

/// Returns the record of a queue, and refuses a queue that has no record, no run and no worker.
pub(super) async fn record(client: &Client, queue: &str) -> Result<QueueRecord, OperateError> {
    let records = client.read(client.store().queues()).await?;
    if let Some(record) = records.into_iter().find(|record| record.name == queue) {
        return Ok(record);
    }
    match others_of_unknown(client, queue).await? {
        Some(names) => Err(OperateError::unknown_name("queue", queue, names.iter().map(String::as_str))),
        None => Ok(QueueRecord::new(queue.to_owned())),
    }
}

/// Returns the names of the known queues. `None`: this one is known.
async fn others_of_unknown(client: &Client, queue: &str) -> Result<Option<BTreeSet<String>>, OperateError> {
    let store = client.store();
    if client.read(store.has_lane(queue)).await? {
        return Ok(None);
    }
    let records = client.read(store.queues()).await?;
    let mut names: BTreeSet<String> = records.into_iter().map(|record| record.name).collect();
    let workers = client.read(store.workers()).await?;
    names.extend(workers.into_iter().flat_map(|worker| worker.lanes).map(|lane| lane.queue));
    if names.contains(queue) {
        return Ok(None);
    }
    // Lanes may be many. They are listed only for the nearest name of an unknown one.
    names.extend(client.read(store.lanes(MOST_LANES)).await?.into_iter().map(|lane| lane.queue));
    Ok(Some(names))
}

fn view(
    record: QueueRecord,
    workers: &[WorkerRecord],
    running: Count,
    waiting: Count,
    oldest_due: Option<Timestamp>,
) -> QueueView {
    let serves = |worker: &&WorkerRecord| worker.live && worker.lanes.iter().any(|lane| lane.queue == record.name);
    let workers = u32::try_from(workers.iter().filter(serves).count()).unwrap_or(u32::MAX);
    let limits = record.limits();
    let QueueRecord { name, declared, overridden, pause, has_gates, .. } = record;
    QueueView { name, declared, overridden, limits, pause, has_gates, running, waiting, oldest_due, workers }
}

/// See [`Operate::gates`](super::Operate::gates).
pub(super) async fn gates(client: &Client, list: ListGates) -> Result<GatePage, OperateError> {
    let ListGates { queue, cursor, limit } = list;
    OperateError::check_limit(limit, ListGates::MAX_LIMIT, "gates")?;
    let of = format!("gates of {queue}");
    let after = cursor.map(|cursor| cursor.place::<String>(&of)).transpose()?;
    let list = GateList { queue: &queue, after: after.as_deref(), limit: limit + 1, at_most: AT_MOST };
    let mut gates = client.read(client.store().gates(list)).await?;
    if gates.is_empty() && after.is_none() {
        let known = known(client).await?;
        if !known.contains_key(&queue) {
            return Err(OperateError::unknown_name("queue", &queue, known.keys().map(String::as_str)));
        }
    }
    let has_more = gates.len() > usize::try_from(limit).unwrap_or(usize::MAX);
    if has_more {
        gates.pop();
    }
    let last = gates.last().filter(|_| has_more);
    let next = last.map(|gate| Cursor::at_place(&gate.gate, &of)).transpose()?;
    Ok(GatePage { items: gates.into_iter().map(GateView::from).collect(), next })
}
