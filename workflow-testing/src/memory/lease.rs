//! The lease session of a worker. It holds the worker's liveness lock until it ends.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use workflow_engine::model::{Claim, Lane, Retention, RunStatus, WorkerId};
use workflow_engine::store::{DatabaseError, LeaseSession, Renewed, WorkerLook};

use super::tables::Tables;
use super::{Handle, crashes, ownerless};

#[derive(Debug)]
struct Session {
    handle: Arc<Handle>,
    worker: WorkerId,
    lanes: Vec<Lane>,
    retention: Retention,
}

/// See [`Store::open_lease`](workflow_engine::store::Store::open_lease).
pub(super) fn open(
    handle: &Arc<Handle>,
    worker: WorkerId,
    lanes: &[Lane],
    retention: &Retention,
) -> Result<Box<dyn LeaseSession>, DatabaseError> {
    let database = handle.open("open a lease session")?;
    database.change(handle.number, |tables, now| {
        tables.workers.lock(worker);
        tables.workers.record(worker, (lanes, retention), now);
        Ok(())
    })?;
    Ok(Box::new(Session { handle: Arc::clone(handle), worker, lanes: lanes.to_vec(), retention: retention.clone() }))
}

#[async_trait]
impl LeaseSession for Session {
    async fn renew(&mut self, claims: &[Claim], lease: Duration) -> Result<Vec<Renewed>, DatabaseError> {
        let database = self.handle.open("renew claims")?;
        database.change(self.handle.number, |tables, now| {
            let renew = |claim: &Claim| renew(tables, *claim, now + lease);
            Ok(claims.iter().filter_map(renew).collect())
        })
    }

    async fn look(&mut self) -> Result<WorkerLook, DatabaseError> {
        let database = self.handle.open("find dead workers")?;
        database.change(self.handle.number, |tables, now| {
            let unlocked = tables.workers.unlocked();
            if !tables.workers.is_recorded(self.worker) {
                tracing::warn!(worker = %self.worker, "this worker was taken for dead; it records itself again");
                tables.workers.record(self.worker, (&self.lanes, &self.retention), now);
            }
            Ok(WorkerLook { unlocked, is_watcher: false })
        })
    }

    async fn release_worker(&mut self, worker: WorkerId) -> Result<u64, DatabaseError> {
        let database = self.handle.open("release a worker")?;
        database.change(self.handle.number, |tables, now| {
            if !tables.workers.is_recorded(worker) {
                return Ok(0);
            }
            let held = ownerless::ids(tables, |run| run.worker_id == Some(worker) && run.status == RunStatus::Running);
            for id in &held {
                crashes::count(tables, *id, now);
            }
            tables.workers.forget(worker);
            Ok(held.len() as u64)
        })
    }

    async fn close(self: Box<Self>) -> Result<(), DatabaseError> {
        let database = self.handle.open("close a lease session")?;
        database.change(self.handle.number, |tables, _| {
            tables.workers.forget(self.worker);
            Ok(())
        })
    }
}

fn renew(tables: &mut Tables, claim: Claim, until: workflow_engine::model::Timestamp) -> Option<Renewed> {
    let run = tables.run(claim.run_id)?;
    if run.epoch != claim.epoch || run.status != RunStatus::Running {
        return None;
    }
    tables.update(claim.run_id, |run| {
        run.available_at = until;
        Renewed {
            claim,
            cancel_requested: run.cancel_requested_at.is_some(),
            paused: run.paused_at.is_some(),
            wakes: run.wakes,
            is_extended: true,
        }
    })
}

/// Releases the lock with the session, as the end of a process does.
impl Drop for Session {
    fn drop(&mut self) {
        let unlock = |tables: &mut Tables, _| {
            tables.workers.unlock(self.worker);
            Ok(())
        };
        // This change cannot fail.
        drop(self.handle.database.change(self.handle.number, unlock));
    }
}
