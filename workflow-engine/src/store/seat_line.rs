//! A line of steps that share the seats of one limit and key: which steps hold a seat, and which
//! one gets the next.
//!
//! A seat is held while its run is running under the epoch that took it. So nothing gives back the
//! seat of a worker that died, and nothing can forget to: it ends with the claim. A line may have a
//! rate beside its seats, or in place of them: then a step gets its seat when its body may begin,
//! and a step that waits is told when that will be.

use std::collections::VecDeque;

use crate::faults::planted;
use crate::model::{LimitRule, RunId, RunStatus, SeatLine, Timestamp};

use super::line_rate::LineRate;

/// How long a step that was called keeps its right to the next seat. If its run is not claimed and
/// does not ask within this time, the step after it is called. It keeps its place, so when it asks,
/// it still gets a free seat before that one.
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
    /// When the waiting step asks again by itself, because the rate lets it begin then.
    pub asks_at: Option<Timestamp>,
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
    /// The number of waiting steps that the line knows at most.
    known: usize,
    rate: Option<LineRate>,
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
    asks_at: Option<Timestamp>,
}

/// The answer to a step that asks for a seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeatAnswer {
    /// The step has a seat, and its body may begin.
    Taken,
    /// The step waits, and its run is woken when a seat is free.
    Waits,
    /// The step waits for the rate alone, and asks again at this time.
    WaitsUntil(Timestamp),
}

impl SeatAnswer {
    /// Returns when a step that waits asks again by itself.
    #[must_use]
    pub const fn asks_at(self) -> Option<Timestamp> {
        match self {
            Self::WaitsUntil(at) => Some(at),
            Self::Taken | Self::Waits => None,
        }
    }
}

impl OpenLine {
    /// Returns the number of waiting steps that a line with this rule has to know, beside those
    /// that the batch changes.
    #[must_use]
    pub fn known(rule: LimitRule) -> u32 {
        let seats = rule.concurrency.unwrap_or(MOST_WAITING).min(MOST_WAITING);
        rule.rate.map_or(seats, |rate| seats.min(LineRate::known(rate)))
    }

    /// Returns the state of a line with this rule and these rows: all that have an epoch, and the
    /// first of those that wait and may be called. `rate`: the state of the rule's rate.
    #[must_use]
    pub fn of(rule: LimitRule, rate: Option<LineRate>, mut rows: Vec<SeatRow>) -> Self {
        rows.sort_by_key(|row| row.asked_at);
        let (mut held, mut void, mut waiting) = (Vec::new(), Vec::new(), VecDeque::new());
        for row in rows {
            let is_held = row.is_held();
            let SeatRow { run_id, step_key, called, asks_at, epoch, .. } = row;
            match epoch {
                Some(epoch) if is_held => held.push(Place { run_id, step_key, epoch }),
                Some(epoch) => void.push(Place { run_id, step_key, epoch }),
                None => waiting.push_back(Waiting { run_id, step_key, called, asks_at }),
            }
        }
        let (seats, known) = (rule.concurrency.unwrap_or(u32::MAX), Self::known(rule) as usize);
        Self { seats, held, waiting, void, known, rate }
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

    /// Returns when the rate lets the step at this place begin, if it waits for nothing else.
    #[must_use]
    pub fn begins_at(&self, place: usize) -> Option<Timestamp> {
        self.rate.filter(|_| place < self.free_seats().min(self.known)).map(|rate| rate.begins_at(place))
    }

    /// Returns until when the rate is used up, if that has to be stored.
    #[must_use]
    pub fn used(&self) -> Option<Timestamp> {
        self.rate?.used()
    }

    /// Asks for a seat under this epoch. The step gets one if more are free than steps wait before
    /// it, and if the rate lets as many begin.
    pub fn ask(&mut self, run: RunId, step_key: &str, epoch: i64) -> SeatAnswer {
        let is_it = |place: &Place| place.run_id == run && place.step_key == step_key;
        // The reply to an earlier commit of the question was lost.
        if self.held.iter().any(|place| is_it(place) && place.epoch == epoch) {
            return SeatAnswer::Taken;
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
            if let Some(rate) = self.rate.as_mut().filter(|_| !planted("unused-rate")) {
                rate.begin();
            }
            return SeatAnswer::Taken;
        }
        let is_next = place < self.free_seats().min(self.known);
        let asks_at = self.rate.filter(|_| is_next).map(|rate| rate.asks_at(place));
        match self.waiting.get_mut(place).filter(|_| waits) {
            Some(waiting) => (waiting.called, waiting.asks_at) = (false, asks_at),
            None => {
                let waiting = Waiting { run_id: run, step_key: step_key.to_owned(), called: false, asks_at };
                self.waiting.insert(place, waiting);
            }
        }
        asks_at.map_or(SeatAnswer::Waits, SeatAnswer::WaitsUntil)
    }

    /// Removes a step from the line.
    pub fn leave(&mut self, run: RunId, step_key: &str) {
        self.held.retain(|place| place.run_id != run || place.step_key != step_key);
        self.waiting.retain(|waiting| waiting.run_id != run || waiting.step_key != step_key);
    }

    /// Calls the steps that may take the free seats, and returns those that were not called before.
    /// With a rate, it calls those that would not ask in time by themselves.
    pub fn call(&mut self) -> Vec<(RunId, String)> {
        let (rate, next) = (self.rate, self.free_seats().min(self.known));
        let mut called = Vec::new();
        for (place, waiting) in self.waiting.iter_mut().take(next).enumerate() {
            if waiting.called || rate.is_some_and(|rate| !rate.has_to_call(place, waiting.asks_at, 0)) {
                continue;
            }
            waiting.called = true;
            called.push((waiting.run_id, waiting.step_key.clone()));
        }
        called
    }

    /// Returns the runs of the first waiting steps: all that this batch may call if it takes at
    /// most this number of steps out of the line.
    pub fn candidates(&self, taken_out: usize) -> impl Iterator<Item = RunId> {
        let next = self.free_seats().min(self.known).saturating_add(taken_out);
        let may_be_called = move |place: usize, waiting: &Waiting| {
            !waiting.called && self.rate.is_none_or(|rate| rate.has_to_call(place, waiting.asks_at, taken_out))
        };
        let first = self.waiting.iter().take(next).enumerate();
        first.filter(move |(place, waiting)| may_be_called(*place, waiting)).map(|(_, waiting)| waiting.run_id)
    }

    fn free_seats(&self) -> usize {
        let held = if planted("uncounted-seats") { 0 } else { self.held.len() };
        (self.seats as usize).saturating_sub(held)
    }

    /// Returns how many steps may take a seat now.
    fn free(&self) -> usize {
        self.free_seats().min(self.rate.map_or(usize::MAX, |rate| rate.free()))
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
    /// When the step asks again by itself.
    pub asks_at: Option<Timestamp>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Rate;

    fn run(number: u128) -> RunId {
        uuid::Uuid::from_u128(number).into()
    }

    fn row(number: u128, epoch: Option<i64>) -> SeatRow {
        SeatRow {
            run_id: run(number),
            step_key: "ask".into(),
            asked_at: Timestamp::from_micros(i64::try_from(number).unwrap()),
            called: false,
            asks_at: None,
            epoch,
            run_epoch: 1,
            run_status: RunStatus::Running,
        }
    }

    fn of_seats(seats: Option<u32>, rows: Vec<SeatRow>) -> OpenLine {
        OpenLine::of(LimitRule { concurrency: seats, rate: None }, None, rows)
    }

    fn ask(line: &mut OpenLine, number: u128) -> bool {
        line.ask(run(number), "ask", 1) == SeatAnswer::Taken
    }

    #[test]
    fn the_first_to_ask_get_the_seats_and_the_others_wait_in_their_order() {
        let mut line = of_seats(Some(2), Vec::new());
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
        let mut line = of_seats(Some(1), vec![other_epoch, parked, row(3, None), row(4, None)]);
        assert_eq!(line.taken(), 0);
        assert!(!ask(&mut line, 5));
        assert!(!ask(&mut line, 4));
        assert!(line.ask(run(1), "ask", 2) == SeatAnswer::Taken, "the run that was taken over is before all that wait");
    }

    #[test]
    fn a_step_that_asks_long_after_its_call_has_kept_its_place() {
        let called = SeatRow { called: true, ..row(2, None) };
        let mut line = of_seats(Some(1), vec![row(1, None), called]);
        assert!(ask(&mut line, 1), "the other one was called later, and has not come yet");
        assert!(!ask(&mut line, 2));
        line.leave(run(1), "ask");
        assert_eq!(line.call(), [(run(2), "ask".to_owned())]);
    }

    #[test]
    fn a_limit_of_zero_gives_no_seats_and_no_limit_gives_all() {
        assert!(!ask(&mut of_seats(Some(0), Vec::new()), 1));
        let mut line = of_seats(None, (0..9).map(|number| row(number, Some(1))).collect());
        assert!(ask(&mut line, 9));
        assert_eq!(of_seats(None, vec![row(1, None), row(2, None)]).call().len(), 2);
    }

    #[test]
    fn a_lowered_limit_calls_nothing_until_enough_seats_are_free() {
        let rows = |held| (0..4).map(|number| row(number, (number < held).then_some(1))).collect();
        assert_eq!(of_seats(Some(1), rows(3)).call(), []);
        assert_eq!(of_seats(Some(3), rows(2)).call(), [(run(2), "ask".to_owned())]);
        assert_eq!(of_seats(Some(1), rows(2)).candidates(1).count(), 1);
    }

    const NOW: Timestamp = Timestamp::from_micros(1_000_000_000);

    fn after(millis: u64) -> Timestamp {
        NOW + std::time::Duration::from_millis(millis)
    }

    /// A line with one begin per second, and a burst.
    fn rated(seats: Option<u32>, burst: u32, now: Timestamp, used_until: Timestamp, rows: Vec<SeatRow>) -> OpenLine {
        let rate = Rate::per_second(1).burst(burst);
        let rule = LimitRule { concurrency: seats, rate: Some(rate) };
        OpenLine::of(rule, Some(LineRate::new(rate, used_until, now)), rows)
    }

    fn told(line: &mut OpenLine, number: u128) -> SeatAnswer {
        line.ask(run(number), "ask", 1)
    }

    #[test]
    fn a_rate_lets_steps_begin_in_their_order_and_tells_the_others_when() {
        let mut line = rated(None, 2, NOW, NOW, Vec::new());
        assert!(ask(&mut line, 0) && ask(&mut line, 1));
        assert!(ask(&mut line, 1), "a question that is repeated uses nothing");
        assert_eq!(line.used(), Some(after(2000)));
        assert_eq!(told(&mut line, 2), SeatAnswer::WaitsUntil(after(1000)));
        assert_eq!(told(&mut line, 3), SeatAnswer::WaitsUntil(after(2000)));
        assert_eq!(line.call(), [], "both come by themselves");

        let waiting = |number, asks_at| SeatRow { asks_at, ..row(number, None) };
        let rows = vec![waiting(2, Some(after(1000))), waiting(3, Some(after(2000)))];
        let mut line = rated(None, 2, after(1000), after(2000), rows);
        assert_eq!(told(&mut line, 3), SeatAnswer::WaitsUntil(after(2000)), "the other one is before it");
        assert!(ask(&mut line, 2));
        assert_eq!((line.used(), told(&mut line, 3)), (Some(after(3000)), SeatAnswer::WaitsUntil(after(2000))));
    }

    #[test]
    fn a_step_that_leaves_brings_those_behind_it_forward() {
        let waiting = |number, millis| SeatRow { asks_at: Some(after(millis)), ..row(number, None) };
        let rows = vec![waiting(1, 500), waiting(2, 1500), waiting(3, 2500), waiting(4, 3500)];
        let mut line = rated(None, 1, NOW, after(500), rows);
        assert_eq!(line.candidates(0).count(), 0);
        let candidates: Vec<RunId> = line.candidates(1).collect();
        line.leave(run(1), "ask");
        let called: Vec<RunId> = line.call().into_iter().map(|(run, _)| run).collect();
        assert_eq!(called, [run(2), run(3)], "the time of the last one is not near yet");
        assert!(called.iter().all(|run| candidates.contains(run)), "{candidates:?}");
        assert_eq!(told(&mut line, 2), SeatAnswer::WaitsUntil(after(500)));
    }

    #[test]
    fn a_step_that_waits_for_a_seat_is_told_no_time() {
        let mut line = rated(Some(1), 5, NOW, NOW, Vec::new());
        assert!(ask(&mut line, 1));
        assert_eq!((told(&mut line, 2), line.begins_at(0)), (SeatAnswer::Waits, None));
        line.leave(run(1), "ask");
        assert_eq!(line.call(), [(run(2), "ask".to_owned())]);

        // The seat is free before the rate is: it is called at once, and asks when it may begin.
        let mut line = rated(Some(1), 1, NOW, after(700), vec![row(2, None)]);
        assert_eq!(line.call(), [(run(2), "ask".to_owned())]);
        assert_eq!((told(&mut line, 2), line.call()), (SeatAnswer::WaitsUntil(after(700)), Vec::new()));
        assert_eq!(line.begins_at(0), Some(after(700)));
    }

    #[test]
    fn a_step_that_does_not_come_at_its_time_is_called() {
        let rows = vec![SeatRow { asks_at: Some(NOW), ..row(1, None) }];
        assert_eq!(rated(None, 1, after(900), NOW, rows.clone()).call(), []);
        assert_eq!(rated(None, 1, after(1000), NOW, rows).call(), [(run(1), "ask".to_owned())]);
    }
}
