//! A worker's view of the limits of its queues, which it reads once per second.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use workflow_engine::model::{Lane, QueueChange};
use workflow_engine::store::{Claimed, Outcome, QueueWrite, Write};
use workflow_sdk::{DatabaseError, QueueRecord};

use crate::WorkerError;
use crate::queue::Queue;
use crate::shared::Shared;

/// How often a worker looks for changes of its queues' limits.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// How long a worker leaves a queue alone that a claim found full or paused, unless one of the
/// worker's own runs gives a slot back.
const HOLD: Duration = Duration::from_millis(100);

/// How often a worker looks whether a gate that was full has room, unless one of its own runs ends.
pub(crate) const GATE_INTERVAL: Duration = Duration::from_millis(250);

/// [`HOLD`] on a store in this process, whose clock may be paused.
const RARE_HOLD: Duration = Duration::from_secs(60);

/// The queues of a worker that have limits or are paused.
#[derive(Debug, Default)]
pub(crate) struct QueueWatch {
    known: Mutex<Known>,
    /// Notified when a claim may now get runs that it did not get before, or must be made anew.
    changed: Notify,
}

#[derive(Debug, Default)]
struct Known {
    limited: BTreeSet<String>,
    paused: BTreeSet<String>,
    /// The queues whose runs wait behind gates.
    gated: BTreeSet<String>,
    /// The queues of which the last claim found a gate full.
    full_gates: BTreeSet<String>,
    /// The limited queues that are left alone, each with the time until which it is.
    held_back: HashMap<String, Instant>,
}

impl QueueWatch {
    /// Returns the queues that a claim has to look at.
    pub(crate) fn limited(&self) -> Vec<String> {
        self.known().limited.iter().cloned().collect()
    }

    /// Returns the queues whose gates a claim has to look at.
    pub(crate) fn gated(&self) -> Vec<String> {
        self.known().gated.iter().cloned().collect()
    }

    /// Returns the lanes whose queue is not paused, as far as the worker knows.
    pub(crate) fn unpaused(&self, mut lanes: Vec<Lane>) -> Vec<Lane> {
        let known = self.known();
        if !known.paused.is_empty() {
            lanes.retain(|lane| !known.paused.contains(&lane.queue));
        }
        lanes
    }

    /// Takes note of the queues that a claim found full or paused, and of those of which it found a
    /// gate full.
    pub(crate) fn hold_back(&self, claimed: &Claimed, until: Instant) {
        // A rate says exactly when the next run may begin.
        let next = claimed.next_at.map(|at| Instant::now() + at.since(claimed.now));
        let until = next.map_or(until, |next| next.min(until));
        let mut known = self.known();
        known.held_back.clear();
        known.held_back.extend(claimed.held_back.iter().map(|queue| (queue.clone(), until)));
        known.full_gates = claimed.full_gates.iter().cloned().collect();
    }

    /// Takes note that a run of this queue was given back or has ended.
    pub(crate) fn note_free(&self, queue: &str) {
        let mut known = self.known();
        if known.held_back.remove(queue).is_some() | known.full_gates.remove(queue) {
            self.changed.notify_one();
        }
    }

    /// Returns whether the last claim found a gate full, so that runs behind it may be due once a
    /// worker, maybe another one, has ended one of them.
    pub(crate) fn has_full_gates(&self) -> bool {
        !self.known().full_gates.is_empty()
    }

    /// Returns the lanes whose next due run is worth a claim now.
    pub(crate) fn open_lanes(&self, lanes: &[Lane], now: Instant) -> Vec<Lane> {
        let mut known = self.known();
        known.held_back.retain(|_, until| *until > now);
        let is_open = |lane: &&Lane| !known.held_back.contains_key(&lane.queue) && !known.paused.contains(&lane.queue);
        lanes.iter().filter(is_open).cloned().collect()
    }

    /// Returns when a lane that is held back is worth a claim again.
    pub(crate) fn held_until(&self, now: Instant) -> Option<Instant> {
        self.known().held_back.values().filter(|until| **until > now).min().copied()
    }

    /// Returns when the limits have changed, or a held-back queue has room.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Takes note of the records of all queues.
    fn set(&self, records: &[QueueRecord], lanes: &[Lane]) {
        let is_served = |record: &&QueueRecord| lanes.iter().any(|lane| lane.queue == record.name);
        let served = || records.iter().filter(is_served);
        let limited: BTreeSet<_> =
            served().filter(|record| record.is_limited()).map(|record| record.name.clone()).collect();
        let paused: BTreeSet<_> =
            served().filter(|record| record.pause.is_some()).map(|record| record.name.clone()).collect();
        let gated: BTreeSet<_> =
            served().filter(|record| record.is_gated()).map(|record| record.name.clone()).collect();
        let mut known = self.known();
        if (&known.limited, &known.paused, &known.gated) != (&limited, &paused, &gated) {
            (known.limited, known.paused, known.gated) = (limited, paused, gated);
            self.changed.notify_one();
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Declares the limits of these queues, as far as they differ from what is declared, and reads the
/// limits of all.
///
/// # Errors
/// [`WorkerError::Database`] or [`WorkerError::Stopped`].
pub(crate) async fn declare(shared: &Shared, queues: &[Queue]) -> Result<(), WorkerError> {
    let records = shared.client.store().queues().await?;
    for Queue { name, limits } in queues {
        let declared = records.iter().find(|record| record.name == *name).and_then(|record| record.declared);
        // A queue without limits needs no record.
        if declared.unwrap_or_default() == *limits {
            continue;
        }
        let write = QueueWrite { queue: name.clone(), change: QueueChange::Declare(*limits) };
        if let Outcome::Refused(error) = shared.executor().commit(Write::Queue(write)).await? {
            return Err(error.into());
        }
    }
    look(shared).await?;
    Ok(())
}

/// Looks for changes of the limits, until the future is dropped.
pub(crate) async fn watch_queues(shared: Arc<Shared>) {
    loop {
        tokio::time::sleep(shared.pace(LOOK_INTERVAL, crate::WorkerOptions::LONGEST_TIME)).await;
        if let Err(error) = look(&shared).await {
            tracing::debug!(error = &error as &dyn std::error::Error, "cannot read the limits of queues, trying again");
        }
    }
}

/// Reads the limits of all queues, on a store in this process, where a read costs nothing.
pub(crate) async fn look_in_process(shared: &Shared) {
    if shared.client.store().in_process()
        && let Err(error) = look(shared).await
    {
        tracing::debug!(error = &error as &dyn std::error::Error, "cannot read the limits of queues");
    }
}

/// Returns until when queues are left alone that a claim now found full or paused.
pub(crate) fn hold_until(shared: &Shared) -> Instant {
    Instant::now() + shared.pace(HOLD, RARE_HOLD)
}

async fn look(shared: &Shared) -> Result<(), DatabaseError> {
    let records = shared.client.store().queues().await?;
    shared.queues.set(&records, &shared.lanes);
    Ok(())
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use workflow_sdk::QueueLimits;

    use super::*;

    fn lane(queue: &str) -> Lane {
        Lane { queue: queue.into(), workflow: "checkout".into(), version: "1".into() }
    }

    fn held_back(queues: &[&str]) -> Claimed {
        let held_back = queues.iter().map(|queue| (*queue).to_owned()).collect();
        Claimed {
            runs: Vec::new(),
            held_back,
            full_gates: Vec::new(),
            next_at: None,
            now: workflow_sdk::Timestamp::from_micros(0),
        }
    }

    fn limited(queue: &str) -> QueueRecord {
        let mut record = QueueRecord::new(queue.into());
        record.declared = Some(QueueLimits::none().concurrency(1));
        record
    }

    #[test]
    fn a_worker_knows_the_limited_queues_that_it_serves() {
        let watch = QueueWatch::default();
        let records = [limited("a"), limited("foreign"), QueueRecord::new("b".into())];
        watch.set(&records, &[lane("a"), lane("b")]);
        assert_eq!(watch.limited(), ["a"]);
        assert!(watch.changed().now_or_never().is_some(), "a claim that waits must be made anew");
        watch.set(&records, &[lane("a"), lane("b")]);
        assert!(watch.changed().now_or_never().is_none());
    }

    #[test]
    fn a_paused_queue_is_left_alone_until_it_is_resumed() {
        let (watch, lanes) = (QueueWatch::default(), [lane("a"), lane("b")]);
        let mut record = limited("a");
        record.pause = Some(workflow_sdk::QueuePause::new(workflow_sdk::Timestamp::from_micros(1), "why".into()));
        watch.set(&[record], &lanes);
        assert_eq!(watch.unpaused(lanes.to_vec()), [lane("b")]);
        assert_eq!(
            (watch.open_lanes(&lanes, Instant::now()), watch.held_until(Instant::now())),
            (vec![lane("b")], None)
        );
        assert!(watch.changed().now_or_never().is_some());
        watch.set(&[limited("a")], &lanes);
        assert_eq!(watch.unpaused(lanes.to_vec()), lanes);
        assert!(watch.changed().now_or_never().is_some(), "the queue is limited as before, but not paused");
    }

    #[test]
    fn a_full_queue_is_left_alone_until_one_of_its_runs_has_ended() {
        let (watch, now) = (QueueWatch::default(), Instant::now());
        let lanes = [lane("a"), lane("b")];
        let until = now + HOLD;
        watch.hold_back(&held_back(&["a"]), until);
        assert_eq!((watch.open_lanes(&lanes, now), watch.held_until(now)), (vec![lane("b")], Some(until)));
        watch.note_free("b");
        assert!(watch.changed().now_or_never().is_none());
        watch.note_free("a");
        assert!(watch.changed().now_or_never().is_some());
        assert_eq!((watch.open_lanes(&lanes, now), watch.held_until(now)), (lanes.to_vec(), None));
        watch.hold_back(&held_back(&["a"]), until);
        assert_eq!(
            (watch.open_lanes(&lanes, until), watch.held_until(until)),
            (lanes.to_vec(), None),
            "the time has passed"
        );
        watch.hold_back(&held_back(&["a"]), until);
        watch.hold_back(&held_back(&[]), until);
        assert_eq!(
            (watch.open_lanes(&lanes, now), watch.held_until(now)),
            (lanes.to_vec(), None),
            "the last claim had room"
        );
    }
}
