//! Workers, and the workflows that they serve.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use workflow_engine::model::{Lane, Retention, Timestamp, WorkerId};
use workflow_engine::store::{DatabaseError, Store, WorkerRecord};

use crate::Client;

use super::OperateError;
use super::counts::{AT_MOST, Count};
use super::queues::MOST_LANES;

/// A recorded worker. One that died stays recorded until another worker has taken its runs over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct WorkerView {
    /// The worker.
    pub id: WorkerId,
    /// When it began.
    pub started_at: Timestamp,
    /// `true` if it lives: its lock is held at this moment.
    pub live: bool,
    /// The lanes that it serves.
    pub lanes: Vec<Lane>,
    /// How long it keeps ended runs, per workflow. Empty: it deletes none. `None`: a later release
    /// declares it in a way that this one does not understand, so no worker deletes any.
    pub retention: Option<Retention>,
    /// The runs that it has claimed. Beside [`at_least`](Count::at_least), more runs are running
    /// than were looked at, and any of the others may be its own.
    pub runs: Count,
}

/// A workflow of which a run was ever started, or that a worker serves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct WorkflowView {
    /// The name.
    pub name: String,
    /// Its versions by queue, in the order of queue and version.
    pub versions: Vec<VersionView>,
}

/// One version of a workflow in one queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct VersionView {
    /// The queue.
    pub queue: String,
    /// The version.
    pub version: String,
    /// The live workers that serve it.
    pub workers: Vec<WorkerId>,
    /// `true` if a run of it may be claimed now. A run that a worker holds counts once its lease
    /// has ended.
    pub due: bool,
    /// `true` if a run may be claimed now, and no live worker serves it.
    pub unserved: bool,
}

/// See [`Operate::workers`](super::Operate::workers).
pub(super) async fn workers(client: &Client) -> Result<Vec<WorkerView>, OperateError> {
    let store = client.store();
    let records = client.read(store.workers()).await?;
    let held = client.read(store.held_runs(AT_MOST)).await?;
    let is_cut = held.runs >= AT_MOST;
    let runs: BTreeMap<WorkerId, u32> = held.by_worker.into_iter().collect();
    let view = |record: WorkerRecord| {
        let WorkerRecord { id, lanes, started_at, live, retention } = record;
        let runs = Count::of(runs.get(&id).copied().unwrap_or_default());
        WorkerView { id, started_at, live, lanes, retention, runs: Count { at_least: is_cut, ..runs } }
    };
    Ok(records.into_iter().map(view).collect())
}

/// Returns the known lanes that no live worker serves.
pub(super) async fn unserved_lanes(store: &dyn Store) -> Result<Vec<Lane>, DatabaseError> {
    let (workers, mut lanes) = (store.workers().await?, store.lanes(MOST_LANES).await?);
    lanes.retain(|lane| !workers.iter().any(|worker| worker.live && worker.lanes.contains(lane)));
    Ok(lanes)
}

/// See [`Operate::workflows`](super::Operate::workflows).
pub(super) async fn workflows(client: &Client) -> Result<Vec<WorkflowView>, OperateError> {
    let store = client.store();
    let workers = client.read(store.workers()).await?;
    let mut lanes: BTreeSet<Lane> = client.read(store.lanes(MOST_LANES)).await?.into_iter().collect();
    lanes.extend(workers.iter().filter(|worker| worker.live).flat_map(|worker| worker.lanes.iter().cloned()));
    let asked: Vec<Lane> = lanes.iter().cloned().collect();
    let due: BTreeSet<Lane> = client.read(store.due_lanes(&asked)).await?.into_iter().collect();
    Ok(views(lanes, &due, &workers))
}

fn views(lanes: BTreeSet<Lane>, due: &BTreeSet<Lane>, workers: &[WorkerRecord]) -> Vec<WorkflowView> {
    let mut workflows: BTreeMap<String, Vec<VersionView>> = BTreeMap::new();
    for lane in lanes {
        let serves = |worker: &&WorkerRecord| worker.live && worker.lanes.contains(&lane);
        let workers: Vec<WorkerId> = workers.iter().filter(serves).map(|worker| worker.id).collect();
        let due = due.contains(&lane);
        let unserved = due && workers.is_empty();
        let Lane { queue, workflow, version } = lane;
        workflows.entry(workflow).or_default().push(VersionView { queue, version, workers, due, unserved });
    }
    workflows.into_iter().map(|(name, versions)| WorkflowView { name, versions }).collect()
}
