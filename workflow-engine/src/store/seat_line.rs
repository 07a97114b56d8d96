//! A line of steps that share the seats of one limit and key: which steps hold a seat, and which
//! one gets the next.
//!
//! A seat is held while its run is running under the epoch that took it. So nothing gives back the
//! seat of a worker that died, and nothing can forget to: it ends with the claim.

use std::collections::VecDeque;

use crate::faults::planted;
use crate::model::{RunId, RunStatus, SeatLine, Timestamp};

/// How long a step that was called keeps its right to the next seat. If its run is not claimed and
/// does not ask within this time, the step after it is called.
pub const CALL_PATIENCE: std::time::Duration = std::time::Duration::from_secs(30);

/// The number of waiting steps of a line that a batch looks at, beside those that it changes. A
/// limit with more free seats is served in several batches.
pub const MOST_WAITING: u32 = 1000;

/// A row of the seats, with what its run shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeatRow {
    /// The run.
    pub run_id: RunId,
    /// The step.
    pub step_key: String,
    /// Since when the step waits, or had waited when it got its seat.
    pub asked_at: Timestamp,
    /// Whether the step was called to take a free seat.
    pub called: bool,
    /// The epoch under which the step took its seat; `None` if it waits.
    pub epoch: Option<i64>,
    /// The present epoch of the run.
    pub run_epoch: i64,
    /// The present status of the run.
    pub run_status: RunStatus,
}

impl SeatRow {
    /// Returns whether the claim that took the seat still holds.
    fn is_held(&self) -> bool {
        let holds = self.run_epoch == self.epoch.unwrap_or_default() && self.run_status == RunStatus::Running;
        self.epoch.is_some() && (holds || planted("seat-without-epoch"))
    }
}

/// A line, as far as a batch has to know it.
#[derive(Debug)]
pub struct OpenLine {
    /// The number of seats.
    seats: u32,
    held: Vec<Place>,
    /// In the order in which they get seats.
    waiting: VecDeque<Waiting>,
    /// Seats of claims that do not hold any more.
    void: Vec<Place>,
}

/// A step in a line.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    run_id: RunId,
    step_key: String,
    epoch: i64,
}

#[derive(Debug)]
struct Waiting {
    run_id: RunId,
    step_key: String,
    called: bool,
}

impl OpenLine {
    /// Returns a line with this number of seats (`None`: any number) and these rows: all that have
    /// an epoch, and the first of those that wait and may be called.
    #[must_use]
    pub fn of(seats: Option<u32>, mut rows: Vec<SeatRow>) -> Self {
        rows.sort_by_key(|row| row.asked_at);
        let (mut held, mut void, mut waiting) = (Vec::new(), Vec::new(), VecDeque::new());
        for row in rows {
            let is_held = row.is_held();
            let SeatRow { run_id, step_key, called, epoch, .. } = row;
            match epoch {
                Some(epoch) if is_held => held.push(Place { run_id, step_key, epoch }),
                Some(epoch) => void.push(Place { run_id, step_key, epoch }),
                None => waiting.push_back(Waiting { run_id, step_key, called }),
            }
        }
        Self { seats: seats.unwrap_or(u32::MAX), held, waiting, void }
    }

    /// Returns the number of seats that are taken.
    #[must_use]
    pub fn taken(&self) -> usize {
        self.held.len()
    }

    /// Returns how many steps wait before this one; `None` if it is not among those that the line
    /// knows.
    #[must_use]
    pub fn ahead_of(&self, run: RunId, step_key: &str) -> Option<usize> {
        self.waiting.iter().position(|waiting| waiting.run_id == run && waiting.step_key == step_key)
    }

    /// Asks for a seat under this epoch. Returns whether the step got one: there are more free
    /// seats than steps that wait before it.
    pub fn ask(&mut self, run: RunId, step_key: &str, epoch: i64) -> bool {
        let is_it = |place: &Place| place.run_id == run && place.step_key == step_key;
        // The reply to an earlier commit of the question was lost.
        if self.held.iter().any(|place| is_it(place) && place.epoch == epoch) {
            return true;
        }
        self.held.retain(|place| !is_it(place));
        let was_void = self.void.iter().any(is_it);
        self.void.retain(|place| !is_it(place));
        // A run that was taken over had its seat before all that wait.
        let place = self.ahead_of(run, step_key).unwrap_or(if was_void { 0 } else { self.waiting.len() });
        let waits = self.waiting.get(place).is_some_and(|it| it.run_id == run && it.step_key == step_key);
        if self.free() > place {
            if waits {
                self.waiting.remove(place);
            }
            self.held.push(Place { run_id: run, step_key: step_key.to_owned(), epoch });
            return true;
        }
        match self.waiting.get_mut(place).filter(|_| waits) {
            Some(waiting) => waiting.called = false,
            None => self.waiting.insert(place, Waiting { run_id: run, step_key: step_key.to_owned(), called: false }),
        }
        false
    }

    /// Removes a step from the line.
    pub fn leave(&mut self, run: RunId, step_key: &str) {
        self.held.retain(|place| place.run_id != run || place.step_key != step_key);
        self.waiting.retain(|waiting| waiting.run_id != run || waiting.step_key != step_key);
    }

    /// Calls the steps that may take the free seats, and returns those that were not called before.
    pub fn call(&mut self) -> Vec<(RunId, String)> {
        let free = self.free();
        let next = self.waiting.iter_mut().take(free).filter(|waiting| !waiting.called);
        next.map(|waiting| {
            waiting.called = true;
            (waiting.run_id, waiting.step_key.clone())
        })
        .collect()
    }

    /// Returns the runs of the first waiting steps, as many as this batch may call if it gives this
    /// number of seats back.
    pub fn candidates(&self, given_back: usize) -> impl Iterator<Item = RunId> {
        let uncalled = self.waiting.iter().take(self.free() + given_back).filter(|waiting| !waiting.called);
        uncalled.map(|waiting| waiting.run_id)
    }

    fn free(&self) -> usize {
        (self.seats as usize).saturating_sub(self.held.len())
    }
}

/// A step that asks for a seat, with the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AskedSeat<'w> {
    /// The run.
    pub run_id: RunId,
    /// The step.
    pub step_key: &'w str,
    /// The line.
    pub line: &'w SeatLine,
    /// The epoch of the claim if the step got a seat; `None` if it waits.
    pub epoch: Option<i64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(number: u128) -> RunId {
        uuid::Uuid::from_u128(number).into()
    }

    fn row(number: u128, epoch: Option<i64>) -> SeatRow {
        SeatRow {
            run_id: run(number),
            step_key: "ask".into(),
            asked_at: Timestamp::from_micros(i64::try_from(number).unwrap()),
            called: false,
            epoch,
            run_epoch: 1,
            run_status: RunStatus::Running,
        }
    }

    fn ask(line: &mut OpenLine, number: u128) -> bool {
        line.ask(run(number), "ask", 1)
    }

    #[test]
    fn the_first_to_ask_get_the_seats_and_the_others_wait_in_their_order() {
        let mut line = OpenLine::of(Some(2), Vec::new());
        let got: Vec<bool> = (0..4).map(|number| ask(&mut line, number)).collect();
        assert_eq!(got, [true, true, false, false]);
        assert_eq!(line.call(), [], "no seat is free");
        assert!(ask(&mut line, 0), "it has its seat");
        line.leave(run(0), "ask");
        assert!(!ask(&mut line, 4) && !ask(&mut line, 3), "the seat is for the one that waits longest");
        assert_eq!(line.call(), [(run(2), "ask".to_owned())]);
        assert_eq!(line.call(), [], "it was called");
        assert!(ask(&mut line, 2));
        assert_eq!((line.taken(), line.ahead_of(run(4), "ask")), (2, Some(1)));
        line.leave(run(3), "ask");
        line.leave(run(1), "ask");
        assert!(ask(&mut line, 4), "one that waited before it has left");
    }

    #[test]
    fn a_seat_ends_with_the_claim_that_took_it() {
        let other_epoch = SeatRow { run_epoch: 2, ..row(1, Some(1)) };
        let parked = SeatRow { run_status: RunStatus::Parked, ..row(2, Some(1)) };
        let mut line = OpenLine::of(Some(1), vec![other_epoch, parked, row(3, None), row(4, None)]);
        assert_eq!(line.taken(), 0);
        assert!(!ask(&mut line, 5));
        assert!(!ask(&mut line, 4));
        assert!(line.ask(run(1), "ask", 2), "the run that was taken over is before all that wait");
    }

    #[test]
    fn a_limit_of_zero_gives_no_seats_and_no_limit_gives_all() {
        assert!(!ask(&mut OpenLine::of(Some(0), Vec::new()), 1));
        let mut line = OpenLine::of(None, (0..9).map(|number| row(number, Some(1))).collect());
        assert!(ask(&mut line, 9));
        assert_eq!(OpenLine::of(None, vec![row(1, None), row(2, None)]).call().len(), 2);
    }

    #[test]
    fn a_lowered_limit_calls_nothing_until_enough_seats_are_free() {
        let rows = |held| (0..4).map(|number| row(number, (number < held).then_some(1))).collect();
        assert_eq!(OpenLine::of(Some(1), rows(3)).call(), []);
        assert_eq!(OpenLine::of(Some(3), rows(2)).call(), [(run(2), "ask".to_owned())]);
        assert_eq!(OpenLine::of(Some(1), rows(2)).candidates(1).count(), 1);
    }
}
