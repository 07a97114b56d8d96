use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;

use serde::Serialize;
use serde::de::DeserializeOwned;

use workflow_engine::model::{NameSubject, NewRun, Timestamp, check_name};
use workflow_engine::runtime::{PayloadError, round_trip_for_caller};
use workflow_engine::schedule::Occurrence;
use workflow_engine::store::{Outcome, StartOutcome, Write};

use super::schedule::ReadSchedule;
use super::{Client, ClientError, ScheduleHandle, timeout};

/// The number of runs that are queued before the answers to them are awaited.
const PAGE: usize = 500;

/// A builder for the runs of past occurrences: set its options, then await it. See
/// [`ScheduleHandle::backfill`].
#[must_use = "no run is started until this is awaited"]
pub struct Backfill {
    schedule: ScheduleHandle,
    after: Timestamp,
    until: Timestamp,
    max: u32,
    input: Option<InputWith>,
    gate: Option<GateWith>,
}

type GateWith = Box<dyn Fn(&Occurrence) -> String + Send + Sync>;

type InputWith = Box<dyn Fn(&Occurrence) -> Result<String, PayloadError> + Send + Sync>;

/// The occurrences that a backfill would start, whether they have a run or not.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackfillPreview {
    /// The number of occurrences.
    pub count: u32,
    /// The first ones, at most 5.
    pub first: Vec<Occurrence>,
    /// The last ones, at most 5.
    pub last: Vec<Occurrence>,
}

/// The outcome of a backfill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackfillReport {
    /// How many runs were started.
    pub started: u32,
    /// How many occurrences had a run already.
    pub existing: u32,
}

impl Backfill {
    /// The default of [`Backfill::max`].
    pub const DEFAULT_MAX: u32 = 10_000;

    pub(super) fn new(schedule: ScheduleHandle, after: Timestamp, until: Timestamp) -> Self {
        Self { schedule, after, until, max: Self::DEFAULT_MAX, input: None, gate: None }
    }

    /// Sets the most occurrences. A backfill of more is refused as a whole. Default:
    /// [`Backfill::DEFAULT_MAX`].
    pub fn max(mut self, occurrences: u32) -> Self {
        self.max = occurrences;
        self
    }

    /// Computes the input of each run. Default: the input of the schedule.
    pub fn input_with<I, F>(mut self, input: F) -> Self
    where
        I: Serialize + DeserializeOwned,
        F: Fn(&Occurrence) -> I + Send + Sync + 'static,
    {
        let subject = format!("input of a run of schedule {:?}", self.schedule.name());
        let limit = self.schedule.client().payload_limit();
        let text = move |at: &Occurrence| round_trip_for_caller(&subject, &input(at), limit).map(|(text, _)| text);
        self.input = Some(Box::new(text));
        self
    }

    /// Computes the gate of the queue behind which each run waits, for example that of the account
    /// in its input. Default: the gate of the schedule, whatever the input. Range: see
    /// [`Start::gate`](crate::Start::gate).
    pub fn gate_with<G: Into<String>>(mut self, gate: impl Fn(&Occurrence) -> G + Send + Sync + 'static) -> Self {
        self.gate = Some(Box::new(move |at| gate(at).into()));
        self
    }

    /// Returns the number of occurrences and the first and last of them. Starts nothing.
    ///
    /// # Errors
    /// See [`ScheduleHandle::backfill`].
    pub async fn preview(&self) -> Result<BackfillPreview, ClientError> {
        const SHOWN: usize = 5;
        let read = self.schedule.read().await?;
        let times = self.times(&read).await?;
        let first = self.occurrences(&read, &times[..times.len().min(SHOWN)]);
        let last = self.occurrences(&read, &times[times.len().saturating_sub(SHOWN)..]);
        Ok(BackfillPreview { count: u32::try_from(times.len()).unwrap_or(u32::MAX), first, last })
    }

    /// Returns the times of the occurrences. Those of the future are left to the schedule.
    async fn times(&self, read: &ReadSchedule) -> Result<Vec<Timestamp>, ClientError> {
        let name = self.schedule.name();
        let (after, until, max) = (self.after, self.until, self.max as usize);
        if until <= after {
            return Err(ClientError::EmptyBackfill { name: name.to_owned(), after, until });
        }
        let mut all = read.calendar.between(after, until.min(read.now), max.saturating_add(1));
        let mut times = Vec::new();
        loop {
            let known = times.len();
            times.extend(all.by_ref().take(PAGE));
            if times.len() == known {
                break;
            }
            // Each time is computed by calendar and zone, so a long list would block the thread.
            tokio::task::yield_now().await;
        }
        match times.first() {
            Some(first) if times.len() > max => {
                Err(ClientError::LargeBackfill { name: name.to_owned(), max: self.max, first: *first })
            }
            _ => Ok(times),
        }
    }

    fn occurrences(&self, read: &ReadSchedule, times: &[Timestamp]) -> Vec<Occurrence> {
        times.iter().map(|at| read.calendar.occurrence(self.schedule.name(), *at, 0)).collect()
    }

    async fn start(self) -> Result<BackfillReport, ClientError> {
        let client = self.schedule.client();
        let read = self.schedule.read().await?;
        let mut report = BackfillReport { started: 0, existing: 0 };
        for page in self.times(&read).await?.chunks(PAGE) {
            let runs =
                self.occurrences(&read, page).iter().map(|at| self.run(&read, at)).collect::<Result<Vec<_>, _>>()?;
            let mut missing = self.without_run(&runs).await?;
            report.existing += u32::try_from(runs.len() - missing.len()).unwrap_or(u32::MAX);
            // The audit row of an order comes with the first run that starts, in one commit.
            while client.is_audited() && report.started == 0 && !missing.is_empty() {
                report.count(client.commit(Write::Start(missing.remove(0))).await?)?;
            }
            start_all(client, missing, &mut report).await?;
        }
        Ok(report)
    }

    fn run(&self, read: &ReadSchedule, occurrence: &Occurrence) -> Result<NewRun, ClientError> {
        let input = match &self.input {
            Some(input) => input(occurrence)?,
            None => read.input()?.to_owned(),
        };
        let mut run = read.record.declaration().run(occurrence, input);
        if let Some(gate) = &self.gate {
            let gate = gate(occurrence);
            check_name(NameSubject::Gate, &gate)?;
            run.gate = Some(gate);
        }
        Ok(run)
    }

    /// Returns the runs whose ids the database does not have.
    async fn without_run(&self, runs: &[NewRun]) -> Result<Vec<NewRun>, ClientError> {
        let client = self.schedule.client();
        let ids: Vec<_> = runs.iter().map(|run| run.id).collect();
        let missing = client.read(client.store().missing(&ids)).await?;
        Ok(runs.iter().filter(|run| missing.contains(&run.id)).cloned().collect())
    }
}

impl BackfillReport {
    /// Counts the outcome of a start. If another run has the key, the occurrence already has its
    /// run.
    fn count(&mut self, outcome: Outcome) -> Result<(), ClientError> {
        match outcome {
            Outcome::Started(StartOutcome::Created) => self.started += 1,
            Outcome::Started(StartOutcome::Existing { .. } | StartOutcome::Continued { .. }) => self.existing += 1,
            other => return Err(ClientError::unexpected(other)),
        }
        Ok(())
    }
}

/// Starts runs, and counts them.
async fn start_all(client: &Client, runs: Vec<NewRun>, report: &mut BackfillReport) -> Result<(), ClientError> {
    let mut pending = Vec::with_capacity(runs.len());
    for run in runs {
        pending.push(client.enqueue(client.call_limit(), Write::Start(run)).await?);
    }
    for outcome in pending {
        report.count(timeout::outcome(client.call_limit(), outcome).await?)?;
    }
    Ok(())
}

impl IntoFuture for Backfill {
    type Output = Result<BackfillReport, ClientError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.start())
    }
}

impl fmt::Debug for Backfill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Backfill")
            .field("schedule", &self.schedule.name())
            .field("after", &self.after)
            .field("until", &self.until)
            .field("max", &self.max)
            .finish_non_exhaustive()
    }
}
