use workflow_engine::model::{
    Lane, NameSubject, Priority, QueueChange, QueueLimits, QueueRecord, RunId, check_name, check_queue,
};
use workflow_engine::store::{
    DatabaseError, DatabaseErrorKind, Outcome, PlaceChange, PlaceOutcome, PlaceWrite, QueueWrite, WaitingPlace, Write,
};

use super::{Client, ClientError};

/// The most runs that a gate gives in one turn.
const MAX_WEIGHT: u32 = 1000;

/// A handle of a queue, which limits, pauses and resumes it. Made by [`Client::queue`].
///
/// A change takes effect on every worker within 2 s, because a worker reads the limits of its
/// queues once per second. Runs that are under way are never stopped.
///
/// ```
/// # use workflow_sdk::prelude::*;
/// use workflow_sdk::QueueLimits;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let client = Client::connect("sqlite::memory:").await?;
/// let mail = client.queue("mail");
/// mail.set_limits(QueueLimits::none().concurrency(2)).await?;
/// mail.pause("the mail server moves").await?;
///
/// let record = mail.record().await?.expect("it was changed");
/// assert_eq!(record.limits().concurrency, Some(2));
/// assert_eq!(record.pause.expect("it is paused").reason, "the mail server moves");
///
/// mail.resume().await?;
/// mail.clear_limits().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct QueueHandle {
    client: Client,
    name: String,
}

impl Client {
    /// Returns a handle to a queue. The queue need not be known yet.
    #[must_use]
    pub fn queue(&self, name: impl Into<String>) -> QueueHandle {
        QueueHandle { client: self.clone(), name: name.into() }
    }

    /// Returns the queues that were declared, limited or paused, in the order of their names. Other
    /// queues have no limits and no record.
    ///
    /// # Errors
    /// [`ClientError::Database`], [`ClientError::TimedOut`].
    pub async fn queues(&self) -> Result<Vec<QueueRecord>, ClientError> {
        self.read(self.0.store.queues()).await
    }

    /// Sets the priority with which a run waits for its first claim.
    ///
    /// A run that has begun has no priority: it goes before all runs that have not. The answer is
    /// then [`PlaceOutcome::Begun`], and nothing changes.
    ///
    /// # Errors
    /// [`ClientError::UnknownRun`], [`ClientError::Database`].
    ///
    /// # Cancel safety
    /// If the future is dropped, the priority may or may not be set. Setting it again is safe.
    ///
    /// ```
    /// # use workflow_sdk::prelude::*;
    /// use workflow_sdk::{PlaceOutcome, Priority};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = Client::connect("sqlite::memory:").await?;
    /// let run = client.start_by_name("checkout", &42.into()).await?.id();
    /// assert_eq!(client.set_priority(run, Priority::Urgent).await?, PlaceOutcome::Changed);
    /// assert_eq!(client.run(run).await?.priority, Some(Priority::Urgent));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn set_priority(&self, id: RunId, priority: Priority) -> Result<PlaceOutcome, ClientError> {
        let write = PlaceWrite { run_id: id, change: PlaceChange::Priority(priority) };
        let outcome = self.commit(Write::Place(write)).await?;
        placed(id, outcome)?.ok_or_else(|| ClientError::unexpected(Outcome::Lost))
    }

    /// Moves a run to another queue, whose workers then claim it when it is due. The run keeps its
    /// workflow, version, gate, priority, history, signals and deadline. The queue need not be
    /// known yet, and its limits and its pause hold for the run from now on.
    /// [`QueueLimits::max_waiting`] does not refuse the run, because it was accepted before.
    ///
    /// A run that a worker holds does not move, and the answer is [`PlaceOutcome::Held`]:
    /// [pause](Client::pause) it, move it once its worker has given it back, and
    /// [resume](Client::resume) it.
    ///
    /// # Errors
    /// [`ClientError::UnknownRun`], [`ClientError::Name`] for the name of the queue,
    /// [`ClientError::Database`], [`ClientError::TimedOut`].
    ///
    /// # Cancel safety
    /// If the future is dropped, the run may or may not have moved. Moving it again is safe.
    ///
    /// ```
    /// # use workflow_sdk::prelude::*;
    /// use workflow_sdk::PlaceOutcome;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = Client::connect("sqlite::memory:").await?;
    /// let run = client.start_by_name("checkout", &42.into()).await?.id();
    /// assert_eq!(client.move_to(run, "slow").await?, PlaceOutcome::Changed);
    /// assert_eq!(client.run(run).await?.lane.queue, "slow");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn move_to(&self, id: RunId, queue: impl Into<String>) -> Result<PlaceOutcome, ClientError> {
        // The write names the whole lane, so another change of the run between both refuses it.
        const READS: u32 = 8;
        let queue = queue.into();
        check_queue(&queue)?;
        for _ in 0..READS {
            let run = self.run(id).await?;
            let lane = Lane { queue: queue.clone(), ..run.lane };
            let write = PlaceWrite { run_id: id, change: PlaceChange::Queue { lane, gate: run.gate } };
            let outcome = self.commit(Write::Place(write)).await?;
            if let Some(placed) = placed(id, outcome)? {
                return Ok(placed);
            }
        }
        let changing = "another program changed the run each time; try again";
        Err(DatabaseError::new(DatabaseErrorKind::Busy, "move a run to another queue", changing).into())
    }
}

/// Returns the answer to a change of a place; `None` if another change of the run came first.
fn placed(run_id: RunId, outcome: Outcome) -> Result<Option<PlaceOutcome>, ClientError> {
    match outcome {
        Outcome::Placed(PlaceOutcome::Unknown) => Err(ClientError::UnknownRun { run_id }),
        Outcome::Placed(outcome) => Ok(Some(outcome)),
        Outcome::Lost => Ok(None),
        other => Err(ClientError::unexpected(other)),
    }
}

impl QueueHandle {
    /// Returns the name of the queue.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns what is declared and set for the queue; `None` if nothing ever was.
    ///
    /// # Errors
    /// [`ClientError::Database`], [`ClientError::TimedOut`].
    pub async fn record(&self) -> Result<Option<QueueRecord>, ClientError> {
        Ok(self.client.queues().await?.into_iter().find(|record| record.name == self.name))
    }

    /// Returns the number of runs of the queue that workers drive now. Counts up to `at_most`,
    /// because counting many runs takes long.
    ///
    /// # Errors
    /// [`ClientError::Database`], [`ClientError::TimedOut`].
    pub async fn running(&self, at_most: u32) -> Result<u32, ClientError> {
        self.client.read(self.client.0.store.running_in(&self.name, at_most)).await
    }

    /// Returns the number of runs behind a gate of the queue that workers drive now. 0 for a gate
    /// that is not known.
    ///
    /// # Errors
    /// [`ClientError::Database`], [`ClientError::TimedOut`].
    pub async fn running_behind(&self, gate: &str) -> Result<u32, ClientError> {
        Ok(self.client.read(self.client.0.store.gate_use(&self.name, gate)).await?.running)
    }

    /// Returns the number of runs of the queue that wait and have not begun, with those behind its
    /// gates: those that [`QueueLimits::max_waiting`] bounds. Counts up to `at_most`, because
    /// counting many runs takes long.
    ///
    /// # Errors
    /// [`ClientError::Database`], [`ClientError::TimedOut`].
    ///
    /// ```
    /// # use workflow_sdk::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = Client::connect("sqlite::memory:").await?;
    /// client.start_by_name("send", &42.into()).queue("mail").await?;
    /// assert_eq!(client.queue("mail").waiting(1000).await?, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn waiting(&self, at_most: u32) -> Result<u32, ClientError> {
        self.waiting_at(None, at_most).await
    }

    /// Returns the number of runs behind a gate of the queue that wait and have not begun: see
    /// [`QueueHandle::waiting`]. 0 for a gate that is not known.
    ///
    /// # Errors
    /// [`ClientError::Database`], [`ClientError::TimedOut`].
    pub async fn waiting_behind(&self, gate: &str, at_most: u32) -> Result<u32, ClientError> {
        self.waiting_at(Some(gate), at_most).await
    }

    async fn waiting_at(&self, gate: Option<&str>, at_most: u32) -> Result<u32, ClientError> {
        let place = WaitingPlace { queue: &self.name, gate, max_waiting: at_most };
        self.client.read(self.client.0.store.waiting_in(place)).await
    }

    /// Sets how many runs a gate of the queue gives in one turn. Default: 1. Range: 1 to 1000;
    /// another number is moved into the range. The gate need not be known yet.
    ///
    /// # Errors
    /// [`ClientError::Name`] for the name of the gate or of the queue, [`ClientError::Database`],
    /// [`ClientError::TimedOut`].
    ///
    /// # Cancel safety
    /// If the future is dropped, the weight may or may not be set. Setting it again is safe.
    ///
    /// ```
    /// # use workflow_sdk::prelude::*;
    /// # async fn weigh(client: &Client) -> Result<(), ClientError> {
    /// // A large customer gets three turns where others get one.
    /// client.queue("imports").weigh("acct-42", 3).await
    /// # }
    /// ```
    pub async fn weigh(&self, gate: impl Into<String>, weight: u32) -> Result<(), ClientError> {
        let gate = gate.into();
        check_name(NameSubject::Gate, &gate)?;
        self.change(QueueChange::Weigh { gate, weight: weight.clamp(1, MAX_WEIGHT) }).await
    }

    /// Sets limits that hold in place of those that workers declare, until they are
    /// [cleared](QueueHandle::clear_limits). If more runs are under way than the new limits allow,
    /// no further run begins until enough have ended.
    ///
    /// # Errors
    /// [`ClientError::Name`] for the name of the queue, [`ClientError::Rate`] for a rate that is
    /// out of range, [`ClientError::Database`], [`ClientError::TimedOut`].
    ///
    /// # Cancel safety
    /// If the future is dropped, the limits may or may not be set. Setting them again is safe.
    pub async fn set_limits(&self, limits: QueueLimits) -> Result<(), ClientError> {
        limits.check()?;
        self.change(QueueChange::Override(Some(limits))).await
    }

    /// Removes the limits that were [set](QueueHandle::set_limits), so that the limits that workers
    /// declare hold again.
    ///
    /// # Errors
    /// See [`QueueHandle::set_limits`].
    ///
    /// # Cancel safety
    /// See [`QueueHandle::set_limits`].
    pub async fn clear_limits(&self) -> Result<(), ClientError> {
        self.change(QueueChange::Override(None)).await
    }

    /// Keeps workers from claiming runs of the queue until it is [resumed](QueueHandle::resume).
    /// Runs that a worker drives go on until they end or park. Deadlines pass, and cancels end runs
    /// that were never claimed. If the queue is paused already, only its reason changes. Range of
    /// the reason: 1 to 255 bytes, no control characters.
    ///
    /// # Errors
    /// [`ClientError::Name`] for the reason or the name of the queue, [`ClientError::Database`],
    /// [`ClientError::TimedOut`].
    ///
    /// # Cancel safety
    /// If the future is dropped, the queue may or may not be paused. Pausing it again is safe.
    pub async fn pause(&self, reason: impl Into<String>) -> Result<(), ClientError> {
        let reason = reason.into();
        check_name(NameSubject::Reason, &reason)?;
        self.change(QueueChange::Pause { reason }).await
    }

    /// Lets workers claim runs of the queue again. A queue that is not paused stays as it is.
    ///
    /// # Errors
    /// See [`QueueHandle::set_limits`].
    ///
    /// # Cancel safety
    /// See [`QueueHandle::pause`].
    pub async fn resume(&self) -> Result<(), ClientError> {
        self.change(QueueChange::Resume).await?;
        // Steps of its runs may be the next in lines that have free seats.
        self.client.look_for_seats(None).await;
        Ok(())
    }

    async fn change(&self, change: QueueChange) -> Result<(), ClientError> {
        check_queue(&self.name)?;
        match self.client.commit(Write::Queue(QueueWrite { queue: self.name.clone(), change })).await? {
            Outcome::Applied => Ok(()),
            other => Err(ClientError::unexpected(other)),
        }
    }
}
