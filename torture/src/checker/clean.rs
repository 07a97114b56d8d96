//! Checks for damage, rows without a run, and forbidden texts in logs.

use super::Found;
use super::evidence::Evidence;

pub(super) fn database(evidence: &Evidence, found: &mut Found) {
    for damage in &evidence.damage {
        found.add("", damage.as_str());
    }
}

pub(super) fn rows(evidence: &Evidence, found: &mut Found) {
    for row in evidence.attempts.iter().filter(|row| !evidence.runs.contains_key(&row.run)) {
        found.add(&row.run, format!("step {} belongs to a run that does not exist", row.step_key));
    }
    for seat in &evidence.seats {
        found.add("", format!("seat {seat} belongs to a run that has ended"));
    }
    for signal in evidence.signals.iter().filter(|signal| !evidence.runs.contains_key(&signal.run)) {
        found.add(&signal.run, format!("signal {} belongs to a run that does not exist", signal.name));
    }
}

pub(super) fn logs(evidence: &Evidence, found: &mut Found) {
    for complaint in &evidence.complaints {
        found.add("", complaint.as_str());
    }
}
