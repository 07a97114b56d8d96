use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::client::{DEFAULT_QUEUE, DEFAULT_VERSION};
use crate::workflow::Workflow;
use workflow_engine::model::{Lane, Priority, Timestamp, check_gate_of};
use workflow_engine::runtime::{PayloadError, round_trip, round_trip_for_caller};
use workflow_engine::schedule::{Calendar, CatchUp, Declaration, InvalidSchedule, Occurrence, Overlap, Timing};

/// The declaration of a schedule, which starts runs of a workflow by the clock: times, a workflow
/// with its input, and policies. Each occurrence starts one run, however many workers there are.
///
/// Pass it to `Worker::schedule` to declare it in code, or to [`Client::create_schedule`] to create
/// it at run time. Both check it and refuse what can never work, with an [`InvalidSchedule`] that
/// names the value and says what to use instead.
///
/// The name identifies the schedule in the database. Range: 1 to 200 bytes without control
/// characters.
///
/// ```
/// use workflow_sdk::prelude::*;
/// use workflow_sdk::{CatchUp, Overlap, Schedule};
///
/// #[workflow]
/// async fn report(ctx: &Ctx, kind: String) -> Result<()> {
///     Ok(())
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let client = Client::connect("sqlite::memory:").await?;
/// let daily = Schedule::cron("daily-report", "0 7 * * MON-FRI")
///     .zone("Europe/Berlin")
///     .start(report, "sales".to_string())
///     .overlap(Overlap::BufferOne)
///     .catch_up(CatchUp::Latest { window: Duration::from_secs(24 * 3600) });
/// let created = client.create_schedule(daily).await?;
/// assert_eq!(created.next(1).await?[0].date().len(), "2026-11-24".len());
/// # Ok(())
/// # }
/// ```
///
/// [`Client::create_schedule`]: crate::Client::create_schedule
/// [`InvalidSchedule`]: crate::InvalidSchedule
#[must_use = "a schedule starts nothing until a worker declares it or a client creates it"]
pub struct Schedule {
    name: String,
    declaration: Declaration,
    version: Option<String>,
    queue: Option<String>,
    /// The gate that the attribute of the workflow computes from a fixed input.
    default_gate: Option<String>,
    input: Option<ScheduleInput>,
}

/// The input of the runs of a schedule.
#[doc(hidden)]
pub enum ScheduleInput {
    /// Each run has this input, as JSON text.
    Fixed(Result<String, PayloadError>),
    /// Code computes the input of each run.
    Computed(ComputeInput),
}

/// The computed input of one run.
#[doc(hidden)]
#[derive(Debug)]
pub struct ScheduledInput {
    /// The input as JSON text.
    pub text: String,
    /// The gate that the attribute of the workflow computes from the input.
    pub gate: Option<String>,
}

/// Computes the input of a run.
type ComputeInput = Arc<dyn Fn(&Occurrence) -> Result<ScheduledInput, PayloadError> + Send + Sync>;

/// The parts of a schedule.
#[doc(hidden)]
#[derive(Debug)]
pub struct DeclaredSchedule {
    /// The name.
    pub name: String,
    /// The declaration.
    pub declaration: Declaration,
    /// Whether the schedule names its queue.
    pub names_queue: bool,
    /// Whether the schedule names a version.
    pub names_version: bool,
    /// The input; `None` if nothing says what to start.
    pub input: Option<ScheduleInput>,
}

/// Leaves the input out, because Debug output is logged.
impl fmt::Debug for ScheduleInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fixed(_) => "Fixed",
            Self::Computed(_) => "Computed",
        })
    }
}

impl Schedule {
    /// Creates a schedule with the times of a cron expression: minute, hour, day of the month,
    /// month, day of the week; or six fields with the second first. If both days are given, one of
    /// them is enough.
    ///
    /// `*`, `*/n`, `a-b`, `a,b`, `MON-FRI`, `JAN`, `L` (last), `W` (nearest weekday) and `#n` (nth
    /// weekday of the month) are understood. [`Schedule::zone`] sets the time zone.
    pub fn cron(name: impl Into<String>, expression: impl Into<String>) -> Self {
        Self::new(name.into(), Timing { cron: vec![expression.into()], ..Timing::default() })
    }

    /// Creates a schedule with the multiples of an interval since 1970-01-01 UTC. Time zones and
    /// summer time do not change it. Range: whole seconds, from a second to a year.
    pub fn every(name: impl Into<String>, interval: Duration) -> Self {
        Self::new(name.into(), Timing { every: Some(interval), ..Timing::default() })
    }

    fn new(name: String, timing: Timing) -> Self {
        let lane = Lane { queue: DEFAULT_QUEUE.into(), workflow: String::new(), version: DEFAULT_VERSION.into() };
        let declaration = Declaration {
            timing: Timing { zone: "UTC".into(), ..timing },
            lane,
            gate: None,
            tags: [].into(),
            priority: None,
            deadline: None,
            overlap: Overlap::default(),
            catch_up: CatchUp::default(),
            limit: None,
            pause_on_failure: false,
        };
        Self { name, declaration, version: None, queue: None, default_gate: None, input: None }
    }

    /// Adds the times of a further cron expression. A time that several of them have is one
    /// occurrence.
    pub fn and_cron(mut self, expression: impl Into<String>) -> Self {
        self.declaration.timing.cron.push(expression.into());
        self
    }

    /// Leaves out the times that a cron expression has. One of five fields leaves out whole
    /// minutes: `* * 25 12 *` leaves out the 25th of December. Default: none.
    pub fn except(mut self, expression: impl Into<String>) -> Self {
        self.declaration.timing.except.push(expression.into());
        self
    }

    /// Sets by how much the times of [`Schedule::every`] are later than the multiples of the
    /// interval. Default: 0. Range: whole seconds, less than the interval.
    pub fn offset(mut self, offset: Duration) -> Self {
        self.declaration.timing.offset = offset;
        self
    }

    /// Sets the time zone of the cron expressions, by its IANA name such as `Europe/Berlin`.
    /// Default: `UTC`. `docs/guide/schedules.md` shows the days on which clocks are changed.
    pub fn zone(mut self, zone: impl Into<String>) -> Self {
        self.declaration.timing.zone = zone.into();
        self
    }

    /// Sets the earliest occurrence. Default: the first one after the schedule is created.
    pub fn from(mut self, instant: impl Into<Timestamp>) -> Self {
        self.declaration.timing.from = Some(instant.into());
        self
    }

    /// Sets the latest occurrence. Default: none.
    pub fn until(mut self, instant: impl Into<Timestamp>) -> Self {
        self.declaration.timing.until = Some(instant.into());
        self
    }

    /// Ends the schedule after this many runs. Triggered and backfilled runs do not count. Default:
    /// no limit. Range: 1 or more.
    pub fn limit(mut self, runs: u64) -> Self {
        self.declaration.limit = Some(runs);
        self
    }

    /// Delays each occurrence by up to this time, so that schedules do not all start in the same
    /// second. The delay of an occurrence is the same on every worker, and its key and
    /// [`Ctx::occurrence`](crate::Ctx::occurrence) have the time without it. Default: 0. Range: up
    /// to a day. Occurrences keep their order.
    pub fn jitter(mut self, longest: Duration) -> Self {
        self.declaration.timing.jitter = longest;
        self
    }

    /// Sets what happens to an occurrence while a run of the schedule has not ended. Default:
    /// [`Overlap::Skip`].
    pub fn overlap(mut self, overlap: Overlap) -> Self {
        self.declaration.overlap = overlap;
        self
    }

    /// Sets what happens to occurrences that passed while no worker was there. Default:
    /// [`CatchUp::Latest`] within a day.
    pub fn catch_up(mut self, catch_up: CatchUp) -> Self {
        self.declaration.catch_up = catch_up;
        self
    }

    /// Pauses the schedule when one of its runs fails. The run is named in the reason. The pause
    /// begins with the next occurrence, which starts no run. Default: the schedule goes on.
    pub fn pause_on_failure(mut self) -> Self {
        self.declaration.pause_on_failure = true;
        self
    }

    /// Sets the queue of the runs. See [`Start::queue`](crate::Start::queue).
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        self.queue = Some(queue.into());
        self
    }

    /// Sets the gate of its queue behind which each run waits, also triggered and backfilled ones.
    /// See [`Start::gate`](crate::Start::gate). Default: the gate that the workflow's attribute
    /// computes from the input of [`Schedule::start`] or [`Schedule::start_with`], or none.
    ///
    /// ```
    /// # use workflow_sdk::prelude::*;
    /// # #[workflow]
    /// # async fn import(ctx: &Ctx, account: String) -> Result<()> { Ok(()) }
    /// use workflow_sdk::Schedule;
    ///
    /// let nightly = Schedule::cron("acct-42", "0 3 * * *").start(import, "acct-42".to_owned());
    /// let nightly = nightly.queue("imports").gate("acct-42");
    /// # let _ = nightly;
    /// ```
    pub fn gate(mut self, gate: impl Into<String>) -> Self {
        self.declaration.gate = Some(gate.into());
        self
    }

    /// Sets how soon the runs are claimed for the first time, also triggered and backfilled ones.
    /// See [`Start::priority`](crate::Start::priority). Default: [`Priority::Normal`].
    ///
    /// ```
    /// # use workflow_sdk::prelude::*;
    /// # #[workflow]
    /// # async fn reindex(ctx: &Ctx) -> Result<()> { Ok(()) }
    /// use workflow_sdk::{Priority, Schedule};
    ///
    /// // It may wait for what people wait for.
    /// let nightly = Schedule::cron("reindex", "0 3 * * *").start(reindex, ());
    /// let nightly = nightly.priority(Priority::Low);
    /// # let _ = nightly;
    /// ```
    pub fn priority(mut self, priority: Priority) -> Self {
        self.declaration.priority = Some(priority);
        self
    }

    /// Sets the version of the workflow. See [`Start::version`](crate::Start::version).
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.version = Some(version.into());
        self
    }

    /// Adds a tag to the runs. See [`Start::tag`](crate::Start::tag). The engine adds
    /// [`SCHEDULE_TAG`](crate::SCHEDULE_TAG) and [`OCCURRENCE_TAG`](crate::OCCURRENCE_TAG).
    pub fn tag(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.declaration.tags.insert(name.into(), value.into());
        self
    }

    /// Sets the deadline of each run, counted from its start. See
    /// [`Start::deadline`](crate::Start::deadline).
    pub fn deadline(mut self, after: Duration) -> Self {
        self.declaration.deadline = Some(after);
        self
    }

    /// Starts this workflow with this input. Any worker of the database can fire the schedule, also
    /// one that does not know the workflow.
    pub fn start<W: Workflow>(self, workflow: W, input: W::Input) -> Self {
        let _ = workflow;
        let text = input_text(&self.name, &input);
        Self { default_gate: W::gate(&input), ..self.starting::<W>(ScheduleInput::Fixed(text)) }
    }

    /// Starts this workflow with an input that is computed from the occurrence. Only a worker that
    /// declares the schedule has the function, so only such a worker can fire it, and only
    /// `Worker::schedule` takes it. If the function panics, or its value cannot be stored, the
    /// schedule is paused with the reason.
    pub fn start_with<W, F>(self, workflow: W, input: F) -> Self
    where
        W: Workflow,
        F: Fn(&Occurrence) -> W::Input + Send + Sync + 'static,
    {
        let _ = workflow;
        let subject = format!("input of schedule {:?}", self.name);
        // The error is stored as the reason of a pause, so it must not quote the value.
        let compute = move |at: &Occurrence| {
            let input = input(at);
            let (text, _) = round_trip(&subject, &input, usize::MAX)?;
            Ok(ScheduledInput { text, gate: W::gate(&input) })
        };
        self.starting::<W>(ScheduleInput::Computed(Arc::new(compute)))
    }

    /// Starts a workflow whose code this program does not have, with JSON as its input. The run
    /// fails if the input does not decode. See
    /// [`Client::start_by_name`](crate::Client::start_by_name) for its queue, gate and version.
    pub fn start_by_name(mut self, workflow: impl Into<String>, input: &Value) -> Self {
        let input = ScheduleInput::Fixed(input_text(&self.name, input));
        self.starts(workflow.into(), DEFAULT_VERSION, DEFAULT_QUEUE, input);
        self
    }

    /// Returns the first occurrences after a time, at most `count` of them and at most 1,000. It
    /// computes them from the declaration, without a database. Show the occurrences beside a cron
    /// expression: an expression is easily misread.
    ///
    /// # Errors
    /// [`InvalidSchedule::Cron`] and [`InvalidSchedule::Zone`].
    ///
    /// ```
    /// use workflow_sdk::{Schedule, Timestamp};
    ///
    /// let new_year = Timestamp::from_micros(1_767_225_600_000_000);
    /// let daily = Schedule::cron("daily", "0 7 * * *").zone("Europe/Berlin");
    /// let next = daily.next_after(new_year, 2)?;
    /// assert_eq!(next[0].to_string(), "2026-01-01T07:00:00+01:00[Europe/Berlin]");
    /// assert_eq!(next[1].date(), "2026-01-02");
    /// # Ok::<(), workflow_sdk::InvalidSchedule>(())
    /// ```
    pub fn next_after(&self, after: Timestamp, count: usize) -> Result<Vec<Occurrence>, InvalidSchedule> {
        let calendar = Calendar::of(&self.name, &self.declaration.timing)?;
        Ok(next_occurrences(&calendar, &self.name, after, count))
    }

    /// Returns a schedule whose declaration `declare` completes, and which starts a workflow whose
    /// code this program does not have. For orders.
    pub(crate) fn ordered<I: Serialize + DeserializeOwned>(
        name: String,
        workflow: String,
        input: &I,
        declare: impl FnOnce(&mut Declaration),
    ) -> Self {
        let mut schedule = Self::new(name, Timing::default());
        let input = ScheduleInput::Fixed(input_text(&schedule.name, input));
        schedule.starts(workflow, DEFAULT_VERSION, DEFAULT_QUEUE, input);
        declare(&mut schedule.declaration);
        schedule
    }

    fn starting<W: Workflow>(mut self, input: ScheduleInput) -> Self {
        self.starts(W::NAME.into(), W::VERSION, W::QUEUE.unwrap_or(DEFAULT_QUEUE), input);
        self
    }

    fn starts(&mut self, workflow: String, version: &str, queue: &str, input: ScheduleInput) {
        self.declaration.lane = Lane { queue: queue.into(), workflow, version: version.into() };
        self.default_gate = None;
        self.input = Some(input);
    }

    /// Returns the parts. For the worker.
    ///
    /// # Errors
    /// [`InvalidSchedule::Gate`].
    #[doc(hidden)]
    pub fn into_parts(self) -> Result<DeclaredSchedule, InvalidSchedule> {
        let Self { name, mut declaration, version, queue, default_gate, input } = self;
        let (names_queue, names_version) = (queue.is_some(), version.is_some());
        if let Some(version) = version {
            declaration.lane.version = version;
        }
        if let Some(queue) = queue {
            declaration.lane.queue = queue;
        }
        if declaration.gate.is_none()
            && let Some(gate) = default_gate
        {
            check_gate_of(&declaration.lane.workflow, &gate)?;
            declaration.gate = Some(gate);
        }
        Ok(DeclaredSchedule { name, declaration, names_queue, names_version, input })
    }
}

/// Returns the first occurrences after a time, at most `count` of them and at most 1,000.
pub(crate) fn next_occurrences(calendar: &Calendar, name: &str, after: Timestamp, count: usize) -> Vec<Occurrence> {
    const MOST: usize = 1000;
    let times = calendar.between(after, Timestamp::FAR_FUTURE, count.min(MOST));
    times.map(|at| calendar.occurrence(name, at, 0)).collect()
}

/// Returns an input as text. Its size is checked when a client or a worker takes it.
pub(crate) fn input_text<I: Serialize + DeserializeOwned>(schedule: &str, input: &I) -> Result<String, PayloadError> {
    let subject = format!("input of schedule {schedule:?}");
    round_trip_for_caller(&subject, input, usize::MAX).map(|(text, _)| text)
}

/// Leaves the input out, because Debug output is logged.
impl fmt::Debug for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Schedule")
            .field("name", &self.name)
            .field("declaration", &self.declaration)
            .finish_non_exhaustive()
    }
}
