use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use workflow_engine::model::{NameSubject, NewRun, check_name};
use workflow_engine::runtime::{PayloadError, round_trip_for_caller};

use super::schedule::ReadSchedule;
use super::schedule_handle::Change;
use super::{ClientError, RunHandle, ScheduleHandle};

/// A builder for a run of a schedule beside its occurrences: set its options, then await it. See
/// [`ScheduleHandle::trigger`].
#[must_use = "no run is started until this is awaited"]
pub struct Trigger {
    schedule: ScheduleHandle,
    input: Option<Result<String, PayloadError>>,
    gate: Option<String>,
}

impl Trigger {
    pub(super) fn new(schedule: ScheduleHandle) -> Self {
        Self { schedule, input: None, gate: None }
    }

    /// Sets the input of this run. Default: the input of the schedule.
    pub fn input<I: Serialize + DeserializeOwned>(mut self, input: &I) -> Self {
        let subject = format!("input of a run of schedule {:?}", self.schedule.name());
        let limit = self.schedule.client().payload_limit();
        self.input = Some(round_trip_for_caller(&subject, input, limit).map(|(text, _)| text));
        self
    }

    /// Sets the gate of the queue behind which this run waits, for example that of the account in
    /// its input. Default: the gate of the schedule, whatever the input. Range: see
    /// [`Start::gate`](crate::Start::gate).
    pub fn gate(mut self, gate: impl Into<String>) -> Self {
        self.gate = Some(gate.into());
        self
    }

    async fn start(self) -> Result<RunHandle<Value>, ClientError> {
        let Self { schedule, input, gate } = self;
        let input = input.transpose()?;
        if let Some(gate) = &gate {
            check_name(NameSubject::Gate, gate)?;
        }
        // The run keeps its id in every try, so that it starts once.
        let mut first: Option<NewRun> = None;
        let change = |read: &mut ReadSchedule| {
            let run = match &first {
                Some(run) => run.clone(),
                None => {
                    let now = read.calendar.occurrence(schedule.name(), read.now, 0);
                    let input = input.clone().map_or_else(|| read.input().map(str::to_owned), Ok)?;
                    let run = read.record.declaration().triggered_run(&now, input);
                    first.insert(NewRun { gate: gate.clone().or(run.gate), ..run }).clone()
                }
            };
            read.record.trigger(run.id, read.now);
            Ok(Change::Start(run.id, Box::new(run)))
        };
        let id = schedule.change(change).await?;
        Ok(RunHandle::new(schedule.client().clone(), id))
    }
}

impl IntoFuture for Trigger {
    type Output = Result<RunHandle<Value>, ClientError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.start())
    }
}

impl fmt::Debug for Trigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trigger").field("schedule", &self.schedule.name()).finish_non_exhaustive()
    }
}
