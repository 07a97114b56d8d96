//! Runs the armed compensations when a workflow function fails.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::Result;
use workflow_engine::model::{ErrorKind, Retry, StoredError, run_retry_delay};
use workflow_engine::replay::Interruption;

use super::RunCell;
use super::shield::Shield;
use workflow_engine::runtime::panic_error;

/// Runs the function and returns its result. If the function fails, its armed compensations run
/// first. A function that has received that its deadline passed has failed, whatever it returns.
///
/// # Errors
/// The function's error, with the errors of its compensations among the causes.
pub async fn run_compensations(
    cell: &Arc<RunCell>,
    retry: Option<Retry>,
    function: impl Future<Output = Result<String>>,
) -> Result<String> {
    // The function is dropped before the compensations begin, because its pending calls must not
    // continue beside them.
    let result = { CatchPanic(pin!(function)).await };
    let error = match result {
        Ok(output) => match passed_deadline(cell) {
            None => return Ok(output),
            Some(error) => error,
        },
        Err(error) if error.next_input().is_none() => error.into_stored(),
        Err(next) => match armed_at_continue(cell) {
            None => return Err(next),
            Some(refusal) => refusal,
        },
    };
    if will_retry(cell, retry, &error) {
        return Err(error.into());
    }
    if cell.with_compensations(|armed| !armed.is_empty()) {
        cell.begin_undo();
    }
    let failures = Shield::new(cell, compensate(cell)).await;
    Err(with_failures(error, failures).into())
}

/// Returns the error of a deadline that the function has received. A replay delivers the recorded
/// interruption at the same position, so it finds the same answer.
fn passed_deadline(cell: &RunCell) -> Option<StoredError> {
    let interrupted = cell.interrupted().filter(|it| it.delivered && it.by == Interruption::Deadline);
    interrupted.map(|it| it.by.error())
}

/// Returns the refusal if compensations are armed. The next generation does not know what they
/// would undo, so a run must not leave them behind.
fn armed_at_continue(cell: &RunCell) -> Option<StoredError> {
    let armed = cell.with_compensations(|armed| armed.len());
    let message = format!(
        "the run cannot continue as new: {armed} of its compensations are armed, and the next generation does not know them; \
         keep what ctx.compensate returns, and call its disarm() before ctx.continue_as_new"
    );
    (armed > 0).then(|| StoredError::new(ErrorKind::Refused, message).fatal())
}

/// Returns whether the run will be attempted again after this error. If so, nothing is undone yet.
/// A run that is being undone is not, even if its policy was changed since the undo began.
fn will_retry(cell: &RunCell, policy: Option<Retry>, error: &StoredError) -> bool {
    let settings = cell.settings();
    cell.interrupted().is_none()
        && !cell.has_begun_undo()
        && run_retry_delay(policy, settings.run_id, i64::from(settings.attempt), error).is_some()
}

/// Runs the armed compensations, the last first. Returns the errors of those that failed.
async fn compensate(cell: &Arc<RunCell>) -> Vec<StoredError> {
    let mut failures = Vec::new();
    while let Some(armed) = cell.with_compensations(Vec::pop) {
        if let Err(error) = armed.run(cell).await {
            failures.push(error.into_stored());
        }
    }
    failures
}

/// Adds the errors of failed compensations to the error of the run.
fn with_failures(error: StoredError, failures: Vec<StoredError>) -> StoredError {
    if failures.is_empty() {
        return error;
    }
    let mut error = match error.kind {
        ErrorKind::Canceled => StoredError::new(
            ErrorKind::Compensation,
            "the run was canceled, but not all of its compensations succeeded; look at their errors",
        ),
        _ => error,
    };
    error.causes.extend(failures.iter().map(|failure| format!("compensation failed: {failure}")));
    error
}

/// A future that returns its panic as an error. It is not polled again after a panic.
struct CatchPanic<'a, F>(Pin<&'a mut F>);

impl<F: Future<Output = Result<String>>> Future for CatchPanic<'_, F> {
    type Output = Result<String>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let future = &mut self.0;
        catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx)))
            .unwrap_or_else(|panic| Poll::Ready(Err(panic_error("the workflow", panic.as_ref()).into())))
    }
}
