//! Finds violations once everything has ended. It compares the [ledger](crate::ledger), the rows of
//! the [triggers](crate::audit) and the stored rows. Nothing that the engine reports about itself
//! is used.

mod acks;
mod answers;
mod bodies;
mod claims;
mod clean;
pub(crate) mod damage;
mod deliveries;
mod evidence;
mod history;
mod waits;

use std::fmt;

use serde::Serialize;

pub use evidence::{Attempt, Claimed, Evidence, Outcome, Row, Signal, Taken, run_of};

/// A violated invariant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// The name of the invariant.
    pub invariant: &'static str,
    /// The id of the run; empty if the violation concerns no single run.
    pub run: String,
    /// The violation in words.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.invariant, if self.run.is_empty() { "-" } else { &self.run }, self.what)
    }
}

/// One check of an invariant.
#[derive(Clone, Copy)]
pub struct Check {
    /// The name of the invariant.
    pub invariant: &'static str,
    /// The requirement.
    pub holds: &'static str,
    find: fn(&Evidence, &mut Found),
}

impl fmt::Debug for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Check").field("invariant", &self.invariant).field("holds", &self.holds).finish_non_exhaustive()
    }
}

/// All checks. `I-Equal` is not among them, because it compares two databases: see
/// [`Evidence::observable`].
pub const CHECKS: &[Check] = &[
    Check { invariant: "I-Ack", holds: "an acknowledged start is stored", find: acks::starts },
    Check { invariant: "I-Ack", holds: "an acknowledged signal is stored or was consumed", find: acks::signals },
    Check { invariant: "I-Ack", holds: "an acknowledged cancel is stored", find: acks::cancels },
    Check { invariant: "I-Ack", holds: "a client receives the stored result", find: acks::answers },
    Check { invariant: "I-Ack", holds: "an outcome that a workflow saw was recorded before", find: acks::outcomes },
    Check { invariant: "I-One", holds: "a step has one outcome, which never changes", find: history::one },
    Check { invariant: "I-Fence", holds: "no write by a stale claim", find: claims::fence },
    Check { invariant: "I-Fence", holds: "epochs rise by one", find: claims::epochs },
    Check { invariant: "I-NoDual", holds: "a run ends once, and one claim records a step", find: claims::dual },
    Check { invariant: "I-NoDual", holds: "only the claims of dead workers are released", find: claims::released },
    Check { invariant: "I-Live", holds: "every run ends", find: answers::live },
    Check { invariant: "I-AtLeast", holds: "a body began before its outcome", find: bodies::began },
    Check {
        invariant: "I-AtLeast",
        holds: "a body begins again only after a death or a lost claim",
        find: bodies::again,
    },
    Check {
        invariant: "I-Exact",
        holds: "one effect per recorded transaction, and no other effects",
        find: bodies::exact,
    },
    Check { invariant: "I-Mono", holds: "statuses, times and histories go forward", find: history::forward },
    Check {
        invariant: "I-Mono",
        holds: "positions are distinct, and only transactions leave gaps",
        find: history::positions,
    },
    Check { invariant: "I-Replay", holds: "a replay receives the first, recorded values", find: history::replayed },
    Check { invariant: "I-Replay", holds: "a replay of an ended run ends equally", find: history::ends_again },
    Check { invariant: "I-Signal", holds: "a signal is consumed once, in order per name", find: waits::signals },
    Check { invariant: "I-Timer", holds: "a sleep ends once, and not early", find: waits::timers },
    Check { invariant: "I-Tree", holds: "a child exists exactly if its parent recorded it", find: waits::children },
    Check { invariant: "I-Tree", holds: "no child outlives a parent that cancels it", find: waits::orphans },
    Check { invariant: "I-Attempts", holds: "no more attempts than the policy allows", find: bodies::attempts },
    Check { invariant: "I-Attempts", holds: "a claim counts no crash: the death did", find: claims::counted },
    Check { invariant: "I-Attempts", holds: "no innocent run fails because of crashes", find: claims::innocent },
    Check { invariant: "I-Answer", holds: "a run ends as expected", find: answers::expected },
    Check { invariant: "I-Clean", holds: "the database is whole, and had no deadlocks", find: clean::database },
    Check { invariant: "I-Clean", holds: "no rows without a run", find: clean::rows },
    Check { invariant: "I-Clean", holds: "no log contains a forbidden text", find: clean::logs },
];

/// The violations that were found so far.
#[derive(Debug)]
pub struct Found {
    invariant: &'static str,
    violations: Vec<Violation>,
}

impl Found {
    fn add(&mut self, run: impl Into<String>, what: impl Into<String>) {
        self.violations.push(Violation { invariant: self.invariant, run: run.into(), what: what.into() });
    }
}

/// Runs all checks and returns the violations.
#[must_use]
pub fn violations(evidence: &Evidence) -> Vec<Violation> {
    let mut found = Found { invariant: "", violations: Vec::new() };
    for check in CHECKS {
        found.invariant = check.invariant;
        (check.find)(evidence, &mut found);
    }
    found.violations
}
