//! Checks of signals, timers and children.

use std::collections::{HashMap, HashSet};

use crate::ledger::Fact;

use super::Found;
use super::acks::last;
use super::evidence::{Evidence, Taken};

pub(super) fn signals(evidence: &Evidence, found: &mut Found) {
    for (kind, run, detail) in evidence.noted.iter().filter(|(kind, ..)| kind == "signal") {
        found.add(run, format!("{kind}: {detail}"));
    }
    let mut seen: HashSet<(&str, i64)> = HashSet::new();
    let mut latest: HashMap<(&str, &str), &Taken> = HashMap::new();
    for taken in &evidence.taken {
        if !seen.insert((&taken.run, taken.seq)) {
            found.add(&taken.run, format!("signal {} {} was consumed twice", taken.name, taken.seq));
        }
        if let Some(before) = latest.insert((&taken.run, &taken.name), taken)
            && before.seq >= taken.seq
        {
            found
                .add(&taken.run, format!("of signal {}, {} was consumed before {}", taken.name, before.seq, taken.seq));
        }
    }
    // The accepted signals are the consumed ones and the waiting ones.
    let mut payloads: HashMap<(&str, &str), Vec<&str>> = HashMap::new();
    for line in evidence.lines.iter().filter(|line| line.fact == Fact::Signaled) {
        let (name, payload) = line.value.split_once('=').unwrap_or((&line.value, ""));
        payloads.entry((&line.subject, name)).or_default().push(payload);
    }
    let mut accepted: HashMap<(&str, &str), Vec<&str>> = HashMap::new();
    for taken in &evidence.taken {
        accepted.entry((&taken.run, &taken.name)).or_default().push(&taken.payload);
    }
    for signal in evidence.signals.iter().filter(|signal| signal.consumed_by.is_none()) {
        accepted.entry((&signal.run, &signal.name)).or_default().push(&signal.payload);
    }
    for ((run, name), sent) in payloads {
        let accepted = accepted.remove(&(run, name)).unwrap_or_default();
        // The reply to the last signal may have been lost.
        let lost = accepted.len() == sent.len() + 1 && accepted.last().is_some_and(|last| !sent.contains(last));
        if accepted != sent && !(lost && accepted.starts_with(&sent)) {
            found.add(run, format!("of signal {name}, {sent:?} was sent, and {accepted:?} is consumed or waiting"));
        }
    }
}

/// The maximum time in microseconds by which the clock of a worker may be behind that of the
/// database: one statement, on a busy machine.
const SLACK: i64 = 10_000;

/// Checks sleeps. The name of the scope of a sleep contains its duration.
pub(super) fn timers(evidence: &Evidence, found: &mut Found) {
    let mut ended: HashSet<String> = HashSet::new();
    let mut went_on: HashMap<&str, i64> = HashMap::new();
    for line in evidence.lines.iter().filter(|line| line.fact == Fact::Delivered) {
        went_on.entry(&line.subject).or_insert(i64::try_from(line.at).unwrap_or(i64::MAX));
    }
    for outcome in evidence.outcomes.iter().filter(|it| it.kind == "sleep" && it.position.is_some()) {
        let subject = outcome.subject();
        if !ended.insert(subject.clone()) {
            found.add(&outcome.run, format!("{} ended twice", outcome.step_key));
        }
        let Some(milliseconds) = nap(&outcome.step_key) else { continue };
        let Some(completed_at) = outcome.completed_at else { continue };
        if completed_at + SLACK < outcome.started_at + 1000 * milliseconds {
            let slept = completed_at - outcome.started_at;
            found.add(&outcome.run, format!("{} ended after {slept} us", outcome.step_key));
        }
        // The comparison needs a ledger and a database that use one clock.
        if evidence.has_wrong_clocks {
            continue;
        }
        let (run, _) = subject.split_once('/').unwrap_or((&subject, ""));
        let went_on = went_on.get(format!("{run}/{}", last(&outcome.step_key)).as_str()).copied();
        if went_on.is_some_and(|at| at + SLACK < outcome.started_at + 1000 * milliseconds) {
            found.add(&outcome.run, format!("the workflow continued too early after {}", outcome.step_key));
        }
    }
}

fn nap(step_key: &str) -> Option<i64> {
    let scope = step_key.strip_suffix("/sleep")?.rsplit('/').next()?;
    scope.strip_prefix('z')?.split_once('-')?.1.parse().ok()
}

pub(super) fn children(evidence: &Evidence, found: &mut Found) {
    let recorded: HashSet<(&str, &str)> = evidence
        .outcomes
        .iter()
        .filter(|outcome| outcome.kind == "child")
        .map(|outcome| (outcome.run.as_str(), outcome.step_key.as_str()))
        .collect();
    let mut born: HashMap<(&str, &str), usize> = HashMap::new();
    for run in evidence.runs.values() {
        let (Some(parent), Some(step_key)) = (&run.parent, &run.parent_step_key) else { continue };
        *born.entry((parent, step_key)).or_default() += 1;
        if !recorded.contains(&(parent.as_str(), step_key.as_str())) {
            found.add(&run.id, format!("the run is a child of {parent}, which has no record of {step_key}"));
        }
    }
    let mut generations: HashMap<(&str, &str), HashSet<i64>> = HashMap::new();
    for outcome in evidence.outcomes.iter().filter(|outcome| outcome.kind == "child" && outcome.status != "failed") {
        generations.entry((&outcome.run, &outcome.step_key)).or_default().insert(outcome.generation);
    }
    for ((parent, step_key), generations) in generations {
        let children = born.get(&(parent, step_key)).copied().unwrap_or(0);
        if children != generations.len() {
            found.add(
                parent,
                format!("{step_key} is recorded in {} generations, and has {children} children", generations.len()),
            );
        }
    }
}

pub(super) fn orphans(evidence: &Evidence, found: &mut Found) {
    for run in evidence.runs.values().filter(|run| !run.has_ended() && run.on_parent_end.as_deref() == Some("cancel")) {
        let parent = run.parent.as_ref().and_then(|parent| evidence.runs.get(parent));
        if parent.is_some_and(super::evidence::Row::has_ended) && run.cancel_requested_at.is_none() {
            found.add(&run.id, "the parent has ended, and the run was not asked to end");
        }
    }
}
