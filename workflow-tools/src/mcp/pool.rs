//! Connections by server and actor, with a bound on how many there are.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use workflow_flows::ToolError;

use super::client::{Connection, Shared};
use super::server::Server;

/// A server and an actor. Actors share no connection, because a session may hold data of its actor.
type Key = (String, String);

/// How long a connection may be idle before its next use begins with a ping.
const FRESH: Duration = Duration::from_secs(10);
/// The longest wait for the answer to a ping.
const PING: Duration = Duration::from_secs(5);
/// The shortest time between two searches for idle connections, also if none may be idle at all.
const SHORTEST_SWEEP: Duration = Duration::from_millis(100);

/// The bounds of a pool.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    pub(super) places: usize,
    pub(super) idle: Duration,
}

/// A pool; a clone is the same pool.
#[derive(Clone)]
pub(super) struct Pool {
    inner: Arc<Inner>,
}

struct Inner {
    bounds: Bounds,
    places: Mutex<Places>,
    /// Notified when a place has become idle or free.
    freed: Notify,
}

#[derive(Default)]
struct Places {
    entries: HashMap<Key, Entry>,
    has_sweeper: bool,
}

struct Entry {
    /// Locked while a connection is made, so one is made at a time.
    cell: Arc<tokio::sync::Mutex<Option<Shared>>>,
    users: usize,
    used_at: Instant,
}

/// The right to use the place of a key. It is idle again when the last lease is dropped.
struct Lease {
    inner: Arc<Inner>,
    key: Key,
    cell: Arc<tokio::sync::Mutex<Option<Shared>>>,
    idle_since: Option<Instant>,
}

/// A connection that cannot be evicted while this lives.
pub(super) struct Leased {
    connection: Shared,
    _lease: Lease,
}

impl std::ops::Deref for Leased {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.connection
    }
}

impl Pool {
    pub(super) fn new(bounds: Bounds) -> Self {
        let inner = Inner { bounds, places: Mutex::default(), freed: Notify::new() };
        Self { inner: Arc::new(inner) }
    }

    /// How many places are taken.
    pub(super) fn len(&self) -> usize {
        self.inner.lock().entries.len()
    }

    /// Returns the connection of the actor to the server; makes one if there is none that works.
    /// Waits while all places are in use.
    ///
    /// # Cancel safety
    /// Dropping the future gives its place back.
    pub(super) async fn connection(&self, server: &Server, actor: &str) -> Result<Leased, ToolError> {
        let lease = self.lease((server.name.clone(), actor.to_owned())).await;
        let cell = Arc::clone(&lease.cell);
        let mut held = cell.lock().await;
        if let Some(connection) = held.as_ref().filter(|connection| !connection.is_closed()) {
            let connection = Arc::clone(connection);
            let is_fresh = !connection.is_late() && lease.idle_since.is_none_or(|since| since.elapsed() < FRESH);
            if is_fresh || connection.answers(PING).await {
                return Ok(Leased { connection, _lease: lease });
            }
        }
        // The old one ends before the new one begins: they may share a file or a port.
        *held = None;
        let connection = Arc::new(Connection::open(server, actor).await?);
        *held = Some(Arc::clone(&connection));
        drop(held);
        Ok(Leased { connection, _lease: lease })
    }

    async fn lease(&self, key: Key) -> Lease {
        loop {
            let freed = self.inner.freed.notified();
            tokio::pin!(freed);
            // From here on no notification is missed.
            freed.as_mut().enable();
            let taken = self.inner.lock().take(&key, self.inner.bounds.places);
            if let Some((cell, idle_since, evicted)) = taken {
                drop(evicted);
                self.sweep();
                return Lease { inner: Arc::clone(&self.inner), key, cell, idle_since };
            }
            freed.await;
        }
    }

    /// Closes idle connections in the background, as long as there are connections.
    fn sweep(&self) {
        if !std::mem::replace(&mut self.inner.lock().has_sweeper, true) {
            tokio::spawn(sweep(Arc::downgrade(&self.inner), self.inner.bounds.idle));
        }
    }
}

async fn sweep(inner: Weak<Inner>, idle: Duration) {
    loop {
        tokio::time::sleep((idle / 4).max(SHORTEST_SWEEP)).await;
        let Some(inner) = inner.upgrade() else { return };
        let (evicted, is_empty) = inner.lock().evict(idle);
        drop(evicted);
        inner.freed.notify_waiters();
        if is_empty {
            return;
        }
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The cell of a place, when it became idle, and the entry that was evicted for it.
type Taken = (Arc<tokio::sync::Mutex<Option<Shared>>>, Option<Instant>, Option<Entry>);

impl Places {
    /// Takes the place of the key, a free one, or that of the connection that was idle for longest.
    /// `None`: all are in use.
    fn take(&mut self, key: &Key, places: usize) -> Option<Taken> {
        if let Some(entry) = self.entries.get_mut(key) {
            let idle_since = (entry.users == 0).then_some(entry.used_at);
            entry.users += 1;
            return Some((Arc::clone(&entry.cell), idle_since, None));
        }
        let mut evicted = None;
        if self.entries.len() >= places {
            let idle = self.entries.iter().filter(|(_, entry)| entry.users == 0);
            let oldest = idle.min_by_key(|(_, entry)| entry.used_at).map(|(key, _)| key.clone())?;
            evicted = self.entries.remove(&oldest);
        }
        let entry = Entry { cell: Arc::default(), users: 1, used_at: Instant::now() };
        let cell = Arc::clone(&entry.cell);
        self.entries.insert(key.clone(), entry);
        Some((cell, None, evicted))
    }

    /// Removes the entries that were idle for at least `idle`. Returns them, and whether no entry
    /// is left.
    fn evict(&mut self, idle: Duration) -> (Vec<Entry>, bool) {
        let old = |_: &Key, entry: &mut Entry| entry.users == 0 && entry.used_at.elapsed() >= idle;
        let evicted = self.entries.extract_if(old).map(|(_, entry)| entry).collect();
        self.has_sweeper = !self.entries.is_empty();
        (evicted, !self.has_sweeper)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut places = self.inner.lock();
        let mut closed = None;
        if let Some(entry) = places.entries.get_mut(&self.key) {
            entry.users -= 1;
            entry.used_at = Instant::now();
            // A place without a connection that works is free at once.
            let works = entry.cell.try_lock().is_ok_and(|held| held.as_ref().is_some_and(|held| !held.is_closed()));
            if entry.users == 0 && !works {
                closed = places.entries.remove(&self.key);
            }
        }
        drop(places);
        drop(closed);
        self.inner.freed.notify_waiters();
    }
}
