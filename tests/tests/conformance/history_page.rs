//! Parts of histories, for display.

use std::time::Duration;

use workflow_engine::model::{AttemptStatus, Claim, StepAttempt, StepKind};
use workflow_engine::store::{HistoryPlace, HistoryRow, HistoryRows, HistoryScan};
use workflow_sdk::{RunId, Timestamp};
use workflow_tests::Fixture;
use workflow_tests::builders::{attempt, begun, failed, succeeded};
use workflow_tests::outcome::applied;

/// More bytes than any payload of these cases.
const ALL: u32 = 1_000_000;

async fn read(fixture: &Fixture, run: RunId, rows: HistoryRows, payload_bytes: u32) -> Vec<HistoryRow> {
    fixture.store.history_page(&HistoryScan { run, rows, payload_bytes }).await.expect("a part of a history")
}

fn at(fixture: &Fixture, row: StepAttempt) -> StepAttempt {
    StepAttempt { started_at: fixture.now(), ..row }
}

/// A run whose steps have ended in another order than that of their keys and of their beginnings.
async fn run_with_a_history(fixture: &Fixture) -> Claim {
    let claim = fixture.held().await;
    let item = |number: i64| StepAttempt {
        kind: StepKind::Emitted,
        status: AttemptStatus::Succeeded,
        output: Some(number.to_string()),
        attempt: number,
        ..begun("emitted/log")
    };
    let rows = [
        begun("wait"),
        begun("zip"),
        failed("ask", 1),
        failed("ask", 2),
        StepAttempt { attempt: 3, ..succeeded("ask", 2, "\"late\"") },
        succeeded("zip", 1, "[1, 2]"),
        succeeded("big", 3, &format!("\"{}\"", "x".repeat(1000))),
        failed("pay", 1),
        StepAttempt { kind: StepKind::Patch, ..succeeded("patch/v2", 4, "true") },
        item(1),
        item(2),
        item(3),
    ];
    for row in rows {
        applied(&fixture.write(attempt(claim, at(fixture, row))).await);
        fixture.advance(Duration::from_secs(1));
    }
    claim
}

pub async fn pages_of_a_history_are_the_history(fixture: Fixture) {
    let run = run_with_a_history(&fixture).await.run_id;
    let history = fixture.history(run).await;
    assert_eq!(history.len(), 9, "{history:?}");
    for limit in [1, 2, 3, 9, 100] {
        let mut found: Vec<StepAttempt> = Vec::new();
        loop {
            let after = found.last().map(HistoryPlace::of);
            let page = read(&fixture, run, HistoryRows::Delivered { after, limit }, ALL).await;
            let is_full = page.len() == limit as usize;
            assert!(found.len() <= history.len(), "a page repeats rows");
            found.extend(page.into_iter().map(|row| row.row));
            if !is_full {
                break;
            }
        }
        assert_eq!(found, history, "pages of {limit}");
    }
    let none = read(&fixture, RunId::generate(), HistoryRows::Delivered { after: None, limit: 5 }, ALL).await;
    assert_eq!(none, []);
}

pub async fn a_large_payload_is_left_out_of_a_page_with_its_size(fixture: Fixture) {
    let run = run_with_a_history(&fixture).await.run_id;
    let rows = || HistoryRows::Delivered { after: None, limit: 100 };
    let whole = read(&fixture, run, rows(), ALL).await;
    let cut = read(&fixture, run, rows(), 999).await;
    let big = cut.iter().find(|row| row.row.step_key == "big").expect("the large row");
    assert_eq!((big.output_bytes, big.row.output.as_deref()), (Some(1002), None));
    for (row, cut) in whole.iter().zip(&cut).filter(|(row, _)| row.row.step_key != "big") {
        assert_eq!(row, cut);
        let is_item = row.row.kind == StepKind::Emitted;
        let size = row.row.output.as_ref().map(|text| text.len() as u64).filter(|_| !is_item);
        assert_eq!(row.output_bytes, size, "{row:?}");
        assert_eq!(row.error_bytes.is_some(), row.row.error.is_some(), "{row:?}");
    }
    let none = read(&fixture, run, rows(), 1).await;
    assert!(none.iter().all(|row| row.row.output.is_none() && row.row.error.is_none()));
}

pub async fn steps_are_read_in_the_order_in_which_they_began(fixture: Fixture) {
    let run = run_with_a_history(&fixture).await.run_id;
    let steps = async |from, limit| {
        let rows = read(&fixture, run, HistoryRows::Begun { from, limit }, ALL).await;
        rows.iter().map(|row| (row.row.step_key.clone(), row.row.attempt)).collect::<Vec<_>>()
    };
    let all = [("wait", 1), ("zip", 1), ("ask", 1), ("ask", 2), ("ask", 3), ("big", 1), ("pay", 1)];
    let all: Vec<(String, i64)> = all.iter().map(|(key, attempt)| ((*key).to_owned(), *attempt)).collect();
    assert_eq!(steps(0, 100).await, all);
    assert_eq!(steps(0, 2).await, all[..2]);
    assert_eq!(steps(2, 1).await, all[2..5]);
    assert_eq!(steps(3, 2).await, all[5..]);
    assert_eq!(steps(5, 2).await, []);
}

pub async fn open_steps_are_read_beside_the_last_outcome(fixture: Fixture) {
    let claim = run_with_a_history(&fixture).await;
    let open = async |limit| {
        let rows = read(&fixture, claim.run_id, HistoryRows::Open { limit }, ALL).await;
        rows.iter().map(|row| (row.row.step_key.clone(), row.row.attempt)).collect::<Vec<_>>()
    };
    let keys = |keys: &[&str]| keys.iter().map(|key| ((*key).to_owned(), 1)).collect::<Vec<_>>();
    assert_eq!(open(10).await, keys(&["patch/v2", "pay", "wait"]));
    assert_eq!(open(2).await, keys(&["patch/v2", "pay"]));
    applied(&fixture.write(attempt(claim, succeeded("wait", 5, "7"))).await);
    assert_eq!(open(10).await, keys(&["pay", "wait"]));
    assert_eq!(read(&fixture, RunId::generate(), HistoryRows::Open { limit: 1 }, ALL).await, []);
}

pub async fn one_attempt_is_read_by_its_key(fixture: Fixture) {
    let run = run_with_a_history(&fixture).await.run_id;
    let row = |key: &str, attempt| HistoryRows::Attempt { step_key: key.into(), attempt };
    let found = read(&fixture, run, row("ask", 3), ALL).await;
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].row.output.as_deref(), Some("\"late\""));
    assert_eq!(read(&fixture, run, row("ask", 4), ALL).await, []);
    assert_eq!(read(&fixture, run, row("big", 1), 10).await[0].row.output, None);
    assert!(found[0].row.started_at > Timestamp::from_micros(0));
}
