//! One lock for all runs of a worker, in place of a lock on each run whose attempts a batch records: that on the worker's row.
//!
//! A batch locks the rows of its process's workers until its commit. Who takes a running run away from a worker, the claim of a
//! lapsed lease or a termination, must lock that worker's row first and writes it, though it changes nothing: the row is another
//! version then. A claim passes the run over if it cannot have the lock. So a batch that has the row finds one of three things:
//!
//! * The row as it was when its statement began. Then what the statement saw of the runs is so until its commit: nobody took one
//!   before the lock, nobody can after it. This is what a lock on each run gives, without a WAL record and a write to the row for
//!   each, and without a statement of its own: locks, look and writes are one (`plain_batch.sql`). And what it saw is so for the
//!   batches after it, too, until one finds another version (`known_claims.rs`).
//! * Another version. Somebody took a run between the beginning of the statement and the lock. The batch changes nothing and goes
//!   the long way, which looks after it has locked (`lock_workers.sql`, then `read_claims.sql`).
//! * No row. The worker was taken for dead and forgotten. The batch locks its runs one by one.
//!
//! What follows from it:
//!
//! * A run whose worker has no row is anybody's. Who sees none although there is one, because it was recorded again after his
//!   statement had begun, would take a run without the lock. So for a while after that nobody relies on the row
//!   ([`RecordedAgain`]). A worker that is recorded for the first time holds no run yet.
//! * A transaction of a step locks its run as ever, and a claim skips what is locked.
//! * A worker that is stopped within a transaction of the long way keeps its runs from others until the server ends its session:
//!   `configure_writer.sql` says when.
//! * Claims wait for nothing. Batches and terminations lock workers, then runs, each in the order of their ids, and so does who
//!   forgets a worker. So nobody waits in a circle.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use uuid::Uuid;

use workflow_engine::model::WorkerId;

/// On the long way, fewer runs than this are locked one by one: the lock of a worker costs a statement, and a batch of one step has
/// nothing to share it with.
pub(super) const FEW: usize = 16;

/// So many workers of the process are remembered: each costs a lock a batch. The runs of those before are locked one by one.
const MEMORY: usize = 16;

/// Twice what a statement may take (`configure_session.sql`): all that began before the row was there have ended.
const UNPROVEN: Duration = Duration::from_secs(60);

/// The workers whose batches come through here: those that claimed here last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Workers {
    ids: Vec<WorkerId>,
    /// There are more than these.
    incomplete: bool,
}

impl Workers {
    /// A worker claims.
    pub(super) fn remember(&mut self, worker: WorkerId) {
        self.ids.retain(|known| *known != worker);
        self.ids.push(worker);
        if self.ids.len() > MEMORY {
            self.ids.remove(0);
            self.incomplete = true;
        }
    }

    /// Those of them on whose rows a batch may rely now.
    pub(super) fn proven(&self, again: &RecordedAgain, now: Instant) -> Self {
        let ids: Vec<WorkerId> = self.ids.iter().copied().filter(|worker| again.is_proven(*worker, now)).collect();
        Self { incomplete: self.incomplete || ids.len() < self.ids.len(), ids }
    }

    /// The workers.
    pub(super) fn ids(&self) -> &[WorkerId] {
        &self.ids
    }

    /// The same, as a statement takes them.
    pub(super) fn uuids(&self) -> Vec<Uuid> {
        self.ids.iter().map(|worker| worker.as_uuid()).collect()
    }

    /// Whether these are all workers that claimed here.
    pub(super) fn are_all(&self) -> bool {
        !self.ids.is_empty() && !self.incomplete
    }
}

/// The workers of this process that are recorded again after others had taken them for dead, and when.
#[derive(Clone, Debug, Default)]
pub(super) struct RecordedAgain(Arc<Mutex<HashMap<WorkerId, Instant>>>);

impl RecordedAgain {
    /// This worker will be, now: before anybody can see its row.
    pub(super) fn note(&self, worker: WorkerId) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(worker, Instant::now());
    }

    fn is_proven(&self, worker: WorkerId, now: Instant) -> bool {
        let mut again = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if again.get(&worker).is_some_and(|at| now.duration_since(*at) >= UNPROVEN) {
            again.remove(&worker);
        }
        !again.contains_key(&worker)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_row_of_a_worker_that_is_recorded_again_is_relied_on_once_older_statements_have_ended() {
        let (mut workers, again) = (Workers::default(), RecordedAgain::default());
        let (first, second) = (WorkerId::generate(), WorkerId::generate());
        workers.remember(first);
        workers.remember(second);
        assert!(workers.proven(&again, Instant::now()).are_all());
        again.note(first);
        for _ in 0..2 {
            let proven = workers.proven(&again, Instant::now());
            assert!(proven.ids() == [second] && !proven.are_all(), "{proven:?}");
        }
        let proven = workers.proven(&again, Instant::now() + UNPROVEN);
        assert!(proven.ids() == [first, second] && proven.are_all(), "{proven:?}");
    }

    #[test]
    fn the_workers_that_claimed_last_are_remembered() {
        let mut workers = Workers::default();
        let ids: Vec<WorkerId> = (0..=MEMORY).map(|_| WorkerId::generate()).collect();
        for worker in ids[..MEMORY].iter().chain(&ids[..1]) {
            workers.remember(*worker);
        }
        assert!(workers.are_all() && workers.ids().len() == MEMORY);
        workers.remember(ids[MEMORY]);
        assert!(!workers.are_all() && workers.ids().len() == MEMORY && workers.ids().contains(&ids[0]));
    }
}
