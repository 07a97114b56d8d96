//! The standstill of a run: its drive waits, parks the run or gives it back.

use std::time::Duration;

use tokio::task::coop::consume_budget;
use workflow_sdk::Timestamp;

use super::writes::{Answer, UnansweredWrites};
use crate::claim_state::ClaimState;
use crate::saturation::SaturationWatch;

/// How long a drive waits after the database did not answer, until it looks for external events
/// again.
const LOOK_AGAIN_DELAY: Duration = Duration::from_secs(1);

/// The state of a run at a standstill, as its drive knows it: nothing of the run can go on by
/// itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Standstill {
    /// Whether the worker drains and the run has neither a running body nor an unanswered write.
    pub(super) is_drained: bool,
    /// The next time at which a timer of the run is due.
    pub(super) timer: Option<Timestamp>,
    /// The time until which the run may be parked.
    pub(super) park_until: Option<Timestamp>,
    /// The end of the run's grace, if the run was told to end.
    pub(super) grace_ends_at: Option<Timestamp>,
    /// The deadline that may still tell the run to end.
    pub(super) deadline_at: Option<Timestamp>,
    /// Whether other runs may be due and have no permit.
    pub(super) is_saturated: bool,
    /// A wait that ends within this time is kept in memory.
    pub(super) linger: Duration,
    /// How much longer the run stays in memory because an external event may come at any moment.
    /// `None` if it waits for no external event, or has waited long enough.
    pub(super) linger_left: Option<Duration>,
    /// The time until a foreign await of the run is reported. `None` if the run has none, or if it
    /// was reported before.
    pub(super) until_stall_report: Option<Duration>,
}

/// The decision of a drive about a [`Standstill`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Plan {
    /// Give the run back.
    Release,
    /// Park the run.
    Park {
        /// When it is due at the latest.
        until: Timestamp,
        /// Whether it is due at its deadline too.
        until_deadline: bool,
    },
    /// Keep the run in memory, and look again after this time at the latest.
    Wait(Duration),
}

impl Standstill {
    /// Decides what the drive does. Reads the time only where the decision needs it.
    pub(super) fn plan(&self, now: impl Fn() -> Timestamp) -> Plan {
        if self.is_drained {
            return Plan::Release;
        }
        let park_until = self.park_until.map(|until| self.grace_ends_at.map_or(until, |end| until.min(end)));
        if let Some(until) = park_until.filter(|until| self.parks(*until, now())) {
            return Plan::Park { until, until_deadline: self.grace_ends_at.is_none() };
        }
        // A run that was told to end does not wait for its deadline, which may have passed.
        let look_at = [self.timer, self.grace_ends_at.or(self.deadline_at)].into_iter().flatten().min();
        let look_after = look_at.map_or(Duration::MAX, |at| at.since(now()));
        let limits = [self.linger_left, self.until_stall_report].into_iter().flatten();
        Plan::Wait(limits.fold(look_after, Duration::min))
    }

    fn parks(&self, until: Timestamp, now: Timestamp) -> bool {
        let is_long = until.since(now) > self.linger;
        until > now && (self.is_saturated || is_long && self.linger_left.is_none())
    }
}

/// The event that ends a wait.
#[derive(Debug)]
pub(super) enum Fact {
    /// A write has its answer.
    Answered(Answer),
    /// A body, the workflow or the claim's state has something new.
    Notified,
    /// The time to wait is over.
    TimeIsOver,
    /// The saturation of the worker has changed.
    SaturationChanged,
}

/// Waits for the first fact, at most for this time. The saturation counts for a run that may be
/// parked.
pub(super) async fn next_fact(
    writes: &mut UnansweredWrites,
    claim: &ClaimState,
    at_most: Duration,
    saturation: Option<&SaturationWatch>,
) -> Fact {
    // If a body wakes itself at once, nothing below waits, and the other tasks of the thread would
    // never have their turn.
    consume_budget().await;
    tokio::select! {
        biased;
        answer = writes.next_answer() => Fact::Answered(answer),
        // Before the notification: a body that is woken again and again would keep timers waiting
        // until it ends.
        () = std::future::ready(()), if at_most.is_zero() => Fact::TimeIsOver,
        () = claim.notified() => Fact::Notified,
        () = sleep(at_most) => Fact::TimeIsOver,
        () = changed(saturation) => Fact::SaturationChanged,
    }
}

/// Waits for the first fact while the database does not answer. The end of a transaction's commit
/// is left to the next wait.
pub(super) async fn next_fact_without_database(writes: &mut UnansweredWrites, claim: &ClaimState) -> Fact {
    consume_budget().await;
    tokio::select! {
        biased;
        answer = writes.next_record_answer() => Fact::Answered(answer),
        () = claim.notified() => Fact::Notified,
        () = tokio::time::sleep(LOOK_AGAIN_DELAY) => Fact::TimeIsOver,
    }
}

/// Sleeps for this time, for ever if it is [`Duration::MAX`]. Most waits are for a commit and need
/// no timer, and to enter and leave the timers of the runtime takes locks.
async fn sleep(duration: Duration) {
    match duration {
        Duration::MAX => std::future::pending().await,
        // Boxed because the timer is rare, and larger than the rest of a wait.
        duration => Box::pin(tokio::time::sleep(duration)).await,
    }
}

async fn changed(saturation: Option<&SaturationWatch>) {
    match saturation {
        Some(saturation) => saturation.changed().await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_micros(1_000_000_000);
    const LINGER: Duration = Duration::from_secs(1);

    fn after(seconds: u64) -> Timestamp {
        NOW + Duration::from_secs(seconds)
    }

    /// A run that waits for a commit: it has no timer, and cannot be parked.
    fn standstill() -> Standstill {
        Standstill {
            is_drained: false,
            timer: None,
            park_until: None,
            grace_ends_at: None,
            deadline_at: None,
            is_saturated: false,
            linger: LINGER,
            linger_left: None,
            until_stall_report: None,
        }
    }

    fn parkable(seconds: u64) -> Standstill {
        Standstill { park_until: Some(after(seconds)), timer: Some(after(seconds)), ..standstill() }
    }

    fn plan(standstill: Standstill) -> Plan {
        standstill.plan(|| NOW)
    }

    fn wait(seconds: u64) -> Plan {
        Plan::Wait(Duration::from_secs(seconds))
    }

    #[test]
    fn a_run_that_waits_for_a_commit_needs_no_timer() {
        assert_eq!(standstill().plan(|| unreachable!("no decision needs the time")), Plan::Wait(Duration::MAX));
    }

    #[test]
    fn a_run_that_waits_for_something_foreign_is_looked_at_again() {
        let stalled = Standstill { until_stall_report: Some(Duration::from_secs(30)), ..standstill() };
        assert_eq!(plan(stalled), wait(30));
        assert_eq!(plan(Standstill { deadline_at: Some(after(5)), ..stalled }), wait(5));
        assert_eq!(plan(Standstill { is_drained: true, ..stalled }), Plan::Release);
    }

    #[test]
    fn a_drained_run_is_given_back() {
        assert_eq!(plan(Standstill { is_drained: true, ..parkable(60) }), Plan::Release);
    }

    #[test]
    fn a_long_wait_is_parked_and_a_short_one_kept_unless_the_worker_is_saturated() {
        let park = |seconds| Plan::Park { until: after(seconds), until_deadline: true };
        assert_eq!(plan(parkable(60)), park(60));
        assert_eq!(plan(parkable(1)), wait(1));
        assert_eq!(plan(Standstill { is_saturated: true, ..parkable(1) }), park(1));
        assert_eq!(plan(Standstill { is_saturated: true, ..parkable(0) }), wait(0), "it is due now");
    }

    #[test]
    fn a_run_that_waits_for_an_external_event_lingers() {
        let lingering = Standstill { linger_left: Some(LINGER), ..parkable(60) };
        assert_eq!(plan(lingering), Plan::Wait(LINGER));
        let until_deadline = true;
        assert_eq!(
            plan(Standstill { linger_left: None, ..lingering }),
            Plan::Park { until: after(60), until_deadline }
        );
    }

    #[test]
    fn the_end_of_the_grace_replaces_the_deadline() {
        let until_deadline = false;
        let graced = Standstill { deadline_at: Some(after(5)), grace_ends_at: Some(after(30)), ..parkable(60) };
        assert_eq!(plan(graced), Plan::Park { until: after(30), until_deadline });
        assert_eq!(plan(Standstill { park_until: None, ..graced }), wait(30));
        assert_eq!(plan(Standstill { park_until: None, grace_ends_at: None, ..graced }), wait(5));
    }
}
