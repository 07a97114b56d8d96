//! The facts that the row of a run does not tell: lanes that no worker serves, queues and gates
//! that let no run go on, and runs of which a step waits for a seat.

use std::collections::BTreeSet;

use workflow_engine::model::{Blocker, GateLimits, Lane, QueueRecord, Rate, RunId, Timestamp};
use workflow_engine::store::{DatabaseError, GateList, SeatList, Store};

use super::workers::unserved_lanes;
use super::{Fact, Query, Test};

/// The most queues, and the most limits, that are looked at: each costs a read.
const MOST_RECORDS: usize = 1_000;
/// The most gates that are looked at, over all queues: each costs two counts.
const MOST_GATES: u32 = 1_000;
/// The most steps of a limit that are looked at.
const MOST_STEPS: u32 = 1_000;

/// The lanes, blockers and runs for which a query asks. Without such a fact in the query they are
/// empty and cost no read.
#[derive(Debug, Default)]
pub(super) struct Blockers {
    /// The lanes that no live worker serves.
    pub(super) unserved: Vec<Lane>,
    /// The queues and gates that let no run go on.
    pub(super) blocked: Vec<Blocker>,
    /// The runs of which a step waits for a seat.
    pub(super) awaiting_seats: BTreeSet<RunId>,
}

impl Blockers {
    /// Reads them for a query that is read at `now`.
    pub(super) async fn read(store: &dyn Store, query: &Query, now: Timestamp) -> Result<Self, DatabaseError> {
        let asks = |fact| query.terms().iter().any(|term| term.test == Test::Is(fact));
        let mut read = Self::default();
        if asks(Fact::Unserved) {
            read.unserved = unserved_lanes(store).await?;
        }
        if asks(Fact::Blocked) {
            read.blocked = blockers(store, now).await?;
            read.awaiting_seats = runs_awaiting_seats(store).await?;
        }
        Ok(read)
    }
}

async fn blockers(store: &dyn Store, now: Timestamp) -> Result<Vec<Blocker>, DatabaseError> {
    let mut blocked = Vec::new();
    let mut gates_left = MOST_GATES;
    for record in store.queues().await?.into_iter().take(MOST_RECORDS) {
        let limits = record.limits();
        if record.pause.is_some() || is_full(store, &record).await? {
            blocked.push(Blocker { queue: record.name, gate: None, only_new: false });
            continue;
        }
        if is_used_up(limits.rate, record.used_until, now) {
            blocked.push(Blocker { queue: record.name.clone(), gate: None, only_new: true });
        }
        if limits.per_gate.holds_back() && gates_left > 0 {
            let at_most = limits.per_gate.concurrency.unwrap_or_default().max(1);
            let list = GateList { queue: &record.name, after: None, limit: gates_left, at_most };
            let gates = store.gates(list).await?;
            gates_left = gates_left.saturating_sub(u32::try_from(gates.len()).unwrap_or(u32::MAX));
            let GateLimits { concurrency, rate, .. } = limits.per_gate;
            blocked.extend(gates.into_iter().filter_map(|gate| {
                let is_full = concurrency.is_some_and(|limit| gate.running >= limit);
                let is_blocked = is_full || is_used_up(rate, gate.used_until, now);
                let blocker = Blocker { queue: record.name.clone(), gate: Some(gate.gate), only_new: !is_full };
                is_blocked.then_some(blocker)
            }));
        }
    }
    Ok(blocked)
}

/// Returns `true` if as many runs of a queue are under way as its limit allows.
async fn is_full(store: &dyn Store, record: &QueueRecord) -> Result<bool, DatabaseError> {
    let Some(limit) = record.limits().concurrency else { return Ok(false) };
    Ok(limit == 0 || store.running_in(&record.name, limit).await? >= limit)
}

fn is_used_up(rate: Option<Rate>, used_until: Timestamp, now: Timestamp) -> bool {
    rate.is_some_and(|rate| rate.free(rate.used_at_most(used_until, now), now) == 0)
}

async fn runs_awaiting_seats(store: &dyn Store) -> Result<BTreeSet<RunId>, DatabaseError> {
    let mut runs = BTreeSet::new();
    let records = store.limits().await?;
    // A limit without a rule holds nothing back.
    for record in records.iter().filter(|record| record.rule().is_some()).take(MOST_RECORDS) {
        let after = ("", Timestamp::from_micros(i64::MIN));
        let list = SeatList { limit: &record.name, waiting: true, after, at_most: MOST_STEPS };
        runs.extend(store.listed_seats(list).await?.into_iter().map(|seat| seat.run_id));
    }
    Ok(runs)
}
