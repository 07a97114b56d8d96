//! Deletes ended runs that are older than the workers keep them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use tokio::time::Instant;
use workflow_engine::model::{NameSubject, Retain, Retention, RunStatus, Timestamp, WorkerId, check_name};
use workflow_engine::observe::Event;
use workflow_engine::store::{DeleteOutcome, DeleteWrite, OldRun, OldRuns, Outcome, WorkerRecord, Write};
use workflow_sdk::DatabaseError;

use crate::registry::Registry;
use crate::shared::Shared;
use crate::sweep::jittered;
use crate::{Worker, WorkerError};

/// When a worker first looks for old runs: a process that starts has more urgent work.
const FIRST: Duration = Duration::from_secs(5);

/// How often it looks after that.
const INTERVAL: Duration = Duration::from_secs(60);

/// How often it looks on a store in this process, whose clock may jump over months.
const RARE_INTERVAL: Duration = Duration::from_secs(24 * 3600);

/// The number of runs that one query finds. After as many, the worker looks whether another one
/// deletes, or keeps runs longer.
const PAGE: u32 = 512;

/// How long the deletions of one batch may take. A batch of SQLite keeps all other writers waiting.
const SLICE: Duration = Duration::from_millis(5);

/// The worker rests for as many times as long as it has deleted, so that the load of the database
/// grows by a tenth.
const REST: u32 = 9;

/// The longest rest: a database that was away for a while is not left alone for minutes.
const LONGEST_REST: Duration = Duration::from_secs(1);

/// The most runs that one batch deletes.
const MOST: usize = 256;

/// How long ended runs stay, as the author declares it.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeclaredRetention {
    /// For the workflows that the worker registers.
    all: Option<Retain>,
    /// For single workflows.
    named: BTreeMap<String, Retain>,
}

impl DeclaredRetention {
    /// Returns what holds for each workflow.
    ///
    /// # Errors
    /// [`WorkerError::OutOfRange`] or [`WorkerError::Name`].
    pub(crate) fn resolve(self, registry: &Registry) -> Result<Retention, WorkerError> {
        let Self { all, named } = self;
        for workflow in named.keys() {
            check_name(NameSubject::Workflow, workflow)?;
        }
        if let Some(value) = all.iter().chain(named.values()).find_map(Retain::out_of_range) {
            let (option, shortest, longest) = ("retain", Retain::SHORTEST, Retain::LONGEST);
            return Err(WorkerError::OutOfRange { option, value, shortest, longest });
        }
        let registered = registry.names().filter_map(|name| Some((name.to_owned(), all?)));
        let mut retention: BTreeMap<String, Retain> = registered.collect();
        retention.extend(named);
        Ok(Retention(retention))
    }
}

impl<S> Worker<S> {
    /// Says how long ended runs of the workflows that this worker registers stay. Workers delete
    /// older ones in the background, with all that belongs to them: see
    /// [`Client::delete`](workflow_sdk::Client::delete). Default: for ever.
    ///
    /// Of the living workers that declare a retention, one deletes. If several declare different
    /// times for a workflow, the longest holds, and no time is the longest. A run that is still
    /// needed stays: a child whose parent has not received its result.
    ///
    /// # Errors
    /// [`Worker::run`] returns [`WorkerError::OutOfRange`] for a time outside of
    /// [`Retain::SHORTEST`] to [`Retain::LONGEST`].
    ///
    /// ```
    /// use std::time::Duration;
    /// use workflow_sdk::prelude::*;
    /// use workflow_worker::{Retain, Worker};
    ///
    /// const DAY: Duration = Duration::from_secs(24 * 3600);
    ///
    /// # #[workflow]
    /// # async fn checkout(ctx: &Ctx, order: u64) -> Result<()> { Ok(()) }
    /// # fn worker(client: Client) -> Worker<()> {
    /// Worker::new(client, ())
    ///     .register(checkout)
    ///     .retain(Retain::forever().succeeded(30 * DAY).failed(90 * DAY))
    /// # }
    /// ```
    pub fn retain(mut self, retain: Retain) -> Self {
        self.retention.all = Some(retain);
        self
    }

    /// Says how long ended runs of one workflow stay, in place of [`Worker::retain`]. The worker
    /// need not register the workflow, which may not exist any more.
    ///
    /// # Errors
    /// See [`Worker::retain`]; also [`WorkerError::Name`] for the name of the workflow.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use workflow_sdk::prelude::*;
    /// # use workflow_worker::{Retain, Worker};
    /// # const DAY: Duration = Duration::from_secs(24 * 3600);
    /// # fn worker(worker: Worker<()>) -> Worker<()> {
    /// worker.retain(Retain::all(30 * DAY)).retain_workflow("audit", Retain::forever())
    /// # }
    /// ```
    pub fn retain_workflow(mut self, workflow: impl Into<String>, retain: Retain) -> Self {
        self.retention.named.insert(workflow.into(), retain);
        self
    }
}

/// Deletes old runs, until the future is dropped. A worker that declares no retention does nothing.
pub(crate) async fn delete_old_runs(shared: Arc<Shared>) {
    if shared.retention.is_empty() {
        return std::future::pending().await;
    }
    let mut interval = FIRST;
    loop {
        tokio::time::sleep(jittered(interval)).await;
        interval = shared.pace(INTERVAL, RARE_INTERVAL);
        if let Err(error) = sweep(&shared).await {
            tracing::warn!(error = &error as &dyn std::error::Error, "cannot delete old runs, trying again");
        }
    }
}

/// Looks once for old runs of every workflow, and deletes them.
async fn sweep(shared: &Shared) -> Result<(), DatabaseError> {
    let begun = Instant::now();
    let mut sweep = Sweep { shared, slice: 1, deleted: 0, kept: 0 };
    for (workflow, retain) in read_duty(shared).await?.0 {
        for (status, limit) in retain.limits() {
            sweep.delete_all(&workflow, status, limit).await?;
        }
    }
    let Sweep { deleted, kept, .. } = sweep;
    if deleted > 0 {
        let duration = begun.elapsed();
        let worker = shared.id;
        shared.client.observers().event(&Event::OldRunsDeleted { worker, deleted, kept, duration });
    }
    Ok(())
}

/// Returns what this worker has to delete at the moment.
async fn read_duty(shared: &Shared) -> Result<Retention, DatabaseError> {
    let workers = shared.client.store().workers().await?;
    Ok(duty_of(shared.id, &workers).unwrap_or_else(|unreadable| {
        if shared.first_warning("an unreadable retention") {
            tracing::warn!(
                worker = %unreadable,
                "no old runs are deleted, because a worker of a later release keeps them in a way that this one does \
                 not understand"
            );
        }
        Retention::default()
    }))
}

/// Returns what this worker has to delete: nothing, unless it has the lowest id of the living
/// workers that declare a retention. This is a hint, because two workers that delete at once do no
/// harm.
///
/// # Errors
/// The worker whose declaration is not understood. Nothing may be deleted then.
fn duty_of(own: WorkerId, workers: &[WorkerRecord]) -> Result<Retention, WorkerId> {
    let declares = |worker: &&WorkerRecord| worker.live && worker.retention != Some(Retention::default());
    let declaring: Vec<&WorkerRecord> = workers.iter().filter(declares).collect();
    if declaring.iter().map(|worker| worker.id).min() != Some(own) {
        return Ok(Retention::default());
    }
    let declared: Vec<&Retention> =
        declaring.iter().map(|worker| worker.retention.as_ref().ok_or(worker.id)).collect::<Result<_, _>>()?;
    Ok(Retention::merged(declared))
}

/// One look for old runs.
struct Sweep<'s> {
    shared: &'s Shared,
    /// How many runs the next batch deletes.
    slice: usize,
    deleted: u64,
    kept: u64,
}

impl Sweep<'_> {
    /// Deletes the runs of a workflow that ended in this way longer ago than `limit`, the oldest
    /// first.
    async fn delete_all(
        &mut self,
        workflow: &str,
        status: RunStatus,
        mut limit: Duration,
    ) -> Result<(), DatabaseError> {
        let store = self.shared.client.store();
        let mut after: Option<OldRun> = None;
        loop {
            let before = store.next_due(&[]).await?.now - limit;
            let old = OldRuns { workflow: workflow.to_owned(), status, before, after, limit: PAGE };
            let page = store.old_runs(&old).await?;
            after = page.last().copied();
            self.delete_page(&page, before).await?;
            if page.len() < PAGE as usize {
                return Ok(());
            }
            // By now another worker may delete, or keep runs for longer.
            match read_duty(self.shared).await?.0.get(workflow).and_then(|retain| retain.limit(status)) {
                Some(current) => limit = current,
                None => return Ok(()),
            }
        }
    }

    /// Deletes these runs in slices, and rests after each.
    async fn delete_page(&mut self, page: &[OldRun], before: Timestamp) -> Result<(), DatabaseError> {
        let mut rest = page;
        while !rest.is_empty() {
            let (slice, later) = rest.split_at(self.slice.min(rest.len()));
            rest = later;
            let begun = Instant::now();
            self.delete_slice(slice, before).await?;
            let took = begun.elapsed();
            self.slice = next_slice(self.slice, took);
            tokio::time::sleep((took * REST).min(LONGEST_REST)).await;
        }
        Ok(())
    }

    async fn delete_slice(&mut self, slice: &[OldRun], before: Timestamp) -> Result<(), DatabaseError> {
        let mut pending = Vec::with_capacity(slice.len());
        for run in slice {
            let write = DeleteWrite { run_id: run.id, ended_before: Some(before) };
            // The worker ends with the executor.
            let Ok(sent) = self.shared.executor().send(Write::Delete(write)).await else {
                return std::future::pending().await;
            };
            pending.push(sent);
        }
        for outcome in join_all(pending).await {
            match outcome {
                Ok(Outcome::Deleted(DeleteOutcome::Deleted(_))) => self.deleted += 1,
                // Another worker or a person has deleted it.
                Ok(Outcome::Deleted(DeleteOutcome::Unknown)) => {}
                Ok(Outcome::Refused(error)) => return Err(error),
                _ => self.kept += 1,
            }
        }
        Ok(())
    }
}

/// Returns how many runs the next batch deletes after one of so many has taken this long. It grows
/// slowly, because one run may have a long history.
fn next_slice(slice: usize, took: Duration) -> usize {
    let next = if took > SLICE { slice / 2 } else { slice + slice.div_ceil(4) };
    next.clamp(1, MOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 3600);

    fn worker(id: WorkerId, live: bool, retention: Option<Retention>) -> WorkerRecord {
        WorkerRecord { id, lanes: Vec::new(), started_at: Timestamp::from_micros(1), live, retention }
    }

    fn all(after: Duration) -> Retention {
        Retention(BTreeMap::from([("checkout".to_owned(), Retain::all(after))]))
    }

    #[test]
    fn the_first_living_worker_with_a_retention_deletes_what_none_keeps() {
        let mut ids = [(); 5].map(|()| WorkerId::generate());
        ids.sort_unstable();
        let none = || Some(Retention::default());
        let workers = [
            worker(ids[0], true, none()),
            worker(ids[1], false, Some(all(DAY))),
            worker(ids[2], true, Some(all(DAY))),
            worker(ids[3], true, Some(all(2 * DAY))),
        ];
        let duty = |index: usize| duty_of(workers[index].id, &workers);
        assert_eq!(duty(2), Ok(all(2 * DAY)));
        for other in [0, 1, 3] {
            assert_eq!(duty(other), Ok(Retention::default()));
        }
        assert_eq!(duty_of(ids[4], &[]), Ok(Retention::default()), "it is not recorded");
        let later = [worker(ids[2], true, Some(all(DAY))), worker(ids[3], true, None)];
        assert_eq!(duty_of(later[0].id, &later), Err(later[1].id));
    }

    #[test]
    fn a_slice_grows_to_what_its_time_allows() {
        let (quick, slow) = (Duration::from_millis(1), Duration::from_millis(6));
        let grown = (0..40).fold(1, |slice, _| next_slice(slice, quick));
        assert_eq!(grown, MOST);
        assert_eq!(next_slice(grown, slow), MOST / 2);
        assert_eq!((next_slice(1, slow), next_slice(1, quick)), (1, 2));
    }
}
