use std::collections::BTreeSet;
use std::time::Duration;

use super::{FailureGroup, Lane, Run, RunFilter, RunId, RunStatus, StoredError, Timestamp, WorkerId};

/// The conditions of a list. A run is listed if all of them hold. All times are resolved. Stores
/// check all of them except the condition on the error: `store::list_runs` checks that one, because
/// a codec may encode errors.
#[derive(Clone, Debug, PartialEq)]
pub struct RunConditions {
    /// The statuses that a listed run may have.
    pub statuses: BTreeSet<RunStatus>,
    /// The name of the workflow.
    pub workflow: NameCondition,
    /// The name of the queue.
    pub queue: NameCondition,
    /// The version of the workflow.
    pub version: NameCondition,
    /// The gate.
    pub gate: NameCondition,
    /// The idempotency key.
    pub key: NameCondition,
    /// The tags. All of these conditions hold.
    pub tags: Vec<TagCondition>,
    /// A listed run is a child of one of these runs. Empty: any run, with or without a parent.
    pub parents: BTreeSet<RunId>,
    /// A listed run is a child of none of these runs.
    pub other_parents: BTreeSet<RunId>,
    /// One of these workers holds a listed run. Empty: any run.
    pub workers: BTreeSet<WorkerId>,
    /// None of these workers holds a listed run.
    pub other_workers: BTreeSet<WorkerId>,
    /// The time at which the start of the run was committed.
    pub created: TimeSpan,
    /// The time at which the run ended. A bound excludes runs that have not ended.
    pub ended: TimeSpan,
    /// The time from the first claim of the run, or of its present generation, to its end. A bound
    /// excludes runs that have not ended or were never claimed.
    pub duration: DurationSpan,
    /// Whether the run is paused.
    pub paused: Option<bool>,
    /// The run waits, is not paused, and is due at this time.
    pub due_at: Option<Timestamp>,
    /// The run does not wait, is paused, or is not due at this time.
    pub not_due_at: Option<Timestamp>,
    /// The run is pending and not due at this time.
    pub delayed_at: Option<Timestamp>,
    /// The run is not pending, or is due at this time.
    pub not_delayed_at: Option<Timestamp>,
    /// Whether a cancel was requested and the run has not ended.
    pub canceling: Option<bool>,
    /// Whether a worker died while it drove the run, and the run has not ended.
    pub crashed: Option<bool>,
    /// Whether the run is in a second or later attempt.
    pub retried: Option<bool>,
    /// Whether another run started the run.
    pub child: Option<bool>,
    /// Whether the run is parked with an error.
    pub stuck: Option<bool>,
    /// Whether the run waits, is not paused, is due at `unserved_at` and is in one of
    /// `unserved_lanes`.
    pub unserved: Option<bool>,
    /// The time for `unserved`.
    pub unserved_at: Timestamp,
    /// The lanes for `unserved`: those that no live worker serves.
    pub unserved_lanes: Vec<Lane>,
    /// Whether the run is held back. It is not paused, and either it waits, is due at `blocked_at`
    /// and one of `blockers` holds it, or it has not ended and is one of `blocked_runs`.
    pub blocked: Option<bool>,
    /// The time for `blocked`.
    pub blocked_at: Timestamp,
    /// The blockers for `blocked`.
    pub blockers: Vec<Blocker>,
    /// The runs for `blocked`: a step of each waits for a seat of its limit.
    pub blocked_runs: BTreeSet<RunId>,
    /// The message of the error.
    pub error: MessageCondition,
}

/// A queue, or a gate of it, that lets no run go on.
#[derive(Clone, Debug, PartialEq, Eq, Hash, serde::Serialize)]
pub struct Blocker {
    /// The name of the queue.
    pub queue: String,
    /// The gate. `None`: the whole queue, with its gates.
    pub gate: Option<String>,
    /// `true` if only runs that were never claimed are held back, as a rate does.
    pub only_new: bool,
}

/// The condition on the message of an error. A message has a text if the text stands in it, or in
/// the message of its [failure group](super::FailureGroup).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MessageCondition {
    /// The message has at least one of these texts. Empty: any message, also none.
    pub any_of: Vec<String>,
    /// The message has none of these texts.
    pub none_of: Vec<String>,
}

/// The condition on a name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NameCondition {
    /// The name has one of these patterns. Empty: any name, or none.
    pub any_of: Vec<NamePattern>,
    /// The name has none of these patterns.
    pub none_of: Vec<NamePattern>,
}

/// A name, or the beginning of a name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NamePattern {
    /// The text.
    pub text: String,
    /// `true` if any text may follow.
    pub is_prefix: bool,
}

/// The condition on one tag.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct TagCondition {
    /// The name of the tag.
    pub name: String,
    /// The values.
    pub values: Vec<String>,
    /// `true`: the tag has none of the values, or the run lacks the tag. `false`: it has one.
    pub negated: bool,
}

/// Bounds of a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeSpan {
    /// The earliest time, inclusive.
    pub from: Option<Timestamp>,
    /// The latest time, exclusive.
    pub before: Option<Timestamp>,
}

/// Bounds of a duration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DurationSpan {
    /// The shortest duration, inclusive.
    pub from: Option<Duration>,
    /// The longest duration, exclusive.
    pub below: Option<Duration>,
}

impl RunConditions {
    /// Returns the conditions that every run fulfills.
    #[must_use]
    pub fn none() -> Self {
        Self {
            statuses: RunStatus::ALL.into(),
            workflow: NameCondition::default(),
            queue: NameCondition::default(),
            version: NameCondition::default(),
            gate: NameCondition::default(),
            key: NameCondition::default(),
            tags: Vec::new(),
            parents: BTreeSet::new(),
            other_parents: BTreeSet::new(),
            workers: BTreeSet::new(),
            other_workers: BTreeSet::new(),
            created: TimeSpan::default(),
            ended: TimeSpan::default(),
            duration: DurationSpan::default(),
            paused: None,
            due_at: None,
            not_due_at: None,
            delayed_at: None,
            not_delayed_at: None,
            canceling: None,
            crashed: None,
            retried: None,
            child: None,
            stuck: None,
            unserved: None,
            unserved_at: Timestamp::from_micros(0),
            unserved_lanes: Vec::new(),
            blocked: None,
            blocked_at: Timestamp::from_micros(0),
            blockers: Vec::new(),
            blocked_runs: BTreeSet::new(),
            error: MessageCondition::default(),
        }
    }

    /// Returns the conditions of a filter.
    #[must_use]
    pub fn of(filter: &RunFilter) -> Self {
        let exactly = |name: &Option<String>| NameCondition {
            any_of: name.iter().map(|name| NamePattern { text: name.clone(), is_prefix: false }).collect(),
            none_of: Vec::new(),
        };
        let prefix = |text: &String| NamePattern { text: text.clone(), is_prefix: true };
        let tag = |(name, value): &(String, String)| TagCondition {
            name: name.clone(),
            values: vec![value.clone()],
            negated: false,
        };
        let statuses = if filter.statuses.is_empty() { &RunStatus::ALL[..] } else { &filter.statuses };
        Self {
            statuses: statuses.iter().copied().collect(),
            workflow: exactly(&filter.workflow),
            queue: exactly(&filter.queue),
            key: NameCondition { any_of: filter.key_prefix.iter().map(prefix).collect(), none_of: Vec::new() },
            tags: filter.tag.iter().map(tag).collect(),
            parents: filter.parent.into_iter().collect(),
            created: TimeSpan { from: filter.created_from, before: filter.created_before },
            paused: filter.paused,
            ..Self::none()
        }
    }

    /// Returns the words of the statuses; `None` if a run may have any, so that a status that this
    /// program does not know is listed too.
    #[must_use]
    pub fn status_words(&self) -> Option<Vec<&'static str>> {
        let are_all = self.statuses.len() == RunStatus::ALL.len();
        (!are_all).then(|| self.statuses.iter().map(|status| status.as_str()).collect())
    }

    /// Requires a fact. No run fulfills two requirements that contradict each other.
    pub fn require(&mut self, fact: fn(&mut Self) -> &mut Option<bool>, holds: bool) {
        if fact(self).replace(holds).is_some_and(|other| other != holds) {
            self.statuses.clear();
        }
    }

    /// Returns whether all conditions hold for the run, except the one on the error.
    #[must_use]
    pub fn hold_for(&self, run: &Run) -> bool {
        let is_child_of = |parents: &BTreeSet<RunId>| run.parent.as_ref().is_some_and(|p| parents.contains(&p.run_id));
        let is_held_by = |workers: &BTreeSet<WorkerId>| run.worker_id.is_some_and(|id| workers.contains(&id));
        self.statuses.contains(&run.status)
            && self.workflow.holds_for(Some(&run.lane.workflow))
            && self.queue.holds_for(Some(&run.lane.queue))
            && self.version.holds_for(Some(&run.lane.version))
            && self.gate.holds_for(run.gate.as_deref())
            && self.key.holds_for(run.key.as_deref())
            && self.tags.iter().all(|tag| tag.holds_for(run))
            && (self.parents.is_empty() || is_child_of(&self.parents))
            && !is_child_of(&self.other_parents)
            && (self.workers.is_empty() || is_held_by(&self.workers))
            && !is_held_by(&self.other_workers)
            && self.created.contains(Some(run.created_at))
            && self.ended.contains(run.completed_at)
            && self.duration.contains(run.completed_at.zip(run.started_at).map(|(end, begin)| end.since(begin)))
            && self.facts_hold_for(run)
    }

    fn facts_hold_for(&self, run: &Run) -> bool {
        let is = |wanted: Option<bool>, fact: bool| wanted.is_none_or(|wanted| wanted == fact);
        let waits = matches!(run.status, RunStatus::Pending | RunStatus::Parked);
        let is_due = |time| waits && run.paused_at.is_none() && run.available_at <= time;
        let is_delayed = |time| run.status == RunStatus::Pending && run.available_at > time;
        is(self.paused, run.paused_at.is_some())
            && self.due_at.is_none_or(is_due)
            && !self.not_due_at.is_some_and(is_due)
            && self.delayed_at.is_none_or(is_delayed)
            && !self.not_delayed_at.is_some_and(is_delayed)
            && is(self.canceling, run.cancel_requested_at.is_some() && !run.status.is_terminal())
            && is(self.crashed, run.crashes > 0 && !run.status.is_terminal())
            && is(self.retried, run.attempt > 1)
            && is(self.child, run.parent.is_some())
            && is(self.stuck, run.status == RunStatus::Parked && run.error.is_some())
            && is(self.unserved, is_due(self.unserved_at) && self.unserved_lanes.contains(&run.lane))
            && is(self.blocked, self.is_blocked(run, is_due(self.blocked_at)))
    }

    fn is_blocked(&self, run: &Run, is_due: bool) -> bool {
        let is_held = is_due && self.blockers.iter().any(|blocker| blocker.holds(run));
        let awaits_seat = run.paused_at.is_none() && !run.status.is_terminal() && self.blocked_runs.contains(&run.id);
        is_held || awaits_seat
    }
}

impl Blocker {
    /// Returns `true` if this blocker holds a due run back that waits.
    #[must_use]
    pub fn holds(&self, run: &Run) -> bool {
        self.queue == run.lane.queue
            && (self.gate.is_none() || self.gate == run.gate)
            && (!self.only_new || run.epoch == 0)
    }
}

impl NameCondition {
    /// Returns whether the condition holds for a name, or for the lack of one.
    #[must_use]
    pub fn holds_for(&self, name: Option<&str>) -> bool {
        let fits = |pattern: &NamePattern| match name {
            Some(name) if pattern.is_prefix => name.starts_with(&pattern.text),
            Some(name) => name == pattern.text,
            None => false,
        };
        (self.any_of.is_empty() || self.any_of.iter().any(fits)) && !self.none_of.iter().any(fits)
    }
}

impl MessageCondition {
    /// Returns whether every run fulfills the condition, with an error or without one.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.any_of.is_empty() && self.none_of.is_empty()
    }

    /// Returns whether the condition holds for an error, or for the lack of one.
    #[must_use]
    pub fn holds_for(&self, error: Option<&StoredError>) -> bool {
        if self.is_empty() {
            return true;
        }
        let alike = error.map(|error| FailureGroup::of("", error).message);
        let messages = [error.map(|error| error.message.as_str()), alike.as_deref()];
        let has = |text: &String| messages.iter().flatten().any(|message| message.contains(text.as_str()));
        (self.any_of.is_empty() || self.any_of.iter().any(has)) && !self.none_of.iter().any(has)
    }
}

impl TagCondition {
    fn holds_for(&self, run: &Run) -> bool {
        run.tags.get(&self.name).is_some_and(|value| self.values.contains(value)) != self.negated
    }
}

impl TimeSpan {
    /// Returns whether a time, or the lack of one, lies within the bounds.
    #[must_use]
    pub fn contains(self, time: Option<Timestamp>) -> bool {
        self.from.is_none_or(|from| time.is_some_and(|time| time >= from))
            && self.before.is_none_or(|before| time.is_some_and(|time| time < before))
    }

    /// Narrows the bounds to those that both have.
    #[must_use]
    pub fn narrowed(self, from: Option<Timestamp>, before: Option<Timestamp>) -> Self {
        let before = match (self.before, before) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        Self { from: self.from.max(from), before }
    }
}

impl DurationSpan {
    /// Returns whether a duration, or the lack of one, lies within the bounds.
    #[must_use]
    pub fn contains(self, duration: Option<Duration>) -> bool {
        self.from.is_none_or(|from| duration.is_some_and(|duration| duration >= from))
            && self.below.is_none_or(|below| duration.is_some_and(|duration| duration < below))
    }

    /// Narrows the bounds to those that both have.
    #[must_use]
    pub fn narrowed(self, from: Option<Duration>, below: Option<Duration>) -> Self {
        let below = match (self.below, below) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        Self { from: self.from.max(from), below }
    }

    /// Returns the bounds in microseconds.
    #[must_use]
    pub fn micros(self) -> (Option<i64>, Option<i64>) {
        let micros = |bound: Duration| i64::try_from(bound.as_micros()).unwrap_or(i64::MAX);
        (self.from.map(micros), self.below.map(micros))
    }
}
