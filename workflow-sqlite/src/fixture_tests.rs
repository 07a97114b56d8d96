//! The fixture of this store's tests.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;
use std::time::Duration;

use tempfile::TempDir;

use workflow_engine::model::{
    AttemptStatus, Claim, Clock, KeyReuse, Lane, NewRun, Run, RunId, StartTime, StepAttempt, StepKind, Timestamp,
    WorkerId,
};
use workflow_engine::store::{
    AttemptWrite, ClaimRequest, ClaimedRun, EndWrite, Outcome, ParkWrite, RunEnd, Store, StoreOptions, Write,
};

use super::SqliteStore;

pub(super) const START: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);
pub(super) const LEASE: Duration = Duration::from_secs(30);

/// A store whose time stands still.
pub(super) struct Fixture {
    pub(super) store: SqliteStore,
    pub(super) clock: Clock,
    pub(super) directory: TempDir,
}

impl Fixture {
    pub(super) async fn file() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}", directory.path().join("runs.db").display());
        Self::open(&url, directory).await
    }

    pub(super) async fn memory() -> Self {
        Self::open("sqlite::memory:", tempfile::tempdir().unwrap()).await
    }

    /// On this file, which is in the directory.
    pub(super) async fn open(url: &str, directory: TempDir) -> Self {
        let clock = Clock::manual(START);
        let options = StoreOptions { clock: clock.clone(), ..StoreOptions::default() };
        Self { store: SqliteStore::open(url, options).await.unwrap(), clock, directory }
    }

    pub(super) async fn second_process(&self) -> SqliteStore {
        let url = format!("sqlite:{}", self.directory.path().join("runs.db").display());
        let options = StoreOptions { clock: self.clock.clone(), ..StoreOptions::default() };
        SqliteStore::open(&url, options).await.unwrap()
    }

    pub(super) async fn commit_one(&self, write: Write) -> Outcome {
        self.store.commit(&[write]).await.unwrap().remove(0)
    }

    pub(super) async fn start(&self) -> RunId {
        let run = new_run();
        let id = run.id;
        self.commit_one(Write::Start(run)).await;
        id
    }

    pub(super) async fn claim(&self, worker: WorkerId, limit: u32) -> Vec<ClaimedRun> {
        match self.commit_one(claim_write(worker, limit)).await {
            Outcome::Claimed(claimed) => claimed.runs,
            other => panic!("{other:?}"),
        }
    }

    pub(super) async fn started_and_claimed(&self) -> Claim {
        self.start().await;
        self.claim(WorkerId::generate(), 1).await.remove(0).claim
    }

    pub(super) async fn run(&self, id: RunId) -> Run {
        self.store.run(id).await.unwrap().unwrap()
    }
}

pub(super) fn lane() -> Lane {
    Lane { queue: "default".into(), workflow: "checkout".into(), version: "1".into() }
}

pub(super) fn new_run() -> NewRun {
    NewRun {
        gate: None,
        id: RunId::generate(),
        lane: lane(),
        input: "null".into(),
        key: None,
        key_reuse: KeyReuse::Never,
        single: None,
        priority: None,
        start: StartTime::Now,
        deadline: None,
        tags: BTreeMap::new(),
        parent: None,
        depth: 0,
        trace: None,
    }
}

pub(super) fn claim_write(worker: WorkerId, limit: u32) -> Write {
    Write::Claim(ClaimRequest {
        worker,
        lanes: vec![lane()],
        limited: Vec::new(),
        gated: Vec::new(),
        gates_first: Vec::new(),
        limit,
        lease: LEASE,
    })
}

pub(super) fn end_write(claim: Claim, output: &str) -> Write {
    Write::End(EndWrite {
        claim,
        parent_run_id: None,
        has_children: false,
        has_event_waits: false,
        end: RunEnd::Succeeded(output.into()),
    })
}

pub(super) fn park_write(claim: Claim, wakes: i64, until: Timestamp) -> Write {
    Write::Park(ParkWrite { claim, wakes, until, until_deadline: true, error: None, reset_crashes: true })
}

pub(super) fn attempt_write(claim: Claim, step_key: &str, status: AttemptStatus, output: Option<&str>) -> Write {
    let ended = status != AttemptStatus::Running;
    let row = StepAttempt {
        step_key: step_key.into(),
        attempt: 1,
        kind: StepKind::Step,
        status,
        position: ended.then_some(0),
        output: output.map(str::to_owned),
        error: None,
        epoch: claim.epoch,
        started_at: START,
        completed_at: ended.then_some(START),
    };
    Write::Attempt(AttemptWrite { claim, row, effect: workflow_engine::model::Effect::None })
}
