use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{Notify, OnceCell, broadcast, oneshot, watch};

use crate::model::RunId;
use crate::store::{EndedRun, Store};

use super::hint::{Hint, send_hints};

/// Before a broken source of hints is opened again.
const RELISTEN_DELAY: Duration = Duration::from_secs(1);

/// Cancel requests, or pauses, that a slow reader may miss; it then learns of them at the next renewal of its lease.
const CANCELS: usize = 1024;

/// Wakes that a slow reader may miss; it then asks the database about all of its runs.
const WAKES: usize = 4096;

/// What this process has done to a run that a worker may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancel {
    /// Asked it to end.
    Requested(RunId),
    /// Ended it.
    Terminated(RunId),
}

/// Where commits are made known to those who wait for them: in this process at once, in others by hints.
pub struct Hub {
    store: Arc<dyn Store>,
    due: Notify,
    changes: watch::Sender<u64>,
    cancels: broadcast::Sender<Cancel>,
    wakes: broadcast::Sender<RunId>,
    pauses: broadcast::Sender<RunId>,
    waits: Mutex<HashMap<RunId, Vec<oneshot::Sender<EndedRun>>>>,
    /// Of runs whose streams somebody follows here.
    follows: Mutex<HashMap<RunId, Weak<Notify>>>,
    hint: Arc<Hint>,
    /// Where the listener runs: it may use the writer's connection for a moment, and a body that blocks must not make that long.
    beside_writer: Handle,
    listening: OnceCell<()>,
}

impl Hub {
    pub(super) fn start(store: Arc<dyn Store>, beside_writer: Handle) -> Arc<Self> {
        let hint = Arc::new(Hint::default());
        // There the commits themselves are what others hear of.
        if !store.in_process() {
            tokio::spawn(send_hints(Arc::downgrade(&store), Arc::clone(&hint)));
        }
        Arc::new(Self {
            store,
            due: Notify::new(),
            changes: watch::Sender::new(0),
            cancels: broadcast::Sender::new(CANCELS),
            wakes: broadcast::Sender::new(WAKES),
            pauses: broadcast::Sender::new(CANCELS),
            waits: Mutex::default(),
            follows: Mutex::default(),
            hint,
            beside_writer,
            listening: OnceCell::new(),
        })
    }

    /// Returns when a run may have become due, by other means than a commit of this process, since the last call returned.
    pub async fn due(&self) {
        self.due.notified().await;
    }

    /// Makes [`Hub::due`] return once more.
    pub fn nudge(&self) {
        self.due.notify_one();
    }

    /// Counts the changes after which a run may have ended without [`Hub::tell_ended`] being called for it.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Runs that this process has canceled while a worker may hold them.
    #[must_use]
    pub fn cancels(&self) -> broadcast::Receiver<Cancel> {
        self.cancels.subscribe()
    }

    /// Runs that a commit of this process has woken: by a signal, or by the end of a child.
    #[must_use]
    pub fn wakes(&self) -> broadcast::Receiver<RunId> {
        self.wakes.subscribe()
    }

    /// Runs that this process paused while a worker holds them.
    #[must_use]
    pub fn pauses(&self) -> broadcast::Receiver<RunId> {
        self.pauses.subscribe()
    }

    /// Other processes may wait for what a commit of this process has done to so many runs.
    pub(super) fn hint_others(&self, changed: usize) {
        self.hint.ask(changed);
    }

    /// Runs may have ended, and it is not known which.
    pub(super) fn changed(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    /// Waits for the end of a run, as far as this process learns of it.
    pub fn wait_ended(&self, run: RunId) -> oneshot::Receiver<EndedRun> {
        let (sender, ended) = oneshot::channel();
        self.waits().entry(run).or_default().push(sender);
        ended
    }

    /// Tells those who wait for this run how it ended. The run is asked for only if somebody waits.
    pub fn tell_ended(&self, run: RunId, ended: impl FnOnce() -> EndedRun) {
        let Some(senders) = self.waits().remove(&run) else { return };
        let ended = ended();
        for sender in senders {
            // An error says that this one waits no more.
            let _ = sender.send(ended.clone());
        }
    }

    /// The runs that somebody waits for.
    #[must_use]
    pub fn awaited(&self) -> Vec<RunId> {
        let mut waits = self.waits();
        waits.retain(|_, senders| {
            senders.retain(|sender| !sender.is_closed());
            !senders.is_empty()
        });
        waits.keys().copied().collect()
    }

    /// What is notified when a commit of this process appends to a stream of this run.
    #[must_use]
    pub fn follow(&self, run: RunId) -> Arc<Notify> {
        let mut follows = self.follows.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(follow) = follows.get(&run).and_then(Weak::upgrade) {
            return follow;
        }
        follows.retain(|_, follow| follow.strong_count() > 0);
        let follow = Arc::new(Notify::new());
        follows.insert(run, Arc::downgrade(&follow));
        follow
    }

    /// These runs have appended to their streams.
    pub(super) fn emitted(&self, runs: impl Iterator<Item = RunId>) {
        let mut runs = runs.peekable();
        if runs.peek().is_none() {
            return;
        }
        let follows = self.follows.lock().unwrap_or_else(PoisonError::into_inner);
        let followed = runs.filter_map(|run| follows.get(&run)?.upgrade());
        followed.for_each(|follow| follow.notify_waiters());
    }

    fn waits(&self) -> MutexGuard<'_, HashMap<RunId, Vec<oneshot::Sender<EndedRun>>>> {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn woken(&self, run: RunId) {
        // An error says that no worker of this process listens.
        let _ = self.wakes.send(run);
    }

    pub(super) fn cancel_requested(&self, run: RunId) {
        // An error says that no worker of this process listens.
        let _ = self.cancels.send(Cancel::Requested(run));
    }

    pub(super) fn terminated(&self, run: RunId) {
        let _ = self.cancels.send(Cancel::Terminated(run));
    }

    pub(super) fn pause_requested(&self, run: RunId) {
        let _ = self.pauses.send(run);
    }

    /// From the first call on, hints of other processes arrive here too.
    pub async fn listen(self: &Arc<Self>) {
        let listen = async || {
            let (hub, mut changes) = (Arc::downgrade(self), self.changes());
            self.beside_writer.spawn(async move {
                // A quiet database gives no hint for hours: the listener's connection must not outlive those who listen.
                tokio::select! {
                    () = receive_hints(hub) => {}
                    () = async { while changes.changed().await.is_ok() {} } => {}
                }
            });
        };
        self.listening.get_or_init(listen).await;
    }

    /// Another process may have changed anything.
    fn hinted(&self) {
        self.nudge();
        self.changed();
    }
}

async fn receive_hints(hub: Weak<Hub>) {
    loop {
        let Some(store) = hub.upgrade().map(|hub| Arc::clone(&hub.store)) else { return };
        match store.listen().await {
            Ok(mut hints) => {
                drop(store);
                // What changed before anybody listened is unknown, so the beginning is a hint too.
                loop {
                    let Some(hub) = hub.upgrade() else { return };
                    hub.hinted();
                    drop(hub);
                    if hints.next().await.is_err() {
                        break;
                    }
                }
            }
            Err(error) => {
                tracing::warn!(%error, "no hints from other processes; polling finds their changes later");
            }
        }
        tokio::time::sleep(RELISTEN_DELAY).await;
    }
}

impl fmt::Debug for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hub").finish_non_exhaustive()
    }
}
