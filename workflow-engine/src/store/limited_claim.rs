//! A claim from queues of which some have limits or gates.
//!
//! A run holds a slot of its queue and of its gate while its status is running. So no end, park or
//! crash has to give a slot back, and none can be lost: they are counted. The row of the queue or
//! gate is locked before its runs are counted, and until the commit. Otherwise two claims could
//! both use the last slot, or the last begin that the rate allows.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use crate::faults::planted;
use crate::model::{Lane, QueueRecord, Rate, Timestamp};

use super::batch_target::BatchTarget;
use super::gates::{EndedTurn, GateTurn, LockedGate, TurnEnd};
use super::{ClaimRequest, Claimed, DueRuns};

/// The record of a queue that a claim has locked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockedQueue {
    /// The name of the queue.
    pub name: String,
    /// The largest number of running runs; `None` for any number.
    pub limit: Option<u32>,
    /// How many runs may begin in a period; `None` for any number.
    pub rate: Option<Rate>,
    /// Until when the rate is used up.
    pub used_until: Timestamp,
    /// `true` if the queue is paused.
    pub is_paused: bool,
}

impl LockedQueue {
    /// Returns what the claim needs of this record.
    #[must_use]
    pub fn of(record: &QueueRecord) -> Self {
        let (limits, is_paused) = (record.limits(), record.pause.is_some());
        let (limit, rate, used_until) = (limits.concurrency, limits.rate, record.used_until);
        Self { name: record.name.clone(), limit, rate, used_until, is_paused }
    }

    /// Returns a queue without a record.
    #[must_use]
    pub fn unlimited(name: &str) -> Self {
        Self::of(&QueueRecord::new(name.to_owned()))
    }
}

/// The lanes and gates of one limited queue, or those of all queues without limits.
struct Part {
    /// The limited queue.
    queue: Option<LockedQueue>,
    lanes: Vec<Lane>,
    gates: Vec<Gate>,
    capacity: Capacity,
    /// Whether a claim has found fewer due runs than it asked for.
    is_empty: bool,
}

/// A gate during a claim.
struct Gate {
    locked: LockedGate,
    capacity: Capacity,
    /// The number of runs that the claim has taken.
    taken: u32,
    /// Whether a claim has found fewer due runs than the gate would have given.
    is_drained: bool,
    /// Whether runs that have begun may be left.
    may_go_on: bool,
}

/// How many more runs a queue or gate lets in.
struct Capacity {
    /// The number of free slots.
    free: u32,
    rate: Option<Rate>,
    used_until: Timestamp,
    /// Whether `used_until` is no longer the stored one.
    is_corrected: bool,
    /// The number of runs that have begun in this claim.
    begun: u32,
}

/// Claims for this request, which looks at limits or gates. Lanes of unlimited queues without gates
/// are claimed from as usual. The claim is the last of its transaction.
///
/// # Errors
/// An error of the database. The transaction must then be rolled back.
pub async fn claim_limited<T: BatchTarget>(target: &mut T, request: &ClaimRequest) -> Result<Claimed, T::Error> {
    let queues = match request.limited.is_empty() {
        true => Vec::new(),
        false => target.lock_queues(&request.limited).await?,
    };
    let mut parts = parts_of(request, queues);
    count_free(target, &mut parts).await?;
    add_gates(target, request, &mut parts).await?;
    count_free_of_gates(target, &mut parts).await?;

    let mut claimed = claim_from_full(target, request, &parts).await?;
    correct_rates(&mut parts, claimed.now);
    let lanes: usize = parts.iter().map(|part| part.lanes.len()).sum();
    // First each part takes its share of the claim, and then what the others have left.
    for is_share in [true, false] {
        for part in &mut parts {
            let left = request.limit.saturating_sub(count(&claimed));
            let share = u64::from(request.limit) * part.lanes.len() as u64 / lanes as u64;
            let share = u32::try_from(share).unwrap_or(u32::MAX).max(1);
            let limit = left.min(if is_share { share } else { u32::MAX });
            claim_from(target, request, part, limit, &mut claimed).await?;
        }
    }
    end(target, &parts, claimed.now).await?;
    tell(&mut claimed, request, &parts);
    Ok(claimed)
}

/// Divides the lanes of the request, in the order of their turns. Leaves out those of queues that
/// are paused, and of queues that this claim could not lock.
fn parts_of(request: &ClaimRequest, mut locked: Vec<LockedQueue>) -> Vec<Part> {
    locked.retain(|queue| !queue.is_paused);
    let mut parts: Vec<Part> = Vec::new();
    for lane in &request.lanes {
        let queue = locked.iter().find(|queue| queue.name == lane.queue);
        if queue.is_none() && request.limited.contains(&lane.queue) {
            continue;
        }
        match parts.iter_mut().find(|part| part.queue.as_ref() == queue) {
            Some(part) => part.lanes.push(lane.clone()),
            None => {
                let of = |queue: &LockedQueue| Capacity::new(queue.limit, queue.rate, queue.used_until);
                let capacity = queue.map_or_else(|| Capacity::new(None, None, Timestamp::from_micros(0)), of);
                let (queue, lanes, gates) = (queue.cloned(), vec![lane.clone()], Vec::new());
                parts.push(Part { queue, lanes, gates, capacity, is_empty: false });
            }
        }
    }
    parts
}

/// Locks the gates at which it is time to look, and adds them to the parts of their queues. Leaves
/// out the gates of a full queue: they keep their places in the line.
async fn add_gates<T: BatchTarget>(target: &mut T, request: &ClaimRequest, parts: &mut [Part]) -> Result<(), T::Error> {
    let lanes = gated_lanes(request, parts.iter().filter(|part| !part.is_full()));
    if lanes.is_empty() {
        return Ok(());
    }
    for locked in target.lock_gates(&lanes, request.limit).await? {
        let Some(part) = parts.iter_mut().find(|part| part.lanes.contains(&locked.lane)) else { continue };
        let is_known = |gate: &Gate| gate.locked.gate == locked.gate && gate.locked.lane.queue == locked.lane.queue;
        if !part.gates.iter().any(is_known) {
            let capacity = Capacity::new(locked.limits.concurrency, locked.limits.rate, locked.used_until);
            part.gates.push(Gate { locked, capacity, taken: 0, is_drained: false, may_go_on: true });
        }
    }
    Ok(())
}

/// Returns those lanes of these parts that have gates.
fn gated_lanes<'p>(request: &ClaimRequest, parts: impl Iterator<Item = &'p Part>) -> Vec<Lane> {
    parts.flat_map(|part| &part.lanes).filter(|lane| request.gated.contains(&lane.queue)).cloned().collect()
}

/// Subtracts from the limits of the parts what runs already.
async fn count_free<T: BatchTarget>(target: &mut T, parts: &mut [Part]) -> Result<(), T::Error> {
    let limit = |part: &Part| part.queue.as_ref().and_then(|queue| Some((queue.name.clone(), queue.limit?)));
    let counted: Vec<(String, u32)> = parts.iter().filter_map(limit).collect();
    if counted.is_empty() || planted("uncounted-slots") {
        return Ok(());
    }
    let running = target.count_running(&counted).await?;
    for (part, running) in parts.iter_mut().filter(|part| limit(part).is_some()).zip(running) {
        part.capacity.free = part.capacity.free.saturating_sub(running);
    }
    Ok(())
}

/// Subtracts from the limits of the gates what runs already.
async fn count_free_of_gates<T: BatchTarget>(target: &mut T, parts: &mut [Part]) -> Result<(), T::Error> {
    let gates = parts.iter_mut().flat_map(|part| &mut part.gates);
    let mut limited: Vec<&mut Gate> = gates.filter(|gate| gate.locked.limits.concurrency.is_some()).collect();
    if limited.is_empty() || planted("uncounted-slots") {
        return Ok(());
    }
    let counted: Vec<&LockedGate> = limited.iter().map(|gate| &gate.locked).collect();
    let running = target.count_behind(&counted).await?;
    for (gate, running) in limited.iter_mut().zip(running) {
        gate.capacity.free = gate.capacity.free.saturating_sub(running);
    }
    Ok(())
}

/// Takes over runs of full queues and gates whose lease has ended. They are counted already, so
/// they need no free slot. Also finds out what time it is, if the claim has to know that, or is
/// over.
async fn claim_from_full<T: BatchTarget>(
    target: &mut T,
    request: &ClaimRequest,
    parts: &[Part],
) -> Result<Claimed, T::Error> {
    let full = || parts.iter().filter(|part| part.is_full());
    let lanes: Vec<Lane> = full().flat_map(|part| part.lanes.clone()).collect();
    let gated = gated_lanes(request, full());
    let lapsed = if gated.is_empty() { Vec::new() } else { target.find_lapsed_gates(&gated, request.limit).await? };
    let lapsed =
        lapsed.into_iter().map(|(lane, gate)| GateTurn { lane, gate, weight: 1, given: 0, at_most: request.limit });
    let full_gates = parts.iter().flat_map(|part| &part.gates).filter(|gate| gate.capacity.free == 0);
    let gates: Vec<GateTurn> = lapsed.chain(full_gates.map(|gate| gate.locked.turn(request.limit))).collect();
    let claims_more = parts.iter().any(|part| !part.is_full());
    if lanes.is_empty() && gates.is_empty() && claims_more && !parts.iter().any(Part::has_rates) {
        let now = Timestamp::from_micros(0);
        return Ok(Claimed { runs: Vec::new(), held_back: Vec::new(), full_gates: Vec::new(), next_at: None, now });
    }
    target.claim_runs(&narrowed(request, lanes, request.limit), &gates, DueRuns::Lapsed).await
}

/// Takes back what the rates cannot have used up: it is of another rate, or of a clock that was
/// ahead. `claim_from_full` has found out what time it is if there is a rate.
fn correct_rates(parts: &mut [Part], now: Timestamp) {
    for part in parts {
        part.capacity.correct(now);
        part.gates.iter_mut().for_each(|gate| gate.capacity.correct(now));
    }
}

/// Claims at most `limit` due runs of a part, and adds them.
async fn claim_from<T: BatchTarget>(
    target: &mut T,
    request: &ClaimRequest,
    part: &mut Part,
    limit: u32,
    claimed: &mut Claimed,
) -> Result<(), T::Error> {
    if !part.has_rates() {
        return claim_kind(target, request, part, limit, DueRuns::All, claimed).await;
    }
    // Runs that have begun take nothing of a rate, and go before new ones anyway.
    let before = count(claimed);
    claim_kind(target, request, part, limit, DueRuns::Begun, claimed).await?;
    let left = limit.saturating_sub(count(claimed) - before);
    claim_kind(target, request, part, left, DueRuns::New, claimed).await
}

async fn claim_kind<T: BatchTarget>(
    target: &mut T,
    request: &ClaimRequest,
    part: &mut Part,
    limit: u32,
    due: DueRuns,
    claimed: &mut Claimed,
) -> Result<(), T::Error> {
    let limit = limit.min(part.capacity.of(due, claimed.now));
    if limit == 0 || part.is_empty {
        return Ok(());
    }
    // A gate gives no more in one claim than its share, so that the claim locks no run that it does
    // not take.
    let share = limit.div_ceil(u32::try_from(part.gates.len().max(1)).unwrap_or(u32::MAX));
    let now = claimed.now;
    let at_most = |gate: &Gate| gate.capacity.of(due, now).min(share.saturating_mul(gate.locked.weight)).min(limit);
    let is_asked = |gate: &Gate| gate.capacity.of(due, now) > 0 && !gate.is_drained;
    let turns: Vec<GateTurn> =
        part.gates.iter().filter(|gate| is_asked(gate)).map(|gate| gate.turn(at_most(gate))).collect();
    let found = target.claim_runs(&narrowed(request, part.lanes.clone(), limit), &turns, due).await?;

    let mut taken: HashMap<(&str, &str), u32> = HashMap::new();
    let behind = found.runs.iter().filter_map(|run| Some((run.lane.queue.as_str(), run.gate.as_deref()?)));
    behind.for_each(|gate| *taken.entry(gate).or_default() += 1);
    let came_short = count(&found) < limit;
    // Behind a gate without runs that have begun, there may still be new ones.
    let drains = came_short && due != DueRuns::Begun;
    for (gate, turn) in part.gates.iter_mut().filter(|gate| is_asked(gate)).zip(&turns) {
        let of_gate = taken.get(&(turn.lane.queue.as_str(), turn.gate.as_str())).copied().unwrap_or_default();
        gate.is_drained = drains && of_gate < turn.at_most;
        gate.may_go_on &= !(due == DueRuns::Begun && came_short && of_gate < turn.at_most);
        gate.taken += of_gate;
        gate.capacity.take(of_gate, due);
    }
    part.capacity.take(count(&found), due);
    // Gates that gave their share may have more.
    part.is_empty = drains && !part.gates.iter().any(is_asked);
    claimed.runs.extend(found.runs);
    claimed.now = found.now;
    Ok(())
}

/// Writes what of the rates is used up, and how the turns of the gates have ended.
async fn end<T: BatchTarget>(target: &mut T, parts: &[Part], now: Timestamp) -> Result<(), T::Error> {
    let queues = parts.iter().filter_map(|part| Some((part.queue.as_ref()?, part.capacity.used(now)?)));
    let queues: Vec<(&LockedQueue, Timestamp)> = queues.collect();
    let gates = parts.iter().flat_map(|part| &part.gates);
    let used: Vec<(&LockedGate, Timestamp)> =
        gates.filter_map(|gate| Some((&gate.locked, gate.capacity.used(now)?))).collect();
    if !queues.is_empty() || !used.is_empty() {
        target.use_rates(&queues, &used).await?;
    }
    let turns = ended_turns(parts, now);
    if turns.is_empty() { Ok(()) } else { target.end_turns(&turns).await }
}

/// Returns how the turns of the gates have ended. Gates that wait for the rate of their queue keep
/// their order in the line, and those whose turn is over stand behind the others. Each gets a
/// place of its own: between equal places a store would always prefer the same gate.
fn ended_turns(parts: &[Part], now: Timestamp) -> Vec<EndedTurn<'_>> {
    let mut gates: Vec<_> = parts.iter().flat_map(|part| part.gates.iter().map(move |gate| (part, gate))).collect();
    gates.sort_by_key(|(_, gate)| gate.taken > 0 && gate.given() == 0);
    let first_place = now - Duration::from_micros(gates.len() as u64);
    let ended = (0..).map(Duration::from_micros).zip(gates).filter_map(|(place, (part, gate))| {
        let of_queue = part.capacity.next_at(now);
        let (end, look_at) = gate.turn_end(gate.capacity.next_at(now).max(of_queue), now, first_place + place)?;
        let look_at = if of_queue.is_some() { look_at + place } else { look_at };
        let given = if end == TurnEnd::Open { gate.given() } else { 0 };
        Some(EndedTurn { gate: &gate.locked, end, look_at, given })
    });
    ended.collect()
}

/// Tells the worker which queues and gates let no more in.
fn tell(claimed: &mut Claimed, request: &ClaimRequest, parts: &[Part]) {
    let now = claimed.now;
    let full = parts.iter().flat_map(|part| &part.gates).filter(|gate| gate.capacity.free == 0);
    claimed.full_gates = full.map(|gate| gate.locked.lane.queue.clone()).collect::<BTreeSet<_>>().into_iter().collect();
    let has_capacity = |name: &&String| {
        let is_open = |part: &Part| part.capacity.of(DueRuns::New, now) > 0;
        parts.iter().any(|part| is_open(part) && part.queue.as_ref().is_some_and(|queue| queue.name == **name))
    };
    claimed.held_back = request.limited.iter().filter(|name| !has_capacity(name)).cloned().collect();
    claimed.next_at =
        parts.iter().filter(|part| part.queue.is_some()).filter_map(|part| part.capacity.next_at(now)).min();
}

impl Part {
    /// Returns whether the queue has no free slot.
    fn is_full(&self) -> bool {
        self.capacity.free == 0
    }

    fn has_rates(&self) -> bool {
        self.capacity.rate.is_some() || self.gates.iter().any(|gate| gate.capacity.rate.is_some())
    }
}

impl Gate {
    /// Returns how the turn ended, and when claims look at the gate again if nothing else happens;
    /// `None` if the gate has not had a turn, so that it keeps its place. `next_at` is when the
    /// rates let the next run begin, if they let none begin now. `place` is the one at the end of
    /// the line.
    fn turn_end(&self, next_at: Option<Timestamp>, now: Timestamp, place: Timestamp) -> Option<(TurnEnd, Timestamp)> {
        match next_at {
            _ if self.capacity.free == 0 => Some((TurnEnd::Full, now)),
            _ if self.is_drained => Some((TurnEnd::Drained, now)),
            Some(next_at) if !self.may_go_on => Some((TurnEnd::Open, next_at)),
            _ if self.taken == 0 => None,
            _ if self.given() > 0 => Some((TurnEnd::Open, self.locked.open_at)),
            _ => Some((TurnEnd::Open, place)),
        }
    }

    /// Returns the turn of the gate, which goes on where the claim has left it.
    fn turn(&self, at_most: u32) -> GateTurn {
        GateTurn { given: self.given(), ..self.locked.turn(at_most) }
    }

    /// Returns how many runs the gate has given in the turn that goes on, with those of this claim;
    /// 0 if the turn is over. So the weight of a gate also holds in claims of few runs.
    fn given(&self) -> u32 {
        let weight = self.locked.weight.max(1);
        (self.locked.given % weight).saturating_add(self.taken) % weight
    }
}

impl Capacity {
    fn new(limit: Option<u32>, rate: Option<Rate>, used_until: Timestamp) -> Self {
        Self { free: limit.unwrap_or(u32::MAX), rate, used_until, is_corrected: false, begun: 0 }
    }

    /// Takes back what the rate cannot have used up. The claim writes that, because the correction
    /// would otherwise move on with the time.
    fn correct(&mut self, now: Timestamp) {
        let Some(rate) = self.rate else { return };
        let corrected = rate.used_at_most(self.used_until, now);
        self.is_corrected = corrected != self.used_until;
        self.used_until = corrected;
    }

    /// Returns how many due runs of this kind may be claimed now.
    fn of(&self, due: DueRuns, now: Timestamp) -> u32 {
        match (self.rate, due) {
            (Some(rate), DueRuns::New) => self.free.min(rate.free(self.used_until, now).saturating_sub(self.begun)),
            _ => self.free,
        }
    }

    /// Takes note of claimed runs.
    fn take(&mut self, runs: u32, due: DueRuns) {
        self.free -= runs.min(self.free);
        if due == DueRuns::New {
            self.begun += runs;
        }
    }

    /// Returns until when the rate is used up after this claim; `None` if that is the stored time.
    fn used(&self, now: Timestamp) -> Option<Timestamp> {
        match self.begun {
            0 => Some(self.used_until).filter(|_| self.is_corrected),
            begun => Some(self.rate?.used_after(self.used_until, now, begun)),
        }
    }

    /// Returns when the rate lets the next run begin, if it lets none begin now.
    fn next_at(&self, now: Timestamp) -> Option<Timestamp> {
        let used_until = self.used(now).unwrap_or(self.used_until);
        let rate = self.rate.filter(|rate| rate.free(used_until, now) == 0)?;
        Some(rate.next_at(used_until))
    }
}

impl LockedGate {
    fn turn(&self, at_most: u32) -> GateTurn {
        GateTurn { lane: self.lane.clone(), gate: self.gate.clone(), weight: self.weight, given: self.given, at_most }
    }
}

fn narrowed(request: &ClaimRequest, lanes: Vec<Lane>, limit: u32) -> ClaimRequest {
    ClaimRequest { lanes, limit, limited: Vec::new(), gated: Vec::new(), ..request.clone() }
}

fn count(claimed: &Claimed) -> u32 {
    u32::try_from(claimed.runs.len()).unwrap_or(u32::MAX)
}
