//! One lock for all runs of a worker, in place of a lock on each run whose attempts a batch records.
//!
//! A batch holds the locks of its process's workers from its beginning to its end; who takes a running run away from a
//! worker, which is the claim of a lapsed lease alone, must get that worker's lock first, and passes the run over if it
//! cannot. So either the batch has the lock: then nobody takes a run of the worker before its commit. Or the taker has it:
//! then the batch waits for the taker's commit, and its fence, which is read by a later statement, sees the new epoch. That
//! is what a lock on the run gives, without a WAL record and a write to the row for each.
//!
//! * A terminated run loses its claim without this lock. An attempt that its worker records right beside that has no effect
//!   but its row, as if it had come right before: no replay reads it, for a canceled run is never revived.
//! * A transaction of a step locks its run as ever, and a claim skips what is locked.
//! * A worker that is stopped within a batch keeps its runs from others until the server ends its session:
//!   `configure_writer.sql` says when.
//! * Batches lock exclusively and takers try to share, so that takers do not hinder each other. A batch waits here before
//!   it holds anything else, in the order of the keys; a taker waits for nothing. So nobody waits in a circle.

use std::collections::BTreeSet;

use uuid::Uuid;

use crate::model::WorkerId;

use super::commit::BEGIN;

/// The first half of the lock's name, here and in `claim_runs.sql`; the second is the end of the worker's id. In the space of
/// two numbers: the liveness lock is in that of one. Two workers whose ids end alike wait for each other at times, no more.
const CLASS: i32 = 2_003_792_491;

/// On the long way, fewer runs than this are locked one by one: the lock of a worker costs a statement that is planned each time,
/// and a batch of one step has nothing to share it with.
pub(super) const FEW: usize = 16;

/// So many workers of the process are remembered. The runs of those before are locked one by one.
const MEMORY: usize = 4;

/// The workers whose batches come through here: those that claimed here last.
#[derive(Clone, Debug, Default)]
pub(super) struct Workers {
    ids: Vec<WorkerId>,
    /// There were more than are remembered.
    forgot: bool,
}

impl Workers {
    /// A worker claims.
    pub(super) fn remember(&mut self, worker: WorkerId) {
        self.ids.retain(|known| *known != worker);
        self.ids.push(worker);
        if self.ids.len() > MEMORY {
            self.ids.remove(0);
            self.forgot = true;
        }
    }

    /// The workers.
    pub(super) fn ids(&self) -> &[WorkerId] {
        &self.ids
    }

    /// The same, as a statement takes them.
    pub(super) fn uuids(&self) -> Vec<Uuid> {
        self.ids.iter().map(|worker| worker.as_uuid()).collect()
    }

    /// Whether no worker that claimed here was forgotten.
    pub(super) fn are_all(&self) -> bool {
        !self.ids.is_empty() && !self.forgot
    }

    /// Begins a transaction with their locks, in one round trip.
    pub(super) fn begin(&self) -> String {
        let keys: BTreeSet<i32> = self.ids.iter().map(|worker| key(*worker)).collect();
        let locks = keys.into_iter().map(|key| format!("; SELECT pg_advisory_xact_lock({CLASS}, {key})"));
        std::iter::once(BEGIN.to_owned()).chain(locks).collect()
    }
}

/// As `claim_runs.sql` makes it.
fn key(worker: WorkerId) -> i32 {
    let [.., a, b, c, d] = worker.as_uuid().into_bytes();
    i32::from_be_bytes([a, b, c, d])
}
