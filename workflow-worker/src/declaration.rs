//! The schedules that a worker declares when it starts.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use workflow_engine::model::{NewRun, StoredSchedule, Timestamp};
use workflow_engine::runtime::PayloadError;
use workflow_engine::schedule::{Calendar, Conflict, Declaration, Occurrence, Origin, PauseCause, Record};
use workflow_engine::store::{Outcome, ScheduleWrite, Write};
use workflow_sdk::internal::{DeclaredSchedule, ScheduleInput, ScheduledInput};
use workflow_sdk::{Client, Schedule};

use crate::WorkerError;

/// Schedules per query of a list.
const PAGE: u32 = 500;

/// The schedules of one worker.
#[derive(Default)]
pub(crate) struct Schedules {
    declared: Vec<Schedule>,
    group: Option<String>,
}

/// The inputs that a worker computes.
#[derive(Default)]
pub(crate) struct ComputedInputs(Vec<(String, ComputeInput)>);

type ComputeInput = Arc<dyn Fn(&Occurrence) -> Result<ScheduledInput, PayloadError> + Send + Sync>;

impl Schedules {
    pub(crate) fn add(&mut self, schedule: Schedule) {
        self.declared.push(schedule);
    }

    pub(crate) fn set_group(&mut self, group: String) {
        self.group = Some(group);
    }

    /// Declares the schedules, and retires those of the group that the worker does not declare.
    /// Returns the inputs that the worker computes.
    pub(crate) async fn declare(self, client: &Client) -> Result<ComputedInputs, WorkerError> {
        let Self { declared, group } = self;
        let mut inputs = ComputedInputs::default();
        let mut names = HashSet::new();
        for schedule in declared {
            let DeclaredSchedule { name, declaration, input, .. } = schedule.into_parts()?;
            if !names.insert(name.clone()) {
                return Err(WorkerError::DuplicateSchedule { name });
            }
            let input = match input {
                Some(ScheduleInput::Fixed(input)) => Some(checked(&name, input?, client.payload_limit())?),
                Some(ScheduleInput::Computed(compute)) => {
                    inputs.0.push((name.clone(), compute));
                    None
                }
                // The check of the declaration refuses a schedule without an input.
                None => None,
            };
            declare(client, &name, &declaration, input.as_deref(), group.as_deref()).await?;
        }
        if let Some(group) = group {
            retire_others(client, &group, &names).await?;
        }
        Ok(inputs)
    }
}

impl ComputedInputs {
    /// Returns the names of the schedules.
    pub(crate) fn names(&self) -> Vec<String> {
        self.0.iter().map(|(name, _)| name.clone()).collect()
    }

    /// Returns the function of this schedule.
    pub(crate) fn of(&self, name: &str) -> Option<&ComputeInput> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, compute)| compute)
    }
}

impl fmt::Debug for ComputedInputs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

/// Returns the input of a schedule, if it is not larger than the limit.
pub(crate) fn checked(name: &str, input: String, limit: usize) -> Result<String, PayloadError> {
    match input.len() {
        bytes if bytes > limit => {
            Err(PayloadError::TooLarge { subject: format!("input of schedule {name:?}"), bytes, limit })
        }
        _ => Ok(input),
    }
}

/// Creates the schedule, or changes it if its declaration has changed.
async fn declare(
    client: &Client,
    name: &str,
    declaration: &Declaration,
    input: Option<&str>,
    group: Option<&str>,
) -> Result<(), WorkerError> {
    loop {
        let now = client.store().now().await?;
        let calendar = declaration.check(name, now)?;
        let (seen, row) = match client.store().schedule(name).await? {
            None => {
                let origin = Origin::Code { group: group.map(str::to_owned) };
                let record = Record::new(origin, declaration.clone(), &calendar, now);
                (None, record.to_row(name, input.map(str::to_owned), &calendar, now))
            }
            Some(row) => {
                let changed = redeclared(row, declaration, input, group, &calendar, now)?;
                let Some((seen, row)) = changed else { return Ok(()) };
                (Some(seen), row)
            }
        };
        if write(client, name, seen, row, Vec::new()).await? {
            tracing::info!(schedule = name, "a schedule is declared");
            return Ok(());
        }
    }
}

/// Returns the revision of this row, and the row with the new declaration; `None` if nothing
/// changes.
fn redeclared(
    row: StoredSchedule,
    declaration: &Declaration,
    input: Option<&str>,
    group: Option<&str>,
    calendar: &Calendar,
    now: Timestamp,
) -> Result<Option<(i64, StoredSchedule)>, WorkerError> {
    let mut record = Record::of(&row)?;
    let conflict = |Conflict| WorkerError::ScheduleConflict { name: row.name.clone() };
    let is_changed = record.redeclare(group, declaration.clone(), calendar, now).map_err(conflict)?;
    if !is_changed && row.input.as_deref() == input {
        return Ok(None);
    }
    // The calendar of the declaration that holds, which may be an operator's.
    let calendar = record.calendar(&row.name)?;
    Ok(Some((row.revision, record.to_row(&row.name, input.map(str::to_owned), &calendar, now))))
}

/// Pauses the schedules of this group that are not among the declared ones.
async fn retire_others(client: &Client, group: &str, declared: &HashSet<String>) -> Result<(), WorkerError> {
    let mut after: Option<String> = None;
    loop {
        let page = client.store().schedules(after.as_deref(), PAGE).await?;
        let is_last = page.len() < PAGE as usize;
        after = page.last().map(|row| row.name.clone());
        for row in page.iter().filter(|row| !declared.contains(&row.name)) {
            retire(client, group, &row.name).await?;
        }
        if is_last {
            return Ok(());
        }
    }
}

async fn retire(client: &Client, group: &str, name: &str) -> Result<(), WorkerError> {
    loop {
        let now = client.store().now().await?;
        let Some(row) = client.store().schedule(name).await? else { return Ok(()) };
        // A later release may have written it. It then belongs to workers of that release.
        let Ok(mut record) = Record::of(&row) else { return Ok(()) };
        let is_of_group = matches!(&record.origin, Origin::Code { group: Some(of) } if of == group);
        if !is_of_group || record.state.paused.is_some() {
            return Ok(());
        }
        let why = format!("no longer declared by the workers of group {group}, since {now}");
        record.pause(PauseCause::Retired, &why, now);
        let calendar = record.calendar(name)?;
        let next = record.to_row(name, row.input, &calendar, now);
        if write(client, name, Some(row.revision), next, Vec::new()).await? {
            tracing::warn!(schedule = name, group, "a schedule that is no longer declared is paused");
            return Ok(());
        }
    }
}

/// Writes the row of a schedule. Returns `false` if another change came before.
async fn write(
    client: &Client,
    name: &str,
    seen: Option<i64>,
    next: StoredSchedule,
    starts: Vec<NewRun>,
) -> Result<bool, WorkerError> {
    let write = ScheduleWrite { name: name.to_owned(), seen, next: Some(next), starts };
    match client.executor().commit(Write::Schedule(Box::new(write))).await? {
        Outcome::Refused(error) => Err(error.into()),
        Outcome::Lost => Ok(false),
        _ => Ok(true),
    }
}
