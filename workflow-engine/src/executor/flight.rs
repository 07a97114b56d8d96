//! A commit that is under way.

use std::future::{Ready, ready};
use std::sync::Arc;
use std::task::Poll;

use futures::future::{BoxFuture, Either};
use futures::poll;
use tokio::time::Instant;

use crate::faults::failpoint_error;
use crate::faults::planted;
use crate::store::{Answer, DatabaseError, Store};

use super::batch::Batch;

/// Ends when the database has answered. It must, before another commit is sent.
pub(super) type Flight = Either<Ready<Landed>, BoxFuture<'static, Landed>>;

/// A batch and what the database said to it.
pub(super) struct Landed {
    pub(super) batch: Batch,
    /// Before the database was asked.
    pub(super) begun: Instant,
    pub(super) answer: Result<Answer, DatabaseError>,
}

/// Sends a batch.
pub(super) async fn send(store: Arc<dyn Store>, mut batch: Batch) -> Flight {
    if planted("reply-before-commit") {
        batch.answer_unwritten();
    }
    let begun = Instant::now();
    let mut flight: BoxFuture<'static, Landed> = Box::pin(async move {
        let answer = commit(&*store, &mut batch).await;
        Landed { batch, begun, answer }
    });
    // The first poll sends it.
    match poll!(&mut flight) {
        Poll::Ready(landed) => Either::Left(ready(landed)),
        Poll::Pending => Either::Right(flight),
    }
}

async fn commit(store: &dyn Store, batch: &mut Batch) -> Result<Answer, DatabaseError> {
    let prepared = batch.prepared.take();
    tracing::trace!(writes = batch.writes.len(), prepared = prepared.is_some(), "commit");
    failpoint_error("executor.before_commit")?;
    let answer = match (prepared, store.preparer()) {
        (Some(prepared), Some(preparer)) => preparer.commit_prepared(&batch.writes, prepared).await?,
        _ => Answer::from(store.commit(&batch.writes).await?),
    };
    failpoint_error("executor.after_commit")?;
    Ok(answer)
}
