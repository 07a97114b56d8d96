//! Checks how runs end.

use crate::program::Answer;

use super::Found;
use super::evidence::Evidence;

pub(super) fn live(evidence: &Evidence, found: &mut Found) {
    for (id, run) in evidence.runs.iter().filter(|(_, run)| !run.has_ended()) {
        found.add(id, format!("the run had time to end, and is {}", run.status));
    }
}

pub(super) fn expected(evidence: &Evidence, found: &mut Found) {
    for (id, expected) in &evidence.expected_answers {
        let Some(run) = evidence.runs.get(id).filter(|run| run.has_ended()) else { continue };
        let holds = match expected {
            Answer::Value(value) => run.status == "succeeded" && run.output.as_deref() == Some(&value.to_string()),
            Answer::Error(words) => {
                run.status == "failed" && run.error.as_ref().is_some_and(|error| error.contains(words.as_str()))
            }
            Answer::Canceled => run.status == "canceled",
        };
        if !holds {
            found.add(
                id,
                format!("expected was {expected:?}, the run is {} {:?} {:?}", run.status, run.output, run.error),
            );
        }
    }
}
