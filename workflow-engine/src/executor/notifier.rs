//! Wakes the tasks of this process that wait for commits: for its own at once, for those of other
//! processes after their hints.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{Notify, OnceCell, broadcast, oneshot, watch};

use crate::model::RunId;
use crate::store::{EndedRun, Store};

use super::hint::{HintRequest, send_hints, try_hint};

/// Delay before a broken listener is opened again.
const RELISTEN_DELAY: Duration = Duration::from_secs(1);

/// Cancels, or pauses, that a slow reader may miss. It then learns of them with the next renewal of
/// its lease.
const CANCELS: usize = 1024;

/// Wakes that a slow reader may miss. It then asks the database about all of its runs.
const WAKES: usize = 4096;

/// A cancel by this process of a run that a worker may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancel {
    /// The run was asked to end.
    Requested(RunId),
    /// The run was ended.
    Terminated(RunId),
}

/// Notifies waiting tasks of commits, and other processes by hints.
pub struct Notifier {
    store: Arc<dyn Store>,
    due: watch::Sender<u64>,
    /// See [`Notifier::later`].
    later: AtomicU64,
    changes: watch::Sender<u64>,
    unannounced: watch::Sender<u64>,
    schedules: watch::Sender<u64>,
    bulks: watch::Sender<u64>,
    commits: watch::Sender<u64>,
    cancels: broadcast::Sender<Cancel>,
    wakes: broadcast::Sender<RunId>,
    pauses: broadcast::Sender<RunId>,
    /// For each awaited run, the tasks that wait for its end.
    waits: Mutex<HashMap<RunId, Vec<oneshot::Sender<Option<EndedRun>>>>>,
    /// For each run whose streams are followed in this process, what their readers wait for.
    follows: Mutex<HashMap<RunId, Weak<Notify>>>,
    hint: Arc<HintRequest>,
    /// The runtime of the listener. The listener uses the writer's connection for a moment, and a
    /// body that blocks must not prolong that.
    beside_pipeline: Handle,
    listening: OnceCell<()>,
}

impl Notifier {
    pub(super) fn start(store: Arc<dyn Store>, beside_pipeline: Handle) -> Arc<Self> {
        let hint = Arc::new(HintRequest::default());
        // The commits of a store in this process reach the other listeners by themselves.
        if !store.in_process() {
            tokio::spawn(send_hints(Arc::downgrade(&store), Arc::clone(&hint)));
        }
        Arc::new(Self {
            store,
            due: watch::Sender::new(0),
            later: AtomicU64::new(0),
            changes: watch::Sender::new(0),
            unannounced: watch::Sender::new(0),
            schedules: watch::Sender::new(0),
            bulks: watch::Sender::new(0),
            commits: watch::Sender::new(0),
            cancels: broadcast::Sender::new(CANCELS),
            wakes: broadcast::Sender::new(WAKES),
            pauses: broadcast::Sender::new(CANCELS),
            waits: Mutex::default(),
            follows: Mutex::default(),
            hint,
            beside_pipeline,
            listening: OnceCell::new(),
        })
    }

    /// Counts the moments at which a run may have become due by other means than a commit of this
    /// process. Each worker of the process has a receiver of its own.
    #[must_use]
    pub fn due(&self) -> watch::Receiver<u64> {
        self.due.subscribe()
    }

    /// Counts such a moment.
    pub fn notify_due(&self) {
        self.due.send_modify(|count| *count += 1);
    }

    /// Counts the commits of this process after which a run may become due that was not due at the
    /// commit. A run that is due at its commit is claimed by a pending claim, or by a later one.
    #[must_use]
    pub fn later(&self) -> u64 {
        self.later.load(Ordering::Acquire)
    }

    /// Counts such a commit.
    pub(super) fn notify_later(&self) {
        self.later.fetch_add(1, Ordering::Release);
    }

    /// Counts the changes after which a run may have ended without a [`Notifier::notify_ended`].
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Counts the changes after which a run may have been canceled or paused that is neither in
    /// [`Notifier::cancels`] nor in [`Notifier::pauses`].
    #[must_use]
    pub fn unannounced(&self) -> watch::Receiver<u64> {
        self.unannounced.subscribe()
    }

    /// Counts the changes after which a schedule may be due earlier.
    #[must_use]
    pub fn schedules(&self) -> watch::Receiver<u64> {
        self.schedules.subscribe()
    }

    /// Counts the changes after which a bulk operation may be due earlier.
    #[must_use]
    pub fn bulks(&self) -> watch::Receiver<u64> {
        self.bulks.subscribe()
    }

    /// Counts the commits of this process, and the hints of others.
    #[must_use]
    pub fn commits(&self) -> watch::Receiver<u64> {
        self.commits.subscribe()
    }

    /// Receives the runs that this process has canceled while a worker may hold them.
    #[must_use]
    pub fn cancels(&self) -> broadcast::Receiver<Cancel> {
        self.cancels.subscribe()
    }

    /// Receives the runs that a commit of this process has woken, by a signal or by the end of a
    /// child.
    #[must_use]
    pub fn wakes(&self) -> broadcast::Receiver<RunId> {
        self.wakes.subscribe()
    }

    /// Receives the runs that this process has paused while a worker holds them.
    #[must_use]
    pub fn pauses(&self) -> broadcast::Receiver<RunId> {
        self.pauses.subscribe()
    }

    /// Waits for the end of a run, as far as this process learns of it. `None`: the database does
    /// not have the run.
    pub fn wait_ended(&self, run: RunId) -> oneshot::Receiver<Option<EndedRun>> {
        let (sender, ended) = oneshot::channel();
        self.waits().entry(run).or_default().push(sender);
        ended
    }

    /// Tells the tasks that wait for this run how it ended. Calls `ended` only if a task waits.
    pub fn notify_ended(&self, run: RunId, ended: impl FnOnce() -> EndedRun) {
        let Some(senders) = self.waits().remove(&run) else { return };
        let ended = ended();
        for sender in senders {
            // An error means that this task no longer waits.
            let _ = sender.send(Some(ended.clone()));
        }
    }

    /// Tells the tasks that wait for this run that the database does not have it.
    pub fn notify_missing(&self, run: RunId) {
        for sender in self.waits().remove(&run).into_iter().flatten() {
            let _ = sender.send(None);
        }
    }

    /// Returns the runs whose end is awaited.
    #[must_use]
    pub fn awaited(&self) -> Vec<RunId> {
        let mut waits = self.waits();
        waits.retain(|_, senders| {
            senders.retain(|sender| !sender.is_closed());
            !senders.is_empty()
        });
        waits.keys().copied().collect()
    }

    /// Returns what is notified when a commit of this process appends to a stream of this run.
    #[must_use]
    pub fn follow(&self, run: RunId) -> Arc<Notify> {
        let mut follows = self.follows();
        if let Some(follow) = follows.get(&run).and_then(Weak::upgrade) {
            return follow;
        }
        follows.retain(|_, follow| follow.strong_count() > 0);
        let follow = Arc::new(Notify::new());
        follows.insert(run, Arc::downgrade(&follow));
        follow
    }

    /// Starts to listen for hints of other processes. Further calls do nothing.
    pub async fn listen(self: &Arc<Self>) {
        let listen = async || {
            let (notifier, mut changes) = (Arc::downgrade(self), self.changes());
            self.beside_pipeline.spawn(async move {
                // An idle database gives no hint for hours. The listener's connection must not
                // outlive the notifier.
                tokio::select! {
                    biased;
                    () = receive_hints(notifier) => {}
                    () = async { while changes.changed().await.is_ok() {} } => {}
                }
            });
        };
        self.listening.get_or_init(listen).await;
    }

    /// Has a hint sent: other processes may wait for a change that one commit made to this many
    /// runs.
    pub(super) fn hint_others(&self, changed: usize) {
        self.hint.ask(changed);
    }

    /// Sends a hint now.
    pub(super) async fn hint_now(&self) {
        // The commits of a store in this process reach the other listeners by themselves.
        if self.store.in_process() {
            return;
        }
        if let Err(error) = try_hint(self.store.as_ref()).await {
            tracing::debug!(%error, "a hint to other processes was not sent; they find the change by polling");
        }
    }

    /// Notifies that runs may have ended, when it is not known which.
    pub(super) fn notify_changed(&self) {
        self.changes.send_modify(|count| *count += 1);
        self.notify_unannounced();
    }

    /// Notifies that runs may have been asked to end or to pause, when it is not known which.
    pub(super) fn notify_unannounced(&self) {
        self.unannounced.send_modify(|count| *count += 1);
    }

    /// Notifies that a schedule was changed.
    pub(super) fn notify_schedules(&self) {
        self.schedules.send_modify(|count| *count += 1);
    }

    /// Notifies that a bulk operation was ordered or stopped.
    pub(super) fn notify_bulks(&self) {
        self.bulks.send_modify(|count| *count += 1);
    }

    /// Notifies that a batch was committed.
    pub(super) fn notify_committed(&self) {
        self.commits.send_modify(|count| *count += 1);
    }

    /// Notifies the readers of these runs' streams.
    pub(super) fn notify_emitted(&self, runs: impl Iterator<Item = RunId>) {
        let mut runs = runs.peekable();
        if runs.peek().is_none() {
            return;
        }
        let follows = self.follows();
        let followed = runs.filter_map(|run| follows.get(&run)?.upgrade());
        followed.for_each(|follow| follow.notify_waiters());
    }

    pub(super) fn notify_woken(&self, run: RunId) {
        // An error means that no worker of this process listens. The same holds below.
        let _ = self.wakes.send(run);
    }

    pub(super) fn notify_cancel_requested(&self, run: RunId) {
        let _ = self.cancels.send(Cancel::Requested(run));
    }

    pub(super) fn notify_terminated(&self, run: RunId) {
        let _ = self.cancels.send(Cancel::Terminated(run));
    }

    pub(super) fn notify_paused(&self, run: RunId) {
        let _ = self.pauses.send(run);
    }

    /// Notifies after a hint: another process may have changed anything.
    fn notify_hinted(&self) {
        self.notify_due();
        self.notify_changed();
        self.notify_schedules();
        self.notify_bulks();
        self.notify_committed();
    }

    fn waits(&self) -> MutexGuard<'_, HashMap<RunId, Vec<oneshot::Sender<Option<EndedRun>>>>> {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn follows(&self) -> MutexGuard<'_, HashMap<RunId, Weak<Notify>>> {
        self.follows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Passes on hints of other processes until the notifier is dropped.
async fn receive_hints(notifier: Weak<Notifier>) {
    loop {
        let Some(store) = notifier.upgrade().map(|notifier| Arc::clone(&notifier.store)) else { return };
        match store.listen().await {
            Ok(mut listener) => {
                drop(store);
                // Changes from before the listener was open are unknown, so its opening is a hint
                // too.
                loop {
                    let Some(notifier) = notifier.upgrade() else { return };
                    notifier.notify_hinted();
                    drop(notifier);
                    if listener.next().await.is_err() {
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

impl fmt::Debug for Notifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Notifier").finish_non_exhaustive()
    }
}
