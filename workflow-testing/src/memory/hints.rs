//! Hints: each commit that changed something wakes the listeners of the other handles.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use async_trait::async_trait;
use tokio::sync::Notify;

use workflow_engine::store::{DatabaseError, Listener};

use super::Handle;

const OPERATION: &str = "listen for hints";

/// The listeners, each with the number of its handle.
#[derive(Debug, Default)]
pub(super) struct Listeners(Mutex<Vec<(u64, Weak<Notify>)>>);

impl Listeners {
    fn add(&self, handle: u64) -> Arc<Notify> {
        let notify = Arc::new(Notify::new());
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((handle, Arc::downgrade(&notify)));
        notify
    }

    /// Wakes the listeners after a commit of this handle, except the handle's own: otherwise a busy
    /// process would send hints to itself for ever.
    pub(super) fn wake_others(&self, handle: u64) {
        self.wake(|listener| listener != handle);
    }

    /// Wakes all listeners, so that those of a closed handle notice it.
    pub(super) fn wake_all(&self) {
        self.wake(|_| true);
    }

    /// Wakes the listeners of the selected handles. A listener that does not wait at the moment
    /// returns from its next wait at once.
    fn wake(&self, selects: impl Fn(u64) -> bool) {
        let mut listeners = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        listeners.retain(|(_, listener)| listener.strong_count() > 0);
        for listener in listeners.iter().filter(|(handle, _)| selects(*handle)).filter_map(|(_, it)| it.upgrade()) {
            listener.notify_one();
        }
    }
}

/// A listener of one handle.
#[derive(Debug)]
pub(super) struct MemoryListener {
    handle: Arc<Handle>,
    notify: Arc<Notify>,
}

/// See [`Store::listen`](workflow_engine::store::Store::listen).
pub(super) fn listen(handle: &Arc<Handle>) -> Result<MemoryListener, DatabaseError> {
    let notify = handle.open(OPERATION)?.listeners().add(handle.number);
    Ok(MemoryListener { handle: Arc::clone(handle), notify })
}

#[async_trait]
impl Listener for MemoryListener {
    async fn next(&mut self) -> Result<(), DatabaseError> {
        self.notify.notified().await;
        self.handle.open(OPERATION).map(drop)
    }
}
