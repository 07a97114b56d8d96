use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};

use crate::backend::{
    Backend, BackendError, BackendErrorKind, CancelOutcome, EndWrite, EndedRun, Outcome, PauseOutcome, RunEnd, Write,
};
use crate::failpoint::failpoint;
use crate::model::{RunId, SignalOutcome, StepKind};

use super::batch::{AfterFailure, after_failure, may_repeat};
use super::{Hub, Request};

/// The largest batch: bounds the memory of a statement and the time that one commit takes.
const MAX_BATCH: usize = 4096;

/// The most payload in one batch: far below what one statement of either database can take (1 GB).
const MAX_BATCH_BYTES: usize = 16 * 1024 * 1024;

/// How often the writer looks whether enough has come.
const LOOK: Duration = Duration::from_micros(50);

/// The loop of the executor. Owns the receiver, so its end is seen by every sender.
pub(super) async fn run(backend: Arc<dyn Backend>, mut receiver: mpsc::Receiver<Request>, hub: Arc<Hub>) {
    let mut requests = Vec::with_capacity(MAX_BATCH);
    let mut last = Commit::default();
    while receiver.recv_many(&mut requests, MAX_BATCH).await > 0 {
        gather(&mut receiver, &mut requests, last);
        let begun = Instant::now();
        let writes = requests.len();
        for batch in Batch::of_size(requests.drain(..)) {
            commit(backend.as_ref(), &hub, batch).await;
        }
        last = Commit { writes, took: begun.elapsed() };
    }
}

/// What the last commit was.
#[derive(Clone, Copy, Default)]
struct Commit {
    writes: usize,
    took: Duration,
}

/// Takes what those send who are about to: the answers to the last commit have just woken many drives, and to commit for the
/// first of them alone would make the others wait for two commits. Half of them is enough: while one half commits, the other
/// half runs. Nobody waits for more than half of what the last commit took, and a lone sender not at all.
///
/// The thread is the writer's own, so it may sleep; the runtime's timer is too coarse for this.
fn gather(receiver: &mut mpsc::Receiver<Request>, requests: &mut Vec<Request>, last: Commit) {
    let until = Instant::now() + last.took / 2;
    while requests.len() < last.writes / 2 && Instant::now() < until {
        std::thread::sleep(LOOK);
        while requests.len() < MAX_BATCH
            && let Ok(request) = receiver.try_recv()
        {
            requests.push(request);
        }
    }
}

#[derive(Default)]
struct Batch {
    writes: Vec<Write>,
    replies: Vec<oneshot::Sender<Outcome>>,
}

/// Commits a batch, in parts if it must be, in the order of its writes.
async fn commit(backend: &dyn Backend, hub: &Hub, batch: Batch) {
    let mut parts = VecDeque::from([batch]);
    while let Some(part) = parts.pop_front() {
        if let Some((first, second)) = commit_part(backend, hub, part).await {
            parts.push_front(second);
            parts.push_front(first);
        }
    }
}

/// Commits a batch and answers its senders; or gives back its halves, if one of its writes is bad.
async fn commit_part(backend: &dyn Backend, hub: &Hub, mut batch: Batch) -> Option<(Batch, Batch)> {
    let begun = Instant::now();
    let mut failures = 0;
    loop {
        tracing::trace!(writes = batch.writes.len(), "commit");
        failpoint("executor.before_commit");
        let error = match backend.commit(&batch.writes).await {
            Ok(outcomes) => {
                failpoint("executor.after_commit");
                announce(hub, &batch.writes, &outcomes);
                answer(batch, outcomes);
                return None;
            }
            Err(error) => error,
        };
        failures += 1;
        batch.give_up_claims(&error);
        match after_failure(&error, batch.writes.len(), failures, begun.elapsed(), fastrand::f64()) {
            AfterFailure::Again(delay) => {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    failures,
                    ?delay,
                    "commit failed, trying again"
                );
                tokio::time::sleep(delay).await;
            }
            AfterFailure::Split => return Some(batch.halves()),
            AfterFailure::GiveUp => {
                tracing::error!(error = &error as &dyn std::error::Error, writes = batch.writes.len(), "commit failed");
                batch.refuse_all(&error);
                return None;
            }
        }
        if batch.writes.is_empty() {
            return None;
        }
    }
}

impl Batch {
    /// The requests in as few batches as [`MAX_BATCH_BYTES`] allows, in their order.
    fn of_size(requests: impl Iterator<Item = Request>) -> Vec<Self> {
        let mut batches = vec![Self::default()];
        let mut bytes = 0;
        for Request { write, reply } in requests {
            bytes += write.payload_bytes();
            if bytes > MAX_BATCH_BYTES {
                bytes = write.payload_bytes();
                batches.push(Self::default());
            }
            if let Some(batch) = batches.last_mut() {
                batch.writes.push(write);
                batch.replies.push(reply);
            }
        }
        batches.retain(|batch| !batch.writes.is_empty());
        batches
    }

    fn halves(mut self) -> (Self, Self) {
        let middle = self.writes.len() / 2;
        let second = Self { writes: self.writes.split_off(middle), replies: self.replies.split_off(middle) };
        (self, second)
    }

    /// After a failure whose effect is unknown, claims are answered with it rather than repeated.
    fn give_up_claims(&mut self, error: &BackendError) {
        if !error.kind.is_transient() {
            return;
        }
        let pairs = std::mem::take(&mut self.writes).into_iter().zip(std::mem::take(&mut self.replies));
        for (write, reply) in pairs {
            if may_repeat(&write) {
                self.writes.push(write);
                self.replies.push(reply);
            } else {
                let _ = reply.send(refused(error));
            }
        }
    }

    fn refuse_all(self, error: &BackendError) {
        for reply in self.replies {
            let _ = reply.send(refused(error));
        }
    }
}

/// One error for several senders.
fn refused(error: &BackendError) -> Outcome {
    Outcome::Refused(BackendError::new(error.kind, error.operation, error.source.to_string()))
}

/// Makes a commit known to those who wait for due runs, ended runs, cancels and items of streams.
fn announce(hub: &Hub, writes: &[Write], outcomes: &[Outcome]) {
    let done = || writes.iter().zip(outcomes).filter(|(_, outcome)| !outcome.changed_nothing()).map(|(write, _)| write);
    if done().any(Write::makes_due) {
        hub.nudge();
    }
    // One hint for all that one commit did.
    match done().filter(|write| write.makes_due() || write.ends_runs() || emits(write).is_some()).count() {
        0 => {}
        changed => hub.hint_others(changed),
    }
    hub.emitted(done().filter_map(emits));
    for (write, outcome) in writes.iter().zip(outcomes) {
        match (write, outcome) {
            (Write::End(write), Outcome::Applied) => {
                hub.tell_ended(write.claim.run_id, || ended_run(write));
                if let Some(parent) = write.parent_run_id {
                    hub.woken(parent);
                }
            }
            (Write::Signal(signal), Outcome::Signaled(SignalOutcome::Accepted)) => hub.woken(signal.run_id),
            (Write::Cancel(run), Outcome::Canceled(CancelOutcome::Requested)) => hub.cancel_requested(*run),
            // Whatever the answer: it may be that of a commit whose first reply was lost.
            (Write::Terminate(run), _) => {
                hub.terminated(*run);
                hub.changed();
            }
            (Write::Cancel(_), _) => hub.changed(),
            (Write::Pause(run), Outcome::Paused(PauseOutcome::Requested)) => hub.pause_requested(*run),
            (Write::Expire { .. }, Outcome::Changed(1..)) => hub.changed(),
            _ => {}
        }
    }
}

/// The run to whose streams it appends.
fn emits(write: &Write) -> Option<RunId> {
    match write {
        Write::Attempt(write) if write.row.kind == StepKind::Emitted => Some(write.claim.run_id),
        _ => None,
    }
}

fn ended_run(write: &EndWrite) -> EndedRun {
    let (output, error) = match &write.end {
        RunEnd::Succeeded(output) => (Some(output.clone()), None),
        RunEnd::Failed(error) => (None, Some(error.clone())),
        RunEnd::Canceled => (None, None),
    };
    EndedRun { id: write.claim.run_id, status: write.end.status(), output, error }
}

/// Answers each sender. One that is gone wanted no answer.
fn answer(batch: Batch, outcomes: Vec<Outcome>) {
    let mut outcomes = outcomes.into_iter();
    for reply in batch.replies {
        let missing = || {
            Outcome::Refused(BackendError::new(BackendErrorKind::Other, "commit", "the backend gave too few outcomes"))
        };
        let _ = reply.send(outcomes.next().unwrap_or_else(missing));
    }
}
