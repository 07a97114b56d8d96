use std::time::Duration;

use super::*;
use crate::model::{Lane, RunId, Timestamp};

const HOUR: Duration = Duration::from_secs(3600);
const GRACE: Duration = Duration::from_secs(60);

/// Noon of 1 January 2027.
const NOON: Timestamp = Timestamp::from_micros(1_798_804_800_000_000);

fn hourly(overlap: Overlap, catch_up: CatchUp) -> (Record, Calendar) {
    let declaration = Declaration {
        timing: Timing { every: Some(HOUR), zone: "UTC".into(), ..Timing::default() },
        lane: Lane { queue: "default".into(), workflow: "report".into(), version: "1".into() },
        gate: None,
        tags: [].into(),
        priority: None,
        deadline: None,
        overlap,
        catch_up,
        limit: None,
        pause_on_failure: false,
    };
    let calendar = declaration.check("s", NOON).unwrap();
    (Record::new(Origin::Api, declaration, &calendar, NOON), calendar)
}

/// Looks at the schedule this many hours after noon. Returns, as hours after noon and with the
/// missed ones before them, what it starts.
fn look(record: &mut Record, calendar: &Calendar, ends: &EndsOfRuns, hours: f64) -> (Vec<(f64, u64)>, Firing) {
    let firing = fire(record, "s", calendar, ends, (NOON + HOUR.mul_f64(hours), GRACE));
    let starts = firing.starts.iter();
    let starts = starts.map(|start| (start.at.since(NOON).as_secs_f64() / 3600.0, start.missed)).collect();
    (starts, firing)
}

fn waiting(record: &Record) -> Vec<f64> {
    record.state.waiting.iter().map(|waiting| waiting.at.since(NOON).as_secs_f64() / 3600.0).collect()
}

const LATEST: CatchUp = CatchUp::Latest { window: Duration::from_secs(24 * 3600) };
const ALL: CatchUp = CatchUp::All { window: Duration::from_secs(24 * 3600), max: 3 };
const NONE: CatchUp = CatchUp::Skip { within: Duration::from_secs(60) };

/// The worker was away for 72.5 hours. The table: what starts at once, what waits, and how many
/// occurrences were missed and skipped.
#[test]
fn after_three_days_each_catch_up_policy_meets_each_overlap_policy() {
    let buffer = Overlap::BufferAll { max: 100 };
    for (overlap, catch_up, starts, waits, missed, skipped) in [
        (Overlap::Skip, LATEST, &[(72.0, 71)][..], &[][..], 71, 0),
        (Overlap::Skip, ALL, &[(70.0, 69)], &[], 69, 2),
        (Overlap::Skip, NONE, &[], &[], 72, 0),
        (Overlap::BufferOne, LATEST, &[(72.0, 71)], &[], 71, 0),
        (Overlap::BufferOne, ALL, &[(70.0, 69)], &[71.0], 69, 1),
        (Overlap::BufferOne, NONE, &[], &[], 72, 0),
        (buffer, LATEST, &[(72.0, 71)], &[], 71, 0),
        (buffer, ALL, &[(70.0, 69)], &[71.0, 72.0], 69, 0),
        (buffer, NONE, &[], &[], 72, 0),
        (Overlap::CancelOther, LATEST, &[(72.0, 71)], &[], 71, 0),
        (Overlap::CancelOther, ALL, &[(72.0, 69)], &[], 69, 2),
        (Overlap::CancelOther, NONE, &[], &[], 72, 0),
        (Overlap::Allow, LATEST, &[(72.0, 71)], &[], 71, 0),
        (Overlap::Allow, ALL, &[(70.0, 69), (71.0, 0), (72.0, 0)], &[], 69, 0),
        (Overlap::Allow, NONE, &[], &[], 72, 0),
    ] {
        let (mut record, calendar) = hourly(overlap, catch_up);
        let (started, _) = look(&mut record, &calendar, &EndsOfRuns::new(), 72.5);
        let case = format!("{overlap:?} with {catch_up:?}");
        assert_eq!((started.as_slice(), waiting(&record).as_slice()), (starts, waits), "{case}");
        assert_eq!((record.state.missed, record.state.skipped), (missed, skipped), "{case}");
        assert_eq!(record.state.next_at, Some(NOON + 73 * HOUR), "{case}");
        assert_eq!(record.state.started, starts.len() as u64, "{case}");
    }
}

#[test]
fn while_a_run_has_not_ended_each_overlap_policy_does_its_own() {
    for (overlap, second, waits_then, third) in [
        (Overlap::Skip, &[][..], &[][..], &[][..]),
        (Overlap::BufferOne, &[], &[2.0], &[2.0]),
        (Overlap::BufferAll { max: 2 }, &[], &[2.0, 3.0], &[2.0]),
        (Overlap::CancelOther, &[], &[4.0], &[4.0]),
        (Overlap::Allow, &[2.0, 3.0, 4.0], &[], &[]),
    ] {
        let (mut record, calendar) = hourly(overlap, ALL);
        let (first, firing) = look(&mut record, &calendar, &EndsOfRuns::new(), 1.0);
        assert_eq!(first, [(1.0, 0)]);
        let run = firing.starts[0].run_id();
        let mut started = Vec::new();
        for hours in [2.0, 3.0, 4.0] {
            started.extend(look(&mut record, &calendar, &EndsOfRuns::new(), hours).0);
        }
        assert_eq!(started.iter().map(|(at, _)| *at).collect::<Vec<_>>(), second, "{overlap:?}");
        assert_eq!(waiting(&record), waits_then, "{overlap:?}");
        let skipped = 3 - second.len() - waits_then.len();
        assert_eq!(record.state.skipped, skipped as u64, "{overlap:?}");
        // The run ends.
        let (started, _) = look(&mut record, &calendar, &[(run, false)].into(), 4.5);
        assert_eq!(started.iter().map(|(at, _)| *at).collect::<Vec<_>>(), third, "{overlap:?}");
    }
}

#[test]
fn cancel_other_asks_until_the_grace_is_over_and_then_terminates() {
    let (mut record, calendar) = hourly(Overlap::CancelOther, LATEST);
    let run = look(&mut record, &calendar, &EndsOfRuns::new(), 1.0).1.starts[0].run_id();
    let asked = look(&mut record, &calendar, &EndsOfRuns::new(), 2.0).1;
    assert_eq!((asked.cancels, asked.terminations), (vec![run], vec![]));
    let later = look(&mut record, &calendar, &EndsOfRuns::new(), 2.0 + 0.01).1;
    assert_eq!((later.cancels, later.terminations), (vec![run], vec![]));
    let over = look(&mut record, &calendar, &EndsOfRuns::new(), 2.0 + 0.02).1;
    assert_eq!((over.cancels, over.terminations), (vec![], vec![run]));
    // A later occurrence takes the place of the one that waits, and not its time in line.
    let over = look(&mut record, &calendar, &EndsOfRuns::new(), 3.0).1;
    assert_eq!((waiting(&record), over.terminations), (vec![3.0], vec![run]));
}

#[test]
fn a_waiting_occurrence_is_looked_at_more_rarely_the_longer_it_waits() {
    let (mut record, calendar) = hourly(Overlap::BufferOne, LATEST);
    look(&mut record, &calendar, &EndsOfRuns::new(), 1.0);
    look(&mut record, &calendar, &EndsOfRuns::new(), 2.0);
    for (waited, until_next) in [(0, 1.0), (8, 1.0), (80, 10.0), (1200, 60.0)] {
        let now = NOON + 2 * HOUR + Duration::from_secs(waited);
        let look_at = record.to_row("s", None, &calendar, now).available_at;
        assert_eq!(look_at.since(now).as_secs_f64(), until_next, "after {waited} s");
    }
    let just_before = NOON + 3 * HOUR - Duration::from_secs(1);
    assert_eq!(record.to_row("s", None, &calendar, just_before).available_at, NOON + 3 * HOUR);
}

#[test]
fn a_failed_run_pauses_the_schedule_if_it_is_to() {
    let (mut record, calendar) = hourly(Overlap::Allow, LATEST);
    record.declared.pause_on_failure = true;
    let run = look(&mut record, &calendar, &EndsOfRuns::new(), 1.0).1.starts[0].run_id();
    let (started, _) = look(&mut record, &calendar, &[(run, true)].into(), 2.0);
    let pause = record.state.paused.clone().unwrap();
    assert_eq!((started, pause.cause, pause.reason), (vec![], PauseCause::Failure, format!("run {run} failed")));
    assert_eq!(record.to_row("s", None, &calendar, NOON).available_at, Timestamp::FAR_FUTURE);
    assert!(record.resume(&calendar, NOON + 5 * HOUR));
    assert_eq!(look(&mut record, &calendar, &[(run, true)].into(), 5.5).0, [], "nothing is caught up");
    assert_eq!(look(&mut record, &calendar, &EndsOfRuns::new(), 6.0).0, [(6.0, 0)], "an old failure is forgotten");
}

#[test]
fn the_limit_counts_occurrences_and_not_triggers() {
    let (mut record, calendar) = hourly(Overlap::Allow, ALL);
    record.declared.limit = Some(2);
    record.trigger(RunId::generate(), NOON);
    assert_eq!(look(&mut record, &calendar, &EndsOfRuns::new(), 3.0).0, [(1.0, 0), (2.0, 0)]);
    assert_eq!((record.state.next_at, record.state.started, record.state.triggered), (None, 3, 1));
    assert_eq!(record.to_row("s", None, &calendar, NOON).available_at, Timestamp::FAR_FUTURE);
    assert_eq!(look(&mut record, &calendar, &EndsOfRuns::new(), 30.0).0, []);
}

#[test]
fn a_clock_that_is_set_back_starts_nothing_twice() {
    let (mut record, calendar) = hourly(Overlap::Allow, LATEST);
    assert_eq!(look(&mut record, &calendar, &EndsOfRuns::new(), 2.0).0, [(2.0, 1)]);
    for hours in [1.0, 1.5, 2.0, 2.9] {
        assert_eq!(look(&mut record, &calendar, &EndsOfRuns::new(), hours).0, [], "at {hours}");
    }
    assert_eq!(look(&mut record, &calendar, &EndsOfRuns::new(), 3.0).0, [(3.0, 0)]);
}

#[test]
fn an_occurrence_is_due_once_its_jitter_has_passed() {
    let (mut record, calendar) = hourly(Overlap::Allow, LATEST);
    record.declared.timing.jitter = HOUR / 2;
    let delayed = record.calendar("s").unwrap();
    let due = delayed.due_at("s", NOON + HOUR);
    assert!(due > NOON + HOUR && calendar.due_at("s", NOON + HOUR) == NOON + HOUR);
    let hours = |time: Timestamp| time.since(NOON).as_secs_f64() / 3600.0;
    assert_eq!(look(&mut record, &delayed, &EndsOfRuns::new(), hours(due - Duration::from_secs(1))).0, []);
    assert_eq!(record.to_row("s", None, &delayed, NOON).available_at, due);
    assert_eq!(look(&mut record, &delayed, &EndsOfRuns::new(), hours(due + Duration::from_secs(1))).0, [(1.0, 0)]);
}

#[test]
fn the_jitter_does_not_make_an_occurrence_late() {
    let (mut record, _) = hourly(Overlap::Allow, NONE);
    record.declared.timing.jitter = HOUR;
    let calendar = record.calendar("s").unwrap();
    let mut started = 0;
    for hour in 1..=20 {
        let now = calendar.due_at("s", NOON + hour * HOUR);
        assert_eq!(record.state.next_at, Some(NOON + hour * HOUR));
        let firing = fire(&mut record, "s", &calendar, &EndsOfRuns::new(), (now, GRACE));
        started += firing.starts.len();
    }
    assert_eq!((started, record.state.missed), (20, 0));
}

#[test]
fn a_long_absence_of_a_frequent_schedule_is_counted_exactly() {
    let (mut record, _) = hourly(Overlap::Allow, CatchUp::All { window: HOUR, max: 1000 });
    record.declared.timing.every = Some(Duration::from_secs(1));
    let calendar = record.calendar("s").unwrap();
    record.state.next_at = calendar.next_after(NOON);
    let mut started = Vec::new();
    // 25,000 seconds: the first looks only count.
    let mut looks = 0;
    while record.state.next_at.unwrap() <= NOON + Duration::from_secs(25_000) {
        started.extend(look(&mut record, &calendar, &EndsOfRuns::new(), 25_000.0 / 3600.0).0);
        looks += 1;
    }
    assert_eq!((started.len(), started[0].1, looks), (1000, 24_000, 3));
    assert_eq!((record.state.missed, record.state.missed_since), (24_000, 0));
}
