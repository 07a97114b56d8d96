//! Checks that a run has one owner at a time.

use std::collections::HashMap;

use super::Found;
use super::evidence::Evidence;

fn noted(evidence: &Evidence, kinds: &[&str], found: &mut Found) {
    for (kind, run, detail) in evidence.noted.iter().filter(|(kind, ..)| kinds.contains(&kind.as_str())) {
        found.add(run, format!("{kind}: {detail}"));
    }
}

pub(super) fn fence(evidence: &Evidence, found: &mut Found) {
    noted(evidence, &["fence"], found);
    let mut epochs: HashMap<&str, i64> = HashMap::new();
    // The outcomes are in the order of their commits, so an outcome with a lower epoch than an
    // earlier one came from a stale claim.
    for outcome in &evidence.outcomes {
        let newest = epochs.entry(&outcome.run).or_insert(outcome.epoch);
        if outcome.epoch < *newest {
            found.add(
                &outcome.run,
                format!("{} was recorded by epoch {} after {newest}", outcome.step_key, outcome.epoch),
            );
        }
        *newest = outcome.epoch.max(*newest);
    }
}

pub(super) fn epochs(evidence: &Evidence, found: &mut Found) {
    noted(evidence, &["epoch"], found);
    let mut epochs: HashMap<&str, i64> = HashMap::new();
    for claim in &evidence.claims {
        let last = epochs.entry(&claim.run).or_insert(claim.epoch - 1);
        if claim.epoch != *last + 1 {
            found.add(&claim.run, format!("epoch {last} became {}", claim.epoch));
        }
        *last = claim.epoch;
    }
    for (run, epoch) in epochs {
        if evidence.runs.get(run).is_some_and(|row| row.epoch != epoch) {
            found.add(run, format!("the last claim had epoch {epoch}, and the run has another one"));
        }
    }
}

pub(super) fn dual(evidence: &Evidence, found: &mut Found) {
    let mut ends: HashMap<&str, Vec<&str>> = HashMap::new();
    for (_, run, status) in evidence.noted.iter().filter(|(kind, ..)| kind == "end") {
        ends.entry(run).or_default().push(status);
    }
    for (run, statuses) in ends {
        let attempts = evidence.runs.get(run).map_or(1, |row| row.attempt);
        if statuses.len() as i64 > attempts {
            found.add(run, format!("the run ended more than once: {statuses:?}"));
        }
    }
    let mut recorded: HashMap<(String, i64), i64> = HashMap::new();
    for outcome in evidence.outcomes.iter().filter(|outcome| outcome.position.is_some()) {
        let first = recorded.entry((outcome.subject(), outcome.attempt)).or_insert(outcome.epoch);
        if *first != outcome.epoch {
            found.add(
                &outcome.run,
                format!("{} was recorded by epochs {first} and {}", outcome.step_key, outcome.epoch),
            );
        }
    }
}

/// A claim counts no crash, whatever it finds: the release of a dead worker's claims has counted
/// it.
pub(super) fn counted(evidence: &Evidence, found: &mut Found) {
    noted(evidence, &["uncounted"], found);
}

/// A claim is released before its lease has ended only if its worker is dead, as that worker's free
/// lock shows.
pub(super) fn released(evidence: &Evidence, found: &mut Found) {
    if evidence.workers.is_empty() || evidence.has_wrong_clocks {
        return;
    }
    for (_, run, worker) in evidence.noted.iter().filter(|(kind, ..)| kind == "released") {
        let pid = evidence.workers.get(worker);
        if !pid.is_some_and(|pid| evidence.dead.contains(pid) || evidence.unlocked.contains(pid)) {
            found.add(run, format!("the claim was released from worker {worker}, process {pid:?}, which was not dead"));
        }
    }
}

pub(super) fn innocent(evidence: &Evidence, found: &mut Found) {
    for (id, run) in &evidence.runs {
        if run.crashes > evidence.max_crashes {
            found.add(id, format!("{} crashes are counted, and the limit is {}", run.crashes, evidence.max_crashes));
        }
        let is_guilty = run.workflow == "aborter";
        if !is_guilty && run.error.as_deref().is_some_and(|error| error.contains("\"crash_loop\"")) {
            found.add(id, format!("the run failed because of its crashes: {:?}", run.error));
        }
    }
}
