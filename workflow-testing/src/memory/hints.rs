//! Hints: each commit that changed something is told to the listeners of the other handles.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use async_trait::async_trait;
use tokio::sync::Notify;

use workflow_engine::store::{DatabaseError, Hints};

use super::Handle;

const OPERATION: &str = "listen for hints";

/// Those who listen, by their handles.
#[derive(Debug, Default)]
pub(super) struct Listeners(Mutex<Vec<(u64, Weak<Notify>)>>);

impl Listeners {
    fn add(&self, handle: u64) -> Arc<Notify> {
        let notify = Arc::new(Notify::new());
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((handle, Arc::downgrade(&notify)));
        notify
    }

    /// A commit of this handle has changed something. It is not told to its own listeners: a busy process would hint at itself
    /// for ever.
    pub(super) fn wake_others(&self, handle: u64) {
        self.wake(|listener| listener != handle);
    }

    /// A handle was closed: its listeners are to find out.
    pub(super) fn wake_all(&self) {
        self.wake(|_| true);
    }

    /// What is told while nobody waits is kept for the next wait.
    fn wake(&self, whom: impl Fn(u64) -> bool) {
        let mut listeners = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        listeners.retain(|(_, listener)| listener.strong_count() > 0);
        for listener in listeners.iter().filter(|(handle, _)| whom(*handle)).filter_map(|(_, it)| it.upgrade()) {
            listener.notify_one();
        }
    }
}

/// One who listens.
#[derive(Debug)]
pub(super) struct Listener {
    handle: Arc<Handle>,
    told: Arc<Notify>,
}

/// See [`Store::listen`](workflow_engine::store::Store::listen).
pub(super) fn listen(handle: &Arc<Handle>) -> Result<Listener, DatabaseError> {
    let told = handle.open(OPERATION)?.listeners().add(handle.number);
    Ok(Listener { handle: Arc::clone(handle), told })
}

#[async_trait]
impl Hints for Listener {
    async fn next(&mut self) -> Result<(), DatabaseError> {
        self.told.notified().await;
        self.handle.open(OPERATION).map(drop)
    }
}
