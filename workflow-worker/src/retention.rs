//! Deletes ended runs that are older than the workers keep them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use tokio::time::Instant;
use workflow_engine::executor::ExecutorStopped;
use workflow_engine::model::{
    NameCondition, NamePattern, NameSubject, Retain, Retention, RunConditions, RunId, RunSummary, TimeSpan, Timestamp,
    WorkerId, check_name,
};
use workflow_engine::observe::Event;
use workflow_engine::store::{
    DeleteOutcome, DeleteWrite, Direction, Outcome, RunList, SCAN_BUDGET, WorkerRecord, Write, list_runs,
};
use workflow_sdk::{Client, DatabaseError, DatabaseErrorKind};

use crate::registry::Registry;
use crate::shared::Shared;
use crate::sweep::jittered;
use crate::{Worker, WorkerError};

/// When a worker first looks for old runs: a process that starts has more urgent work.
const FIRST: Duration = Duration::from_secs(5);

/// How often it looks after that, if a look is short.
const INTERVAL: Duration = Duration::from_secs(60);

/// How often it looks at least. A look reads the whole table if it holds runs that stay for ever.
const LONGEST_INTERVAL: Duration = Duration::from_secs(3600);

/// How often it looks on a store in this process, whose clock may jump over months.
const RARE_INTERVAL: Duration = Duration::from_secs(24 * 3600);

/// The number of old runs that one page has. After each page, the worker looks whether another
/// one deletes, or keeps runs longer.
const PAGE: u32 = 512;

/// How long the deletions of one batch may take. A batch of SQLite keeps all other writers waiting.
const SLICE: Duration = Duration::from_millis(5);

/// The worker rests for this many times the time that it has read or deleted, so that the load of
/// the database grows by a tenth.
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
    /// Returns the retention of each workflow.
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
    /// One of the living workers that declare a retention deletes. If workers declare different
    /// times for a workflow, the longest holds, and "for ever" is the longest. A child stays until
    /// its parent has received its result.
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
        let begun = Instant::now();
        if let Err(error) = sweep(&shared).await {
            tracing::warn!(error = &error as &dyn std::error::Error, "cannot delete old runs, trying again");
        }
        let pause = (begun.elapsed() * REST).clamp(INTERVAL, LONGEST_INTERVAL);
        interval = shared.pace(pause, RARE_INTERVAL);
    }
}

/// Looks once for old runs of every workflow, and deletes them.
async fn sweep(shared: &Shared) -> Result<(), DatabaseError> {
    let begun = Instant::now();
    let mut sweep = Sweep::new(&shared.client);
    let mut from = None;
    loop {
        // Read for each page, because another worker may have begun to delete, or may keep runs for
        // longer.
        let duty = read_duty(shared).await?;
        from = sweep.delete_page(&duty, from).await?;
        if from.is_none() {
            break;
        }
    }
    let (deleted, kept) = sweep.counts();
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
    if workers.iter().filter(|worker| declares(worker)).map(|worker| worker.id).min() != Some(own) {
        return Ok(Retention::default());
    }
    declared_by_living(workers).map(Retention::merged)
}

fn declares(worker: &WorkerRecord) -> bool {
    worker.live && worker.retention != Some(Retention::default())
}

/// Returns what the living workers declare.
///
/// # Errors
/// A worker whose declaration is not understood.
pub(crate) fn declared_by_living(workers: &[WorkerRecord]) -> Result<Vec<&Retention>, WorkerId> {
    let declaring = workers.iter().filter(|worker| declares(worker));
    declaring.map(|worker| worker.retention.as_ref().ok_or(worker.id)).collect()
}

/// One look for old runs.
pub(crate) struct Sweep<'c> {
    client: &'c Client,
    /// How many runs the next batch deletes.
    slice: usize,
    deleted: u64,
    kept: u64,
}

impl<'c> Sweep<'c> {
    pub(crate) fn new(client: &'c Client) -> Self {
        Self { client, slice: 1, deleted: 0, kept: 0 }
    }

    /// Returns how many runs were deleted, and how many were kept because something needs them.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.deleted, self.kept)
    }

    /// Deletes the old runs of the next page behind `from`, in the order of their starts. Returns
    /// where the next page begins; `None` after the last one.
    async fn delete_page(&mut self, duty: &Retention, from: Option<RunId>) -> Result<Option<RunId>, DatabaseError> {
        let store = self.client.store();
        let begun = Instant::now();
        let now = store.now().await?;
        let Some(list) = candidates(duty, from, now) else { return Ok(None) };
        let page = list_runs(&**store, &list).await?;
        rest_after(begun.elapsed()).await;
        self.delete(&old_runs(&page.runs, duty, now)).await?;
        Ok(page.next)
    }

    /// Deletes these runs in slices, unless they ended later than at these times.
    pub(crate) async fn delete(&mut self, mut old: &[(RunId, Timestamp)]) -> Result<(), DatabaseError> {
        while !old.is_empty() {
            let (slice, later) = old.split_at(self.slice.min(old.len()));
            old = later;
            let begun = Instant::now();
            self.delete_slice(slice).await?;
            let took = begun.elapsed();
            self.slice = next_slice(self.slice, took);
            rest_after(took).await;
        }
        Ok(())
    }

    /// Deletes these runs unless they ended later than at these times.
    async fn delete_slice(&mut self, slice: &[(RunId, Timestamp)]) -> Result<(), DatabaseError> {
        let mut pending = Vec::with_capacity(slice.len());
        for (run_id, before) in slice {
            let write = DeleteWrite { run_id: *run_id, ended_before: Some(*before) };
            let sent = self.client.executor().send(Write::Delete(write)).await;
            pending.push(sent.map_err(not_deleted)?);
        }
        for outcome in join_all(pending).await {
            match outcome {
                Ok(Outcome::Deleted(DeleteOutcome::Deleted(_))) => self.deleted += 1,
                // Another worker or a person has deleted it.
                Ok(Outcome::Deleted(DeleteOutcome::Unknown)) => {}
                Ok(Outcome::Refused(error)) => return Err(error),
                Ok(_) => self.kept += 1,
                Err(_) => return Err(not_deleted(ExecutorStopped)),
            }
        }
        Ok(())
    }
}

/// Returns the error of deletions that the executor has not committed, because it has ended.
fn not_deleted(stopped: ExecutorStopped) -> DatabaseError {
    DatabaseError::new(DatabaseErrorKind::Other, "delete old runs", stopped)
}

async fn rest_after(work: Duration) {
    tokio::time::sleep((work * REST).min(LONGEST_REST)).await;
}

/// Returns the list of the runs that may be old: those that the shortest retention lets go. `None`
/// if every run stays.
pub(crate) fn candidates(duty: &Retention, from: Option<RunId>, now: Timestamp) -> Option<RunList> {
    let limited = || duty.0.iter().flat_map(|(workflow, retain)| retain.limits().map(move |limit| (workflow, limit)));
    let shortest = limited().map(|(_, (_, after))| after).min()?;
    let mut names: Vec<&String> = limited().map(|(workflow, _)| workflow).collect();
    names.dedup();
    let pattern = |name: &String| NamePattern { text: name.clone(), is_prefix: false };
    let workflow = NameCondition { any_of: names.into_iter().map(pattern).collect(), none_of: Vec::new() };
    let before = TimeSpan { from: None, before: Some(now - shortest) };
    let statuses = limited().map(|(_, (status, _))| status).collect();
    // A run that ended before that time was also created before it.
    let conditions = RunConditions { statuses, workflow, ended: before, created: before, ..RunConditions::none() };
    Some(RunList { conditions, from, direction: Direction::Newer, limit: PAGE, budget: SCAN_BUDGET, now })
}

/// Returns those of these runs that are old, each with the time before which it has to have ended.
pub(crate) fn old_runs(runs: &[RunSummary], duty: &Retention, now: Timestamp) -> Vec<(RunId, Timestamp)> {
    let old = runs.iter().filter_map(|run| {
        let before = now - duty.0.get(&run.lane.workflow)?.limit(run.status)?;
        (run.completed_at? < before).then_some((run.id, before))
    });
    old.collect()
}

/// Returns how many runs the next batch deletes, after a batch of `slice` runs took `took`. The
/// number grows slowly, because one run may have a long history.
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
    fn a_run_is_old_after_the_time_of_its_workflow_and_end() {
        let now = Timestamp::from_micros(1_700_000_000_000_000);
        let declared = BTreeMap::from([
            ("checkout".to_owned(), Retain::forever().succeeded(2 * DAY).failed(3 * DAY)),
            ("audit".to_owned(), Retain::forever()),
            ("report".to_owned(), Retain::all(DAY)),
        ]);
        let duty = Retention(declared);
        let list = candidates(&duty, None, now).expect("some runs do not stay");
        let names: Vec<&str> = list.conditions.workflow.any_of.iter().map(|name| name.text.as_str()).collect();
        assert_eq!(names, ["checkout", "report"]);
        assert_eq!(list.conditions.ended.before, Some(now - DAY), "the shortest time");
        let none = Retention(BTreeMap::from([("audit".to_owned(), Retain::forever())]));
        assert!(candidates(&none, None, now).is_none());
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
