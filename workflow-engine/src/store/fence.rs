//! Which claims of a batch still hold.

use std::collections::{BTreeMap, HashMap};

use crate::model::{Claim, RunId, RunStatus};

use crate::faults::planted;

use super::{Outcome, Write};

/// The runs that decide about a batch, each with the epoch under which its writer holds it. `None`: what the run is must be
/// known, whatever it is.
pub type Asked = BTreeMap<RunId, Option<i64>>;

/// What a run is: its epoch and status. `None`: there is no such run.
pub type Fact = Option<(i64, RunStatus)>;

/// What the database said of the runs that were asked about. A run of which it said nothing is running, under the epoch that
/// was asked: that is nearly every run of nearly every batch, so only the others cost an answer.
#[derive(Debug, Default)]
pub struct Fence(HashMap<RunId, Fact>);

impl Fence {
    /// From what the database said of those runs that are not running under the epoch that was asked.
    pub fn of<E>(facts: impl Iterator<Item = Result<(RunId, Fact), E>>) -> Result<Self, E> {
        facts.collect::<Result<_, E>>().map(Self)
    }

    /// What the run was; `None` if there is none.
    pub fn status(&self, run: RunId) -> Option<RunStatus> {
        match self.0.get(&run) {
            Some(fact) => fact.map(|(_, status)| status),
            None => Some(RunStatus::Running),
        }
    }

    /// Whether the run is there and has not ended.
    pub fn is_open(&self, run: RunId) -> bool {
        self.status(run).is_some_and(|status| !status.is_terminal())
    }

    /// `None` if the claim holds, else the outcome of its writes. A claim whose run is no longer running was ended by
    /// itself: by a write whose reply was lost.
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

    /// Notes that a write of this batch ended the claim, so that a second one finds it ended.
    pub fn ended(&mut self, claim: Claim, status: RunStatus) {
        self.0.insert(claim.run_id, Some((claim.epoch, status)));
    }
}

/// Asks about this claim. Two claims of one run cannot both hold: what the run is decides between them.
pub fn ask(asked: &mut Asked, claim: Claim) {
    let epoch = asked.entry(claim.run_id).or_insert(Some(claim.epoch));
    if *epoch != Some(claim.epoch) {
        *epoch = None;
    }
}

/// What the claims and signals of a batch ask.
pub fn asked_by(writes: &[Write]) -> Asked {
    asked_by_unless(writes, |_| false)
}

/// The same, but for claims that are `known` to hold.
pub fn asked_by_unless(writes: &[Write], known: impl Fn(Claim) -> bool) -> Asked {
    let mut asked = Asked::new();
    let ask = |asked: &mut Asked, claim| {
        if !known(claim) {
            ask(asked, claim);
        }
    };
    for write in writes {
        match write {
            Write::Attempt(write) => ask(&mut asked, write.claim),
            Write::End(write) => ask(&mut asked, write.claim),
            Write::Park(write) => ask(&mut asked, write.claim),
            Write::Continue(write) => ask(&mut asked, write.claim),
            Write::Retry(write) => ask(&mut asked, write.claim),
            Write::Signal(signal) => drop(asked.insert(signal.run_id, None)),
            Write::Fork(_) | Write::Revive(_) | Write::Pause(_) | Write::Resume(_) => {}
            Write::Start(_)
            | Write::Disown { .. }
            | Write::Cancel(_)
            | Write::Terminate(_)
            | Write::Expire { .. }
            | Write::Claim(_) => {}
        }
    }
    asked
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
    fn what_nothing_was_said_of_holds() {
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
    fn two_claims_of_one_run_ask_what_it_is() {
        let mut asked = Asked::new();
        ask(&mut asked, claim(1));
        ask(&mut asked, claim(1));
        assert_eq!(asked.get(&claim(1).run_id), Some(&Some(1)));
        ask(&mut asked, claim(2));
        ask(&mut asked, claim(1));
        assert_eq!(asked.get(&claim(1).run_id), Some(&None));
    }
}
