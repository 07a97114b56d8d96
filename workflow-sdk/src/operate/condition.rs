//! Turns a query into the conditions that stores check.

use std::collections::{BTreeMap, BTreeSet};

use workflow_engine::model::{NameCondition, NamePattern, RunConditions, RunStatus, TagCondition, Timestamp};
use workflow_engine::schedule::SCHEDULE_TAG;

use super::blockers::Blockers;
use super::{Fact, Pattern, Query, Term, Test};

/// Returns the conditions of a query that is read at `now`, with these blockers.
pub(super) fn conditions(query: &Query, now: Timestamp, blockers: Blockers) -> RunConditions {
    let mut conditions = RunConditions {
        unserved_at: now,
        unserved_lanes: blockers.unserved,
        blocked_at: now,
        blockers: blockers.blocked,
        blocked_runs: blockers.awaiting_seats,
        ..RunConditions::none()
    };
    let named: BTreeSet<RunStatus> = query
        .terms()
        .iter()
        .filter_map(|term| match term {
            Term { negated: false, test: Test::Status(status) } => Some(*status),
            _ => None,
        })
        .collect();
    if !named.is_empty() {
        conditions.statuses = named;
    }
    let mut tags: BTreeMap<(&str, bool), Vec<String>> = BTreeMap::new();
    for Term { negated, test } in query.terms() {
        let negated = *negated;
        let mut tag = |name, value: &String| tags.entry((name, negated)).or_default().push(value.clone());
        match test {
            Test::Status(status) => conditions.statuses.retain(|other| !negated || other != status),
            Test::Workflow(pattern) => add(&mut conditions.workflow, pattern, negated),
            Test::Queue(pattern) => add(&mut conditions.queue, pattern, negated),
            Test::Version(pattern) => add(&mut conditions.version, pattern, negated),
            Test::Gate(pattern) => add(&mut conditions.gate, pattern, negated),
            Test::Key(pattern) => add(&mut conditions.key, pattern, negated),
            Test::Tag(name, value) => tag(name.as_str(), value),
            Test::Schedule(name) => tag(SCHEDULE_TAG, name),
            Test::Parent(id) if negated => drop(conditions.other_parents.insert(*id)),
            Test::Parent(id) => drop(conditions.parents.insert(*id)),
            Test::Worker(id) if negated => drop(conditions.other_workers.insert(*id)),
            Test::Worker(id) => drop(conditions.workers.insert(*id)),
            Test::Started(time) => {
                let (from, before) = time.bounds(now);
                conditions.created = conditions.created.narrowed(from, before);
            }
            Test::Ended(time) => {
                let (from, before) = time.bounds(now);
                conditions.ended = conditions.ended.narrowed(from, before);
            }
            Test::Duration(duration) => {
                let (from, below) = duration.bounds();
                conditions.duration = conditions.duration.narrowed(from, below);
                conditions.statuses.retain(|status| status.is_terminal());
            }
            Test::Is(fact) => require(&mut conditions, *fact, !negated, now),
            Test::Error(text) if negated => conditions.error.none_of.push(text.clone()),
            Test::Error(text) => conditions.error.any_of.push(text.clone()),
        }
    }
    if !conditions.error.any_of.is_empty() {
        // No succeeded run has an error, and no index has the succeeded runs.
        conditions.statuses.remove(&RunStatus::Succeeded);
    }
    let is_gated = |term: &Term| !term.negated && term.test == Test::Is(Fact::Gated);
    if conditions.gate.any_of.is_empty() && query.terms().iter().any(is_gated) {
        conditions.gate.any_of.push(any_name());
    }
    let tag = |((name, negated), values): ((&str, bool), Vec<String>)| TagCondition {
        name: name.to_owned(),
        values,
        negated,
    };
    conditions.tags = tags.into_iter().map(tag).collect();
    conditions
}

fn any_name() -> NamePattern {
    NamePattern { text: String::new(), is_prefix: true }
}

fn add(condition: &mut NameCondition, Pattern { text, is_prefix }: &Pattern, negated: bool) {
    let pattern = NamePattern { text: text.clone(), is_prefix: *is_prefix };
    if negated { condition.none_of.push(pattern) } else { condition.any_of.push(pattern) }
}

fn require(conditions: &mut RunConditions, fact: Fact, holds: bool, now: Timestamp) {
    let earliest = |one: Option<Timestamp>, time: Timestamp| Some(one.map_or(time, |one| one.min(time)));
    let latest = |one: Option<Timestamp>, time: Timestamp| Some(one.map_or(time, |one| one.max(time)));
    match (fact, holds) {
        (Fact::Open, _) => conditions.statuses.retain(|status| status.is_terminal() != holds),
        (Fact::Ended, _) => conditions.statuses.retain(|status| status.is_terminal() == holds),
        (Fact::Due | Fact::Late, _) => {
            let time = if fact == Fact::Due { now } else { now - Fact::LATE_AFTER };
            if holds {
                conditions.statuses.retain(|status| matches!(status, RunStatus::Pending | RunStatus::Parked));
                conditions.due_at = earliest(conditions.due_at, time);
            } else {
                conditions.not_due_at = latest(conditions.not_due_at, time);
            }
        }
        (Fact::Delayed, true) => {
            conditions.statuses.retain(|status| *status == RunStatus::Pending);
            conditions.delayed_at = Some(now);
        }
        (Fact::Delayed, false) => conditions.not_delayed_at = Some(now),
        (Fact::Paused, _) => {
            // The end of a run ends its pause.
            conditions.statuses.retain(|status| !holds || !status.is_terminal());
            conditions.require(|all| &mut all.paused, holds);
        }
        (Fact::Unserved, _) => {
            let waits = |status: &RunStatus| matches!(status, RunStatus::Pending | RunStatus::Parked);
            conditions.statuses.retain(|status| !holds || waits(status));
            conditions.require(|all| &mut all.unserved, holds);
        }
        (Fact::Blocked, _) => {
            // A step waits for a seat while a worker drives its run, too.
            conditions.statuses.retain(|status| !holds || !status.is_terminal());
            conditions.require(|all| &mut all.blocked, holds);
        }
        (Fact::Canceling, true) => {
            conditions.statuses.retain(|status| !status.is_terminal());
            conditions.require(|all| &mut all.canceling, true);
        }
        (Fact::Crashed, true) => {
            conditions.statuses.retain(|status| !status.is_terminal());
            conditions.require(|all| &mut all.crashed, true);
        }
        (Fact::Canceling, false) => conditions.require(|all| &mut all.canceling, false),
        (Fact::Crashed, false) => conditions.require(|all| &mut all.crashed, false),
        (Fact::Retried, _) => conditions.require(|all| &mut all.retried, holds),
        (Fact::Child, _) => conditions.require(|all| &mut all.child, holds),
        (Fact::Stuck, _) => {
            conditions.statuses.retain(|status| !holds || *status == RunStatus::Parked);
            conditions.require(|all| &mut all.stuck, holds);
        }
        // A gate that is named is enough: see below.
        (Fact::Gated, true) => (),
        (Fact::Gated, false) => conditions.gate.none_of.push(any_name()),
    }
}
