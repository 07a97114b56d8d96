//! Checks which bodies ran, and how often.

use std::collections::{HashMap, HashSet};

use crate::ledger::{Fact, Line};
use crate::program::ATTEMPTS;

use super::Found;
use super::acks::last;
use super::evidence::{Evidence, run_of};

fn begins(evidence: &Evidence) -> HashMap<&str, Vec<&Line>> {
    let mut begins: HashMap<&str, Vec<&Line>> = HashMap::new();
    for line in evidence.lines.iter().filter(|line| line.fact == Fact::Begin) {
        begins.entry(&line.subject).or_default().push(line);
    }
    begins
}

/// Each outcome of a body has a body that began, and each wait has none. A body that began has left
/// an outcome, unless its call was dropped by a race, or its run did not succeed.
pub(super) fn began(evidence: &Evidence, found: &mut Found) {
    let begins = begins(evidence);
    let mut with_outcome = HashSet::new();
    for outcome in evidence.outcomes.iter().filter(|outcome| outcome.position.is_some()) {
        let mut subject = outcome.subject();
        if outcome.kind == "compensation" {
            // The body runs after the workflow has returned, so its key has no scopes.
            let (run, _) = subject.split_once('/').unwrap_or((&subject, ""));
            subject = format!("{run}/{}", last(&outcome.step_key));
        }
        let has_body = begins.contains_key(subject.as_str());
        match outcome.kind.as_str() {
            // The body of an emission is the engine's own, and writes no line.
            "step" if last(&outcome.step_key).starts_with("emit ") => {}
            "step" | "transaction" | "compensation" if !has_body => {
                found.add(&outcome.run, format!("{} has an outcome, and its body never began", outcome.step_key));
            }
            "sleep" | "signal" | "approval" | "child" if has_body => {
                found.add(&outcome.run, format!("{} is a wait, and a body began", outcome.step_key));
            }
            _ => {}
        }
        with_outcome.insert(subject);
    }
    for subject in begins.keys().filter(|subject| !with_outcome.contains(**subject)) {
        let name = subject.rsplit('/').next().unwrap_or_default();
        let may_lose = name.starts_with('r') && name.contains('-');
        if !may_lose && !evidence.is_cut_short(run_of(subject)) {
            found.add(run_of(subject), format!("the body of {subject} began and left no outcome"));
        }
    }
}

/// A body begins again only because its attempt failed, its process died, or its claim was lost.
pub(super) fn again(evidence: &Evidence, found: &mut Found) {
    let mut claims: HashMap<&str, usize> = HashMap::new();
    for claim in &evidence.claims {
        *claims.entry(&claim.run).or_default() += 1;
    }
    for (subject, begins) in begins(evidence) {
        for pair in begins.windows(2) {
            let (one, next) = (pair[0], pair[1]);
            let retried = next.attempt > one.attempt;
            // A process that was stopped just before it began a body may begin it after another
            // worker has taken over.
            let disturbed = [one, next].iter().any(|line| evidence.disturbed.contains(&line.pid));
            let excused = evidence.dead.contains(&one.pid) || disturbed;
            if !retried && !excused {
                let what = format!("{subject} began in {}, which was not killed, and again in {}", one.pid, next.pid);
                found.add(run_of(subject), what);
            }
        }
        let mut attempts: HashMap<u32, usize> = HashMap::new();
        for begin in &begins {
            *attempts.entry(begin.attempt).or_default() += 1;
        }
        let claimed = claims.get(run_of(subject)).copied().unwrap_or(0);
        for (attempt, count) in attempts.into_iter().filter(|(_, count)| *count > claimed) {
            found.add(
                run_of(subject),
                format!("attempt {attempt} of {subject} began {count} times in {claimed} claims"),
            );
        }
    }
}

pub(super) fn exact(evidence: &Evidence, found: &mut Found) {
    let Some(effects) = &evidence.effects else { return };
    let mut effects_of: HashMap<&str, usize> = HashMap::new();
    for effect in effects {
        *effects_of.entry(effect).or_default() += 1;
    }
    let transactions = evidence.outcomes.iter().filter(|it| it.kind == "transaction" && it.status == "succeeded");
    let recorded: HashSet<String> = transactions.map(super::evidence::Outcome::subject).collect();
    for subject in &recorded {
        let count = effects_of.remove(subject.as_str()).unwrap_or(0);
        if count != 1 {
            found.add(run_of(subject), format!("{subject} is recorded, and its effect exists {count} times"));
        }
    }
    for (subject, count) in effects_of {
        found.add(
            run_of(subject),
            format!("the effect of {subject} exists {count} times, and the step is not recorded"),
        );
    }
}

/// The steps of programs have a retry policy, which their names encode.
pub(super) fn attempts(evidence: &Evidence, found: &mut Found) {
    for outcome in evidence.outcomes.iter().filter(|outcome| outcome.kind == "step") {
        let Some(run) = evidence.runs.get(&outcome.run).filter(|run| run.workflow == "program") else { continue };
        let name = outcome.step_key.rsplit('/').next().unwrap_or_default();
        let most = match name.as_bytes().first() {
            Some(b'h') => 1,
            Some(b's') => i64::from(ATTEMPTS),
            _ => continue,
        };
        if outcome.attempt > most {
            found.add(&run.id, format!("{name} has {} attempts, its policy allows {most}", outcome.attempt));
        }
    }
    // A body that died with its worker begins again as the same attempt.
    for (subject, begins) in begins(evidence) {
        let name = subject.rsplit('/').next().unwrap_or_default();
        let is_hopeless = name.starts_with('h') && name[1..].parse::<u32>().is_ok();
        if is_hopeless && begins.iter().any(|begin| begin.attempt > 1) {
            found.add(run_of(subject), format!("{subject} was attempted again"));
        }
    }
}
