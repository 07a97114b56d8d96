use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use uuid::Uuid;

use workflow_engine::model::{
    FailureGroup, FailureRow, Lane, NewRun, Parent, RunStatistics, SourceLine, StartTime, StatisticsRow, StatisticsSpan,
};
use workflow_engine::store::{
    DeleteWrite, MOST_FAILURE_GROUPS, MOST_SOURCE_LINES, Outcome, StatisticsScan, StatisticsWrite, Store, Write,
};
use workflow_sdk::{ErrorKind, OnParentEnd, RunId, StoredError, Timestamp};
use workflow_tests::Fixture;
use workflow_tests::builders::{end_in_family, lane_of, new_run, start};
use workflow_tests::outcome::applied;

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// Returns counts that differ in every column.
fn counts(number: u64) -> RunStatistics {
    let mut counts = RunStatistics {
        started: 8 * number + 1,
        begun: 8 * number + 2,
        succeeded: 8 * number + 3,
        failed: 8 * number + 4,
        canceled: 8 * number + 5,
        retries: 8 * number + 6,
        waited: 8 * number + 7,
        worked: 8 * number + 8,
        ..RunStatistics::default()
    };
    (0..=number).for_each(|millis| counts.durations.note(Duration::from_millis(millis * millis)));
    counts
}

fn row(process: u128, begins_at: Timestamp, lane: Lane, number: u64) -> StatisticsRow {
    let process = Uuid::from_u128(process);
    StatisticsRow { span: StatisticsSpan::Minute, begins_at, process, lane, counts: counts(number) }
}

fn count(rows: Vec<StatisticsRow>, failures: Vec<FailureRow>) -> Write {
    Write::Statistics(Box::new(StatisticsWrite::Count { rows, failures, source_lines: Vec::new() }))
}

async fn fold(fixture: &Fixture, limit: u32) -> u64 {
    match fixture.write(Write::Statistics(Box::new(StatisticsWrite::Fold { limit }))).await {
        Outcome::Changed(folded) => folded,
        outcome => panic!("{outcome:?}"),
    }
}

fn all(span: StatisticsSpan) -> StatisticsScan {
    StatisticsScan { span, from: Timestamp::from_micros(0), before: Timestamp::FAR_FUTURE, limit: 20_000 }
}

async fn read(fixture: &Fixture, span: StatisticsSpan) -> Vec<StatisticsRow> {
    fixture.store.statistics(&all(span)).await.unwrap()
}

/// Returns the sum over all rows of every span.
async fn total(fixture: &Fixture) -> RunStatistics {
    let mut total = RunStatistics::default();
    for span in StatisticsSpan::ALL {
        read(fixture, span).await.iter().for_each(|row| total.add(&row.counts));
    }
    total
}

fn minute_of(at: Timestamp) -> Timestamp {
    StatisticsSpan::Minute.begin(at)
}

pub async fn a_process_writes_its_row_again_and_again(fixture: Fixture) {
    let now = minute_of(fixture.now());
    let lane = || lane_of("default", "checkout", "1");
    applied(&fixture.write(count(vec![row(7, now, lane(), 0)], Vec::new())).await);
    assert_eq!(read(&fixture, StatisticsSpan::Minute).await, [row(7, now, lane(), 0)]);
    // The reply to the second write is lost, so it is applied twice.
    for _ in 0..2 {
        applied(&fixture.write(count(vec![row(7, now, lane(), 3)], Vec::new())).await);
        assert_eq!(read(&fixture, StatisticsSpan::Minute).await, [row(7, now, lane(), 3)]);
    }
    let rows = vec![
        row(7, now, lane_of("default", "checkout", "2"), 1),
        row(7, now, lane_of("it's \"mail\"", "checkout", "1"), 2),
        row(7, now + MINUTE, lane(), 4),
    ];
    applied(&fixture.write(count(rows.clone(), Vec::new())).await);
    applied(&fixture.write(count(vec![row(8, now, lane(), 5)], Vec::new())).await);
    let mut expected = rows;
    expected.extend([row(7, now, lane(), 3), row(8, now, lane(), 5)]);
    let mut found = read(&fixture, StatisticsSpan::Minute).await;
    let key = |row: &StatisticsRow| (row.begins_at, row.lane.clone(), row.process);
    expected.sort_by_key(key);
    found.reverse();
    assert_eq!(found, expected, "the newest rows come first");
}

pub async fn a_scan_of_statistics_has_a_range_and_a_limit(fixture: Fixture) {
    let begin = minute_of(fixture.now());
    let at = |minute: u32| begin + MINUTE * minute;
    let rows = (0..10).map(|minute| row(7, at(minute), lane_of("default", "checkout", "1"), u64::from(minute)));
    applied(&fixture.write(count(rows.collect(), Vec::new())).await);
    let minutes = async |from: u32, before: u32, limit: u32| {
        let scan = StatisticsScan { span: StatisticsSpan::Minute, from: at(from), before: at(before), limit };
        let rows = fixture.store.statistics(&scan).await.unwrap();
        rows.iter().map(|row| row.begins_at.since(begin).as_secs() / 60).collect::<Vec<_>>()
    };
    assert_eq!(minutes(3, 6, 100).await, [5, 4, 3]);
    assert_eq!(minutes(3, 6, 2).await, [5, 4]);
    assert_eq!(minutes(6, 6, 100).await, [0; 0]);
    assert_eq!(read(&fixture, StatisticsSpan::Hour).await, []);
}

/// Two processes count in two lanes for two days. Whatever is folded when, the sums stay.
pub async fn a_fold_keeps_the_sums(fixture: Fixture) {
    let begin = StatisticsSpan::Day.begin(fixture.now()) + DAY;
    let mut rows = Vec::new();
    for minute in (0..2 * 24 * 60).step_by(45) {
        for process in [7, 8] {
            for version in ["1", "2"] {
                let lane = lane_of("default", "checkout", version);
                rows.push(row(process, begin + MINUTE * minute, lane, u64::from(minute % 17)));
            }
        }
    }
    applied(&fixture.write(count(rows.clone(), Vec::new())).await);
    let sum = total(&fixture).await;
    assert_eq!(fold(&fixture, 1000).await, 0, "nothing is old");
    fixture.advance((begin + DAY).since(fixture.now()));
    let old = rows.iter().filter(|row| row.begins_at < fixture.now() - 2 * HOUR).count() as u64;
    assert!(old > 50, "{old}");
    let mut folded = 0;
    loop {
        match fold(&fixture, 7).await {
            0 => break,
            rows => folded += rows,
        }
        assert_eq!(total(&fixture).await, sum);
    }
    assert_eq!(folded, old);
    let hours = read(&fixture, StatisticsSpan::Hour).await;
    assert!(hours.iter().all(|row| row.process == StatisticsRow::ALL_PROCESSES));
    assert!(hours.iter().all(|row| row.begins_at == StatisticsSpan::Hour.begin(row.begins_at)));
    let mut distinct: Vec<_> = hours.iter().map(|row| (row.begins_at, &row.lane)).collect();
    distinct.dedup();
    assert_eq!(distinct.len(), hours.len(), "a lane has one row per hour");
    fixture.advance(60 * DAY);
    while fold(&fixture, 1000).await > 0 {}
    assert_eq!(total(&fixture).await, sum);
    assert_eq!(read(&fixture, StatisticsSpan::Minute).await, []);
    assert_eq!(read(&fixture, StatisticsSpan::Hour).await, []);
    assert_eq!(read(&fixture, StatisticsSpan::Day).await.len(), 4, "two days of two lanes");
}

/// Two transactions that fold at once fold every row once.
pub async fn concurrent_folds_keep_the_sums(fixture: Fixture) {
    let begin = minute_of(fixture.now());
    let lane = || lane_of("default", "checkout", "1");
    let rows = (0..200).map(|minute| row(7, begin + MINUTE * minute, lane(), u64::from(minute % 5))).collect();
    applied(&fixture.write(count(rows, Vec::new())).await);
    let sum = total(&fixture).await;
    fixture.advance(6 * HOUR);
    let second = fixture.second().await;
    let folded = AtomicU64::new(0);
    let folds = async |store: Arc<dyn Store>| {
        // A fold does nothing while another one is under way, so most of them may do nothing.
        for _ in 0..1000 {
            let write = Write::Statistics(Box::new(StatisticsWrite::Fold { limit: 9 }));
            match store.commit(&[write]).await.unwrap().pop() {
                Some(Outcome::Changed(rows)) => folded.fetch_add(rows, Ordering::Relaxed),
                outcome => panic!("{outcome:?}"),
            };
            if folded.load(Ordering::Relaxed) >= 200 {
                return;
            }
        }
    };
    tokio::join!(folds(fixture.store.clone()), folds(second));
    assert_eq!(folded.into_inner(), 200);
    assert_eq!(total(&fixture).await, sum);
}

fn failure(message: &str, count: u64, second: u64) -> FailureRow {
    let error = StoredError::new(ErrorKind::Application, message);
    let at = Timestamp::from_micros(1_000_000) + Duration::from_secs(second);
    FailureRow {
        group: FailureGroup::of("checkout", &error),
        count,
        first_at: at,
        last_at: at,
        first_version: second.to_string(),
        last_run: RunId::from(Uuid::from_u128(second.into())),
    }
}

pub async fn failures_add_up_per_group(fixture: Fixture) {
    let (declined, quoted) = ("card declined", "it's \"late\"");
    applied(&fixture.write(count(Vec::new(), vec![failure(declined, 2, 5), failure(quoted, 1, 4)])).await);
    applied(&fixture.write(count(Vec::new(), vec![failure(declined, 3, 9)])).await);
    // Another process has counted an earlier one, and writes it later.
    applied(&fixture.write(count(Vec::new(), vec![failure(declined, 1, 2)])).await);
    let first = failure(declined, 6, 2);
    let last = failure(declined, 6, 9);
    let declined = FailureRow { last_at: last.last_at, last_run: last.last_run, ..first };
    assert_eq!(fixture.store.failures().await.unwrap(), [declined, failure(quoted, 1, 4)]);
}

pub async fn the_tags_of_runs_are_read_at_once(fixture: Fixture) {
    let tags = |value: &str| BTreeMap::from([("flow".to_owned(), value.to_owned())]);
    let runs = [NewRun { tags: tags("triage"), ..new_run() }, NewRun { tags: tags("it's"), ..new_run() }, new_run()];
    for run in &runs {
        fixture.start(run).await;
    }
    let ids = [runs[0].id, runs[1].id, runs[2].id, runs[1].id, RunId::generate()];
    let read = fixture.store.run_tags(&ids).await.unwrap();
    assert_eq!(read, runs.iter().map(|run| (run.id, run.tags.clone())).collect::<BTreeMap<_, _>>());
    assert_eq!(fixture.store.run_tags(&[]).await.unwrap(), BTreeMap::new());
}

pub async fn the_oldest_groups_of_failures_go(fixture: Fixture) {
    let most = u64::from(MOST_FAILURE_GROUPS);
    let message = |number: u64| {
        let letter = |number: u64| char::from(b'a' + u8::try_from(number % 26).unwrap());
        [number / 676, number / 26, number].map(letter).iter().collect::<String>()
    };
    for start in [0, most / 2, most] {
        let mut rows: Vec<_> = (start..start + most / 2).map(|number| failure(&message(number), 1, number)).collect();
        rows.sort_by(|one, other| one.group.cmp(&other.group));
        applied(&fixture.write(count(Vec::new(), rows)).await);
    }
    let kept = fixture.store.failures().await.unwrap();
    let expected = (most / 2..most + most / 2).rev().map(|number| failure(&message(number), 1, number));
    assert_eq!(kept, expected.collect::<Vec<_>>());
}

/// No worker counts these ends, so the commit does.
pub async fn runs_that_end_without_their_workers_are_counted(fixture: Fixture) {
    let other_lane = || lane_of("mail", "checkout", "2");
    let held = fixture.held().await;
    let pending = fixture.started().await;
    let moved = NewRun { lane: other_lane(), ..new_run() };
    let deleted = NewRun { lane: other_lane(), ..new_run() };
    let late = NewRun { deadline: Some(StartTime::After(MINUTE)), ..new_run() };
    let started = [start(&moved), start(&deleted), start(&late)];
    fixture.commit(&started).await;
    let batch = [
        Write::Cancel(pending),
        Write::Cancel(pending),
        Write::Cancel(moved.id),
        Write::Cancel(RunId::generate()),
        Write::Cancel(held.run_id),
        Write::Terminate(held.run_id),
        Write::Cancel(deleted.id),
        Write::Delete(DeleteWrite { run_id: deleted.id, ended_before: None }),
    ];
    fixture.commit(&batch).await;
    // The reply was lost.
    fixture.commit(&batch).await;
    let ends = async |fixture: &Fixture| {
        let rows = read(fixture, StatisticsSpan::Minute).await;
        let mut ends: Vec<_> = rows.into_iter().map(|row| (row.lane, row.counts.canceled, row.counts.failed)).collect();
        ends.sort();
        ends
    };
    let lane = || lane_of("default", "checkout", "1");
    assert_eq!(ends(&fixture).await, [(lane(), 2, 0), (other_lane(), 2, 0)]);
    fixture.advance(Duration::from_secs(61));
    fixture.write(Write::Expire { limit: 10, patience: Duration::ZERO }).await;
    assert_eq!(ends(&fixture).await, [(lane(), 0, 1), (lane(), 2, 0), (other_lane(), 2, 0)]);
    let failures = fixture.store.failures().await.unwrap();
    let [FailureRow { group, count: 1, last_run, .. }] = &failures[..] else { panic!("{failures:?}") };
    assert_eq!((group.error_kind(), *last_run), (ErrorKind::Deadline, late.id));
}

/// A child that was never claimed ends with its parent, without a worker.
pub async fn children_that_end_with_their_parent_are_counted(fixture: Fixture) {
    let parent = fixture.held().await;
    let child = |on_end, step: &str| {
        let parent = Parent { run_id: parent.run_id, step_key: step.into(), on_end };
        NewRun { parent: Some(parent), lane: lane_of("default", "child", "1"), ..new_run() }
    };
    let children = [child(OnParentEnd::Cancel, "a"), child(OnParentEnd::Abandon, "b"), child(OnParentEnd::Cancel, "c")];
    fixture.commit(&children.each_ref().map(start)).await;
    applied(&fixture.write(end_in_family(parent, None, true)).await);
    let rows = read(&fixture, StatisticsSpan::Minute).await;
    let [StatisticsRow { lane, counts, .. }] = &rows[..] else { panic!("{rows:?}") };
    assert_eq!((lane.workflow.as_str(), counts.canceled), ("child", 2));
}

fn line(version: &str, step: &str, lines: &str) -> SourceLine {
    SourceLine { workflow: "checkout".into(), version: version.into(), step: step.into(), lines: lines.into() }
}

fn put_lines(source_lines: Vec<SourceLine>) -> Write {
    Write::Statistics(Box::new(StatisticsWrite::Count { rows: Vec::new(), failures: Vec::new(), source_lines }))
}

async fn lines_of(fixture: &Fixture, version: &str, steps: &[&str]) -> Vec<SourceLine> {
    let steps: BTreeSet<&str> = steps.iter().copied().collect();
    fixture.store.source_lines("checkout", version, &steps).await.unwrap()
}

pub async fn the_source_line_of_a_step_is_that_of_the_last_write(fixture: Fixture) {
    let hostile = "it's \"mail\", %s\u{1F4E7}";
    let first = vec![line("1", "charge", "src/orders.rs:41"), line("1", hostile, "src/orders.rs:42, src/mail.rs:7")];
    // The reply to the first write is lost, so it is applied twice.
    for _ in 0..2 {
        applied(&fixture.write(put_lines(first.clone())).await);
        assert_eq!(lines_of(&fixture, "1", &[hostile, "charge", "unknown"]).await, first);
    }
    assert_eq!(lines_of(&fixture, "1", &["charge"]).await, first[..1]);
    assert_eq!(lines_of(&fixture, "1", &[]).await, []);
    let moved = line("1", "charge", "src/orders.rs:50");
    let of_two = line("2", "charge", "src/orders.rs:8");
    applied(&fixture.write(put_lines(vec![moved.clone(), of_two.clone()])).await);
    assert_eq!(lines_of(&fixture, "1", &["charge"]).await, [moved]);
    assert_eq!(lines_of(&fixture, "2", &["charge", hostile]).await, [of_two], "each version has its own");
    let other = fixture.store.source_lines("other", "1", &BTreeSet::from(["charge"])).await.unwrap();
    assert_eq!(other, [], "each workflow has its own");
}

/// A workflow that makes the names of its steps of data does not fill the database.
pub async fn the_steps_of_a_version_with_source_lines_are_bounded(fixture: Fixture) {
    let many = (0..MOST_SOURCE_LINES).map(|step| line("1", &format!("mail to {step:04}"), "src/mail.rs:7"));
    applied(&fixture.write(put_lines(many.collect())).await);
    let (new, known) = ("mail to 9999", "mail to 0007");
    let more =
        vec![line("1", known, "src/mail.rs:8"), line("1", new, "src/mail.rs:8"), line("2", new, "src/mail.rs:9")];
    applied(&fixture.write(put_lines(more.clone())).await);
    assert_eq!(lines_of(&fixture, "1", &[known, new]).await, more[..1]);
    assert_eq!(lines_of(&fixture, "2", &[known, new]).await, more[2..]);
}
