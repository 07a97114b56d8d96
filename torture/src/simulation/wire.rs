//! The wire between one process and the database. Calls on it take time and fail, and a process
//! dies or stops in them.

use std::any::Any;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use fastrand::Rng;
use workflow_engine::forward_store;
use workflow_engine::model::{Claim, Lane, Retention, WorkerId};
use workflow_engine::store::{
    AttemptWrite, LeaseSession, Outcome, Renewed, StepCommit, StepTransaction, Store, StoreId, WorkerLook, Write,
};
use workflow_sdk::{DatabaseError, DatabaseErrorKind, RunId};

use super::case::{Fault, Planted};
use super::world::{Halt, World, short};

/// The wire of one process: a store in front of the shared one.
#[derive(Clone, Debug)]
pub(super) struct Wire {
    inner: Arc<dyn Store>,
    process: usize,
    world: Arc<World>,
    rng: Arc<Mutex<Rng>>,
}

impl Wire {
    /// Returns the wire of a process in one of its lives.
    pub(super) fn new(world: &Arc<World>, process: usize, life: u64) -> Self {
        let seed = world.case.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (process as u64 * 1000 + life);
        let rng = Arc::new(Mutex::new(Rng::with_seed(seed)));
        Self { inner: world.database.handle(), process, world: Arc::clone(world), rng }
    }

    /// Makes a call with its fault, if there is one. `note` describes the reply for the trace.
    async fn call<T>(
        &self,
        what: &'static str,
        call: impl Future<Output = Result<T, DatabaseError>> + Send,
        note: impl Fn(&T) -> Option<String> + Send,
    ) -> Result<T, DatabaseError>
    where
        T: Send,
    {
        self.die_if_dead().await;
        let fault = self.world.next_call(self.process);
        if let Some(fault) = fault {
            self.world.note(self.process, format_args!("{what}: {fault:?}"));
        }
        self.delay().await;
        match fault {
            Some(Fault::FailBefore | Fault::Partition(_)) => return Err(failure(what)),
            Some(Fault::Slow(millis)) => tokio::time::sleep(Duration::from_millis(millis)).await,
            Some(Fault::DieBefore) => self.halt(Halt::Died).await,
            Some(Fault::StopBefore(millis)) => self.halt(Halt::Stopped(millis)).await,
            Some(Fault::TakenForDead) => self.release().await,
            _ => {}
        }
        self.die_if_dead().await;
        let answer = call.await;
        if let Some(note) = answer.as_ref().ok().filter(|_| self.world.case.is_traced).and_then(note) {
            self.world.note(self.process, note);
        }
        match fault {
            Some(Fault::FailAfter) if answer.is_ok() => return Err(failure(what)),
            Some(Fault::LateReply(millis)) => tokio::time::sleep(Duration::from_millis(millis)).await,
            Some(Fault::DieAfter) => self.halt(Halt::Died).await,
            Some(Fault::StopAfter(millis)) => self.halt(Halt::Stopped(millis)).await,
            _ => {}
        }
        self.delay().await;
        answer
    }

    async fn around<T: Send>(
        &self,
        name: &'static str,
        call: impl Future<Output = Result<T, DatabaseError>> + Send,
    ) -> Result<T, DatabaseError> {
        self.call(name, call, quiet).await
    }

    /// Yields to other tasks, and sometimes waits some milliseconds.
    async fn delay(&self) {
        let (yields, millis) = {
            let mut rng = self.rng.lock().expect("rng");
            (rng.u32(..3), if rng.u8(..4) == 0 { rng.u64(1..=4) } else { 0 })
        };
        for _ in 0..yields {
            tokio::task::yield_now().await;
        }
        if millis > 0 {
            tokio::time::sleep(Duration::from_millis(millis)).await;
        }
    }

    async fn halt(&self, halt: Halt) {
        self.world.halt(self.process, halt);
        self.die_if_dead().await;
        // The turn ends here; the rest of the call happens in the next turn.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }

    async fn die_if_dead(&self) {
        if self.world.is_dead(self.process) {
            std::future::pending::<()>().await;
        }
    }

    /// Releases the claims of this process, as another worker would that takes it for dead.
    async fn release(&self) {
        let Some(worker) = self.world.worker(self.process) else { return };
        let session =
            self.world.auditor.open_lease(WorkerId::from(uuid::Uuid::nil()), &[], &Retention::default()).await;
        let mut session = session.expect("the auditor opens a session");
        let claims = session.release_worker(worker).await.expect("the auditor releases");
        self.world.note(self.process, format_args!("is taken for dead: {claims} claims are released"));
        session.close().await.expect("the auditor closes its session");
    }

    async fn commit_audited(&self, writes: &[Write]) -> Result<Vec<Outcome>, DatabaseError> {
        let planted = match self.world.case.planted {
            None => None,
            Some(planted) => Some(self.plant(planted, writes).await),
        };
        let outcomes = self.inner.commit(planted.as_deref().unwrap_or(writes)).await?;
        let mut runs: Vec<RunId> = writes.iter().filter_map(run_of).collect();
        for outcome in &outcomes {
            if let Outcome::Claimed(claimed) = outcome {
                runs.extend(claimed.runs.iter().map(|run| run.claim.run_id));
            }
        }
        runs.sort_unstable();
        runs.dedup();
        self.world.audit(&runs).await;
        Ok(outcomes)
    }

    async fn plant(&self, planted: Planted, writes: &[Write]) -> Vec<Write> {
        let mut changed = Vec::new();
        for write in writes {
            let mut write = write.clone();
            match (planted, &mut write) {
                (Planted::NoFence, write) => {
                    if let Some(claim) = claim_of(write)
                        && let Ok(Some(run)) = self.inner.run(claim.run_id).await
                    {
                        claim.epoch = run.epoch;
                    }
                }
                (Planted::LostRow, Write::Attempt(attempt))
                    if attempt.row.position.is_some() && self.rng.lock().expect("rng").u8(..8) == 0 =>
                {
                    attempt.row.position = None;
                    attempt.row.status = workflow_sdk::AttemptStatus::Running;
                }
                (Planted::SignalTwice, Write::Signal(signal)) => {
                    let key = workflow_engine::model::SignalKey::generate();
                    let twice = Write::Signal(workflow_engine::model::NewSignal { key, ..signal.clone() });
                    let _ = self.inner.commit(&[twice]).await;
                }
                _ => {}
            }
            changed.push(write);
        }
        changed
    }
}

fn failure(operation: &'static str) -> DatabaseError {
    DatabaseError::new(DatabaseErrorKind::Unreachable, operation, "a fault of the simulation")
}

fn claim_of(write: &mut Write) -> Option<&mut Claim> {
    match write {
        Write::Attempt(write) => Some(&mut write.claim),
        Write::End(write) => Some(&mut write.claim),
        Write::Park(write) => Some(&mut write.claim),
        Write::Retry(write) => Some(&mut write.claim),
        Write::Continue(write) => Some(&mut write.claim),
        _ => None,
    }
}

fn run_of(write: &Write) -> Option<RunId> {
    match write {
        Write::Start(run) => Some(run.id),
        Write::Signal(signal) => Some(signal.run_id),
        Write::Cancel(id) => Some(*id),
        other => claim_of(&mut other.clone()).map(|claim| claim.run_id),
    }
}

/// Describes a batch and its outcomes for the trace.
fn show(writes: &[Write], outcomes: &[Outcome]) -> Option<String> {
    let shown = writes.iter().zip(outcomes).filter_map(|(write, outcome)| show_one(write, outcome));
    let shown: Vec<String> = shown.collect();
    (!shown.is_empty()).then(|| format!("commit: {}", shown.join("; ")))
}

fn show_one(write: &Write, outcome: &Outcome) -> Option<String> {
    let of = |claim: &Claim| format!("{} epoch {}", short(claim.run_id), claim.epoch);
    let what = match write {
        Write::Start(run) => format!("start {}", short(run.id)),
        Write::Attempt(write) => {
            let row = &write.row;
            let at = row.position.map_or(String::new(), |position| format!(" at {position}"));
            let (key, attempt, status) = (&row.step_key, row.attempt, row.status);
            format!("{} {key} attempt {attempt} {status}{at}", of(&write.claim))
        }
        Write::End(write) => format!("end {} {:?}", of(&write.claim), write.end.status()),
        Write::Park(write) => format!("park {} wakes {}", of(&write.claim), write.wakes),
        Write::Continue(write) => format!("continue {}", of(&write.claim)),
        Write::Signal(signal) => format!("signal {} to {}", signal.payload, short(signal.run_id)),
        Write::Emit(emission) => format!("emit {}", emission.event.name),
        Write::Cancel(id) => format!("cancel {}", short(*id)),
        Write::Claim(_) => match outcome {
            Outcome::Claimed(claimed) if claimed.runs.is_empty() => return None,
            Outcome::Claimed(claimed) => {
                let claims: Vec<String> = claimed.runs.iter().map(|run| of(&run.claim)).collect();
                return Some(format!("claim {}", claims.join(", ")));
            }
            _ => "claim".to_owned(),
        },
        Write::ReleaseUnknown { known, .. } => format!("release all claims but {}", known.len()),
        _ => return None,
    };
    Some(format!("{what}: {outcome:?}"))
}

fn quiet<T>(_: &T) -> Option<String> {
    None
}

forward_store! {
    Wire {
        async fn commit(&self, writes: &[Write]) -> Result<Vec<Outcome>, DatabaseError> {
            self.call("commit", self.commit_audited(writes), |outcomes: &Vec<Outcome>| show(writes, outcomes)).await
        }

        async fn begin(&self, claim: Claim) -> Result<Option<Box<dyn StepTransaction>>, DatabaseError> {
            let opened = self.call("begin", self.inner.begin(claim), quiet).await?;
            Ok(opened.map(|inner| {
                Box::new(WiredTransaction { inner, wire: self.clone(), run: claim.run_id }) as Box<dyn StepTransaction>
            }))
        }

        async fn open_lease(
            &self,
            worker: WorkerId,
            lanes: &[Lane],
            retention: &Retention,
        ) -> Result<Box<dyn LeaseSession>, DatabaseError> {
            self.world.set_worker(self.process, worker);
            let inner = self.call("open a lease", self.inner.open_lease(worker, lanes, retention), quiet).await?;
            Ok(Box::new(WiredSession { inner, wire: self.clone() }))
        }

        fn in_process(&self) -> bool {
            true
        }
    }
}

#[derive(Debug)]
struct WiredSession {
    inner: Box<dyn LeaseSession>,
    wire: Wire,
}

#[async_trait]
impl LeaseSession for WiredSession {
    async fn renew(&mut self, claims: &[Claim], lease: Duration) -> Result<Vec<Renewed>, DatabaseError> {
        let asked = claims.len();
        let note = |renewed: &Vec<Renewed>| Some(format!("renewed {} of {asked} claims", renewed.len()));
        self.wire.call("renew", self.inner.renew(claims, lease), note).await
    }

    async fn look(&mut self) -> Result<WorkerLook, DatabaseError> {
        self.wire.call("look at workers", self.inner.look(), quiet).await
    }

    async fn release_worker(&mut self, worker: WorkerId) -> Result<u64, DatabaseError> {
        self.wire.call("release a worker", self.inner.release_worker(worker), quiet).await
    }

    async fn close(self: Box<Self>) -> Result<(), DatabaseError> {
        self.wire.call("close the lease", self.inner.close(), quiet).await
    }
}

#[derive(Debug)]
struct WiredTransaction {
    inner: Box<dyn StepTransaction>,
    wire: Wire,
    run: RunId,
}

#[async_trait]
impl StepTransaction for WiredTransaction {
    fn connection(&mut self) -> &mut (dyn Any + Send) {
        self.inner.connection()
    }

    fn database(&self) -> &'static str {
        self.inner.database()
    }

    fn store(&self) -> StoreId {
        self.inner.store()
    }

    async fn commit(self: Box<Self>, outcome: AttemptWrite) -> StepCommit {
        let Self { inner, wire, run } = *self;
        let shown = format!("{} epoch {} {}", short(run), outcome.claim.epoch, outcome.row.step_key);
        let commit = async {
            let commit = inner.commit(outcome).await;
            wire.world.audit(&[run]).await;
            Ok(commit)
        };
        let note = |commit: &StepCommit| Some(format!("transaction of {shown}: {commit:?}"));
        wire.call("commit a transaction", commit, note).await.unwrap_or_else(StepCommit::Unknown)
    }

    async fn roll_back(self: Box<Self>) {
        self.inner.roll_back().await;
    }
}
