//! The rate of a line: how many of its bodies may begin now, and when the next ones may.

use std::time::Duration;

use crate::model::{Rate, Timestamp};

use super::seat_line::MOST_WAITING;

/// How far ahead a line calls the steps that would not come by themselves in time. Longer than the
/// interval at which workers look at lines.
const HORIZON: Duration = Duration::from_secs(2);

/// The number of steps of a line, from the first, that are told when they may begin. Those behind
/// them are called once their time is near.
const MOST_TOLD: u32 = 100;

/// How much later than it may begin a waiting step comes without being called.
const TOLERANCE: Duration = Duration::from_millis(100);

/// How long after its time a step that was told to come is called, because it has not asked.
const GRACE: Duration = Duration::from_secs(1);

/// After this time a step asks again that the rate would let begin, if the steps before it had
/// begun.
const ASK_AGAIN: Duration = Duration::from_millis(100);

/// Until when the rates of lines are used up, as a store has read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadRates {
    /// The time now.
    pub now: Timestamp,
    /// The time for each line, in their order. A time that has passed says the same as none.
    pub used_until: Vec<Timestamp>,
}

/// The rate of a line at one moment.
#[derive(Clone, Copy, Debug)]
pub struct LineRate {
    rate: Rate,
    used_until: Timestamp,
    now: Timestamp,
    /// Whether `used_until` differs from what is stored.
    is_changed: bool,
}

impl LineRate {
    /// Returns the state of a rate that is used up until this stored time. A time that this rate
    /// cannot have left, because it is of another one, is corrected.
    #[must_use]
    pub fn new(rate: Rate, stored: Timestamp, now: Timestamp) -> Self {
        let used_until = rate.used_at_most(stored, now);
        Self { rate, used_until, now, is_changed: used_until != stored }
    }

    /// Returns how many bodies may begin now.
    #[must_use]
    pub fn free(&self) -> usize {
        self.rate.free(self.used_until, self.now) as usize
    }

    /// Lets one body begin.
    pub fn begin(&mut self) {
        self.used_until = self.rate.used_after(self.used_until, self.now, 1);
        self.is_changed = true;
    }

    /// Returns until when the rate is used up now, if that has to be stored: a body has begun, or
    /// the stored time was corrected.
    #[must_use]
    pub fn used(&self) -> Option<Timestamp> {
        self.is_changed.then_some(self.used_until)
    }

    /// Returns when the step at this place of the line may begin, if those before it begin as early
    /// as they may. The first place is 0.
    #[must_use]
    pub fn begins_at(&self, place: usize) -> Timestamp {
        let before = u32::try_from(place).unwrap_or(u32::MAX);
        self.rate.next_at(self.rate.used_after(self.used_until, self.now, before)).max(self.now)
    }

    /// Returns when a step that waits at this place has to ask again.
    #[must_use]
    pub fn asks_at(&self, place: usize) -> Timestamp {
        let begins_at = self.begins_at(place);
        if begins_at > self.now { begins_at } else { self.now + ASK_AGAIN }
    }

    /// Returns whether a step that waits at this place, and was told to ask at `told`, has to be
    /// called so that it comes in time. `earlier`: how many of the steps before it may be gone.
    #[must_use]
    pub fn has_to_call(&self, place: usize, told: Option<Timestamp>, earlier: usize) -> bool {
        let begins_at = self.begins_at(place.saturating_sub(earlier));
        let comes = |told: Timestamp| told <= begins_at + TOLERANCE && told + GRACE > self.now;
        begins_at <= self.now + HORIZON && !told.is_some_and(comes)
    }

    /// Returns the number of waiting steps that a line with this rate has to know: those that are
    /// told their time, and those whose time is near.
    #[must_use]
    pub fn known(rate: Rate) -> u32 {
        let start = Timestamp::from_micros(0);
        let is_near = |places: u32| rate.next_at(rate.used_after(start, start, places)) <= start + HORIZON;
        // The number of steps that may begin within the horizon, by halving.
        let (mut near, mut far) = (0, MOST_WAITING);
        while near < far {
            let middle = near + (far - near) / 2;
            if is_near(middle) { near = middle + 1 } else { far = middle }
        }
        near.max(MOST_TOLD)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_micros(1_000_000_000);

    fn after(millis: u64) -> Timestamp {
        NOW + Duration::from_millis(millis)
    }

    #[test]
    fn each_place_of_a_line_has_its_time() {
        let mut rate = LineRate::new(Rate::per_second(10).burst(2), Timestamp::from_micros(0), NOW);
        assert_eq!((rate.free(), rate.used()), (2, None));
        let planned: Vec<Timestamp> = (0..6).map(|place| rate.begins_at(place)).collect();
        assert_eq!(planned, [0, 0, 100, 200, 300, 400].map(after));
        for (place, at) in planned.into_iter().enumerate() {
            let just_before = LineRate { now: Timestamp::from_micros(at.as_micros() - 1), ..rate };
            assert!(place < 2 || just_before.free() == 0, "not before its time: {place}");
            rate.now = at;
            assert!(rate.free() > 0 && rate.begins_at(0) == at, "at its time: {place}");
            rate.begin();
        }
        assert_eq!(rate.used(), Some(after(600)));
    }

    #[test]
    fn a_step_is_called_unless_it_comes_in_time_by_itself() {
        let rate = LineRate::new(Rate::per_second(1), after(500), NOW);
        assert!(!rate.has_to_call(0, Some(after(500)), 0), "it comes when it may");
        assert!(!rate.has_to_call(0, Some(after(400)), 0), "it comes too early, and is told again");
        assert!(rate.has_to_call(0, Some(after(1500)), 0), "a step before it has left");
        assert!(rate.has_to_call(1, None, 0) && !rate.has_to_call(2, None, 0), "its time is near, or not");
        assert!(rate.has_to_call(2, None, 1), "it is, if a step before it leaves");
        let late = LineRate::new(Rate::per_second(1), NOW, after(5000));
        assert!(late.has_to_call(0, Some(after(3999)), 0) && !late.has_to_call(0, Some(after(4500)), 0));
    }

    #[test]
    fn a_step_behind_others_that_may_begin_asks_again_later() {
        let rate = LineRate::new(Rate::per_second(1).burst(3), NOW, NOW);
        assert_eq!([rate.asks_at(1), rate.asks_at(3)], [after(100), after(1000)]);
    }

    #[test]
    fn a_new_rate_waits_no_longer_than_after_a_burst_of_its_own() {
        let of_hour = LineRate::new(Rate::per_second(10).burst(2), after(3_600_000), NOW);
        assert_eq!((of_hour.free(), of_hour.begins_at(0)), (0, after(100)));
        assert_eq!(of_hour.used(), Some(after(200)), "it is stored, or it would move on with the time");
    }

    #[test]
    fn a_line_knows_the_steps_whose_time_is_near() {
        assert_eq!(LineRate::known(Rate::per_minute(1)), MOST_TOLD);
        assert_eq!(LineRate::known(Rate::per_second(100)), 201);
        assert_eq!(LineRate::known(Rate::per_second(100).burst(50)), 250);
        assert_eq!(LineRate::known(Rate::per_second(100_000)), MOST_WAITING);
    }
}
