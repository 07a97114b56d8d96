use std::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;

use workflow_engine::model::{Lane, NewRun, Timestamp};
use workflow_engine::schedule::{
    Calendar, Declaration, InvalidSchedule, Occurrence, Origin, PauseCause, Record, UnreadableSchedule,
};
use workflow_engine::store::{Outcome, ScheduleWrite, Write};

use super::schedule::ReadSchedule;
use super::start::check_size;
use super::{Backfill, Client, ClientError, ScheduleInfo, Trigger};
use crate::schedule::{DeclaredSchedule, Schedule, ScheduleInput, input_text, next_occurrences};

/// A handle of a schedule. Get one from [`Client::schedule`] or [`Client::create_schedule`].
#[derive(Clone)]
pub struct ScheduleHandle {
    client: Client,
    name: String,
}

impl ScheduleHandle {
    pub(super) fn new(client: Client, name: String) -> Self {
        Self { client, name }
    }

    /// Returns the name of the schedule.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    /// Describes the schedule.
    ///
    /// # Errors
    /// [`ClientError::UnknownSchedule`], [`ClientError::UnreadableSchedule`],
    /// [`ClientError::Database`].
    pub async fn describe(&self) -> Result<ScheduleInfo, ClientError> {
        let ReadSchedule { row, record, .. } = self.read().await?;
        Ok(ScheduleInfo::new(row.name, record))
    }

    /// Returns the next occurrences, at most `count` of them and at most 1,000. Show them beside a
    /// cron expression: they say more than its words. A pause or a limit of runs does not change
    /// them.
    ///
    /// # Errors
    /// See [`ScheduleHandle::describe`].
    pub async fn next(&self, count: usize) -> Result<Vec<Occurrence>, ClientError> {
        let ReadSchedule { calendar, now, .. } = self.read().await?;
        Ok(next_occurrences(&calendar, &self.name, now, count))
    }

    /// Pauses the schedule: no occurrence starts a run until it is [resumed](Self::resume).
    /// Occurrences that wait for the end of a run are skipped. Runs that have started go on. The
    /// reason is kept for people. A second pause changes the reason only.
    ///
    /// # Errors
    /// See [`ScheduleHandle::describe`].
    ///
    /// # Cancel safety
    /// If the future is dropped, the schedule may or may not be paused. Pausing it again is safe.
    ///
    /// ```
    /// use workflow_sdk::prelude::*;
    /// use workflow_sdk::Schedule;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = Client::connect("sqlite::memory:").await?;
    /// let sync = Schedule::every("sync", Duration::from_secs(9)).start_by_name("sync", &7.into());
    /// let sync = client.create_schedule(sync).await?;
    /// sync.pause("the partner's service is down").await?;
    /// let pause = sync.describe().await?.state.paused;
    /// let reason = pause.map(|pause| pause.reason);
    /// assert_eq!(reason.as_deref(), Some("the partner's service is down"));
    /// assert!(sync.resume().await?);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn pause(&self, reason: impl Into<String>) -> Result<(), ClientError> {
        let reason = reason.into();
        self.change(|read| {
            read.record.pause(PauseCause::Operator, &reason, read.now);
            Ok(Change::Write(()))
        })
        .await
    }

    /// Ends the pause, whatever has caused it, and returns whether there was one. Occurrences that
    /// passed during the pause are not caught up.
    ///
    /// # Errors
    /// See [`ScheduleHandle::describe`].
    ///
    /// # Cancel safety
    /// See [`ScheduleHandle::pause`].
    pub async fn resume(&self) -> Result<bool, ClientError> {
        self.change(|read| {
            let was_paused = read.record.resume(&read.calendar, read.now);
            Ok(if was_paused { Change::Write(true) } else { Change::None(false) })
        })
        .await
    }

    /// Starts a run now, beside the occurrences, also while the schedule is paused or another run
    /// has not ended. The run counts as one of the schedule for the overlap of later occurrences.
    /// Returns a builder: set its options, then await it.
    ///
    /// # Errors
    /// Awaiting the builder returns [`ClientError::ComputedInput`] if code computes the input and
    /// none was given, [`ClientError::Payload`], or an error of [`ScheduleHandle::describe`].
    ///
    /// # Cancel safety
    /// If the awaited future is dropped, the run may or may not have been started.
    ///
    /// ```
    /// use workflow_sdk::prelude::*;
    /// use workflow_sdk::Schedule;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = Client::connect("sqlite::memory:").await?;
    /// let sync = Schedule::every("sync", Duration::from_secs(9)).start_by_name("sync", &7.into());
    /// let sync = client.create_schedule(sync).await?;
    /// let run = sync.trigger().await?;
    /// assert_eq!(sync.describe().await?.state.last_run, Some(run.id()));
    /// # Ok(())
    /// # }
    /// ```
    pub fn trigger(&self) -> Trigger {
        Trigger::new(self.clone())
    }

    /// Starts the runs of the occurrences after `after` and up to `until`, both in the past.
    /// Occurrences that have a run are left out. Returns a builder: look at its
    /// [preview](Backfill::preview), set its options, then await it.
    ///
    /// # Errors
    /// Awaiting the builder returns [`ClientError::EmptyBackfill`] if `until` is not later than
    /// `after`, [`ClientError::LargeBackfill`] above its limit, [`ClientError::ComputedInput`] if
    /// code computes the input and none was given, [`ClientError::QueueFull`], or an error of
    /// [`ScheduleHandle::describe`].
    ///
    /// # Cancel safety
    /// If the awaited future is dropped, some of the runs may have been started. Repeat the
    /// backfill: it starts the others.
    ///
    /// ```
    /// use workflow_sdk::prelude::*;
    /// use workflow_sdk::{Schedule, Timestamp};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = Client::connect("sqlite::memory:").await?;
    /// let daily = Schedule::cron("daily", "0 7 * * *").start_by_name("report", &().into());
    /// let daily = client.create_schedule(daily).await?;
    /// let week = [1_767_225_600_000_000, 1_767_830_400_000_000];
    /// let [after, until] = week.map(Timestamp::from_micros);
    /// assert_eq!(daily.backfill(after, until).preview().await?.count, 7);
    /// assert_eq!(daily.backfill(after, until).await?.started, 7);
    /// assert_eq!(daily.backfill(after, until).await?.started, 0, "they have their runs");
    /// # Ok(())
    /// # }
    /// ```
    pub fn backfill(&self, after: impl Into<Timestamp>, until: impl Into<Timestamp>) -> Backfill {
        Backfill::new(self.clone(), after.into(), until.into())
    }

    /// Replaces the declaration. Without `.start(..)` the workflow, its version, input, queue and
    /// gate stay, unless `.version(..)`, `.queue(..)` or `.gate(..)` sets another one.
    ///
    /// Of a schedule that code declares, the times and policies are replaced until
    /// [`ScheduleHandle::revert`], and workers that declare it keep the change: it is shown as
    /// [drift](ScheduleInfo::changed). New times count from now.
    ///
    /// # Errors
    /// [`ClientError::Schedule`] for a declaration that is refused, [`ClientError::ScheduleOfCode`]
    /// if code declares what is started, [`ClientError::Payload`], or an error of
    /// [`ScheduleHandle::describe`]. The name of the new declaration must be that of the schedule,
    /// else [`ClientError::UnknownSchedule`].
    ///
    /// # Cancel safety
    /// If the future is dropped, the schedule may or may not be changed.
    ///
    /// ```
    /// use workflow_sdk::prelude::*;
    /// use workflow_sdk::{Overlap, Schedule};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = Client::connect("sqlite::memory:").await?;
    /// let daily = Schedule::cron("daily", "0 7 * * *").start_by_name("report", &().into());
    /// let daily = client.create_schedule(daily).await?;
    /// daily.update(Schedule::cron("daily", "0 8 * * *").overlap(Overlap::Allow)).await?;
    /// assert_eq!(daily.describe().await?.declaration().lane.workflow, "report");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn update(&self, schedule: Schedule) -> Result<(), ClientError> {
        let DeclaredSchedule { name, declaration, names_queue, names_version, input } = schedule.into_parts()?;
        if name != self.name {
            return Err(ClientError::UnknownSchedule { name });
        }
        let input = match input {
            Some(ScheduleInput::Fixed(input)) => Some(input?),
            Some(ScheduleInput::Computed(_)) => return Err(ClientError::ComputedInput { name }),
            None => None,
        };
        let starts_other = input.is_some();
        self.redeclare(input, |record| {
            let mut declaration = declaration.clone();
            if !starts_other {
                let present = record.declaration();
                let Lane { queue, version, .. } = std::mem::replace(&mut declaration.lane, present.lane.clone());
                if names_queue {
                    declaration.lane.queue = queue;
                }
                if names_version {
                    declaration.lane.version = version;
                }
                declaration.gate = declaration.gate.or_else(|| present.gate.clone());
            }
            declaration
        })
        .await
    }

    /// Changes the declaration that holds, and the input if there is one. For orders.
    ///
    /// # Errors
    /// See [`ScheduleHandle::update`].
    pub(crate) async fn edit<I: Serialize + DeserializeOwned>(
        &self,
        input: Option<&I>,
        edit: impl Fn(&mut Declaration),
    ) -> Result<(), ClientError> {
        let input = input.map(|input| input_text(&self.name, input)).transpose()?;
        self.redeclare(input, |record| {
            let mut declaration = record.declaration().clone();
            edit(&mut declaration);
            declaration
        })
        .await
    }

    /// Replaces the declaration by the one that `declare` makes of the record, and the input if
    /// there is one.
    async fn redeclare(
        &self,
        input: Option<String>,
        declare: impl Fn(&Record) -> Declaration,
    ) -> Result<(), ClientError> {
        let limit = self.client.payload_limit();
        self.change(|read| {
            let declaration = declare(&read.record);
            let (lane, of_code) = (&declaration.lane, &read.record.declared.lane);
            let starts_other =
                input.is_some() || (&lane.workflow, &lane.version) != (&of_code.workflow, &of_code.version);
            if starts_other && read.record.origin != Origin::Api {
                return Err(ClientError::ScheduleOfCode { name: self.name.clone() });
            }
            let calendar = declaration.check(&self.name, read.now)?;
            if let Some(input) = &input {
                check_size(&declaration.lane.workflow, input, &declaration.tags, limit)?;
                read.row.input = Some(input.clone());
            }
            read.record.change(Some(declaration), &calendar, read.now);
            read.calendar = calendar;
            Ok(Change::Write(()))
        })
        .await
    }

    /// Returns `true` if a client has created the schedule with this declaration and this input,
    /// and neither was changed since.
    ///
    /// # Errors
    /// See [`ScheduleHandle::describe`].
    pub(crate) async fn is_as_created(&self, schedule: Schedule) -> Result<bool, ClientError> {
        let DeclaredSchedule { declaration, input, .. } = schedule.into_parts()?;
        let read = self.read().await?;
        let has_input = match (&read.row.input, input) {
            (Some(present), Some(ScheduleInput::Fixed(Ok(input)))) => *present == input,
            _ => false,
        };
        Ok(has_input && read.record.origin == Origin::Api && read.record.declared == declaration)
    }

    /// Returns to the declaration of the code, and returns whether the schedule was in drift.
    ///
    /// # Errors
    /// See [`ScheduleHandle::describe`].
    ///
    /// # Cancel safety
    /// See [`ScheduleHandle::update`].
    pub async fn revert(&self) -> Result<bool, ClientError> {
        self.change(|read| {
            if read.record.changed.is_none() {
                return Ok(Change::None(false));
            }
            read.calendar = Calendar::of(&read.row.name, &read.record.declared.timing)?;
            read.record.change(None, &read.calendar, read.now);
            Ok(Change::Write(true))
        })
        .await
    }

    /// Deletes the schedule. Its runs stay. A worker that declares it creates it again when it
    /// starts. Deleting a schedule that does not exist succeeds.
    ///
    /// # Errors
    /// [`ClientError::Database`].
    ///
    /// # Cancel safety
    /// If the future is dropped, the schedule may or may not be deleted.
    pub async fn delete(&self) -> Result<(), ClientError> {
        self.remove().await.map(drop)
    }

    /// Deletes the schedule, and returns whether it existed.
    pub(crate) async fn remove(&self) -> Result<bool, ClientError> {
        loop {
            let Some(row) = self.client.read(self.client.store().schedule(&self.name)).await? else { return Ok(false) };
            let (name, seen) = (self.name.clone(), Some(row.revision));
            let write = ScheduleWrite { name, seen, next: None, starts: Vec::new() };
            match self.client.commit(Write::Schedule(Box::new(write))).await? {
                Outcome::Applied | Outcome::Duplicate => return Ok(true),
                Outcome::Lost => {}
                other => return Err(ClientError::unexpected(other)),
            }
        }
    }

    pub(super) async fn read(&self) -> Result<ReadSchedule, ClientError> {
        let unknown = || ClientError::UnknownSchedule { name: self.name.clone() };
        let row = self.client.read(self.client.store().schedule(&self.name)).await?.ok_or_else(unknown)?;
        let record = Record::of(&row)?;
        let unreadable =
            |error: InvalidSchedule| UnreadableSchedule { name: self.name.clone(), reason: error.to_string() };
        let calendar = record.calendar(&self.name).map_err(unreadable)?;
        // Read after the row, so that this time is not before the last firing that the row shows.
        let now = self.client.now().await?;
        Ok(ReadSchedule { row, record, calendar, now })
    }

    /// Reads the schedule, changes it, and writes it if nothing else has changed it meanwhile.
    /// Otherwise it begins again: each loss means that another change was made.
    pub(super) async fn change<T>(
        &self,
        mut change: impl FnMut(&mut ReadSchedule) -> Result<Change<T>, ClientError>,
    ) -> Result<T, ClientError> {
        loop {
            let mut read = self.read().await?;
            let seen = Some(read.row.revision);
            let (answer, starts) = match change(&mut read)? {
                Change::None(answer) => return Ok(answer),
                Change::Write(answer) => (answer, Vec::new()),
                Change::Start(answer, run) => (answer, vec![*run]),
            };
            let ReadSchedule { row, record, calendar, now } = read;
            let next = Some(record.to_row(&self.name, row.input, &calendar, now));
            let write = ScheduleWrite { name: self.name.clone(), seen, next, starts };
            match self.client.commit(Write::Schedule(Box::new(write))).await? {
                Outcome::Applied | Outcome::Duplicate => return Ok(answer),
                Outcome::Lost => {}
                other => return Err(ClientError::unexpected(other)),
            }
        }
    }
}

impl fmt::Debug for ScheduleHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScheduleHandle").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The outcome of a change of a schedule that was read.
pub(super) enum Change<T> {
    /// The schedule stays as it is.
    None(T),
    /// The schedule is written.
    Write(T),
    /// The schedule is written, and a run starts.
    Start(T, Box<NewRun>),
}
