use workflow_engine::model::{FullQueue, Rate, Run, RunId, RunStatus, StepAttempt, Timestamp};
use workflow_engine::store::{DatabaseError, DatabaseErrorKind, GateUse, HistoryRows, HistoryScan, WaitingPlace};

use crate::operate::Count;

use super::{Client, ClientError, Explanation, Start};

/// The most rows of steps without an outcome that are read to explain a run. If a run has more of
/// them, its own row still shows what it waits for.
const MOST_OPEN: u32 = 1_000;
/// The largest note of a wait that is read to explain a run, in bytes.
const NOTE_BYTES: u32 = 8 * 1024;
/// The largest number to which the runs before a run are counted.
const MOST_AHEAD: u32 = 1_000;
/// The most runs that are named as holders of slots.
const MOST_NAMED: u32 = 3;

impl Client {
    /// Explains what a run waits for. It tells a run that waits for its turn from a run whose
    /// version or queue no live worker serves.
    ///
    /// # Errors
    /// [`ClientError::UnknownRun`], [`ClientError::Database`].
    ///
    /// ```
    /// # use workflow_sdk::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = Client::connect("sqlite::memory:").await?;
    /// let run = client.start_by_name("checkout", &42.into()).version("9").await?;
    /// let why = client.explain(run.id()).await?.to_string();
    /// assert!(why.contains("but no worker serves checkout version 9 in queue default"));
    /// assert!(why.ends_with("no worker knows checkout"));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn explain(&self, id: RunId) -> Result<Explanation, ClientError> {
        self.explain_read(&self.run(id).await?).await
    }

    /// Explains a run that was just read.
    pub(crate) async fn explain_read(&self, run: &Run) -> Result<Explanation, ClientError> {
        let rows = HistoryRows::Open { limit: MOST_OPEN };
        let scan = HistoryScan { run: run.id, rows, payload_bytes: NOTE_BYTES };
        let history = match self.read(self.0.store.history_page(&scan)).await {
            _ if run.status.is_terminal() => Vec::new(),
            // The run's own row still shows what the run waits for.
            Err(
                ClientError::Unreadable(_)
                | ClientError::Database(DatabaseError {
                    kind: DatabaseErrorKind::Codec | DatabaseErrorKind::Corrupt,
                    ..
                }),
            ) => Vec::new(),
            history => history?,
        };
        let history: Vec<StepAttempt> = history.into_iter().map(|row| row.row).collect();
        self.explain_run(run, &history).await
    }

    /// Explains what would hold this start back now: its queue is paused or full, its gate is full,
    /// the rate of one of the two is used up, or no live worker serves it. Nothing is started and
    /// nothing is written.
    ///
    /// The answer is that of [`Client::explain`] for a run that was started at this moment, so
    /// [`Explanation::Due`] means that no limit holds it back, and tells how many due runs of its
    /// lane go first. [`Explanation::Scheduled`] means that the start has a delay. A moment later
    /// the answer may be different. The call does not look for another run that has the key or
    /// single key of the start.
    ///
    /// # Errors
    /// See [`Client::start`] for a start that is refused; [`ClientError::Database`].
    ///
    /// # Cancel safety
    /// Dropping the future has no effect, because it only reads.
    ///
    /// ```
    /// use workflow_sdk::prelude::*;
    /// use workflow_sdk::Explanation;
    ///
    /// #[workflow(queue = "imports", gate = |account: &String| account)]
    /// async fn import(ctx: &Ctx, account: String) -> Result<()> {
    ///     Ok(())
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = Client::connect("sqlite::memory:").await?;
    /// match client.explain_start(client.start(import, "acct-42".into())).await? {
    ///     Explanation::Due { .. } => println!("it would begin at once"),
    ///     Explanation::GateRate { next_at, .. } => println!("not before {next_at}"),
    ///     other => println!("{other}"),
    /// }
    /// # assert!(client.list(&RunFilter::new()).await?.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn explain_start<O>(&self, start: Start<O>) -> Result<Explanation, ClientError> {
        let run = start.into_run(self.now().await?)?;
        if let Some(full) = self.find_full(&run).await? {
            return Ok(Explanation::NoRoom { full });
        }
        self.explain_run(&run, &[]).await
    }

    /// Returns the gate or queue that has no room for this run; `None` if all have.
    async fn find_full(&self, run: &Run) -> Result<Option<FullQueue>, ClientError> {
        let queue = run.lane.queue.as_str();
        let Some(record) = self.queue(queue).record().await? else { return Ok(None) };
        for place in WaitingPlace::of(queue, run.gate.as_deref(), record.limits()) {
            if self.read(self.0.store.waiting_in(place)).await? >= place.max_waiting {
                return Ok(Some(FullQueue::new(place.queue, place.gate, place.max_waiting)));
            }
        }
        Ok(None)
    }

    async fn explain_run(&self, run: &Run, history: &[StepAttempt]) -> Result<Explanation, ClientError> {
        let store = &self.0.store;
        // Read even if the run is not due yet: it may become due before the time is read.
        let workers = if run.status.is_terminal() { Vec::new() } else { self.read(store.workers()).await? };
        let now = self.now().await?;
        let explanation = Explanation::of(run, history, &workers, now);
        match explanation {
            Explanation::Due { since, workers, .. } => match self.held_back(run, since, now).await? {
                Some(held_back) => Ok(held_back),
                None => Ok(Explanation::Due { since, workers, ahead: self.count_ahead(run).await? }),
            },
            Explanation::Running { .. } | Explanation::Stalled { .. } | Explanation::Waiting { .. } => {
                Ok(self.seat_awaited(run).await?.unwrap_or(explanation))
            }
            _ => Ok(explanation),
        }
    }

    /// Explains which limit of its queue keeps a due run from being claimed; `None` if none does.
    async fn held_back(&self, run: &Run, since: Timestamp, now: Timestamp) -> Result<Option<Explanation>, ClientError> {
        let Some(queue) = self.queue(&run.lane.queue).record().await? else { return Ok(None) };
        let limits = queue.limits();
        if let Some(pause) = queue.pause {
            return Ok(Some(Explanation::QueuePaused { since, queue: queue.name, pause }));
        }
        // A run that is taken over holds its slots already.
        if run.status == RunStatus::Running {
            return Ok(None);
        }
        // A rate counts only first claims.
        let used_up = |rate: Option<Rate>, until| {
            let rate = rate.filter(|_| run.epoch == 0)?;
            let until = rate.used_at_most(until, now);
            (rate.free(until, now) == 0).then(|| (rate, rate.next_at(until)))
        };
        if let Some(gate) = run.gate.as_ref().filter(|_| limits.per_gate.holds_back()) {
            let GateUse { running, used_until } = self.read(self.0.store.gate_use(&queue.name, gate)).await?;
            let gate = gate.clone();
            if let Some(limit) = limits.per_gate.concurrency.filter(|limit| running >= *limit) {
                let running = Some(Count { runs: running, at_least: false });
                let held_by = self.slot_holders(&queue.name, Some(&gate)).await?;
                let ahead = self.count_ahead(run).await?;
                let queue = queue.name;
                return Ok(Some(Explanation::GateFull { since, queue, gate, limit, running, held_by, ahead }));
            }
            if let Some((rate, next_at)) = used_up(limits.per_gate.rate, used_until) {
                return Ok(Some(Explanation::GateRate { since, queue: queue.name, gate, rate, next_at }));
            }
        }
        if let Some((rate, next_at)) = used_up(limits.rate, queue.used_until) {
            return Ok(Some(Explanation::QueueRate { since, queue: queue.name, rate, next_at }));
        }
        let Some(limit) = limits.concurrency else { return Ok(None) };
        // After a limit was lowered, more runs may be under way than it allows.
        let bound = limit.saturating_add(MOST_AHEAD);
        let running = self.queue(&queue.name).running(bound.saturating_add(1)).await?;
        if running < limit {
            return Ok(None);
        }
        let (running, held_by) = (Some(Count::up_to(bound, running)), self.slot_holders(&queue.name, None).await?);
        let ahead = self.count_ahead(run).await?;
        Ok(Some(Explanation::QueueFull { since, queue: queue.name, limit, running, held_by, ahead }))
    }

    async fn slot_holders(&self, queue: &str, gate: Option<&str>) -> Result<Vec<RunId>, ClientError> {
        self.read(self.0.store.slot_holders(queue, gate, MOST_NAMED)).await
    }

    /// Counts the due runs that are claimed before a due one. A run whose lease has ended is taken
    /// over before all of them.
    async fn count_ahead(&self, run: &Run) -> Result<Option<Count>, ClientError> {
        if run.status == RunStatus::Running {
            return Ok(None);
        }
        let due = self.read(self.0.store.due_before(run, MOST_AHEAD + 1)).await?;
        Ok(Some(Count::up_to(MOST_AHEAD, due)))
    }
}
