//! The lock on a worker's row, which stands for locks on the runs whose attempts a batch records.
//!
//! A batch locks the rows of its process's workers until its commit. Another transaction can take a
//! running run away from a worker: by the claim of a lapsed lease, or by a termination. It must
//! first lock that worker's row and write it. The write changes nothing, but it gives the row
//! another version. A claim passes the run over if it cannot have the lock. So a batch that wants
//! the row finds one of three states:
//!
//! * The row is as when the statement began. Then nothing that the statement saw of the runs
//!   changes until its commit. The batch applies its writes, and the fence cache keeps the claims.
//! * The row has another version. A run may have been taken between the beginning of the statement
//!   and the lock. The batch changes nothing and takes the slow path, which looks after it has
//!   locked (`lock_workers.sql`, then `read_claims.sql`).
//! * There is no row. The worker was taken for dead and forgotten. The batch takes the slow path,
//!   which locks the runs one by one.
//!
//! The lock saves a WAL record and a write to the row for each run, and a statement: lock, check
//! and writes are one (`parts.rs`). It also has these consequences:
//!
//! * Any transaction may take a run whose worker has no row. A transaction may see no row although
//!   there is one, because the worker was recorded again after the statement had begun. It would
//!   then take a run without the lock. So for a while after that, no batch relies on the row
//!   ([`RecordedAgain`]). A worker that is recorded for the first time holds no run yet.
//! * The transaction of a step locks its run, and a claim skips locked runs.
//! * If a process is stopped within a transaction of the slow path, its runs cannot be claimed
//!   until the server ends its session (`configure_writer.sql`).
//! * Claims wait for nothing. Batches, terminations and the removal of a dead worker lock workers,
//!   then runs, each in the order of their ids. So these transactions never wait in a circle.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use uuid::Uuid;

use workflow_engine::model::WorkerId;

/// The smallest number of runs for which the slow path locks their workers. Fewer runs are locked
/// one by one, because the lock of a worker costs a statement.
pub(super) const FEW: usize = 16;

/// The number of workers of the process that are remembered, because each costs a lock per batch.
/// Runs of other workers are locked one by one.
const MEMORY: usize = 16;

/// Twice the longest time of a statement (`configure_session.sql`): all statements that began
/// before the row existed have ended by then.
const UNPROVEN: Duration = Duration::from_secs(60);

/// The workers of this process: those that claimed through this store last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Workers {
    ids: Vec<WorkerId>,
    /// More workers have claimed than are remembered, or can be relied on.
    incomplete: bool,
}

impl Workers {
    /// Notes that this worker claims.
    pub(super) fn remember(&mut self, worker: WorkerId) {
        self.ids.retain(|known| *known != worker);
        self.ids.push(worker);
        if self.ids.len() > MEMORY {
            self.ids.remove(0);
            self.incomplete = true;
        }
    }

    /// Returns the workers on whose rows a batch may rely now.
    pub(super) fn proven(&self, again: &RecordedAgain, now: Instant) -> Self {
        let ids: Vec<WorkerId> = self.ids.iter().copied().filter(|worker| again.is_proven(*worker, now)).collect();
        Self { incomplete: self.incomplete || ids.len() < self.ids.len(), ids }
    }

    /// Returns the ids of the workers.
    pub(super) fn ids(&self) -> &[WorkerId] {
        &self.ids
    }

    /// Returns the ids as a statement takes them.
    pub(super) fn uuids(&self) -> Vec<Uuid> {
        self.ids.iter().map(|worker| worker.as_uuid()).collect()
    }

    /// Returns `true` if no worker that claimed through this store is missing.
    pub(super) fn are_all(&self) -> bool {
        !self.ids.is_empty() && !self.incomplete
    }
}

/// The workers of this process that were recorded again after another process had taken them for
/// dead, and when.
#[derive(Clone, Debug, Default)]
pub(super) struct RecordedAgain(Arc<Mutex<HashMap<WorkerId, Instant>>>);

impl RecordedAgain {
    /// Notes that this worker is recorded again, before any transaction can see its row.
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
    fn a_worker_that_is_recorded_again_is_relied_on_once_older_statements_have_ended() {
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
