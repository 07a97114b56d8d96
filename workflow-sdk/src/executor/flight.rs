//! A commit that is under way.

use std::future::{Ready, ready};
use std::sync::Arc;
use std::task::Poll;

use futures::future::{BoxFuture, Either};
use futures::poll;
use tokio::time::Instant;

use crate::backend::{Answer, Backend, BackendError};
use crate::failpoint::failpoint_error;
use crate::planted::planted;

use super::batch::Batch;

/// Ends when the database has answered. It must, before another commit is sent.
pub(super) type Flight = Either<Ready<Landed>, BoxFuture<'static, Landed>>;

/// A batch and what the database said to it.
pub(super) struct Landed {
    pub(super) batch: Batch,
    /// Before the database was asked.
    pub(super) begun: Instant,
    pub(super) answer: Result<Answer, BackendError>,
}

/// Sends a batch.
pub(super) async fn send(backend: Arc<dyn Backend>, mut batch: Batch) -> Flight {
    if planted("reply-before-commit") {
        batch.answer_unwritten();
    }
    let begun = Instant::now();
    let mut flight: BoxFuture<'static, Landed> = Box::pin(async move {
        let answer = commit(&*backend, &mut batch).await;
        Landed { batch, begun, answer }
    });
    // The first poll sends it.
    match poll!(&mut flight) {
        Poll::Ready(landed) => Either::Left(ready(landed)),
        Poll::Pending => Either::Right(flight),
    }
}

async fn commit(backend: &dyn Backend, batch: &mut Batch) -> Result<Answer, BackendError> {
    let prepared = batch.prepared.take();
    tracing::trace!(writes = batch.writes.len(), prepared = prepared.is_some(), "commit");
    failpoint_error("executor.before_commit")?;
    let answer = match (prepared, backend.preparer()) {
        (Some(prepared), Some(preparer)) => preparer.commit_prepared(&batch.writes, prepared).await?,
        _ => Answer::from(backend.commit(&batch.writes).await?),
    };
    failpoint_error("executor.after_commit")?;
    Ok(answer)
}
