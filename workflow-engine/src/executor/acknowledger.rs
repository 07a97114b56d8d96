//! Makes commits known and answers their senders, on the runtime of the tasks that wait for them,
//! while the pipeline is busy with the next batch.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

use crate::faults::failpoint;
use crate::model::{Effect, RunId, SignalOutcome, StartTime, StepKind};
use crate::store::{
    BulkWrite, CancelOutcome, DatabaseError, DatabaseErrorKind, EndWrite, EndedRun, Outcome, PauseOutcome, RunEnd,
    StartOutcome, Write,
};

use super::batch::MANY;
use super::events::Reporter;
use super::in_flight::Completed;
use super::notifier::Notifier;
use super::quiescence::Quiescence;
use super::request::{Reply, Request};

/// The shortest time between two hints for which answers wait.
const URGENT_PAUSE: Duration = Duration::from_millis(50);

/// How long answers wait for a hint.
const URGENT_PATIENCE: Duration = Duration::from_millis(100);

/// Acknowledges commits in their order, until the pipeline has ended. After a commit of many
/// writes, waits until their senders have sent again, and tells the pipeline.
pub(super) async fn run(
    mut completed: mpsc::UnboundedReceiver<Completed>,
    notifier: Arc<Notifier>,
    reporter: Reporter,
    quiescence: Option<Quiescence<Request>>,
) {
    let mut hinted_at: Option<Instant> = None;
    while let Some(commit) = completed.recv().await {
        failpoint("executor.before_answer");
        announce(&notifier, &commit.writes, &commit.outcomes);
        reporter.report(&commit);
        let Completed { writes, replies, outcomes, begun, .. } = commit;
        let may_hint = hinted_at.is_none_or(|at| at.elapsed() >= URGENT_PAUSE);
        if may_hint && writes.iter().zip(&outcomes).any(|(write, outcome)| asks_worker(write, outcome)) {
            // A command may end its process once it is answered, and its cancel would reach the
            // worker of the run as late as the next renewal of the lease. The hint has a task of
            // its own, because a query that is dropped costs its connection.
            let notifier = Arc::clone(&notifier);
            let hint = tokio::spawn(async move { notifier.hint_now().await });
            let _ = timeout(URGENT_PATIENCE, hint).await;
            hinted_at = Some(Instant::now());
        }
        answer(replies, outcomes, begun);
        let is_large = writes.len() >= MANY;
        drop(writes);
        if let Some(quiescence) = quiescence.as_ref().filter(|_| is_large) {
            quiescence.wait_and_notify(|| !completed.is_empty()).await;
        }
    }
}

/// Notifies the tasks that wait for ended runs, cancels and items of streams. Due runs are not
/// announced: a worker that waits for them has a pending claim.
fn announce(notifier: &Notifier, writes: &[Write], outcomes: &[Outcome]) {
    hint(notifier, writes, outcomes);
    writes.iter().zip(outcomes).for_each(|(write, outcome)| announce_one(notifier, write, outcome));
    notifier.notify_committed();
}

fn hint(notifier: &Notifier, writes: &[Write], outcomes: &[Outcome]) {
    let done = || writes.iter().zip(outcomes).filter(|(_, outcome)| !outcome.changed_nothing()).map(|(write, _)| write);
    // One hint for everything that one commit changed.
    match done()
        .filter(|write| write.makes_due() || write.ends_runs() || emits(write).is_some() || is_for_workers(write))
        .count()
    {
        0 => {}
        changed => notifier.hint_others(changed),
    }
    if done().any(may_make_due_later) {
        notifier.notify_later();
    }
    notifier.notify_emitted(done().filter_map(emits));
}

fn announce_one(notifier: &Notifier, write: &Write, outcome: &Outcome) {
    match (write.inner(), outcome) {
        (Write::End(write), Outcome::Applied) => {
            notifier.notify_ended(write.claim.run_id, || ended_run(write));
            if let Some(parent) = write.parent_run_id {
                notifier.notify_woken(parent);
            }
            if write.has_children {
                notifier.notify_unannounced();
            }
        }
        (Write::Signal(signal), Outcome::Signaled(SignalOutcome::Accepted)) => {
            notifier.notify_woken(signal.run_id);
        }
        (Write::Emit(_), Outcome::Emitted(emitted)) => {
            emitted.woken.iter().for_each(|run| notifier.notify_woken(*run));
        }
        (Write::CallSeats(_), Outcome::Called(called)) => called.iter().for_each(|run| notifier.notify_woken(*run)),
        (Write::Cancel(run), Outcome::Canceled(CancelOutcome::Requested)) => {
            notifier.notify_cancel_requested(*run);
        }
        // Whatever the outcome is: a commit whose reply was lost may have terminated the run.
        (Write::Terminate(run), _) => {
            notifier.notify_terminated(*run);
            notifier.notify_changed();
        }
        // Whatever the outcome is: a commit whose reply was lost may have deleted the run.
        (Write::Delete(write), Outcome::Deleted(outcome)) if !outcome.changed_nothing() => {
            notifier.notify_missing(write.run_id);
        }
        (Write::Cancel(_), _) => notifier.notify_changed(),
        (Write::Start(_), Outcome::Started(StartOutcome::Replaced { id })) => {
            notifier.notify_cancel_requested(*id);
            notifier.notify_changed();
        }
        (Write::Schedule(_), Outcome::Applied | Outcome::Duplicate) => notifier.notify_schedules(),
        (Write::Pause(run), Outcome::Paused(PauseOutcome::Requested)) => notifier.notify_paused(*run),
        (Write::Bulk(write), Outcome::Advanced(outcomes)) => {
            write.writes().zip(outcomes).for_each(|(write, outcome)| announce_one(notifier, write, outcome));
        }
        (Write::Bulk(_), Outcome::Applied | Outcome::Duplicate) => notifier.notify_bulks(),
        (Write::Expire { .. }, Outcome::Changed(1..)) => notifier.notify_changed(),
        _ => {}
    }
}

/// Returns `true` if the worker of a run has to do what the write asks for.
fn asks_worker(write: &Write, outcome: &Outcome) -> bool {
    matches!(
        (write.inner(), outcome),
        (Write::Cancel(_), Outcome::Canceled(CancelOutcome::Requested))
            | (Write::Pause(_), Outcome::Paused(PauseOutcome::Requested))
    )
}

/// Returns `true` if workers look for what the write changes.
fn is_for_workers(write: &Write) -> bool {
    match write.inner() {
        Write::Schedule(_) | Write::Pause(_) => true,
        Write::Bulk(write) => matches!(**write, BulkWrite::Order(_)) || write.writes().any(is_for_workers),
        _ => false,
    }
}

/// Returns `true` if a run may become due after this write that it does not make due at once.
fn may_make_due_later(write: &Write) -> bool {
    match write {
        Write::Start(run) => run.start != StartTime::Now || run.single.is_some(),
        Write::Attempt(write) => matches!(write.effect, Effect::Start(_)),
        Write::End(write) => write.has_family(),
        Write::Signal(_) | Write::Claim(_) | Write::Statistics(_) | Write::Crashes(_) => false,
        _ => true,
    }
}

/// Returns the run to whose stream the write appends an item.
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

/// Answers each sender.
fn answer(replies: Vec<Reply>, outcomes: Vec<Outcome>, begun: Instant) {
    let mut outcomes = outcomes.into_iter();
    for reply in replies {
        let missing = || {
            Outcome::Refused(DatabaseError::new(DatabaseErrorKind::Other, "commit", "the store gave too few outcomes"))
        };
        reply.send(outcomes.next().unwrap_or_else(missing), begun);
    }
}
