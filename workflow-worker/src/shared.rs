use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use workflow_engine::executor::Executor;
use workflow_engine::model::{Lane, Retention, WorkerId};
use workflow_engine::runtime::BodyHooks;
use workflow_engine::store::ClaimedRun;
use workflow_sdk::Client;

use crate::WorkerOptions;
use crate::circuits::Circuits;
use crate::claims::ClaimTable;
use crate::clock::DatabaseClock;
use crate::idle::GivenBack;
use crate::lane_order::LaneOrder;
use crate::pulse::{AwakeClock, Pulse};
use crate::quarantine::{Admission, HoldWarnings, Quarantine};
use crate::queue_watch::QueueWatch;
use crate::registry::Registry;
use crate::saturation::Saturation;
use crate::seat_watch::SeatWatch;

/// The state that the parts of one worker share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) id: WorkerId,
    pub(crate) client: Client,
    pub(crate) options: WorkerOptions,
    pub(crate) registry: Registry,
    /// How long ended runs stay, as the worker declares it.
    pub(crate) retention: Retention,
    pub(crate) lanes: Vec<Lane>,
    /// The turns of the lanes in the claims.
    pub(crate) lane_order: LaneOrder,
    /// The limits of the queues.
    pub(crate) queues: QueueWatch,
    /// Whether to look for free seats of limits for steps.
    pub(crate) seats: SeatWatch,
    pub(crate) clock: Arc<DatabaseClock>,
    pub(crate) claims: Arc<ClaimTable>,
    pub(crate) permits: Arc<Semaphore>,
    /// Has a receiver per drive, so it is closed while there is no drive.
    pub(crate) drives: watch::Sender<()>,
    pub(crate) saturation: Saturation,
    pub(crate) quarantine: Arc<Quarantine>,
    pub(crate) circuits: Arc<Circuits>,
    /// Advances with the lease thread.
    pub(crate) awake: AwakeClock,
    /// Beats as long as the runtime polls its tasks.
    pub(crate) pulse: Arc<Pulse>,
    /// Observes bodies in a test.
    pub(crate) body_hooks: Option<Arc<dyn BodyHooks>>,
    /// The subjects of which the log has a warning.
    pub(crate) warned: Warned,
    /// Limits the warnings of runs that the quarantine holds back.
    pub(crate) held_back: HoldWarnings,
    /// The time at which runs are due again that this worker gave back to try them again.
    pub(crate) given_back: GivenBack,
}

impl Shared {
    pub(crate) fn new(
        client: Client,
        options: WorkerOptions,
        (registry, retention): (Registry, Retention),
        body_hooks: Option<Arc<dyn BodyHooks>>,
    ) -> Arc<Self> {
        let awake = AwakeClock::default();
        let lanes = registry.lanes(&options.queues);
        Arc::new(Self {
            id: WorkerId::generate(),
            lane_order: LaneOrder::new(lanes.clone()),
            queues: QueueWatch::default(),
            seats: SeatWatch::default(),
            lanes,
            permits: Arc::new(Semaphore::new(options.concurrency as usize)),
            drives: watch::Sender::new(()),
            clock: Arc::new(DatabaseClock::unread()),
            claims: Arc::new(ClaimTable::new(awake.clone())),
            saturation: Saturation::new(),
            quarantine: Quarantine::of_process(),
            circuits: Arc::default(),
            pulse: Arc::new(Pulse::new(awake.clone())),
            awake,
            body_hooks,
            warned: Warned::default(),
            held_back: HoldWarnings::default(),
            given_back: GivenBack::default(),
            client,
            options,
            registry,
            retention,
        })
    }

    /// Returns the state of a worker that knows no workflow.
    #[cfg(all(test, feature = "sqlite"))]
    #[allow(clippy::unwrap_used)]
    pub(crate) async fn idle(concurrency: u32) -> Arc<Self> {
        let client = Client::connect("sqlite::memory:").await.unwrap();
        let options = WorkerOptions { concurrency, ..WorkerOptions::default() };
        Self::new(client, options, (Registry::default(), Retention::default()), None)
    }

    /// Decides whether a claimed run may be driven now. `None`: an older drive of the run blocks a
    /// thread of this worker.
    pub(crate) fn admit(&self, run: &ClaimedRun) -> Option<Admission> {
        // Another drive of such a run would block another thread, so the run is left to other
        // workers for a while.
        (!self.claims.is_stuck(run.claim.run_id, self.options.lease)).then(|| self.quarantine.admit(run))
    }

    pub(crate) fn executor(&self) -> &Executor {
        self.client.executor()
    }

    /// Chooses the interval of a query for changes that cause no hint. On a store in this process
    /// it is rare.
    pub(crate) fn pace(&self, usual: Duration, rare: Duration) -> Duration {
        if self.client.store().in_process() { rare } else { usual }
    }

    /// Returns `true` on the first call with this subject.
    pub(crate) fn first_warning(&self, subject: &str) -> bool {
        self.warned.is_first(subject)
    }
}

/// The subjects of warnings that a worker logs once. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Warned(Arc<Mutex<HashSet<String>>>);

impl Warned {
    /// Returns `true` on the first call with this subject.
    pub(crate) fn is_first(&self, subject: &str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(subject.to_owned())
    }
}

/// A drive's place in its worker.
#[derive(Debug)]
pub(crate) struct Slot {
    /// Freed when the last write of the drive is queued.
    pub(crate) permit: Option<OwnedSemaphorePermit>,
    /// Keeps [`Shared::drives`] open.
    pub(crate) _drive: watch::Receiver<()>,
}
