use std::time::Duration;

use workflow_engine::model::{
    AuditId, BulkCounts, BulkFailure, BulkId, BulkProgress, BulkRecord, BulkStatus, NewAudit, NewBulk, NewSignal,
    RunId, SignalKey, WorkerId,
};
use workflow_engine::store::{
    AuditList, AuditedWrite, BulkChunk, BulkClaim, BulkWrite, CancelOutcome, DeleteWrite, ForkWrite, Outcome,
    PlaceChange, PlaceWrite, ReviveWrite, RunEnd, Write,
};
use workflow_sdk::RunStatus;
use workflow_tests::Fixture;
use workflow_tests::builders::{end, error, lane_of, new_run, signal};
use workflow_tests::outcome::applied;

const LEASE: Duration = Duration::from_secs(10);

fn order() -> NewBulk {
    NewBulk {
        id: BulkId::generate(),
        verb: "run.signal".into(),
        query: "tag.customer:\"a \\\"b\\\"\"".into(),
        action: r#"{"action":"signal_run","name":"go"}"#.into(),
        payload: Some(r#"{"n": 1.10}"#.into()),
        actor: Some("ada".into()),
        reason: Some("it's late".into()),
        upto: RunId::generate(),
        matched: Some(7),
    }
}

fn bulk(write: BulkWrite) -> Write {
    Write::Bulk(Box::new(write))
}

async fn ordered(fixture: &Fixture) -> NewBulk {
    let order = order();
    applied(&fixture.write(bulk(BulkWrite::Order(order.clone()))).await);
    order
}

async fn read(fixture: &Fixture, id: BulkId) -> BulkRecord {
    fixture.store.bulk(id).await.unwrap().expect("it was ordered")
}

async fn claim(fixture: &Fixture, worker: WorkerId) -> Option<BulkRecord> {
    match fixture.write(bulk(BulkWrite::Claim { worker, lease: LEASE })).await {
        Outcome::BulkClaimed(row) => row.map(|row| *row),
        other => panic!("{other:?}"),
    }
}

async fn claimed(fixture: &Fixture) -> BulkRecord {
    claim(fixture, WorkerId::generate()).await.expect("it is due")
}

fn chunk(row: &BulkRecord, cursor: RunId, writes: Vec<(RunId, Write)>) -> BulkChunk {
    BulkChunk {
        claim: BulkClaim { id: row.order.id, epoch: row.progress.epoch },
        seen: row.progress.cursor,
        cursor,
        writes,
        known: BulkCounts::default(),
        is_last: false,
        lease: LEASE,
    }
}

fn advance(chunk: BulkChunk) -> Write {
    bulk(BulkWrite::Advance(chunk))
}

fn cancels(runs: &[RunId]) -> Vec<(RunId, Write)> {
    runs.iter().map(|run| (*run, Write::Cancel(*run))).collect()
}

async fn status(fixture: &Fixture, run: RunId) -> RunStatus {
    fixture.store.run(run).await.unwrap().expect("it exists").status
}

pub async fn an_order_is_kept_once_and_read_back(fixture: Fixture) {
    let order = ordered(&fixture).await;
    assert_eq!(read(&fixture, order.id).await, BulkRecord::new(order.clone(), fixture.now()));
    let again = NewBulk { verb: "run.cancel".into(), ..order.clone() };
    let outcome = fixture.write(bulk(BulkWrite::Order(again))).await;
    assert!(matches!(outcome, Outcome::Duplicate), "{outcome:?}");
    assert_eq!(read(&fixture, order.id).await.order, order);
    assert_eq!(fixture.store.bulk(BulkId::generate()).await.unwrap(), None);
    let bare = NewBulk { payload: None, actor: None, reason: None, matched: None, ..self::order() };
    applied(&fixture.write(bulk(BulkWrite::Order(bare.clone()))).await);
    assert_eq!(read(&fixture, bare.id).await.order, bare);
}

pub async fn operations_are_listed_newest_first_without_payloads(fixture: Fixture) {
    let mut orders = Vec::new();
    for _ in 0..3 {
        orders.push(NewBulk { payload: None, ..ordered(&fixture).await });
    }
    orders.reverse();
    let list = async |older_than, limit| -> Vec<NewBulk> {
        let rows = fixture.store.bulks(older_than, limit).await.unwrap();
        rows.into_iter().map(|row| row.order).collect()
    };
    assert_eq!(list(BulkId::LAST, 10).await, orders);
    assert_eq!(list(BulkId::LAST, 2).await, orders[..2]);
    assert_eq!(list(orders[1].id, 10).await, orders[2..]);
}

/// One worker at a time holds an operation, and its lease lets another one take over.
pub async fn an_operation_is_claimed_by_one_worker_until_its_lease_ends(fixture: Fixture) {
    assert_eq!(fixture.store.next_bulk().await.unwrap(), None);
    let first = ordered(&fixture).await;
    fixture.advance(Duration::from_secs(1));
    let second = ordered(&fixture).await;
    assert_eq!(fixture.store.next_bulk().await.unwrap(), Some(Duration::ZERO));
    let worker = WorkerId::generate();
    let row = claim(&fixture, worker).await.expect("one is due");
    assert_eq!((row.order.id, row.progress.epoch, row.progress.worker), (first.id, 1, Some(worker)));
    assert_eq!(row.progress.available_at, fixture.now() + LEASE);
    assert_eq!(read(&fixture, first.id).await, row);
    assert_eq!(claimed(&fixture).await.order, second);
    assert_eq!(claim(&fixture, worker).await, None);
    assert_eq!(fixture.store.next_bulk().await.unwrap(), Some(LEASE));
    fixture.advance(LEASE);
    let taken = claimed(&fixture).await;
    assert_eq!((taken.order.id, taken.progress.epoch), (first.id, 2));
}

/// The changes of a chunk, their audit rows, the counts and the cursor are one commit, and happen
/// once.
pub async fn a_chunk_changes_its_runs_and_moves_the_operation_once(fixture: Fixture) {
    let (held, done) = (fixture.held().await.run_id, fixture.held().await);
    applied(&fixture.write(end(done, RunEnd::Failed(error("no luck")))).await);
    let new = fixture.started().await;
    ordered(&fixture).await;
    let row = claimed(&fixture).await;
    let order = NewAudit {
        id: AuditId::generate(),
        actor: Some("ada".into()),
        verb: "run.cancel".into(),
        target: format!("run:{new}"),
        reason: None,
        arguments: "{}".into(),
    };
    let mut writes = cancels(&[new, held, done.run_id, RunId::generate()]);
    writes[0].1 = Write::Audited(Box::new(AuditedWrite { write: Write::Cancel(new), order }));
    writes.push((held, Write::Delete(DeleteWrite { run_id: held, ended_before: None })));
    let known = BulkCounts { done: 0, skipped: 2, failures: vec![BulkFailure::new(new, "it is \"odd\"")] };
    let first = BulkChunk { known, ..chunk(&row, done.run_id, writes) };
    fixture.advance(Duration::from_secs(3));
    match fixture.write(advance(first.clone())).await {
        Outcome::Advanced(outcomes) => assert!(
            matches!(
                outcomes[..2],
                [Outcome::Canceled(CancelOutcome::Canceled), Outcome::Canceled(CancelOutcome::Requested)]
            ) && outcomes.len() == 5,
            "{outcomes:?}"
        ),
        other => panic!("{other:?}"),
    }
    assert_eq!(status(&fixture, new).await, RunStatus::Canceled);
    let BulkProgress { cursor, done: changed, skipped, failed, failures, available_at, .. } =
        read(&fixture, row.order.id).await.progress;
    assert_eq!((cursor, changed, skipped, failed), (done.run_id, 2, 4, 2));
    assert_eq!(failures[0].reason, "it is \"odd\"");
    assert!(failures[1].run == held && failures[1].reason.contains("running"), "{failures:?}");
    assert_eq!(available_at, fixture.now() + LEASE);
    // Of a commit whose reply was lost.
    let before = read(&fixture, row.order.id).await;
    let again = fixture.write(advance(first)).await;
    assert!(matches!(again, Outcome::Duplicate), "{again:?}");
    assert_eq!(read(&fixture, row.order.id).await, before);
    let last = BulkChunk { is_last: true, ..chunk(&before, RunId::FIRST, Vec::new()) };
    let outcome = fixture.write(advance(last.clone())).await;
    assert!(matches!(&outcome, Outcome::Advanced(none) if none.is_empty()), "{outcome:?}");
    let progress = read(&fixture, row.order.id).await.progress;
    assert_eq!((progress.status, progress.ended_at), (BulkStatus::Done, Some(fixture.now())));
    let outcome = fixture.write(advance(last)).await;
    assert!(matches!(outcome, Outcome::Duplicate), "{outcome:?}");
    assert_eq!(fixture.store.next_bulk().await.unwrap(), None);
    assert_eq!(claim(&fixture, WorkerId::generate()).await, None);
    let all =
        AuditList { older_than: AuditId::LAST, verb: String::new(), target: None, actor: None, limit: 9, budget: 9 };
    assert_eq!(fixture.store.audits(&all).await.unwrap().rows.len(), 1);
}

pub async fn a_chunk_of_a_lost_claim_changes_nothing(fixture: Fixture) {
    let run = fixture.started().await;
    ordered(&fixture).await;
    let lost = claimed(&fixture).await;
    fixture.advance(LEASE);
    let row = claimed(&fixture).await;
    let stale = fixture.write(advance(chunk(&lost, RunId::FIRST, cancels(&[run])))).await;
    assert!(matches!(stale, Outcome::Lost), "{stale:?}");
    let elsewhere = BulkChunk { seen: RunId::generate(), ..chunk(&row, RunId::FIRST, cancels(&[run])) };
    let elsewhere = fixture.write(advance(elsewhere)).await;
    assert!(matches!(elsewhere, Outcome::Lost), "{elsewhere:?}");
    let mut unknown = chunk(&row, RunId::FIRST, cancels(&[run]));
    unknown.claim.id = BulkId::generate();
    let unknown = fixture.write(advance(unknown)).await;
    assert!(matches!(unknown, Outcome::Lost), "{unknown:?}");
    assert_eq!(status(&fixture, run).await, RunStatus::Pending);
    assert_eq!(read(&fixture, row.order.id).await, row);
}

pub async fn a_stopped_operation_changes_no_further_run(fixture: Fixture) {
    let run = fixture.started().await;
    let order = ordered(&fixture).await;
    let row = claimed(&fixture).await;
    applied(&fixture.write(bulk(BulkWrite::Stop(order.id))).await);
    let stopped = read(&fixture, order.id).await;
    assert_eq!((stopped.progress.status, stopped.progress.ended_at), (BulkStatus::Stopped, Some(fixture.now())));
    let late = fixture.write(advance(chunk(&row, RunId::FIRST, cancels(&[run])))).await;
    assert!(matches!(late, Outcome::Lost), "{late:?}");
    assert_eq!(status(&fixture, run).await, RunStatus::Pending);
    let again = fixture.write(bulk(BulkWrite::Stop(order.id))).await;
    assert!(matches!(again, Outcome::Duplicate), "{again:?}");
    let unknown = fixture.write(bulk(BulkWrite::Stop(BulkId::generate()))).await;
    assert!(matches!(unknown, Outcome::Lost), "{unknown:?}");
    fixture.advance(2 * LEASE);
    assert_eq!(claim(&fixture, WorkerId::generate()).await, None);
}

/// Writes of every kind that an operation sends, in one chunk.
pub async fn a_chunk_may_have_every_kind_of_write(fixture: Fixture) {
    let (failed, gone) = (fixture.held().await, fixture.held().await);
    for claim in [failed, gone] {
        applied(&fixture.write(end(claim, RunEnd::Failed(error("no luck")))).await);
    }
    let (terminated, source) = (fixture.held().await.run_id, fixture.held().await);
    let (paused, resumed, signaled) = (fixture.started().await, fixture.started().await, fixture.started().await);
    fixture.write(Write::Pause(resumed)).await;
    ordered(&fixture).await;
    let row = claimed(&fixture).await;
    let fork = new_run();
    let to_signal = NewSignal { key: SignalKey::Given("bulk".into()), ..signal(signaled, "go", "1") };
    let moved = fixture.started().await;
    let to_slow = PlaceChange::Queue { lane: lane_of("slow", "checkout", "1"), gate: None };
    let revive = ReviveWrite { run_id: failed.run_id, attempt: 1, again: Vec::new(), deadline: None };
    let fork_write = ForkWrite { source: source.run_id, new: fork.clone(), before: 1, kept: None };
    let writes = vec![
        (paused, Write::Pause(paused)),
        (resumed, Write::Resume(resumed)),
        (terminated, Write::Terminate(terminated)),
        (signaled, Write::Signal(to_signal)),
        (failed.run_id, Write::Revive(revive)),
        (moved, Write::Place(PlaceWrite { run_id: moved, change: to_slow })),
        (source.run_id, Write::Fork(Box::new(fork_write))),
        (gone.run_id, Write::Delete(DeleteWrite { run_id: gone.run_id, ended_before: None })),
    ];
    let kinds = i64::try_from(writes.len()).unwrap();
    fixture.write(advance(chunk(&row, RunId::FIRST, writes))).await;
    let progress = read(&fixture, row.order.id).await.progress;
    assert_eq!((progress.done, progress.skipped, progress.failed), (kinds, 0, 0), "{progress:?}");
    assert_eq!(status(&fixture, terminated).await, RunStatus::Canceled);
    assert_eq!(status(&fixture, failed.run_id).await, RunStatus::Pending);
    assert_eq!(status(&fixture, fork.id).await, RunStatus::Pending);
    assert_eq!(fixture.run(moved).await.lane.queue, "slow");
    assert_eq!(fixture.store.run(gone.run_id).await.unwrap(), None);
    assert!(fixture.store.run(paused).await.unwrap().unwrap().paused_at.is_some());
    assert!(fixture.store.run(resumed).await.unwrap().unwrap().paused_at.is_none());
}

/// The first failures are kept, and all are counted.
pub async fn a_bounded_number_of_failures_is_kept(fixture: Fixture) {
    ordered(&fixture).await;
    let mut row = claimed(&fixture).await;
    for cursor in [RunId::generate(), RunId::generate()] {
        let failures = (0..60).map(|number| BulkFailure::new(RunId::generate(), format!("reason {number}")));
        let known = BulkCounts { failures: failures.collect(), ..BulkCounts::default() };
        fixture.write(advance(BulkChunk { known, ..chunk(&row, cursor, Vec::new()) })).await;
        row = read(&fixture, row.order.id).await;
    }
    assert_eq!((row.progress.failed, row.progress.failures.len()), (120, BulkProgress::MOST_FAILURES));
    assert_eq!(row.progress.failures[60].reason, "reason 0");
}
