//! The deliveries that prove a commit.

use std::collections::HashMap;

use crate::ledger::{Fact, Line};

use super::acks::last;
use super::evidence::{Evidence, run_of};

impl Evidence {
    /// Returns the outcomes that workflows saw and that must be recorded.
    ///
    /// A workflow may see an outcome before its commit, but until then no body of its run begins
    /// and no other outcome is delivered. So an outcome is committed if either has happened behind
    /// it in the same process, or if the process went on without a fault and kept the claim.
    ///
    /// A process that may have lost a claim may also have driven the run once more. There a body
    /// counts alone, and not that of the step itself, with which such a drive begins. A canceled
    /// run may begin with another one.
    pub(super) fn certain_deliveries(&self) -> impl Iterator<Item = &Line> {
        let mut behind: HashMap<(u32, &str), &Line> = HashMap::new();
        let mut next_begins: HashMap<(u32, &str), &Line> = HashMap::new();
        let mut certain = Vec::new();
        for line in self.lines.iter().rev().filter(|line| matches!(line.fact, Fact::Begin | Fact::Delivered)) {
            let run = run_of(&line.subject);
            let of_run = (line.pid, run);
            if line.fact == Fact::Begin {
                next_begins.insert(of_run, line);
            } else if match self.disturbed.contains(&line.pid) {
                true => next_begins.get(&of_run).is_some_and(|begin| self.proves(begin, line, run)),
                false => behind.contains_key(&of_run) || !self.dead.contains(&line.pid) && !self.is_taken(run),
            } {
                certain.push(line);
            }
            behind.insert(of_run, line);
        }
        certain.into_iter().rev()
    }

    /// Returns whether a client, or its deadline, may have ended the run while a worker held it.
    fn is_taken(&self, run: &str) -> bool {
        self.runs.get(run).is_none_or(|run| {
            let is_late = run.error.as_ref().is_some_and(|error| error.contains("deadline"));
            run.status == "canceled" || is_late
        })
    }

    /// Returns whether a body that began behind a delivery shows its commit, although the process
    /// may have lost the claim in between.
    fn proves(&self, begin: &Line, delivered: &Line, run: &str) -> bool {
        let is_canceled = self.runs.get(run).is_none_or(|run| run.cancel_requested_at.is_some());
        last(&begin.subject) != last(&delivered.subject) && !is_canceled
    }
}
