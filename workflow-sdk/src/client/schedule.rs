use workflow_engine::model::{StoredSchedule, Timestamp, UnreadablePayload};
use workflow_engine::schedule::{Calendar, Declaration, Origin, Record, ScheduleState};
use workflow_engine::store::{Outcome, ScheduleWrite, Write};

use super::start::check_size;
use super::{Client, ClientError, ScheduleHandle};
use crate::schedule::{DeclaredSchedule, Schedule, ScheduleInput};

/// Schedules per query of a list.
const PAGE: u32 = 500;

/// The description of a schedule.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ScheduleInfo {
    /// The name.
    pub name: String,
    /// Where the schedule comes from.
    pub origin: Origin,
    /// The declaration of the code, or of the client that created the schedule.
    pub declared: Declaration,
    /// An operator's declaration in place of that of the code: the schedule is in drift.
    pub changed: Option<Declaration>,
    /// Its next occurrence, its runs, its pause and its counters.
    pub state: ScheduleState,
}

impl ScheduleInfo {
    /// Returns the declaration that holds.
    #[must_use]
    pub fn declaration(&self) -> &Declaration {
        self.changed.as_ref().unwrap_or(&self.declared)
    }

    pub(super) fn new(name: String, record: Record) -> Self {
        let Record { origin, declared, changed, state } = record;
        Self { name, origin, declared, changed, state }
    }
}

/// A schedule as it was read.
pub(super) struct ReadSchedule {
    pub(super) row: StoredSchedule,
    pub(super) record: Record,
    pub(super) calendar: Calendar,
    pub(super) now: Timestamp,
}

impl ReadSchedule {
    /// Returns the input of the runs.
    pub(super) fn input(&self) -> Result<&str, ClientError> {
        let input = self.row.input.as_deref();
        let input = input.ok_or_else(|| ClientError::ComputedInput { name: self.row.name.clone() })?;
        match UnreadablePayload::in_place_of(input) {
            Some(unreadable) => Err(unreadable.into()),
            None => Ok(input),
        }
    }
}

impl Client {
    /// Creates a schedule. It starts its first run at its first occurrence after this call, as soon
    /// as a worker of any workflow runs on the database.
    ///
    /// # Errors
    /// [`ClientError::Schedule`] for a declaration that is refused, [`ClientError::ScheduleExists`]
    /// if there is one of this name, [`ClientError::ComputedInput`] for
    /// [`Schedule::start_with`], [`ClientError::Payload`], [`ClientError::Tags`],
    /// [`ClientError::Database`].
    ///
    /// # Cancel safety
    /// If the future is dropped, the schedule may or may not have been created.
    ///
    /// ```
    /// use workflow_sdk::prelude::*;
    /// use workflow_sdk::{ClientError, Schedule};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let client = Client::connect("sqlite::memory:").await?;
    /// let hourly = |times| Schedule::cron("clean-up", times).start_by_name("clean_up", &7.into());
    /// client.create_schedule(hourly("0 * * * *")).await?;
    /// let again = client.create_schedule(hourly("0 * * * *")).await;
    /// assert!(matches!(again, Err(ClientError::ScheduleExists { .. })));
    /// let never = client.create_schedule(hourly("0 0 31 2 *")).await.unwrap_err();
    /// assert!(never.to_string().contains("no occurrence within five years"));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn create_schedule(&self, schedule: Schedule) -> Result<ScheduleHandle, ClientError> {
        let now = self.now().await?;
        let DeclaredSchedule { name, declaration, input, .. } = schedule.into_parts()?;
        let calendar = declaration.check(&name, now)?;
        let input = match input {
            Some(ScheduleInput::Fixed(input)) => input?,
            Some(ScheduleInput::Computed(_)) => return Err(ClientError::ComputedInput { name }),
            // The check has refused a schedule that starts nothing.
            None => "null".into(),
        };
        check_size(&declaration.lane.workflow, &input, &declaration.tags, self.payload_limit())?;
        let record = Record::new(Origin::Api, declaration, &calendar, now);
        let row = record.to_row(&name, Some(input), &calendar, now);
        let write = ScheduleWrite { name: name.clone(), seen: None, next: Some(row), starts: Vec::new() };
        match self.commit(Write::Schedule(Box::new(write))).await? {
            Outcome::Applied | Outcome::Duplicate => Ok(self.schedule(name)),
            Outcome::Lost => Err(ClientError::ScheduleExists { name }),
            other => Err(ClientError::unexpected(other)),
        }
    }

    /// Returns a handle of the schedule of this name. It reads nothing: the calls of the handle
    /// fail with [`ClientError::UnknownSchedule`] if there is none.
    pub fn schedule(&self, name: impl Into<String>) -> ScheduleHandle {
        ScheduleHandle::new(self.clone(), name.into())
    }

    /// Returns every schedule, in the order of their names. One that a later release has written is
    /// left out with a warning in the log.
    ///
    /// # Errors
    /// [`ClientError::Database`].
    ///
    /// ```
    /// use workflow_sdk::prelude::*;
    /// use workflow_sdk::Schedule;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let client = Client::connect("sqlite::memory:").await?;
    /// let sync = Schedule::every("sync", Duration::from_secs(9)).start_by_name("sync", &7.into());
    /// client.create_schedule(sync).await?;
    /// for schedule in client.schedules().await? {
    ///     println!("{}: next at {:?}", schedule.name, schedule.state.next_at);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn schedules(&self) -> Result<Vec<ScheduleInfo>, ClientError> {
        let mut all = Vec::new();
        let mut after: Option<String> = None;
        loop {
            let page = self.read(self.store().schedules(after.as_deref(), PAGE)).await?;
            let is_last = page.len() < PAGE as usize;
            after = page.last().map(|row| row.name.clone());
            for row in page {
                match Record::of(&row) {
                    Ok(record) => all.push(ScheduleInfo::new(row.name, record)),
                    Err(error) => tracing::warn!(%error, "a schedule is left out of the list"),
                }
            }
            if is_last {
                return Ok(all);
            }
        }
    }

    /// Returns the time of the database.
    pub(crate) async fn now(&self) -> Result<Timestamp, ClientError> {
        self.read(self.store().now()).await
    }
}
