use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::panic::Location;
use std::time::Duration;

use crate::model::{AttemptStatus, RunId, StepAttempt, StepKind, StoredError, Timestamp, derived_fraction};

use super::call::{Attempt, Call, Phase, Work};
use super::history::History;
use super::{CallId, CallPoll, Delivered, Divergence, StepOptions, Wait};

/// An attempt that takes longer than this gets a `running` row, so that it can be seen while it runs. A shorter one costs
/// one row and one commit instead of two; nothing but the eye depends on the row.
const RUNNING_ROW_DELAY: Duration = Duration::from_millis(20);

/// What the drive is to do next.
#[derive(Debug, PartialEq)]
pub enum Next {
    /// Poll the workflow: this call takes its outcome.
    Deliver(CallId),
    /// Poll the workflow: these calls may begin.
    Start(Vec<CallId>),
    /// Wait: for a body, a commit, or the timer.
    Wait {
        /// When [`Machine::fire_timers`] has something to do.
        timer: Option<Timestamp>,
        /// The run may be parked until then: nothing runs, nothing is on its way, every active call is a durable wait.
        park_until: Option<Timestamp>,
    },
}

/// A run as a state machine.
#[derive(Debug)]
pub struct Machine {
    run_id: RunId,
    epoch: i64,
    history: History,
    calls: Vec<Call>,
    repeats: HashMap<String, u64>,
    keys: HashMap<String, CallId>,
    /// Recorded outcomes whose calls are active, by position.
    deliverable: BTreeMap<i64, CallId>,
    /// Calls whose new outcomes are committed, in the order of their positions.
    committed: VecDeque<CallId>,
    /// Records that were handed out and are not committed; with the call, where the record is its outcome.
    in_flight: VecDeque<Option<CallId>>,
    outbox: Vec<(StepAttempt, Option<CallId>)>,
    idle: BTreeSet<CallId>,
    timers: BTreeSet<(Timestamp, CallId)>,
    waits: BTreeSet<(Timestamp, CallId)>,
    /// Bodies that run or may begin.
    bodies: usize,
    /// Bodies that run.
    running: usize,
    /// No body may begin for now.
    held: bool,
    now: Timestamp,
    latest: Timestamp,
    divergence: Option<Divergence>,
}

impl Machine {
    /// A run with this history, whose first claim was at `started_at`.
    #[must_use]
    pub fn new(run_id: RunId, epoch: i64, started_at: Timestamp, rows: Vec<StepAttempt>) -> Self {
        let history = History::new(rows);
        Self {
            run_id,
            epoch,
            latest: history.latest.unwrap_or(started_at).max(started_at),
            history,
            calls: Vec::new(),
            repeats: HashMap::new(),
            keys: HashMap::new(),
            deliverable: BTreeMap::new(),
            committed: VecDeque::new(),
            in_flight: VecDeque::new(),
            outbox: Vec::new(),
            idle: BTreeSet::new(),
            timers: BTreeSet::new(),
            waits: BTreeSet::new(),
            bodies: 0,
            running: 0,
            held: false,
            now: started_at,
            divergence: None,
        }
    }

    /// The time of the last outcome that was delivered.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Why the run cannot go on with this code.
    #[must_use]
    pub fn divergence(&self) -> Option<&Divergence> {
        self.divergence.as_ref()
    }

    /// The key of a call.
    #[must_use]
    pub fn key(&self, id: CallId) -> &str {
        &self.calls[id.0].key
    }

    /// The attempt of a call whose body runs.
    #[must_use]
    pub fn attempt(&self, id: CallId) -> Option<u32> {
        match &self.calls[id.0].phase {
            Phase::Granted { attempt, .. } => Some(*attempt),
            Phase::Running(attempt) => Some(attempt.number),
            _ => None,
        }
    }

    /// A call is made: it takes its key now, so that keys follow the order of calls and not that of polls.
    pub fn call(&mut self, name: &str, location: &'static Location<'static>) -> CallId {
        let id = CallId(self.calls.len());
        let key = self.free_key(name);
        self.keys.insert(key.clone(), id);
        self.calls.push(Call { key, location, phase: Phase::Called });
        id
    }

    /// `name`, then `name:1`, `name:2`, ...; skips a key that an author's own name has taken.
    fn free_key(&mut self, name: &str) -> String {
        let repeats = self.repeats.entry(name.to_owned()).or_default();
        loop {
            let key = if *repeats == 0 { name.to_owned() } else { format!("{name}:{repeats}") };
            *repeats += 1;
            if !self.keys.contains_key(&key) {
                return key;
            }
        }
    }

    /// Polls a step.
    pub fn poll_step(&mut self, id: CallId, options: StepOptions, now: Timestamp) -> CallPoll {
        self.poll(id, Work::Body(options), now)
    }

    /// Polls a sleep.
    pub fn poll_sleep(&mut self, id: CallId, wait: Wait, now: Timestamp) -> CallPoll {
        self.poll(id, Work::Sleep(wait), now)
    }

    fn poll(&mut self, id: CallId, work: Work, now: Timestamp) -> CallPoll {
        if self.divergence.is_some() {
            return CallPoll::Pending;
        }
        if matches!(self.calls[id.0].phase, Phase::Called) {
            self.activate(id, work, now);
        }
        let call = &mut self.calls[id.0];
        match &call.phase {
            Phase::Granted { attempt, options } if !self.held => {
                let (attempt, options) = (*attempt, *options);
                self.begin(id, attempt, options, now);
                CallPoll::Start { attempt }
            }
            Phase::Running(_) => CallPoll::Run,
            Phase::Ready(_) => match std::mem::replace(&mut call.phase, Phase::Over) {
                Phase::Ready(delivered) => CallPoll::Ended(delivered),
                _ => CallPoll::Pending,
            },
            Phase::Granted { .. }
            | Phase::Called
            | Phase::Replaying(_)
            | Phase::Idle(_)
            | Phase::BackingOff { .. }
            | Phase::Sleeping { .. }
            | Phase::Decided { .. }
            | Phase::Over => CallPoll::Pending,
        }
    }

    /// The first poll of a call: from here on it can get its recorded outcome, or leave to start.
    fn activate(&mut self, id: CallId, work: Work, now: Timestamp) {
        let call = &mut self.calls[id.0];
        if let Some(recorded) = self.history.step(&call.key)
            && recorded.kind != work.kind()
        {
            self.divergence = Some(Divergence::kind(&call.key, recorded.kind, work.kind(), call.location));
            return;
        }
        if let Some(position) = self.history.ask(&call.key) {
            call.phase = Phase::Replaying(position);
            self.deliverable.insert(position, id);
            return;
        }
        call.phase = Phase::Idle(work);
        if !self.held && self.nothing_to_deliver() && self.history.all_asked() {
            self.grant(id, now);
        } else {
            self.idle.insert(id);
        }
    }

    fn nothing_to_deliver(&self) -> bool {
        self.deliverable.is_empty() && self.committed.is_empty()
    }

    /// Lets an idle call start: a body at its next poll, a sleep here.
    fn grant(&mut self, id: CallId, now: Timestamp) {
        let Phase::Idle(work) = self.calls[id.0].phase else { return };
        match work {
            Work::Body(options) => self.grant_body(id, options),
            Work::Sleep(wait) => self.begin_sleep(id, wait, now),
        }
    }

    fn grant_body(&mut self, id: CallId, options: StepOptions) {
        let key = &self.calls[id.0].key;
        let last = self.history.step(key).map(|step| &step.last);
        match last.map(|last| (last.number, last.failure.as_ref())) {
            // A recorded failure without a position was to be followed by another attempt. Where the policy was tightened
            // since, that attempt still comes, at once: its predecessor's row can no longer become the outcome.
            Some((number, Some((failed_at, error)))) => {
                let delay = self.retry_delay(key, number, error, options).unwrap_or_default();
                self.back_off(id, number.saturating_add(1), *failed_at + delay, options);
            }
            Some((number, None)) => self.let_begin(id, number, options),
            None => self.let_begin(id, 1, options),
        }
    }

    fn let_begin(&mut self, id: CallId, attempt: u32, options: StepOptions) {
        self.calls[id.0].phase = Phase::Granted { attempt, options };
        self.bodies += 1;
    }

    fn back_off(&mut self, id: CallId, attempt: u32, until: Timestamp, options: StepOptions) {
        self.calls[id.0].phase = Phase::BackingOff { attempt, until, options };
        self.wait(until, id);
    }

    fn wait(&mut self, until: Timestamp, id: CallId) {
        self.timers.insert((until, id));
        self.waits.insert((until, id));
    }

    fn begin(&mut self, id: CallId, number: u32, options: StepOptions, now: Timestamp) {
        self.running += 1;
        let started_at = self.tick(now);
        let times_out_at = options.timeout.map(|timeout| started_at + timeout);
        let shows_at = Some(started_at + RUNNING_ROW_DELAY);
        self.timers.extend(times_out_at.into_iter().chain(shows_at).map(|at| (at, id)));
        self.calls[id.0].phase = Phase::Running(Attempt { number, started_at, options, times_out_at, shows_at });
    }

    fn begin_sleep(&mut self, id: CallId, wait: Wait, now: Timestamp) {
        let started = self.history.step(&self.calls[id.0].key).and_then(|step| {
            let until = serde_json::from_str::<Timestamp>(step.last.output.as_deref()?).ok()?;
            Some((until, step.last.started_at))
        });
        let (until, started_at) = started.unwrap_or_else(|| {
            let now = self.tick(now);
            let until = match wait {
                Wait::For(duration) => now + duration,
                Wait::Until(until) => until,
            };
            self.record(id, 1, AttemptStatus::Running, now, None, StepKind::Sleep, Some(until), None);
            (until, now)
        });
        self.calls[id.0].phase = Phase::Sleeping { until, started_at };
        self.wait(until, id);
    }

    /// A body ended, with a value that the call keeps, or with an error.
    pub fn attempt_ended(&mut self, id: CallId, result: Result<String, StoredError>, now: Timestamp) {
        let Phase::Running(attempt) = self.calls[id.0].phase else { return };
        self.stop_body(id, attempt);
        let completed_at = self.tick(now);
        let number = attempt.number;
        match result {
            Ok(output) => {
                let outcome = Delivered::Kept;
                self.decide(id, number, attempt.started_at, completed_at, StepKind::Step, outcome, Some(output));
            }
            Err(error) => {
                let key = &self.calls[id.0].key;
                let error = error.of_step(key);
                match self.retry_delay(key, number, &error, attempt.options) {
                    Some(delay) => {
                        self.record_failure(id, attempt, completed_at, error);
                        self.back_off(id, number.saturating_add(1), completed_at + delay, attempt.options);
                    }
                    None => {
                        let outcome = Delivered::Failed(error);
                        self.decide(id, number, attempt.started_at, completed_at, StepKind::Step, outcome, None);
                    }
                }
            }
        }
    }

    /// The delay before the next attempt; `None`: there is none.
    fn retry_delay(&self, key: &str, attempt: u32, error: &StoredError, options: StepOptions) -> Option<Duration> {
        if error.fatal {
            return None;
        }
        let fraction = derived_fraction(self.run_id, &format!("retry {key} {attempt}"));
        let delay = options.retry.delay_after(attempt, fraction)?;
        Some(error.retry_after().unwrap_or(delay))
    }

    fn stop_body(&mut self, id: CallId, attempt: Attempt) {
        self.bodies -= 1;
        self.running -= 1;
        for at in attempt.times_out_at.into_iter().chain(attempt.shows_at) {
            self.timers.remove(&(at, id));
        }
    }

    /// The outcome of a call is final: its record takes the run's next position.
    #[allow(clippy::too_many_arguments, reason = "one row's columns")]
    fn decide(
        &mut self,
        id: CallId,
        number: u32,
        started_at: Timestamp,
        completed_at: Timestamp,
        kind: StepKind,
        outcome: Delivered,
        output: Option<String>,
    ) {
        let error = match &outcome {
            Delivered::Failed(error) => Some(error.clone()),
            Delivered::Kept | Delivered::Recorded(_) => None,
        };
        let position = self.history.next_position;
        self.history.next_position += 1;
        let row = StepAttempt {
            step_key: self.calls[id.0].key.clone(),
            attempt: i64::from(number),
            kind,
            status: if error.is_some() { AttemptStatus::Failed } else { AttemptStatus::Succeeded },
            position: Some(position),
            output,
            error,
            epoch: self.epoch,
            started_at,
            completed_at: Some(completed_at),
        };
        self.outbox.push((row, Some(id)));
        self.calls[id.0].phase = Phase::Decided { outcome, completed_at };
    }

    fn record_failure(&mut self, id: CallId, attempt: Attempt, completed_at: Timestamp, error: StoredError) {
        let (number, started_at) = (attempt.number, attempt.started_at);
        let (status, kind) = (AttemptStatus::Failed, StepKind::Step);
        self.record(id, number, status, started_at, Some(completed_at), kind, None, Some(error));
    }

    /// Records something that is no outcome.
    #[allow(clippy::too_many_arguments, reason = "one row's columns")]
    fn record(
        &mut self,
        id: CallId,
        number: u32,
        status: AttemptStatus,
        started_at: Timestamp,
        completed_at: Option<Timestamp>,
        kind: StepKind,
        until: Option<Timestamp>,
        error: Option<StoredError>,
    ) {
        let row = StepAttempt {
            step_key: self.calls[id.0].key.clone(),
            attempt: i64::from(number),
            kind,
            status,
            position: None,
            output: until.map(|until| until.as_micros().to_string()),
            error,
            epoch: self.epoch,
            started_at,
            completed_at,
        };
        self.outbox.push((row, None));
    }

    /// Times of one run never go back, even where the clock does.
    fn tick(&mut self, now: Timestamp) -> Timestamp {
        self.latest = self.latest.max(now);
        self.latest
    }

    /// Does what is due: ends sleeps and back-offs, times attempts out, shows long attempts. Says which calls to poll.
    pub fn fire_timers(&mut self, now: Timestamp) -> Vec<CallId> {
        let mut fired = Vec::new();
        while let Some((at, id)) = self.timers.first().copied().filter(|(at, _)| *at <= now) {
            self.timers.remove(&(at, id));
            self.waits.remove(&(at, id));
            self.fire(id, at, now);
            fired.push(id);
        }
        fired
    }

    fn fire(&mut self, id: CallId, at: Timestamp, now: Timestamp) {
        match self.calls[id.0].phase {
            Phase::Sleeping { until, started_at } => {
                let completed_at = self.tick(now);
                let output = Some(until.as_micros().to_string());
                self.decide(id, 1, started_at, completed_at, StepKind::Sleep, Delivered::Kept, output);
            }
            Phase::BackingOff { attempt, options, .. } => self.let_begin(id, attempt, options),
            Phase::Running(attempt) if attempt.times_out_at == Some(at) => {
                let limit = attempt.options.timeout.unwrap_or_default();
                let message = format!("attempt {} took longer than its timeout of {limit:?}", attempt.number);
                self.attempt_ended(id, Err(StoredError::new(crate::model::ErrorKind::Timeout, message)), now);
            }
            Phase::Running(attempt) => self.show(id, attempt),
            _ => {}
        }
    }

    /// Writes the `running` row of an attempt that takes long.
    fn show(&mut self, id: CallId, attempt: Attempt) {
        self.calls[id.0].phase = Phase::Running(Attempt { shows_at: None, ..attempt });
        let (number, started_at) = (attempt.number, attempt.started_at);
        self.record(id, number, AttemptStatus::Running, started_at, None, StepKind::Step, None, None);
    }

    /// The records to be committed, in order. Each is answered by [`Machine::committed`], in the same order.
    pub fn take_outbox(&mut self) -> Vec<StepAttempt> {
        let (rows, calls): (Vec<_>, Vec<_>) = std::mem::take(&mut self.outbox).into_iter().unzip();
        self.in_flight.extend(calls);
        rows
    }

    /// The oldest record that was handed out is committed.
    pub fn committed(&mut self) {
        if let Some(Some(id)) = self.in_flight.pop_front() {
            self.committed.push_back(id);
        }
    }

    /// What the drive is to do, after the workflow was polled until it was quiet.
    pub fn next(&mut self, now: Timestamp) -> Next {
        if let Some(id) = self.deliver_recorded().or_else(|| self.deliver_committed()) {
            return Next::Deliver(id);
        }
        if !self.held && self.divergence.is_none() && !self.idle.is_empty() {
            let started: Vec<_> = std::mem::take(&mut self.idle).into_iter().collect();
            for id in &started {
                self.grant(*id, now);
            }
            return Next::Start(started);
        }
        Next::Wait { timer: self.timers.first().map(|(at, _)| *at), park_until: self.park_until() }
    }

    /// The recorded outcome with the lowest position among active calls. For the code that made the record that is always
    /// the next one; a call that was added since finds its outcome after a later position, hence the look ahead.
    fn deliver_recorded(&mut self) -> Option<CallId> {
        let (_, id) = self.deliverable.pop_first()?;
        let recorded = self.history.take_outcome(&self.calls[id.0].key)?;
        self.deliver(id, recorded.outcome, recorded.completed_at);
        Some(id)
    }

    /// The next new outcome. One whose call was dropped meanwhile is passed over, as every replay will.
    fn deliver_committed(&mut self) -> Option<CallId> {
        while let Some(id) = self.committed.pop_front() {
            if let Phase::Decided { outcome, completed_at } = &self.calls[id.0].phase {
                let (outcome, completed_at) = (outcome.clone(), *completed_at);
                self.deliver(id, outcome, completed_at);
                return Some(id);
            }
        }
        None
    }

    fn deliver(&mut self, id: CallId, outcome: Delivered, completed_at: Timestamp) {
        self.now = self.now.max(completed_at);
        self.calls[id.0].phase = Phase::Ready(outcome);
    }

    fn park_until(&self) -> Option<Timestamp> {
        let quiet = self.bodies == 0 && self.idle.is_empty() && self.outbox.is_empty() && self.in_flight.is_empty();
        self.waits.first().map(|(until, _)| *until).filter(|_| quiet)
    }

    /// Whether a body runs.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.running > 0
    }

    /// Lets no body begin, or lets them begin again; in that case says which calls to poll.
    pub fn hold(&mut self, held: bool) -> Vec<CallId> {
        if std::mem::replace(&mut self.held, held) == held || held {
            return Vec::new();
        }
        let granted = |(_, call): &(usize, &Call)| matches!(call.phase, Phase::Granted { .. });
        self.calls.iter().enumerate().filter(granted).map(|(index, _)| CallId(index)).collect()
    }

    /// The future of a call was dropped.
    pub fn dropped(&mut self, id: CallId) {
        match std::mem::replace(&mut self.calls[id.0].phase, Phase::Over) {
            Phase::Running(attempt) => self.stop_body(id, attempt),
            Phase::Granted { .. } => self.bodies -= 1,
            Phase::BackingOff { until, .. } | Phase::Sleeping { until, .. } => {
                self.timers.remove(&(until, id));
                self.waits.remove(&(until, id));
            }
            Phase::Idle(_) => {
                self.idle.remove(&id);
            }
            Phase::Replaying(position) => {
                self.deliverable.remove(&position);
            }
            Phase::Called | Phase::Decided { .. } | Phase::Ready(_) | Phase::Over => {}
        }
    }

    /// A recorded output could not be decoded.
    pub fn undecodable(&mut self, id: CallId, type_name: &str, reason: &str) {
        let call = &self.calls[id.0];
        self.divergence = Some(Divergence::output(&call.key, type_name, reason, call.location));
    }

    /// The workflow function has ended. A recorded outcome that it never asked for is a divergence.
    pub fn ended(&mut self) -> Option<&Divergence> {
        if self.divergence.is_none()
            && let Some((position, key, kind)) = self.history.first_unasked()
        {
            self.divergence = Some(Divergence::unasked(position, key, kind));
        }
        self.divergence.as_ref()
    }
}
