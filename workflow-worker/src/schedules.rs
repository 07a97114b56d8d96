//! Fires the schedules of the database that are due. Every worker does this. The compare-and-set of
//! each change decides whose runs start.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::join_all;
use tokio::time::Instant;
use workflow_engine::model::{NewRun, RunId, StoredSchedule, Timestamp, UnreadablePayload, check_gate_of};
use workflow_engine::observe::{Event, Observers};
use workflow_engine::schedule::{
    Calendar, Declaration, EndsOfRuns, Firing, Occurrence, PauseCause, Record, ScheduleState, fire,
};
use workflow_engine::store::{DueSchedules, Outcome, ScheduleWrite, Write};
use workflow_sdk::internal::ScheduledInput;
use workflow_sdk::{DatabaseError, RunStatus};

use crate::declaration::{ComputedInputs, checked};
use crate::due::{FAILURE_DELAY, wait_for_look};
use crate::shared::Shared;

/// The most schedules that one look fires. They are one batch: otherwise the work on the first runs
/// would delay the start of the last ones.
const LIMIT: u32 = 1024;

/// How long the other workers leave the due schedules to the first one: longer than it takes to
/// fire many.
const PATIENCE: Duration = Duration::from_millis(200);

/// How long a worker relies on its place among the workers before it looks again.
const PLACE_AGE: Duration = Duration::from_secs(1);

/// The shortest time between two looks that are caused by hints. A busy database gives many, and
/// few of them concern a schedule.
const SPACING: Duration = Duration::from_millis(250);

/// How many times the poll interval a worker waits for a hint before it looks for changed schedules
/// by itself. The worker knows when the next one is due, so it looks only in case a hint was lost
/// or a clock was moved.
const POLLS: u32 = 10;

/// Fires due schedules, until the future is dropped.
pub(crate) async fn fire_schedules(shared: Arc<Shared>, inputs: ComputedInputs) {
    let computed = inputs.names();
    let mut changes = shared.executor().notifier().schedules();
    let spacing = shared.pace(SPACING, Duration::ZERO);
    let (mut place, mut leaves) = (Place::default(), false);
    loop {
        changes.borrow_and_update();
        let looked = Instant::now();
        leaves = !leaves && computed.is_empty() && !place.is_first;
        let next = look(&shared, &inputs, &computed, leaves).await;
        // Refreshed after the look, which is urgent, and only if there are schedules.
        if matches!(next, Ok(Look::After(_) | Look::Left)) {
            place.refresh(&shared).await;
        }
        leaves &= matches!(next, Ok(Look::Left));
        let wait = match next {
            Ok(Look::Again) => continue,
            Ok(Look::After(wait) | Look::Idle(wait)) => wait,
            Ok(Look::Left) => PATIENCE,
            Err(error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "cannot fire schedules, trying again");
                FAILURE_DELAY
            }
        };
        wait_for_look(&mut changes, looked + wait, looked + spacing).await;
    }
}

/// Returns whether schedules are due that this worker can fire.
///
/// # Errors
/// [`DatabaseError`] if the database fails or does not answer.
pub(crate) async fn schedules_are_due(shared: &Shared, computed: &[String]) -> Result<bool, DatabaseError> {
    let due = shared.client.store().due_schedules(computed, LIMIT).await?.due;
    Ok(due.into_iter().any(|row| understood(shared, row).is_some()))
}

/// The next look.
enum Look {
    /// Look again: schedules were fired, and more may be due.
    Again,
    /// Look again after this time.
    After(Duration),
    /// No schedule will be due. Look again after this time.
    Idle(Duration),
    /// Schedules are due and left to the first worker. Look again after [`PATIENCE`].
    Left,
}

/// The place of this worker among those that live.
///
/// Workers that look at the same moment would all fire the same schedules, and all but one in vain.
/// So all but the one with the lowest id look again a moment later, and fire what is left. This is
/// a hint: the compare-and-set of each change holds whatever the workers know of each other. A
/// worker with code that computes inputs leaves nothing, because the first one may not have that
/// code.
struct Place {
    is_first: bool,
    read: Option<Instant>,
}

impl Default for Place {
    fn default() -> Self {
        Self { is_first: true, read: None }
    }
}

impl Place {
    async fn refresh(&mut self, shared: &Shared) {
        if self.read.is_some_and(|read| read.elapsed() < PLACE_AGE) {
            return;
        }
        // Without an answer the worker fires everything.
        let workers = shared.client.store().workers().await.unwrap_or_default();
        let first = workers.into_iter().filter(|worker| worker.live).map(|worker| worker.id).min();
        *self = Self { is_first: first.is_none_or(|first| first >= shared.id), read: Some(Instant::now()) };
    }
}

/// Fires the schedules that are due now, unless the worker leaves them to the first one.
async fn look(
    shared: &Shared,
    inputs: &ComputedInputs,
    computed: &[String],
    leaves: bool,
) -> Result<Look, DatabaseError> {
    let limit = if leaves { 1 } else { LIMIT };
    let DueSchedules { now, due, next_at } = shared.client.store().due_schedules(computed, limit).await?;
    if leaves && !due.is_empty() {
        return Ok(Look::Left);
    }
    let due: Vec<Due> = due.into_iter().filter_map(|row| understood(shared, row)).collect();
    if due.is_empty() {
        let poll = shared.options.poll_interval.saturating_mul(POLLS).mul_f64(1.0 - fastrand::f64() / 4.0);
        return Ok(next_at.map_or(Look::Idle(poll), |next| Look::After(next.since(now).min(poll))));
    }
    let ends = ends_of_runs(shared, &due).await?;
    let (mut writes, mut others) = (Vec::with_capacity(due.len()), Vec::new());
    for Due { row, mut record, calendar } in due {
        let before = record.state.clone();
        let grace = shared.options.cancel_grace;
        let Firing { starts, cancels, terminations } = fire(&mut record, &row.name, &calendar, &ends, (now, grace));
        let seen = Some(row.revision);
        let (record, starts) = with_inputs(shared, inputs, &row, record, starts, now);
        let fired = Fired::of(&row.name, &calendar, (&before, &record.state), now);
        let next = Some(record.to_row(&row.name, row.input, &calendar, now));
        let write = ScheduleWrite { name: row.name, seen, next, starts };
        writes.push((fired, Write::Schedule(Box::new(write))));
        others.extend(cancels.into_iter().map(Write::Cancel).chain(terminations.into_iter().map(Write::Terminate)));
    }
    let mut pending = Vec::with_capacity(writes.len());
    for (fired, write) in writes {
        let Ok(sent) = shared.executor().send(write).await else { return std::future::pending().await };
        pending.push(sent.map(|outcome| (fired, outcome)));
    }
    for (fired, outcome) in join_all(pending).await {
        match outcome {
            Ok(Outcome::Applied) => fired.send(shared.client.observers()),
            Ok(Outcome::Refused(error)) => return Err(error),
            _ => {}
        }
    }
    for write in others {
        // If the writes had no effect, the next look sends them again.
        let _ = shared.executor().send(write).await;
    }
    Ok(Look::Again)
}

/// A schedule that is due.
struct Due {
    row: StoredSchedule,
    record: Record,
    calendar: Calendar,
}

/// The changes of a schedule by a look at it, for observers.
struct Fired {
    schedule: String,
    started: u64,
    skipped: u64,
    missed: u64,
    lateness: Option<Duration>,
}

impl Fired {
    /// Returns the difference between two states of a schedule.
    fn of(name: &str, calendar: &Calendar, (before, after): (&ScheduleState, &ScheduleState), now: Timestamp) -> Self {
        let started = after.started.saturating_sub(before.started);
        let latest = after.last_at.filter(|_| started > 0);
        Self {
            schedule: name.to_owned(),
            started,
            skipped: after.skipped.saturating_sub(before.skipped),
            missed: after.missed.saturating_sub(before.missed),
            lateness: latest.map(|at| now.since(calendar.due_at(name, at))),
        }
    }

    fn send(&self, observers: &Observers) {
        let Self { ref schedule, started, skipped, missed, lateness } = *self;
        // A look that only keeps waiting for the end of a run sends no event.
        if started + skipped + missed > 0 {
            observers.event(&Event::ScheduleFired { schedule, started, skipped, missed, lateness });
        }
    }
}

/// Reads the record of a row. A record of a later release is left to workers of that release.
fn understood(shared: &Shared, row: StoredSchedule) -> Option<Due> {
    let name = row.name.clone();
    let warn = |why: &dyn std::fmt::Display| {
        if shared.first_warning(&format!("schedule {name}")) {
            tracing::warn!(schedule = name, %why, "this worker cannot fire a schedule, and leaves it to others");
        }
    };
    if let Some(unreadable) = row.input.as_deref().and_then(UnreadablePayload::in_place_of) {
        warn(&unreadable);
        return None;
    }
    let record = Record::of(&row).inspect_err(|error| warn(error)).ok()?;
    let calendar = record.calendar(&row.name).inspect_err(|error| warn(error)).ok()?;
    Some(Due { row, record, calendar })
}

/// Reads how the runs ended that these schedules have started, as far as they ask for it.
async fn ends_of_runs(shared: &Shared, due: &[Due]) -> Result<EndsOfRuns, DatabaseError> {
    let open: Vec<RunId> = due.iter().flat_map(|due| due.record.state.open.iter().copied()).collect();
    if open.is_empty() {
        return Ok(EndsOfRuns::new());
    }
    let store = shared.client.store();
    let mut ends: EndsOfRuns =
        store.ended(&open).await?.into_iter().map(|end| (end.id, end.status == RunStatus::Failed)).collect();
    let rest: Vec<RunId> = open.into_iter().filter(|run| !ends.contains_key(run)).collect();
    if !rest.is_empty() {
        ends.extend(store.missing(&rest).await?.into_iter().map(|run| (run, false)));
    }
    Ok(ends)
}

/// Returns the runs of these occurrences. If an input cannot be computed, the schedule is paused
/// instead.
fn with_inputs(
    shared: &Shared,
    inputs: &ComputedInputs,
    row: &StoredSchedule,
    record: Record,
    starts: Vec<Occurrence>,
    now: Timestamp,
) -> (Record, Vec<NewRun>) {
    let runs = starts.iter().map(|start| new_run(record.declaration(), start, input(shared, inputs, row, start)?));
    match runs.collect::<Result<Vec<_>, String>>() {
        Ok(runs) => (record, runs),
        Err(reason) => {
            tracing::warn!(schedule = row.name, reason, "a schedule is paused, because the input of a run failed");
            // The record as it was before it was fired.
            let mut record = Record::of(row).unwrap_or(record);
            record.pause(PauseCause::Input, &reason, now);
            (record, Vec::new())
        }
    }
}

/// Returns the run of an occurrence. The gate of the schedule wins over that of the input.
fn new_run(declaration: &Declaration, occurrence: &Occurrence, input: ScheduledInput) -> Result<NewRun, String> {
    let mut run = declaration.run(occurrence, input.text);
    if run.gate.is_none()
        && let Some(gate) = input.gate
    {
        check_gate_of(&run.lane.workflow, &gate).map_err(|error| error.to_string())?;
        run.gate = Some(gate);
    }
    Ok(run)
}

fn input(
    shared: &Shared,
    inputs: &ComputedInputs,
    row: &StoredSchedule,
    occurrence: &Occurrence,
) -> Result<ScheduledInput, String> {
    if let Some(text) = &row.input {
        return Ok(ScheduledInput { text: text.clone(), gate: None });
    }
    let compute = inputs.of(&row.name).ok_or("this worker does not have the function of the input")?;
    let input = catch_unwind(AssertUnwindSafe(|| compute(occurrence)))
        .map_err(|_| format!("the input of {occurrence} panicked"))?
        .and_then(|ScheduledInput { text, gate }| {
            let text = checked(&row.name, text, shared.client.payload_limit())?;
            Ok(ScheduledInput { text, gate })
        });
    input.map_err(|error| error.to_string())
}
