//! Published values and streams.

use workflow_engine::store::EmittedItem;
use workflow_sdk::{RunId, StepAttempt, StepKind};
use workflow_tests::Fixture;
use workflow_tests::builders::{attempt, begun, succeeded};
use workflow_tests::outcome::{applied, lost};

fn item(name: &str, number: i64, output: &str) -> StepAttempt {
    let kind = StepKind::Emitted;
    StepAttempt { attempt: number, kind, position: None, ..succeeded(&kind.key_of(name), 0, output) }
}

fn published(name: &str, output: &str) -> StepAttempt {
    let kind = StepKind::Published;
    StepAttempt { kind, output: Some(output.into()), ..begun(&kind.key_of(name)) }
}

async fn items(fixture: &Fixture, id: RunId, name: &str, after: i64, limit: u32) -> Vec<(i64, String)> {
    let items = fixture.store.emitted(id, name, after, limit).await.expect("read a stream");
    items.into_iter().map(|EmittedItem { number, item }| (number, item)).collect()
}

pub async fn the_last_published_value_is_read(fixture: Fixture) {
    let claim = fixture.held().await;
    let read = async |name: &str| fixture.store.published(claim.run_id, name).await.expect("read");
    assert_eq!(read("progress").await, None);
    applied(&fixture.write(attempt(claim, published("progress", "{\"value\":1}"))).await);
    assert_eq!(read("progress").await.as_deref(), Some("{\"value\":1}"));
    // The last of several values in one batch is stored.
    let writes = ["2", "3", "4"].map(|value| attempt(claim, published("progress", value)));
    fixture.commit(&writes).await.iter().for_each(applied);
    assert_eq!(read("progress").await.as_deref(), Some("4"));
    assert_eq!(read("Progress").await, None);
    assert_eq!(fixture.store.published(RunId::generate(), "progress").await.unwrap(), None);
    assert_eq!(fixture.history(claim.run_id).await.len(), 1);
}

pub async fn items_are_read_in_order_from_any_number(fixture: Fixture) {
    let claim = fixture.held().await;
    let odd = r#""NUL \u0000, a quote \", é""#;
    // A refused item leaves a gap; numbers have more than one digit.
    let numbers: Vec<i64> = (1..=12).filter(|number| *number != 5).collect();
    let mut writes: Vec<_> = numbers.iter().rev().map(|n| attempt(claim, item("log", *n, &n.to_string()))).collect();
    writes.push(attempt(claim, item("log", 13, odd)));
    writes.push(attempt(claim, item("log", 0, "no item")));
    writes.push(attempt(claim, item("other", 1, "other")));
    fixture.commit(&writes).await.iter().for_each(applied);
    let mut expected: Vec<(i64, String)> = numbers.iter().map(|n| (*n, n.to_string())).collect();
    expected.push((13, odd.into()));
    assert_eq!(items(&fixture, claim.run_id, "log", 0, 100).await, expected);
    assert_eq!(items(&fixture, claim.run_id, "log", -7, 100).await, expected);
    assert_eq!(items(&fixture, claim.run_id, "log", 4, 3).await, expected[4..7]);
    assert_eq!(items(&fixture, claim.run_id, "log", 13, 3).await, []);
    assert_eq!(items(&fixture, claim.run_id, "none", 0, 3).await, []);
    assert_eq!(items(&fixture, RunId::generate(), "log", 0, 3).await, []);
}

pub async fn an_item_is_never_changed(fixture: Fixture) {
    let (stale, claim) = fixture.taken_over().await;
    applied(&fixture.write(attempt(claim, item("log", 1, "first"))).await);
    applied(&fixture.write(attempt(claim, item("log", 1, "again"))).await);
    lost(&fixture.write(attempt(stale, item("log", 2, "stale"))).await);
    assert_eq!(items(&fixture, claim.run_id, "log", 0, 9).await, [(1, "first".to_owned())]);
}

pub async fn a_history_has_only_the_last_item_of_each_stream(fixture: Fixture) {
    let claim = fixture.held().await;
    let mut writes = Vec::new();
    for (name, last) in [("log", 300), ("errors", 2), ("one", 1)] {
        writes.extend((1..=last).map(|number| attempt(claim, item(name, number, "\"some item\""))));
    }
    writes.push(attempt(claim, item("log", 0, "{\"generation\":1}")));
    writes.push(attempt(claim, succeeded("a", 1, "1")));
    fixture.commit(&writes).await.iter().for_each(applied);
    let history = fixture.history(claim.run_id).await;
    let rows: Vec<_> = history.iter().map(|row| (row.step_key.as_str(), row.attempt, row.output.as_deref())).collect();
    let expected = [
        ("a", 1, Some("1")),
        ("emitted/errors", 2, None),
        ("emitted/log", 0, Some("{\"generation\":1}")),
        ("emitted/log", 300, None),
        ("emitted/one", 1, None),
    ];
    assert_eq!(rows, expected);
}
