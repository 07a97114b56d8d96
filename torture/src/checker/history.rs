//! Checks that recorded rows stay as they are, in their order.

use std::collections::{HashMap, HashSet};

use crate::ledger::Fact;

use super::Found;
use super::acks::last;
use super::evidence::{Evidence, Outcome, run_of};

pub(super) fn one(evidence: &Evidence, found: &mut Found) {
    for (kind, run, detail) in evidence.noted.iter().filter(|(kind, ..)| kind == "final") {
        found.add(run, format!("{kind}: {detail}"));
    }
    let mut first: HashMap<String, &Outcome> = HashMap::new();
    for outcome in evidence.outcomes.iter().filter(|outcome| outcome.position.is_some()) {
        let before = first.entry(outcome.subject()).or_insert(outcome);
        if evidence.runs.get(&outcome.run).is_some_and(|run| run.attempt == 1) && !same(before, outcome) {
            found.add(&outcome.run, format!("{} was recorded as {before:?} and as {outcome:?}", outcome.step_key));
        }
    }
    let mut stored = HashSet::new();
    for row in evidence.attempts.iter().filter(|row| row.position.is_some()) {
        let Some(run) = evidence.runs.get(&row.run) else { continue };
        if !stored.insert((&row.run, &row.step_key)) {
            found.add(&row.run, format!("{} has two outcomes", row.step_key));
        }
        let subject = match run.generation {
            0 => format!("{}/{}", row.run, row.step_key),
            generation => format!("{}.{generation}/{}", row.run, row.step_key),
        };
        let recorded = first.get(&subject);
        if run.attempt == 1 && recorded.is_none_or(|it| it.output != row.output || it.status != row.status) {
            found.add(&row.run, format!("{} is stored as {row:?}, and was recorded as {recorded:?}", row.step_key));
        }
    }
    for (subject, outcome) in &first {
        let Some(run) = evidence.runs.get(&outcome.run) else { continue };
        let is_present = run.generation == outcome.generation && run.attempt == 1;
        if is_present && !stored.contains(&(&outcome.run, &outcome.step_key)) {
            found.add(&outcome.run, format!("{subject} was recorded, and is missing"));
        }
    }
}

fn same(one: &Outcome, other: &Outcome) -> bool {
    (&one.output, &one.status, one.attempt, one.position)
        == (&other.output, &other.status, other.attempt, other.position)
}

pub(super) fn forward(evidence: &Evidence, found: &mut Found) {
    let kinds = ["terminal", "status", "time", "gone"];
    for (kind, run, detail) in evidence.noted.iter().filter(|(kind, ..)| kinds.contains(&kind.as_str())) {
        found.add(run, format!("{kind}: {detail}"));
    }
    let mut generations: HashMap<&str, i64> = HashMap::new();
    for outcome in &evidence.outcomes {
        let newest = generations.entry(&outcome.run).or_insert(0);
        if outcome.generation < *newest {
            found.add(&outcome.run, format!("{} was recorded in an earlier generation", outcome.step_key));
        }
        *newest = outcome.generation.max(*newest);
    }
}

/// Outcomes have distinct positions without gaps. A transaction that was given up leaves its
/// position unused. If its run was told to end before the transaction began again, it leaves no row
/// either.
pub(super) fn positions(evidence: &Evidence, found: &mut Found) {
    let mut positions: HashMap<(&str, i64), HashMap<i64, &str>> = HashMap::new();
    let recorded = evidence.outcomes.iter().filter(|it| it.kind == "transaction").map(|it| it.run.as_str());
    let begun = evidence.lines.iter().filter(|line| line.fact == Fact::Begin && is_transaction(&line.subject));
    let beside: HashSet<&str> = recorded.chain(begun.map(|line| run_of(&line.subject))).collect();
    for outcome in &evidence.outcomes {
        let Some(position) = outcome.position else { continue };
        if evidence.runs.get(&outcome.run).is_some_and(|run| run.attempt > 1) {
            continue;
        }
        let run = (outcome.run.as_str(), outcome.generation);
        let step = positions.entry(run).or_default().entry(position).or_insert(&outcome.step_key);
        if *step != outcome.step_key {
            found.add(&outcome.run, format!("{step} and {} have the same position, {position}", outcome.step_key));
        }
    }
    for (run, positions) in positions {
        let highest = positions.keys().max().copied().unwrap_or(0);
        let lowest = positions.keys().min().copied().unwrap_or(0);
        if !beside.contains(run.0) && (highest - lowest + 1) as usize != positions.len() {
            found.add(run.0, format!("positions from {lowest} to {highest} have a gap"));
        }
    }
}

/// Returns `true` if the name says that the step is a transaction of a program.
fn is_transaction(subject: &str) -> bool {
    last(subject).strip_prefix('t').is_some_and(|number| number.parse::<u32>().is_ok())
}

/// A replay of an ended run ends equally, asks for nothing new, and begins no body.
pub(super) fn ends_again(evidence: &Evidence, found: &mut Found) {
    for (run, why) in &evidence.misfits {
        found.add(run, format!("a replay ends differently: {why}"));
    }
    for line in evidence.lines.iter().filter(|line| line.fact == Fact::Begin && line.pid == std::process::id()) {
        found.add(run_of(&line.subject), format!("a replay of an ended run began {}", line.subject));
    }
}

pub(super) fn replayed(evidence: &Evidence, found: &mut Found) {
    let mut first: HashMap<&str, &str> = HashMap::new();
    let mut recorded: HashMap<(String, &str), &Outcome> = HashMap::new();
    for outcome in evidence.outcomes.iter().filter(|outcome| outcome.position.is_some() && outcome.kind == "step") {
        let subject = outcome.subject();
        let key = subject.split_once('/').map_or("", |(key, _)| key).to_owned();
        recorded.insert((key, last(&outcome.step_key)), outcome);
    }
    for line in evidence.certain_deliveries() {
        let given = first.entry(&line.subject).or_insert(&line.value);
        if *given != line.value {
            found.add(run_of(&line.subject), format!("{} received {given}, and later {}", line.subject, line.value));
        }
        let (key, name) = line.subject.split_once('/').unwrap_or((&line.subject, ""));
        if let Some(outcome) = recorded.get(&(key.to_owned(), name))
            && outcome.status == "succeeded"
            && outcome.output.as_deref() != Some(line.value.as_str())
        {
            found.add(
                run_of(&line.subject),
                format!("{} received {}, and {outcome:?} is recorded", line.subject, line.value),
            );
        }
    }
}
