#![allow(clippy::unwrap_used)]

use workflow_engine::model::{AttemptStatus, ErrorKind, Lane, StoredError};

use super::*;

/// A time in seconds after the start of the run.
fn at(second: i64) -> Timestamp {
    Timestamp::from_micros(1_000_000 * (1_000 + second))
}

fn run(status: RunStatus, epoch: i64, completed_at: Option<i64>) -> Run {
    let lane = Lane { queue: "default".into(), workflow: "checkout".into(), version: "1".into() };
    let mut run = Run::pending(RunId::generate(), lane, "1".into(), at(0), at(0));
    (run.status, run.epoch, run.completed_at) = (status, epoch, completed_at.map(at));
    run.started_at = (epoch > 0).then(|| at(2));
    run
}

fn row(key: &str, kind: StepKind, epoch: i64, from: i64, to: Option<i64>) -> StepAttempt {
    let status = if to.is_some() { AttemptStatus::Succeeded } else { AttemptStatus::Running };
    StepAttempt {
        step_key: key.into(),
        attempt: 1,
        kind,
        status,
        position: to,
        output: None,
        error: None,
        epoch,
        started_at: at(from),
        completed_at: to.map(at),
    }
}

fn step(key: &str, epoch: i64, from: i64, to: Option<i64>) -> StepAttempt {
    row(key, StepKind::Step, epoch, from, to)
}

fn spans(timeline: &Timeline) -> Vec<(SpanState, i64, Option<i64>)> {
    let second = |time: Timestamp| time.as_micros() / 1_000_000 - 1_000;
    timeline.spans.iter().map(|span| (span.state, second(span.from), span.to.map(second))).collect()
}

fn bars(row: &TimelineRow) -> Vec<(BarState, i64, Option<i64>)> {
    let second = |time: Timestamp| time.as_micros() / 1_000_000 - 1_000;
    row.bars.iter().map(|bar| (bar.state, second(bar.from), bar.to.map(second))).collect()
}

fn marks(timeline: &Timeline) -> Vec<(MarkKind, i64)> {
    timeline.marks.iter().map(|mark| (mark.kind, mark.at.as_micros() / 1_000_000 - 1_000)).collect()
}

use BarState::{BackOff, CutOff, Dropped, Failed, Running, Succeeded, Waited, Waiting};
use SpanState::{Lost, Parked, Queued, Ran};

#[test]
fn a_run_that_has_not_begun_waits_for_its_first_claim() {
    let timeline = Timeline::of(&run(RunStatus::Pending, 0, None), &[], at(9));
    assert_eq!((spans(&timeline), timeline.to), (vec![(Queued, 0, None)], at(9)));
    let canceled = Timeline::of(&run(RunStatus::Canceled, 0, Some(5)), &[], at(9));
    assert_eq!((spans(&canceled), canceled.to), (vec![(Queued, 0, Some(5))], at(5)));
}

#[test]
fn a_run_in_one_piece_ran_from_its_claim_to_its_end() {
    let rows = [step("a", 1, 2, Some(5)), step("b", 1, 5, Some(8))];
    let timeline = Timeline::of(&run(RunStatus::Succeeded, 1, Some(8)), &rows, at(99));
    assert_eq!(spans(&timeline), [(Queued, 0, Some(2)), (Ran, 2, Some(8))]);
    assert_eq!(
        timeline.rows.iter().map(bars).collect::<Vec<_>>(),
        [[(Succeeded, 2, Some(5))], [(Succeeded, 5, Some(8))]]
    );
    assert!(timeline.marks.is_empty() && timeline.complete);
}

#[test]
fn a_sleep_parks_the_run() {
    let sleep = row("nap", StepKind::Sleep, 2, 5, Some(65));
    let rows = [step("a", 1, 2, Some(5)), sleep, step("b", 2, 65, Some(66))];
    let timeline = Timeline::of(&run(RunStatus::Succeeded, 2, Some(66)), &rows, at(99));
    assert_eq!(spans(&timeline), [(Queued, 0, Some(2)), (Ran, 2, Some(5)), (Parked, 5, Some(65)), (Ran, 65, Some(66))]);
    assert_eq!(marks(&timeline), [(MarkKind::Resumed, 65)]);
    assert_eq!(bars(&timeline.rows[1]), [(Waited, 5, Some(65))]);
    // A sleep that is the first thing of the run.
    let rows = [row("nap", StepKind::Sleep, 2, 2, Some(62))];
    let timeline = Timeline::of(&run(RunStatus::Succeeded, 2, Some(62)), &rows, at(99));
    assert_eq!(spans(&timeline)[2..], [(Parked, 2, Some(62)), (Ran, 62, Some(62))]);
}

#[test]
fn a_run_that_is_parked_waits_until_now() {
    let output = Some(at(100).as_micros().to_string());
    let sleep = StepAttempt { output, ..row("nap", StepKind::Sleep, 1, 5, None) };
    let timeline = Timeline::of(&run(RunStatus::Parked, 1, None), &[step("a", 1, 2, Some(5)), sleep], at(9));
    assert_eq!(spans(&timeline)[1..], [(Ran, 2, Some(5)), (Parked, 5, None)]);
    assert_eq!(bars(&timeline.rows[1]), [(Waiting, 5, Some(100))]);
}

#[test]
fn a_crash_cuts_a_body_off() {
    // The body was under way when its worker died, and another worker has repeated it.
    let rows = [step("a", 1, 2, Some(5)), step("b", 2, 5, Some(40)), step("c", 2, 40, Some(41))];
    let timeline = Timeline::of(&run(RunStatus::Succeeded, 2, Some(41)), &rows, at(99));
    assert_eq!(spans(&timeline), [(Queued, 0, Some(2)), (Ran, 2, Some(5)), (Lost, 5, Some(40)), (Ran, 40, Some(41))]);
    assert_eq!(marks(&timeline), [(MarkKind::Crashed, 5), (MarkKind::Resumed, 40)]);
    let repeated: Vec<bool> = timeline.rows.iter().map(|row| row.bars[0].repeated).collect();
    assert_eq!(repeated, [false, true, false]);
    // The body of the first step.
    let timeline = Timeline::of(&run(RunStatus::Succeeded, 2, Some(40)), &[step("a", 2, 2, Some(40))], at(99));
    assert_eq!(spans(&timeline)[1..], [(Ran, 2, Some(2)), (Lost, 2, Some(40)), (Ran, 40, Some(40))]);
    assert!(timeline.rows[0].bars[0].repeated);
}

#[test]
fn a_run_that_is_tried_again_has_lost_no_worker() {
    let failed = |attempt, epoch, from, to| StepAttempt {
        attempt,
        status: AttemptStatus::Failed,
        error: Some(StoredError::new(ErrorKind::Application, "no luck")),
        ..step("a", epoch, from, Some(to))
    };
    let mut run = run(RunStatus::Failed, 2, Some(40));
    let rows = [failed(1, 1, 2, 5), failed(2, 2, 39, 40)];
    let timeline = Timeline::of(&run, &rows, at(99));
    assert_eq!(marks(&timeline)[0].0, MarkKind::Crashed);
    run.attempt = 2;
    let timeline = Timeline::of(&run, &rows, at(99));
    assert_eq!(spans(&timeline)[2], (SpanState::Failed, 5, Some(39)));
    assert_eq!(marks(&timeline), [(MarkKind::Resumed, 39)]);
    // At once: the second attempt is not one that a crash has cut off.
    let rows = [failed(1, 1, 2, 5), failed(2, 2, 6, 8)];
    run.completed_at = Some(at(8));
    assert_eq!(marks(&Timeline::of(&run, &rows, at(99))), [(MarkKind::Resumed, 6)]);
}

#[test]
fn a_body_that_is_cut_off_beside_a_wait_shows_a_crash_and_no_park() {
    let wait = row("go", StepKind::Signal, 1, 4, None);
    let rows = [step("a", 1, 2, Some(4)), wait, step("b", 2, 4, Some(40))];
    let timeline = Timeline::of(&run(RunStatus::Running, 2, None), &rows, at(41));
    assert_eq!(spans(&timeline)[1..], [(Ran, 2, Some(4)), (Lost, 4, Some(40)), (Ran, 40, None)]);
    assert_eq!(marks(&timeline)[0], (MarkKind::Crashed, 4));
}

#[test]
fn a_body_without_an_end_runs_or_was_cut_off() {
    let rows = [step("a", 1, 2, Some(5)), step("b", 1, 6, None)];
    let of = |status, epoch| Timeline::of(&run(status, epoch, None), &rows, at(30)).rows.pop().unwrap();
    assert_eq!(bars(&of(RunStatus::Running, 1)), [(Running, 6, None)]);
    assert_eq!(bars(&of(RunStatus::Running, 2)), [(CutOff, 6, Some(6))]);
    assert_eq!(bars(&of(RunStatus::Pending, 1)), [(CutOff, 6, Some(6))]);
    let ended = Timeline::of(&run(RunStatus::Succeeded, 1, Some(9)), &rows, at(30));
    assert_eq!(bars(&ended.rows[1]), [(Dropped, 6, Some(6))]);
}

#[test]
fn a_body_that_was_dropped_shows_no_crash() {
    // The loser of a race, before a sleep.
    let nap = row("nap", StepKind::Sleep, 2, 5, Some(65));
    let rows = [step("a", 1, 2, Some(5)), step("loser", 1, 2, None), nap, step("b", 2, 65, Some(66))];
    let timeline = Timeline::of(&run(RunStatus::Succeeded, 2, Some(66)), &rows, at(99));
    assert_eq!(spans(&timeline)[1..], [(Ran, 2, Some(5)), (Parked, 5, Some(65)), (Ran, 65, Some(66))]);
    assert_eq!(marks(&timeline), [(MarkKind::Resumed, 65)]);
    assert_eq!(bars(&timeline.rows[1]), [(Dropped, 2, Some(5))]);
}

#[test]
fn attempts_have_back_offs_between_them() {
    let error = |next| StoredError::new(ErrorKind::Application, "no luck").followed(3, at(next));
    let failed = |attempt, from, to, next| StepAttempt {
        attempt,
        status: AttemptStatus::Failed,
        position: None,
        error: Some(error(next)),
        ..step("pay", 1, from, Some(to))
    };
    let rows = [failed(1, 2, 3, 5), failed(2, 5, 6, 20)];
    let timeline = Timeline::of(&run(RunStatus::Parked, 1, None), &rows, at(9));
    assert_eq!(
        bars(&timeline.rows[0]),
        [(Failed, 2, Some(3)), (BackOff, 3, Some(5)), (Failed, 5, Some(6)), (BackOff, 6, Some(20))]
    );
    assert_eq!(timeline.rows[0].error.as_deref(), Some("no luck"));
    // The third attempt began after a park.
    let rows = [rows[0].clone(), rows[1].clone(), StepAttempt { attempt: 3, ..step("pay", 2, 20, Some(21)) }];
    let timeline = Timeline::of(&run(RunStatus::Succeeded, 2, Some(21)), &rows, at(99));
    assert_eq!(spans(&timeline)[1..], [(Ran, 2, Some(6)), (Parked, 6, Some(20)), (Ran, 20, Some(21))]);
    assert_eq!(bars(&timeline.rows[0]).len(), 5);
}

#[test]
fn waits_say_what_they_wait_for() {
    let note = |kind, note: &str| StepAttempt { output: Some(note.into()), ..row("x", kind, 1, 3, None) };
    let one = |row: StepAttempt| Timeline::of(&run(RunStatus::Parked, 1, None), &[row], at(9)).rows.pop().unwrap();
    let event = one(note(StepKind::Event, r#"{"event":{"name":"paid","key":"7"}}"#)).event.unwrap();
    assert_eq!((event.name.as_str(), event.key.as_str()), ("paid", "7"));
    assert_eq!(one(note(StepKind::Approval, r#"{"to":"finance"}"#)).asks.as_deref(), Some("finance"));
    let child = RunId::generate();
    assert_eq!(one(note(StepKind::Child, &format!(r#"{{"run_id":"{child}"}}"#))).child, Some(child));
    let asked = one(StepAttempt { completed_at: Some(at(4)), ..note(StepKind::Event, "7") });
    assert_eq!((asked.event, bars(&one(note(StepKind::Signal, "{}")))), (None, vec![(Waiting, 3, None)]));
}

#[test]
fn an_interruption_is_a_mark_and_no_row() {
    let rows = [step("a", 1, 2, Some(5)), row("interruption", StepKind::Interruption, 1, 4, Some(4))];
    let timeline = Timeline::of(&run(RunStatus::Canceled, 1, Some(6)), &rows, at(9));
    assert_eq!((timeline.rows.len(), marks(&timeline)), (1, vec![(MarkKind::Interrupted, 4)]));
}

#[test]
fn a_timeline_is_read_back_from_its_json() {
    let rows = [step("a", 1, 2, Some(5)), step("b", 2, 5, Some(40))];
    let timeline = Timeline::of(&run(RunStatus::Succeeded, 2, Some(41)), &rows, at(99));
    let json = serde_json::to_string(&timeline).unwrap();
    assert_eq!(serde_json::from_str::<Timeline>(&json).unwrap(), timeline);
}

#[test]
fn a_window_has_the_steps_with_its_numbers() {
    let read = |rows: &[StepAttempt], is_cut: bool| -> Vec<HistoryRow> {
        let row = |row: &StepAttempt| HistoryRow { is_cut, ..HistoryRow::of(row, NOTE_BYTES) };
        rows.iter().map(row).collect()
    };
    let keys = |steps: &Steps| steps.attempts.iter().map(|row| row.step_key.clone()).collect::<Vec<_>>();
    // The position of an outcome is the time of its end. The third has a hole before it.
    let rows = [step("x", 1, 4, Some(1)), step("y", 1, 2, Some(2)), step("w", 1, 1, Some(4)), step("z", 1, 3, None)];
    let first = Steps::of_window(read(&rows, false), (0, 3));
    assert_eq!((keys(&first), first.complete, first.cut), (vec!["y".into(), "x".into()], false, false));
    let all = Steps::of_window(read(&rows, true), (0, 5));
    assert_eq!((keys(&all).join(" "), all.complete, all.cut), ("w y z x".to_owned(), true, true));
    let open = Steps::of_window(read(&rows[3..], false), (4, 5));
    assert_eq!((keys(&open).join(" "), open.complete, open.cut), ("z".to_owned(), true, false));
    let again =
        [StepAttempt { attempt: 2, position: None, ..rows[0].clone() }, StepAttempt { attempt: 3, ..rows[0].clone() }];
    let again = Steps::of_window(read(&again, false), (0, 5));
    assert!(again.cut && again.attempts.len() == 2, "the first attempt was not read");
}
