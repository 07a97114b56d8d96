use std::collections::{BTreeMap, VecDeque};

use super::call::CallId;

/// The outcomes that are not delivered to the workflow yet, and their order.
#[derive(Debug)]
pub(super) struct Deliveries {
    /// The recorded outcomes whose calls are active, and a recorded interruption, by position.
    recorded: BTreeMap<i64, Receiver>,
    /// The new outcomes in the order of their positions. An outcome is delivered only after every
    /// outcome with a lower position, whichever of them is committed first.
    new: VecDeque<NewOutcome>,
    /// The position of the next outcome.
    next_position: i64,
}

/// The receiver of an outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Receiver {
    /// The call that the outcome belongs to.
    Call(CallId),
    /// Every call of the run: the outcome is an interruption.
    Run,
}

/// A new outcome, from its decision to its delivery.
#[derive(Clone, Copy, Debug)]
struct NewOutcome {
    position: i64,
    receiver: Receiver,
    committed: bool,
}

impl Deliveries {
    /// Creates the deliveries of a run whose next outcome gets `next_position`, and whose
    /// interruption is recorded at `interruption`.
    pub(super) fn new(next_position: i64, interruption: Option<i64>) -> Self {
        let recorded = interruption.map(|position| (position, Receiver::Run)).into_iter().collect();
        Self { recorded, new: VecDeque::new(), next_position }
    }

    /// Adds a recorded outcome whose call has become active.
    pub(super) fn expect(&mut self, position: i64, id: CallId) {
        self.recorded.insert(position, Receiver::Call(id));
    }

    /// Removes a recorded outcome whose call was dropped.
    pub(super) fn skip(&mut self, position: i64) {
        self.recorded.remove(&position);
    }

    /// Takes the next position for an outcome of this receiver.
    pub(super) fn take_position(&mut self, receiver: Receiver) -> i64 {
        let position = self.next_position;
        self.next_position += 1;
        self.new.push_back(NewOutcome { position, receiver, committed: false });
        position
    }

    /// Gives up a position whose outcome was not written. If it is the last position, the next
    /// outcome gets it, so that the history has no gap.
    pub(super) fn give_up(&mut self, position: i64) {
        if let Some(index) = self.index(position) {
            self.new.remove(index);
        }
        if position + 1 == self.next_position {
            self.next_position = position;
        }
    }

    /// Notes that the outcome with this position is committed.
    pub(super) fn committed(&mut self, position: i64) {
        if let Some(index) = self.index(position) {
            self.new[index].committed = true;
        }
    }

    fn index(&self, position: i64) -> Option<usize> {
        self.new.binary_search_by_key(&position, |next| next.position).ok()
    }

    /// Takes the recorded outcome with the lowest position among active calls. With the code that
    /// wrote the history, this is always the next outcome, unless the run was retried: the retried
    /// step then gets a position behind outcomes that the code reaches after it.
    pub(super) fn take_recorded(&mut self, interruption_is_due: bool) -> Option<(i64, Receiver)> {
        let is_due = |receiver: &Receiver| *receiver != Receiver::Run || interruption_is_due;
        let position = *self.recorded.iter().find(|(_, receiver)| is_due(receiver))?.0;
        self.recorded.remove_entry(&position)
    }

    /// Takes the next new outcome if it is committed. Skips outcomes of calls that no longer take
    /// one, as every replay will.
    pub(super) fn take_committed(
        &mut self,
        interruption_is_due: bool,
        takes_outcome: impl Fn(CallId) -> bool,
    ) -> Option<(i64, Receiver)> {
        loop {
            let NewOutcome { position, receiver, committed } = *self.new.front()?;
            if !committed || receiver == Receiver::Run && !interruption_is_due {
                return None;
            }
            self.new.pop_front();
            match receiver {
                Receiver::Call(id) if !takes_outcome(id) => {}
                Receiver::Run | Receiver::Call(_) => return Some((position, receiver)),
            }
        }
    }

    /// Takes the only outcome that is left, which is not committed, if it is the one with this
    /// position.
    pub(super) fn take_early(&mut self, position: i64) -> bool {
        let is_alone = self.recorded.is_empty() && self.new.len() == 1 && self.index(position).is_some();
        if is_alone {
            self.new.clear();
        }
        is_alone
    }

    /// Returns the position of the first recorded outcome whose call is active.
    pub(super) fn first_recorded(&self) -> Option<i64> {
        self.recorded.first_key_value().map(|(position, _)| *position)
    }

    /// Returns whether every outcome was delivered.
    pub(super) fn are_over(&self) -> bool {
        self.new.is_empty() && self.recorded.is_empty()
    }

    /// Returns whether no outcome can be delivered now.
    pub(super) fn none_is_ready(&self) -> bool {
        self.recorded.is_empty() && !self.new.front().is_some_and(|next| next.committed)
    }
}
