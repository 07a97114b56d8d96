use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{Notify, OnceCell, oneshot};

use crate::backend::{Backend, BackendError, EndedRun};
use crate::executor::{ExecutorStopped, Hub};
use crate::model::RunId;

use super::ClientError;

/// How long a wait can last after the end of its run if every notification of it was lost.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// All waits for results in this process: one task asks for all of their runs with one query.
pub(super) struct ResultWatch {
    backend: Arc<dyn Backend>,
    hub: Arc<Hub>,
    waiting: Mutex<HashMap<RunId, Vec<oneshot::Sender<EndedRun>>>>,
    added: Notify,
    task: OnceCell<()>,
}

impl ResultWatch {
    pub(super) fn new(backend: Arc<dyn Backend>, hub: Arc<Hub>) -> Arc<Self> {
        let (waiting, added, task) = (Mutex::default(), Notify::new(), OnceCell::new());
        Arc::new(Self { backend, hub, waiting, added, task })
    }

    /// Waits until this run has ended.
    pub(super) async fn wait(self: &Arc<Self>, id: RunId) -> Result<EndedRun, ClientError> {
        let (sender, ended) = oneshot::channel();
        self.waiting().entry(id).or_default().push(sender);
        self.start_task().await;
        self.added.notify_one();
        Ok(ended.await.map_err(|_| ExecutorStopped)?)
    }

    async fn start_task(self: &Arc<Self>) {
        self.hub.listen().await;
        let start = async || {
            tokio::spawn(watch(Arc::downgrade(self), self.hub.changes()));
        };
        self.task.get_or_init(start).await;
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<RunId, Vec<oneshot::Sender<EndedRun>>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The runs that somebody still waits for.
    fn wanted(&self) -> Vec<RunId> {
        let mut waiting = self.waiting();
        waiting.retain(|_, senders| {
            senders.retain(|sender| !sender.is_closed());
            !senders.is_empty()
        });
        waiting.keys().copied().collect()
    }

    async fn look(&self) -> Result<(), BackendError> {
        let wanted = self.wanted();
        if wanted.is_empty() {
            return Ok(());
        }
        for ended in self.backend.ended(&wanted).await? {
            for sender in self.waiting().remove(&ended.id).unwrap_or_default() {
                let _ = sender.send(ended.clone());
            }
        }
        Ok(())
    }
}

async fn watch(results: Weak<ResultWatch>, mut changes: tokio::sync::watch::Receiver<u64>) {
    loop {
        let Some(results) = results.upgrade() else { return };
        changes.mark_unchanged();
        if let Err(error) = results.look().await {
            tracing::warn!(error = &error as &dyn std::error::Error, "cannot look for ended runs, trying again");
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        let idle = results.waiting().is_empty();
        tokio::select! {
            () = results.added.notified() => {}
            changed = changes.changed(), if !idle => if changed.is_err() { return },
            () = tokio::time::sleep(POLL_INTERVAL) => {}
        }
    }
}

impl fmt::Debug for ResultWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResultWatch").finish_non_exhaustive()
    }
}
