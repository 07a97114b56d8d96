use std::time::Duration;

use workflow_engine::model::{NewRun, StoredSchedule};
use workflow_engine::store::{Outcome, ScheduleWrite, Write};
use workflow_sdk::{RunFilter, RunId, Timestamp};
use workflow_tests::Fixture;
use workflow_tests::builders::{keyed, lane_of, new_run};
use workflow_tests::outcome::{self, applied, created, duplicate, lost};

const MINUTE: Duration = Duration::from_secs(60);

/// A row with texts that must come back byte for byte.
fn row(name: &str, revision: i64, available_at: Timestamp) -> StoredSchedule {
    let input = Some("{\"b\":1.0, \"a\":\"\\u0000 ü\"}".into());
    StoredSchedule {
        name: name.into(), revision, available_at, input, record: format!("{{\"of\":\"{name} ü'\\\"\"}}")
    }
}

fn change(name: &str, seen: Option<i64>, next: Option<StoredSchedule>, starts: Vec<NewRun>) -> Write {
    Write::Schedule(Box::new(ScheduleWrite { name: name.into(), seen, next, starts }))
}

async fn create(fixture: &Fixture, row: &StoredSchedule) {
    applied(&fixture.write(change(&row.name, None, Some(row.clone()), vec![])).await);
}

async fn runs(fixture: &Fixture) -> Vec<RunId> {
    fixture.store.list(&RunFilter::new()).await.unwrap().iter().map(|run| run.id).collect()
}

pub async fn a_schedule_is_stored_as_it_was_written(fixture: Fixture) {
    let first = row("daily \"report\"", 1, fixture.now() + MINUTE);
    create(&fixture, &first).await;
    assert_eq!(fixture.second().await.schedule(&first.name).await.unwrap(), Some(first.clone()));
    let second = StoredSchedule { revision: i64::MAX, input: None, record: "{}".into(), ..first.clone() };
    applied(&fixture.write(change(&first.name, Some(1), Some(second.clone()), vec![])).await);
    assert_eq!(fixture.store.schedule(&first.name).await.unwrap(), Some(second));
    assert_eq!(fixture.store.schedule("daily").await.unwrap(), None);
}

pub async fn a_change_starts_its_runs_in_the_same_commit(fixture: Fixture) {
    create(&fixture, &row("s", 1, fixture.now())).await;
    // Of a lane without a row.
    let lane = lane_of("reports", "report", "2");
    let starts = ["s@1", "s@2"].map(|key| NewRun { lane: lane.clone(), ..keyed(key) });
    applied(&fixture.write(change("s", Some(1), Some(row("s", 2, fixture.now())), starts.to_vec())).await);
    for start in starts {
        let run = fixture.run(start.id).await;
        assert_eq!(
            (run.lane, run.input, run.key, run.available_at),
            (lane.clone(), start.input, start.key, fixture.now())
        );
    }
}

pub async fn a_change_that_has_seen_an_old_revision_changes_nothing(fixture: Fixture) {
    let now = row("s", 2, fixture.now());
    create(&fixture, &row("s", 1, fixture.now())).await;
    applied(&fixture.write(change("s", Some(1), Some(now.clone()), vec![])).await);
    let beside = new_run();
    let writes = [
        change("s", Some(1), Some(row("s", 3, fixture.now())), vec![new_run()]),
        change("s", None, Some(row("s", 4, fixture.now())), vec![new_run()]),
        change("s", Some(1), None, vec![]),
        change("other", Some(1), Some(row("other", 5, fixture.now())), vec![new_run()]),
        Write::Start(beside.clone()),
    ];
    let outcomes = fixture.commit(&writes).await;
    outcomes[..4].iter().for_each(lost);
    created(&outcomes[4]);
    assert_eq!(fixture.store.schedules(None, 9).await.unwrap(), [now]);
    assert_eq!(runs(&fixture).await, [beside.id]);
}

pub async fn a_change_applied_again_is_a_duplicate(fixture: Fixture) {
    let create = change("s", None, Some(row("s", 1, fixture.now())), vec![]);
    applied(&fixture.write(create.clone()).await);
    duplicate(&fixture.write(create).await);
    let run = new_run();
    let fire = change("s", Some(1), Some(row("s", 2, fixture.now())), vec![run.clone()]);
    applied(&fixture.write(fire.clone()).await);
    duplicate(&fixture.write(fire).await);
    assert_eq!(runs(&fixture).await, [run.id]);
    let delete = change("s", Some(2), None, vec![]);
    applied(&fixture.write(delete.clone()).await);
    duplicate(&fixture.write(delete).await);
}

pub async fn of_two_changes_in_one_batch_the_second_must_have_seen_the_first(fixture: Fixture) {
    let [first, second, late] = [new_run(), new_run(), new_run()];
    let writes = [
        change("s", None, Some(row("s", 1, fixture.now())), vec![]),
        change("t", None, Some(row("t", 1, fixture.now())), vec![]),
    ];
    fixture.commit(&writes).await.iter().for_each(applied);
    let writes = [
        change("s", Some(1), Some(row("s", 2, fixture.now())), vec![first.clone()]),
        change("s", Some(2), Some(row("s", 3, fixture.now())), vec![second.clone()]),
        change("s", Some(2), Some(row("s", 4, fixture.now())), vec![late]),
        change("t", Some(1), None, vec![]),
    ];
    let outcomes = fixture.commit(&writes).await;
    [0, 1, 3].iter().for_each(|index| applied(&outcomes[*index]));
    lost(&outcomes[2]);
    assert_eq!(fixture.store.schedules(None, 9).await.unwrap(), [row("s", 3, fixture.now())]);
    assert_eq!(runs(&fixture).await, [second.id, first.id]);
}

pub async fn an_occurrence_whose_key_is_taken_starts_no_run(fixture: Fixture) {
    create(&fixture, &row("s", 1, fixture.now())).await;
    let before = keyed("schedule:s@1");
    fixture.start(&before).await;
    let starts = vec![keyed("schedule:s@1"), keyed("schedule:s@2")];
    let expected = [starts[1].id, before.id];
    applied(&fixture.write(change("s", Some(1), Some(row("s", 2, fixture.now())), starts)).await);
    assert_eq!(runs(&fixture).await, expected);
}

pub async fn of_many_processes_that_change_a_schedule_one_does(fixture: Fixture) {
    let second = fixture.second().await;
    let names = ["b", "a", "c"];
    for seen in [None, Some(1)] {
        let changes = (0..32).map(|number| {
            let store = if number % 2 == 0 { fixture.store.clone() } else { second.clone() };
            let (next, now) = (seen.unwrap_or(0) + 1, fixture.now());
            tokio::spawn(async move {
                // Each write with a row of its own, and in another order.
                let mut writes = names.map(|name| {
                    let row = StoredSchedule { record: number.to_string(), ..row(name, next * 100 + number, now) };
                    change(name, seen.map(|_| 1), Some(row), vec![new_run()])
                });
                writes.rotate_left(usize::try_from(number).unwrap() % 3);
                let outcomes = store.commit(&writes).await.expect("commit");
                outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Applied)).count()
            })
        });
        let mut changed = 0;
        for change in changes.collect::<Vec<_>>() {
            changed += change.await.unwrap();
        }
        assert_eq!(changed, names.len(), "each schedule is changed once, seen as {seen:?}");
        for name in names {
            let stored = fixture.store.schedule(name).await.unwrap().unwrap();
            let known = StoredSchedule { revision: 1, ..stored.clone() };
            applied(&fixture.write(change(name, Some(stored.revision), Some(known), vec![])).await);
        }
    }
    assert_eq!(runs(&fixture).await.len(), names.len(), "a change that creates a schedule starts no run");
}

pub async fn due_schedules_are_found_the_longest_due_first(fixture: Fixture) {
    let now = fixture.now();
    assert_eq!(fixture.store.due_schedules(&[], 9).await.unwrap().due, []);
    assert_eq!(fixture.store.due_schedules(&[], 9).await.unwrap().now, now);
    let at = |seconds: u64| now + Duration::from_secs(seconds);
    for (name, seconds) in [("late", 30), ("first", 10), ("second", 20), ("third", 20)] {
        create(&fixture, &row(name, 1, at(seconds))).await;
    }
    create(&fixture, &row("paused", 1, Timestamp::FAR_FUTURE)).await;
    create(&fixture, &StoredSchedule { input: None, ..row("computed", 1, at(5)) }).await;
    let found = async |computed: &[&str], limit| {
        let computed: Vec<String> = computed.iter().map(|name| (*name).to_owned()).collect();
        let found = fixture.store.due_schedules(&computed, limit).await.unwrap();
        (found.due.into_iter().map(|row| row.name).collect::<Vec<_>>(), found.next_at)
    };
    assert_eq!(found(&[], 9).await, (vec![], Some(at(10))));
    assert_eq!(found(&["computed"], 9).await, (vec![], Some(at(5))));
    fixture.advance(Duration::from_secs(20));
    assert_eq!(found(&["others"], 9).await.0, ["first", "second", "third"]);
    assert_eq!(found(&["computed"], 2).await, (vec!["computed".into(), "first".into()], Some(at(30))));
    fixture.advance(MINUTE);
    assert_eq!(found(&[], 9).await, (["first", "second", "third", "late"].map(String::from).to_vec(), None));
}

pub async fn schedules_are_listed_in_the_order_of_their_names(fixture: Fixture) {
    for name in ["b", "a", "B", "ä"] {
        create(&fixture, &row(name, 1, fixture.now())).await;
    }
    let page = async |after: Option<&str>, limit| {
        let page = fixture.store.schedules(after, limit).await.unwrap();
        page.into_iter().map(|row| row.name).collect::<Vec<_>>()
    };
    assert_eq!(page(None, 9).await, ["B", "a", "b", "ä"]);
    assert_eq!(page(None, 2).await, ["B", "a"]);
    assert_eq!(page(Some("a"), 2).await, ["b", "ä"]);
}

pub async fn the_runs_of_a_deleted_schedule_stay(fixture: Fixture) {
    create(&fixture, &row("s", 1, fixture.now())).await;
    let run = new_run();
    applied(&fixture.write(change("s", Some(1), Some(row("s", 2, fixture.now())), vec![run.clone()])).await);
    let outcome = outcome::one(fixture.commit(&[change("s", Some(2), None, vec![])]).await);
    applied(&outcome);
    assert_eq!(fixture.store.schedule("s").await.unwrap(), None);
    assert_eq!(runs(&fixture).await, [run.id]);
    create(&fixture, &row("s", 3, fixture.now())).await;
}
