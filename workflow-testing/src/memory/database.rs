//! The mutex around the tables, the clock and the listeners.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use workflow_engine::model::{Clock, Timestamp};
use workflow_engine::store::DatabaseError;

use super::hints::Listeners;
use super::tables::Tables;

/// The state that all handles of a database share.
#[derive(Debug)]
pub(super) struct Database {
    tables: Mutex<Tables>,
    clock: Clock,
    listeners: Listeners,
    handles: AtomicU64,
    /// The calls that changed the tables.
    changes: AtomicU64,
}

impl Database {
    pub(super) fn new(clock: Clock) -> Self {
        Self {
            tables: Mutex::default(),
            clock,
            listeners: Listeners::default(),
            handles: AtomicU64::new(0),
            changes: AtomicU64::new(0),
        }
    }

    /// Returns a number that no other handle has.
    pub(super) fn next_handle(&self) -> u64 {
        self.handles.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns how many calls have changed the tables.
    pub(super) fn changes(&self) -> u64 {
        self.changes.load(Ordering::SeqCst)
    }

    /// Returns the listeners of all handles.
    pub(super) fn listeners(&self) -> &Listeners {
        &self.listeners
    }

    /// Reads the tables at one moment.
    pub(super) fn look<T>(&self, look: impl FnOnce(&Tables, Timestamp) -> T) -> T {
        let tables = self.tables();
        look(&tables, self.clock.host_now())
    }

    /// Changes the tables at one moment, on behalf of this handle. If anything changed, the
    /// listeners of the other handles are woken. A change that fails must not have changed
    /// anything.
    pub(super) fn change<T>(
        &self,
        handle: u64,
        change: impl FnOnce(&mut Tables, Timestamp) -> Result<T, DatabaseError>,
    ) -> Result<T, DatabaseError> {
        let (result, changed) = {
            let mut tables = self.tables();
            // Read under the mutex, so that the times of commits rise with their order.
            let result = change(&mut tables, self.clock.host_now());
            let changed = tables.take_changed();
            // Under the mutex, so that a read that follows sees what is counted.
            self.changes.fetch_add(u64::from(changed), Ordering::SeqCst);
            (result, changed)
        };
        if changed {
            self.listeners.wake_others(handle);
        }
        result
    }

    /// Ignores poison: a change panics half-way only because of a bug, and tests find that by the
    /// tables it leaves.
    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
