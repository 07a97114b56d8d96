//! The end of a workflow function, and what its failure undoes.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::Result;
use workflow_engine::model::{ErrorKind, Retry, StoredError, run_retry_delay};

use super::RunCell;
use super::shield::Shield;
use workflow_engine::runtime::panic_error;

/// The function's result, once its compensations have run, if it failed.
///
/// # Errors
/// The function's, with those of its compensations among the causes.
pub async fn run_compensations(
    cell: &Arc<RunCell>,
    retry: Option<Retry>,
    function: impl Future<Output = Result<String>>,
) -> Result<String> {
    // The function is dropped before they begin: what it left pending must not go on beside them.
    let result = { CatchPanic(pin!(function)).await };
    let error = match result {
        Ok(output) => return Ok(output),
        Err(error) if error.next_input().is_none() => error.into_stored(),
        Err(next) => match armed_at_continue(cell) {
            None => return Err(next),
            Some(refusal) => refusal,
        },
    };
    if will_retry(cell, retry, &error) {
        return Err(error.into());
    }
    let failures = Shield::new(cell, compensate(cell)).await;
    Err(with_failures(error, failures).into())
}

/// What armed compensations would undo is not known to the next generation, so a run does not leave them behind.
fn armed_at_continue(cell: &RunCell) -> Option<StoredError> {
    let armed = cell.with_compensations(|armed| armed.len());
    let message = format!(
        "the run cannot continue as new: {armed} of its compensations are armed, and the next generation does not know them; \
         disarm them first"
    );
    (armed > 0).then(|| StoredError::new(ErrorKind::Refused, message).fatal())
}

/// Whether the run will be attempted again after this error: then nothing is undone yet.
fn will_retry(cell: &RunCell, policy: Option<Retry>, error: &StoredError) -> bool {
    let settings = cell.settings();
    cell.interrupted().is_none()
        && run_retry_delay(policy, settings.run_id, i64::from(settings.attempt), error).is_some()
}

/// Runs the armed compensations, the last first. Gives the errors of those that failed.
async fn compensate(cell: &Arc<RunCell>) -> Vec<StoredError> {
    let mut failures = Vec::new();
    while let Some(armed) = cell.with_compensations(Vec::pop) {
        if let Err(error) = armed.run(cell).await {
            failures.push(error.into_stored());
        }
    }
    failures
}

/// The error of a run some of whose compensations failed.
fn with_failures(error: StoredError, failures: Vec<StoredError>) -> StoredError {
    if failures.is_empty() {
        return error;
    }
    let mut error = match error.kind {
        ErrorKind::Canceled => StoredError::new(
            ErrorKind::Compensation,
            "the run was canceled, but not all that it had done could be undone; look at its compensations",
        ),
        _ => error,
    };
    error.causes.extend(failures.iter().map(|failure| format!("compensation failed: {failure}")));
    error
}

/// A future whose panic is its error. It is not polled again after one.
struct CatchPanic<'a, F>(Pin<&'a mut F>);

impl<F: Future<Output = Result<String>>> Future for CatchPanic<'_, F> {
    type Output = Result<String>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let future = &mut self.0;
        catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx)))
            .unwrap_or_else(|panic| Poll::Ready(Err(panic_error("the workflow", panic.as_ref()).into())))
    }
}
