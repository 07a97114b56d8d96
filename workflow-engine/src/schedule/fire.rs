use std::collections::HashMap;
use std::time::Duration;

use crate::model::{RunId, Timestamp};

use super::{Calendar, CatchUp, Occurrence, Overlap, PauseCause, Record, Waiting};

/// The most occurrences that one look at a schedule reads from the calendar. A schedule that has
/// more of them stays due.
const MOST_READ: usize = 10_000;

/// The times between two looks at a schedule whose occurrence waits for the end of a run: an eighth
/// of the time that it has waited, within these bounds.
const LOOK: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// The runs of a schedule that have ended, and whether each has failed. A run that is not in the
/// database counts as ended.
pub type EndsOfRuns = HashMap<RunId, bool>;

/// The decision of one look at a schedule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Firing {
    /// The occurrences that start a run.
    pub starts: Vec<Occurrence>,
    /// The runs that are to be canceled.
    pub cancels: Vec<RunId>,
    /// The runs that are to be terminated, because they did not end in the grace after a cancel.
    pub terminations: Vec<RunId>,
}

/// Decides about the occurrences of a schedule that are due, and moves its record on.
///
/// The catch-up policy decides first which of them may start a run, then the overlap policy when.
/// `grace` is the time after which a canceled run is terminated.
pub fn fire(
    record: &mut Record,
    name: &str,
    calendar: &Calendar,
    ends: &EndsOfRuns,
    (now, grace): (Timestamp, Duration),
) -> Firing {
    let failed = record.state.open.iter().copied().find(|run| ends.get(run) == Some(&true));
    record.state.open.retain(|run| !ends.contains_key(run));
    if record.state.paused.is_some() {
        return Firing::default();
    }
    if let Some(run) = failed.filter(|_| record.declaration().pause_on_failure) {
        record.pause(PauseCause::Failure, &format!("run {run} failed"), now);
        return Firing::default();
    }
    let due = take_due(record, name, calendar, now);
    let due = catch_up(record, due, |at| calendar.due_at(name, at), now);
    let starts = overlap(record, due, now);
    let mut firing = Firing::default();
    if record.declaration().overlap == Overlap::CancelOther
        && let Some(waiting) = record.state.waiting.first()
    {
        let is_over = waiting.since + grace < now;
        let runs = record.state.open.clone();
        *(if is_over { &mut firing.terminations } else { &mut firing.cancels }) = runs;
    }
    let remaining = usize::try_from(record.remaining()).unwrap_or(usize::MAX);
    for waiting in starts.into_iter().take(remaining) {
        let missed = std::mem::take(&mut record.state.missed_since);
        let occurrence = calendar.occurrence(name, waiting.at, missed);
        record.started(occurrence.run_id(), waiting.at);
        firing.starts.push(occurrence);
    }
    if record.remaining() == 0 {
        record.state.next_at = None;
        record.state.waiting.clear();
    }
    firing
}

/// Takes the occurrences that are due, and moves the next one on. If more than [`MOST_READ`] are
/// due, it takes only the first ones, so that at least as many are left as a catch-up may start.
fn take_due(record: &mut Record, name: &str, calendar: &Calendar, now: Timestamp) -> Due {
    let Some(first) = record.state.next_at else { return Due::default() };
    let is_due = |at: &Timestamp| calendar.due_at(name, *at) <= now;
    let next = |at: &Timestamp| calendar.next_after(*at);
    let mut times: Vec<Timestamp> =
        std::iter::successors(Some(first), next).take_while(is_due).take(MOST_READ + 1).collect();
    let are_older_left = times.len() > MOST_READ;
    if are_older_left {
        times.truncate(MOST_READ - CatchUp::MOST as usize);
    }
    if let Some(last) = times.last() {
        record.state.next_at = calendar.next_after(*last);
    }
    Due { times, are_older_left }
}

/// Occurrences that are due, the earliest first.
#[derive(Default)]
struct Due {
    times: Vec<Timestamp>,
    /// `true` if more are due later: at least as many as a catch-up starts, so it starts none of
    /// these.
    are_older_left: bool,
}

/// Returns the occurrences that may start a run, and counts the others as missed.
fn catch_up(record: &mut Record, due: Due, due_at: impl Fn(Timestamp) -> Timestamp, now: Timestamp) -> Vec<Waiting> {
    let policy = record.declaration().catch_up;
    let oldest = now - policy.window();
    let most = match policy {
        CatchUp::Latest { .. } => 1,
        CatchUp::All { max, .. } => max as usize,
        CatchUp::Skip { .. } => CatchUp::MOST as usize,
    };
    // By its jitter an occurrence is not late.
    let late = due.times.iter().take_while(|at| due_at(**at) < oldest).count();
    let first = if due.are_older_left { due.times.len() } else { late.max(due.times.len().saturating_sub(most)) };
    record.state.missed += first as u64;
    record.state.missed_since += first as u64;
    due.times[first..].iter().map(|at| Waiting { at: *at, since: now }).collect()
}

/// Returns the occurrences that start now. The others wait or are skipped, as the policy says.
fn overlap(record: &mut Record, due: Vec<Waiting>, now: Timestamp) -> Vec<Waiting> {
    let policy = record.declaration().overlap;
    let is_idle = record.state.open.is_empty();
    let state = &mut record.state;
    let mut candidates = std::mem::take(&mut state.waiting);
    let was_waiting = candidates.len();
    candidates.extend(due);
    if policy == Overlap::Allow {
        return candidates;
    }
    if policy == Overlap::CancelOther && candidates.len() > 1 {
        // The runs were asked to end when the first one began to wait.
        let since = candidates.first().map_or(now, |first| first.since);
        let latest = candidates.split_off(candidates.len() - 1);
        state.skipped += candidates.len() as u64;
        candidates = latest.into_iter().map(|waiting| Waiting { since, ..waiting }).collect();
    }
    let starts: Vec<Waiting> = if is_idle { candidates.drain(..candidates.len().min(1)).collect() } else { Vec::new() };
    let room = match policy {
        Overlap::Skip | Overlap::Allow => 0,
        Overlap::BufferOne | Overlap::CancelOther => 1,
        // A policy that was changed since does not drop what waits already.
        Overlap::BufferAll { max } => (max as usize).max(was_waiting),
    };
    state.skipped += candidates.len().saturating_sub(room) as u64;
    candidates.truncate(room);
    if !starts.is_empty() {
        // They wait for another run from now on.
        candidates.iter_mut().for_each(|waiting| waiting.since = now);
    }
    state.waiting = candidates;
    starts
}

/// Returns when to look again whether the run that an occurrence waits for has ended.
pub(super) fn look_at(since: Timestamp, now: Timestamp) -> Timestamp {
    now + (now.since(since) / 8).clamp(LOOK.0, LOOK.1)
}
