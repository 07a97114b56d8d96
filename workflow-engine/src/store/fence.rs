//! The fence: which claims of a batch still hold.

use std::collections::{BTreeMap, HashMap};

use crate::faults::planted;
use crate::model::{Claim, RunId, RunStatus};

use super::{Outcome, Write};

/// The runs that decide about a batch, each with the epoch under which its writer holds it. `None`:
/// the fence must know the run's epoch and status, whatever they are.
pub type Asked = BTreeMap<RunId, Option<i64>>;

/// The epoch and status of a run; `None` if there is no such run.
pub type Fact = Option<(i64, RunStatus)>;

/// The answer of a store to [`Asked`]. A run that it does not name is running, under the epoch that
/// was asked. That is nearly every run of nearly every batch, so only the others cost a row.
#[derive(Debug, Default)]
pub struct Fence(HashMap<RunId, Fact>);

impl Fence {
    /// Builds the fence from the runs that are not running under the epoch that was asked.
    ///
    /// # Errors
    /// The first error among the facts.
    pub fn of<E>(facts: impl Iterator<Item = Result<(RunId, Fact), E>>) -> Result<Self, E> {
        facts.collect::<Result<_, E>>().map(Self)
    }

    /// Returns the status of a run that was asked about; `None` if there is no such run.
    #[must_use]
    pub fn status(&self, run: RunId) -> Option<RunStatus> {
        match self.0.get(&run) {
            Some(fact) => fact.map(|(_, status)| status),
            None => Some(RunStatus::Running),
        }
    }

    /// Returns `true` if the run exists and has not ended.
    #[must_use]
    pub fn is_open(&self, run: RunId) -> bool {
        self.status(run).is_some_and(|status| !status.is_terminal())
    }

    /// Returns `None` if the claim holds, else the outcome of its writes. If the run has the
    /// claim's epoch but is not running, a write under this claim released it, so the write is a
    /// duplicate.
    #[must_use]
    pub fn refusal(&self, claim: Claim) -> Option<Outcome> {
        if planted("no-epoch-check") {
            return None;
        }
        match self.0.get(&claim.run_id) {
            None => None,
            Some(Some((epoch, RunStatus::Running))) if *epoch == claim.epoch => None,
            Some(Some((epoch, _))) if *epoch == claim.epoch => Some(Outcome::Duplicate),
            Some(_) => Some(Outcome::Lost),
        }
    }

    /// Notes that a write of this batch released the claim, so that a second one is a duplicate.
    pub fn release(&mut self, claim: Claim, status: RunStatus) {
        self.0.insert(claim.run_id, Some((claim.epoch, status)));
    }
}

/// Returns what a batch asks the fence, because of its claims, its signals and the sources of its
/// forks.
pub(super) fn asked_by<'w>(writes: impl IntoIterator<Item = &'w Write>) -> Asked {
    asked_by_unless(writes, |_| false)
}

/// Returns what a batch asks the fence, without the claims that are `known` to hold.
pub fn asked_by_unless<'w>(writes: impl IntoIterator<Item = &'w Write>, known: impl Fn(Claim) -> bool) -> Asked {
    let mut asked = Asked::new();
    for write in writes {
        if let Some(claim) = write.fenced_by().filter(|claim| !known(*claim)) {
            ask(&mut asked, claim);
        }
        let others = match write.inner() {
            Write::Signal(signal) => Some(signal.run_id),
            Write::Fork(fork) => fork.copied_source(),
            _ => None,
        };
        asked.extend(others.map(|run| (run, None)));
    }
    asked
}

/// Adds a claim. Two claims of one run cannot both hold: the run's epoch and status decide between
/// them.
fn ask(asked: &mut Asked, claim: Claim) {
    let epoch = asked.entry(claim.run_id).or_insert(Some(claim.epoch));
    if *epoch != Some(claim.epoch) {
        *epoch = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(epoch: i64) -> Claim {
        Claim { run_id: uuid::Uuid::nil().into(), epoch }
    }

    fn fence(fact: Fact) -> Fence {
        Fence(HashMap::from([(claim(1).run_id, fact)]))
    }

    #[test]
    fn a_claim_of_a_run_that_is_not_named_holds() {
        assert!(Fence::default().refusal(claim(1)).is_none());
    }

    #[test]
    fn a_claim_that_does_not_hold_is_refused() {
        assert!(matches!(fence(None).refusal(claim(1)), Some(Outcome::Lost)));
        assert!(matches!(fence(Some((2, RunStatus::Running))).refusal(claim(1)), Some(Outcome::Lost)));
        assert!(matches!(fence(Some((1, RunStatus::Parked))).refusal(claim(1)), Some(Outcome::Duplicate)));
        assert!(fence(Some((1, RunStatus::Running))).refusal(claim(1)).is_none());
    }

    #[test]
    fn two_claims_of_one_run_ask_for_its_epoch_and_status() {
        let mut asked = Asked::new();
        ask(&mut asked, claim(1));
        ask(&mut asked, claim(1));
        assert_eq!(asked.get(&claim(1).run_id), Some(&Some(1)));
        ask(&mut asked, claim(2));
        ask(&mut asked, claim(1));
        assert_eq!(asked.get(&claim(1).run_id), Some(&None));
    }
}
