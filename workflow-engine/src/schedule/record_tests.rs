use std::time::Duration;

use super::*;
use crate::model::{Lane, Timestamp};

const HOUR: Duration = Duration::from_secs(3600);

/// Noon of 1 January 2027.
const NOON: Timestamp = Timestamp::from_micros(1_798_804_800_000_000);

fn every(every: Duration) -> Declaration {
    Declaration {
        timing: Timing { every: Some(every), zone: "UTC".into(), ..Timing::default() },
        lane: Lane { queue: "default".into(), workflow: "report".into(), version: "1".into() },
        gate: None,
        tags: [].into(),
        priority: None,
        deadline: None,
        overlap: Overlap::Skip,
        catch_up: CatchUp::default(),
        limit: None,
        pause_on_failure: false,
    }
}

fn of_code() -> (Record, Calendar) {
    let calendar = every(HOUR).check("s", NOON).unwrap();
    (Record::new(Origin::Code { group: Some("shop".into()) }, every(HOUR), &calendar, NOON), calendar)
}

#[test]
fn a_record_is_read_back_and_one_of_a_later_release_is_not() {
    let (record, calendar) = of_code();
    let row = record.to_row("s", Some("1".into()), &calendar, NOON);
    assert_eq!(Record::of(&row).unwrap(), record);
    let mut later = row;
    later.record = later.record.replacen('{', "{\"blackouts\":[],", 1);
    let error = Record::of(&later).unwrap_err().to_string();
    assert!(error.contains("schedule \"s\" is not understood") && error.contains("blackouts"), "{error}");
}

#[test]
fn declaring_the_same_again_changes_nothing() {
    let (mut record, calendar) = of_code();
    let before = record.clone();
    assert_eq!(record.redeclare(Some("shop"), every(HOUR), &calendar, NOON + 9 * HOUR), Ok(false));
    assert_eq!(record, before, "what passed while no worker was there is caught up");
}

#[test]
fn a_changed_declaration_moves_the_next_occurrence_only_if_the_times_changed() {
    let (mut record, calendar) = of_code();
    let limited = Declaration { limit: Some(9), ..every(HOUR) };
    assert_eq!(record.redeclare(Some("shop"), limited, &calendar, NOON + 9 * HOUR), Ok(true));
    assert_eq!(record.state.next_at, Some(NOON + HOUR));
    let rare = every(2 * HOUR);
    let calendar = rare.check("s", NOON).unwrap();
    assert_eq!(record.redeclare(Some("shop"), rare, &calendar, NOON + 9 * HOUR), Ok(true));
    assert_eq!(record.state.next_at, Some(NOON + 10 * HOUR));
}

#[test]
fn an_operators_change_and_pause_survive_a_new_declaration() {
    let (mut record, calendar) = of_code();
    record.pause(PauseCause::Operator, "audit", NOON);
    let rare = every(6 * HOUR);
    record.change(Some(rare.clone()), &rare.check("s", NOON).unwrap(), NOON);
    let limited = Declaration { limit: Some(9), ..every(HOUR) };
    assert_eq!(record.redeclare(None, limited.clone(), &calendar, NOON), Ok(true));
    assert_eq!((record.declaration(), record.state.paused.is_some()), (&rare, true));
    record.change(None, &calendar, NOON);
    assert_eq!((record.declaration(), &record.changed), (&limited, &None));
}

#[test]
fn a_declaration_lifts_the_pause_of_a_retired_schedule_and_no_other() {
    for (cause, is_lifted) in [(PauseCause::Retired, true), (PauseCause::Operator, false), (PauseCause::Failure, false)]
    {
        let (mut record, calendar) = of_code();
        record.pause(cause, "reason", NOON);
        assert_eq!(record.redeclare(Some("shop"), every(HOUR), &calendar, NOON + 9 * HOUR), Ok(is_lifted));
        assert_eq!(record.state.paused.is_none(), is_lifted, "{cause:?}");
    }
}

#[test]
fn the_reason_of_an_operator_stays() {
    let (mut record, calendar) = of_code();
    record.pause(PauseCause::Failure, "run 1 failed", NOON);
    record.pause(PauseCause::Operator, "audit", NOON + HOUR);
    record.pause(PauseCause::Retired, "gone", NOON + 2 * HOUR);
    let pause = record.state.paused.clone().unwrap();
    assert_eq!((pause.cause, pause.reason.as_str(), pause.since), (PauseCause::Operator, "audit", NOON));
    assert!(record.resume(&calendar, NOON + 3 * HOUR) && !record.resume(&calendar, NOON + 4 * HOUR));
    assert_eq!(record.state.next_at, Some(NOON + 4 * HOUR), "what passed during the pause is not caught up");
}

#[test]
fn a_schedule_whose_limit_is_reached_goes_on_only_with_a_higher_limit() {
    let (mut record, calendar) = of_code();
    let limited = |limit| Declaration { limit: Some(limit), ..every(HOUR) };
    record.redeclare(Some("shop"), limited(1), &calendar, NOON).unwrap();
    let due = (NOON + HOUR, Duration::ZERO);
    assert_eq!(fire(&mut record, "s", &calendar, &EndsOfRuns::new(), due).starts.len(), 1);
    for (limit, next) in [(1, None), (2, Some(NOON + 10 * HOUR))] {
        record.change(Some(Declaration { overlap: Overlap::Allow, ..limited(limit) }), &calendar, NOON + 9 * HOUR);
        assert_eq!(record.state.next_at, next, "with a limit of {limit}");
    }
}

#[test]
fn code_does_not_take_over_the_schedule_of_a_client() {
    let calendar = every(HOUR).check("s", NOON).unwrap();
    let mut record = Record::new(Origin::Api, every(HOUR), &calendar, NOON);
    assert_eq!(record.redeclare(None, every(HOUR), &calendar, NOON), Err(Conflict));
}
