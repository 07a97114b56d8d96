//! Checks that nothing acknowledged is lost.

use std::collections::{HashMap, HashSet};

use crate::ledger::Fact;

use super::Found;
use super::evidence::{Evidence, run_of};

pub(super) fn starts(evidence: &Evidence, found: &mut Found) {
    for line in evidence.lines.iter().filter(|line| line.fact == Fact::Started) {
        if !evidence.runs.contains_key(&line.subject) {
            found.add(&line.subject, "the start was acknowledged, and the run is not stored");
        }
    }
}

pub(super) fn signals(evidence: &Evidence, found: &mut Found) {
    let mut stored: HashSet<(&str, String)> = evidence
        .signals
        .iter()
        .map(|signal| (signal.run.as_str(), format!("{}={}", signal.name, signal.payload)))
        .collect();
    stored.extend(evidence.taken.iter().map(|taken| (taken.run.as_str(), format!("{}={}", taken.name, taken.payload))));
    for line in evidence.lines.iter().filter(|line| line.fact == Fact::Signaled) {
        if !stored.contains(&(line.subject.as_str(), line.value.clone())) {
            found.add(
                &line.subject,
                format!("signal {} was acknowledged, and is neither stored nor consumed", line.value),
            );
        }
    }
}

/// A cancel is stored as a request, or as the end of a run that was never claimed.
pub(super) fn cancels(evidence: &Evidence, found: &mut Found) {
    for line in evidence.lines.iter().filter(|line| line.fact == Fact::Canceled) {
        let Some(run) = evidence.runs.get(&line.subject) else {
            found.add(&line.subject, "a cancel was acknowledged, and the run is not stored");
            continue;
        };
        let holds = match line.value.as_str() {
            "canceled" => run.status == "canceled",
            "requested" => run.cancel_requested_at.is_some(),
            ended => run.status == ended,
        };
        if !holds {
            found.add(&line.subject, format!("a cancel was answered with {}, and the run is {run:?}", line.value));
        }
    }
}

pub(super) fn answers(evidence: &Evidence, found: &mut Found) {
    for line in evidence.lines.iter().filter(|line| line.fact == Fact::Answered) {
        let received = line.value.as_str();
        let stored = evidence.runs.get(&line.subject).map(|run| match (run.status.as_str(), &run.output) {
            ("succeeded", Some(output)) => output.clone(),
            (status, _) => status.to_owned(),
        });
        if stored.as_deref() != Some(received) {
            found.add(&line.subject, format!("a client received {received}, and {stored:?} is stored"));
        }
    }
}

/// An outcome that a workflow saw and that must be committed is recorded.
pub(super) fn outcomes(evidence: &Evidence, found: &mut Found) {
    let mut recorded: HashMap<String, HashSet<String>> = HashMap::new();
    for outcome in evidence.outcomes.iter().filter(|outcome| outcome.position.is_some()) {
        let subject = outcome.subject();
        let (run, step_key) = subject.split_once('/').unwrap_or((&subject, ""));
        recorded.entry(run.to_owned()).or_default().insert(last(step_key).to_owned());
    }
    for line in evidence.certain_deliveries() {
        let (run, name) = line.subject.split_once('/').unwrap_or((&line.subject, ""));
        if !recorded.get(run).is_some_and(|names| names.contains(name)) {
            found.add(run_of(run), format!("the workflow saw the outcome of {name}, and no outcome is recorded"));
        }
    }
}

/// Returns the part of a step key that is unique in its run: the name of the step, and for a sleep
/// or a child also the scope that was created for it.
pub(super) fn last(step_key: &str) -> &str {
    let end = step_key.rfind('/').map_or(0, |slash| slash + 1);
    if matches!(&step_key[end..], "sleep" | "program") {
        let scope = step_key[..end.saturating_sub(1)].rfind('/').map_or(0, |slash| slash + 1);
        return &step_key[scope..];
    }
    &step_key[end..]
}
