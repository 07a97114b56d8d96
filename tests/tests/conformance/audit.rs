use std::time::Duration;

use tokio::process::Command;

use workflow_engine::model::{AuditId, AuditRow, LimitChange, NewAudit, NewSignal, QueueChange, SignalKey};
use workflow_engine::store::{
    AuditList, AuditedWrite, DeleteWrite, ForkWrite, LimitWrite, ListedAudits, PlaceChange, PlaceWrite, QueueWrite,
    ReviveWrite, RunEnd, Write,
};
use workflow_sdk::{LimitRule, RunId};
use workflow_tests::Fixture;
use workflow_tests::builders::{claim_request, end, error, keyed, lane_of, new_run, signal, start, succeed};
use workflow_tests::outcome::applied;

fn order(verb: &str, target: &str) -> NewAudit {
    NewAudit {
        id: AuditId::generate(),
        actor: Some("ada".into()),
        verb: verb.into(),
        target: target.into(),
        reason: Some("it's \"late\"\n".into()),
        arguments: r#"{"to":"mail"}"#.into(),
    }
}

fn audited(order: NewAudit, write: Write) -> Write {
    Write::Audited(Box::new(AuditedWrite { write, order }))
}

fn all() -> AuditList {
    AuditList { older_than: AuditId::LAST, verb: String::new(), target: None, actor: None, limit: 100, budget: 1000 }
}

async fn list(fixture: &Fixture, list: AuditList) -> ListedAudits {
    fixture.store.audits(&list).await.unwrap()
}

/// Returns the outcomes of all rows, in the order of the orders.
async fn outcomes(fixture: &Fixture) -> Vec<String> {
    let rows = list(fixture, all()).await.rows;
    rows.into_iter().rev().map(|row| row.outcome).collect()
}

fn delete(run_id: RunId) -> Write {
    Write::Delete(DeleteWrite { run_id, ended_before: None })
}

fn pause_queue(reason: &str) -> Write {
    Write::Queue(QueueWrite { queue: "mail".into(), change: QueueChange::Pause { reason: reason.into() } })
}

pub async fn a_row_has_the_order_and_its_outcome(fixture: Fixture) {
    let run = fixture.started().await;
    fixture.advance(Duration::from_secs(5));
    let order = order("run.cancel", &format!("run:{run}"));
    fixture.write(audited(order.clone(), Write::Cancel(run))).await;
    let row = AuditRow { order, at: fixture.now(), outcome: "canceled".into() };
    assert_eq!(list(&fixture, all()).await, ListedAudits { rows: vec![row], next: None });
    let bare = NewAudit { actor: None, reason: None, ..self::order("queue.pause", "queue:mail") };
    fixture.write(audited(bare.clone(), pause_queue("x"))).await;
    assert_eq!(list(&fixture, all()).await.rows[0].order, bare);
}

/// Each write that changes something leaves a row, and each that does not leaves none.
pub async fn a_row_is_left_if_and_only_if_something_changed(fixture: Fixture) {
    let failed = fixture.held().await;
    applied(&fixture.write(end(failed, RunEnd::Failed(error("no luck")))).await);
    let done = fixture.held().await;
    applied(&fixture.write(succeed(done, "1")).await);
    let held = fixture.held().await.run_id;
    let pending = fixture.started().await;
    let (first, fork) = (keyed("k"), new_run());
    let revive = |attempt| {
        let (run_id, again) = (failed.run_id, Vec::new());
        Write::Revive(ReviveWrite { run_id, attempt, again, deadline: None })
    };
    let forked = Write::Fork(Box::new(ForkWrite { source: done.run_id, new: fork.clone(), before: 1, kept: None }));
    let unknown = RunId::generate();
    let to_slow = |run_id| {
        let change = PlaceChange::Queue { lane: lane_of("slow", "checkout", "1"), gate: None };
        Write::Place(PlaceWrite { run_id, change })
    };
    let to_signal = NewSignal { key: SignalKey::Given("k".into()), ..signal(held, "paid", "1") };
    let limit = LimitChange::Override(Some(LimitRule::none().concurrency(2)));
    let writes: Vec<(Write, Option<String>)> = vec![
        (start(&first), Some(format!("started {}", first.id))),
        (start(&keyed("k")), None),
        (forked, Some(format!("started {}", fork.id))),
        (Write::Signal(to_signal.clone()), Some("accepted".into())),
        (Write::Signal(to_signal), None),
        (Write::Signal(signal(done.run_id, "paid", "1")), None),
        (Write::Signal(signal(unknown, "paid", "1")), None),
        (Write::Pause(pending), Some("paused".into())),
        (Write::Pause(held), Some("requested".into())),
        (Write::Pause(done.run_id), None),
        (Write::Pause(unknown), None),
        (Write::Resume(pending), Some("resumed".into())),
        (Write::Resume(pending), None),
        (Write::Resume(unknown), None),
        (to_slow(pending), Some("changed".into())),
        (to_slow(pending), None),
        (to_slow(held), None),
        (to_slow(unknown), None),
        (revive(1), Some("applied".into())),
        (revive(1), None),
        (revive(7), None),
        (Write::Cancel(held), Some("requested".into())),
        (Write::Cancel(pending), Some("canceled".into())),
        (Write::Cancel(pending), None),
        (Write::Cancel(unknown), None),
        (Write::Terminate(held), Some("canceled".into())),
        (Write::Terminate(held), None),
        (delete(held), Some("deleted".into())),
        (delete(held), None),
        (delete(failed.run_id), None),
        (pause_queue("x"), Some("applied".into())),
        (Write::Limit(LimitWrite { limit: "llm".into(), change: limit }), Some("applied".into())),
    ];
    let mut expected = Vec::new();
    for (write, outcome) in writes {
        let what = format!("{write:?}");
        fixture.write(audited(order("test", "target"), write)).await;
        expected.extend(outcome);
        assert_eq!(outcomes(&fixture).await, expected, "{what}");
    }
}

/// The reply of the first commit was lost, so the same writes are applied again.
pub async fn a_write_applied_again_leaves_one_row(fixture: Fixture) {
    let done = fixture.held().await;
    applied(&fixture.write(succeed(done, "1")).await);
    let (run, new) = (fixture.started().await, new_run());
    let writes = [
        audited(order("run.start", "a"), start(&new)),
        audited(order("run.cancel", "b"), Write::Cancel(run)),
        audited(order("run.delete", "c"), delete(done.run_id)),
        audited(order("queue.pause", "d"), pause_queue("x")),
        audited(order("run.signal", "e"), Write::Signal(signal(new.id, "paid", "1"))),
    ];
    fixture.commit(&writes).await;
    let before = list(&fixture, all()).await;
    assert_eq!(before.rows.len(), writes.len());
    fixture.advance(Duration::from_secs(1));
    fixture.commit(&writes).await;
    assert_eq!(list(&fixture, all()).await, before);
}

pub async fn a_batch_leaves_the_rows_of_its_audited_writes_alone(fixture: Fixture) {
    let (one, other, third) = (new_run(), new_run(), fixture.started().await);
    let writes = [
        start(&one),
        audited(order("run.start", "one"), start(&other)),
        Write::Claim(claim_request()),
        audited(order("run.pause", "two"), Write::Pause(third)),
        Write::Cancel(one.id),
    ];
    let answers = fixture.commit(&writes).await;
    assert_eq!(
        answers.iter().map(|outcome| outcome.name()).collect::<Vec<_>>(),
        ["started", "started", "claimed", "paused", "canceled"]
    );
    assert_eq!(outcomes(&fixture).await, [format!("started {}", other.id), "paused".into()]);
}

pub async fn pages_of_rows_follow_each_other(fixture: Fixture) {
    let verbs = ["run.cancel", "run.pause", "queue.pause"];
    let mut orders = Vec::new();
    for number in 0..12_usize {
        let actor = Some(if number % 2 == 0 { "ada" } else { "bob" }.to_owned());
        let order = NewAudit { actor, ..order(verbs[number % 3], &format!("t:{}", number % 4)) };
        fixture.write(audited(order.clone(), pause_queue("x"))).await;
        orders.insert(0, order);
    }
    let read = async |mut wanted: AuditList| {
        let (mut found, mut pages) = (Vec::new(), 0);
        loop {
            let page = list(&fixture, wanted.clone()).await;
            assert!(page.rows.len() <= wanted.limit as usize);
            found.extend(page.rows.into_iter().map(|row| row.order));
            pages += 1;
            match page.next {
                Some(next) => wanted.older_than = next,
                None => return (found, pages),
            }
        }
    };
    let bob = AuditList { actor: Some("bob".into()), ..all() };
    let target = AuditList { target: Some("t:1".into()), ..all() };
    for (wanted, pages) in [
        (all(), 1),
        (AuditList { limit: 5, ..all() }, 3),
        (AuditList { limit: 12, ..all() }, 1),
        (AuditList { budget: 4, ..all() }, 4),
        (AuditList { verb: "run.".into(), ..all() }, 1),
        (AuditList { verb: "run.p".into(), limit: 1, ..all() }, 4),
        (AuditList { verb: "un".into(), ..all() }, 1),
        (AuditList { limit: 4, budget: 5, ..bob.clone() }, 3),
        (bob, 1),
        (AuditList { budget: 2, ..target.clone() }, 2),
        (AuditList { verb: "queue.".into(), ..target.clone() }, 1),
        (target, 1),
        (AuditList { target: Some("t".into()), ..all() }, 1),
    ] {
        let expected: Vec<NewAudit> = orders.iter().filter(|order| wanted.wants(order)).cloned().collect();
        assert_eq!(read(wanted.clone()).await, (expected, pages), "{wanted:?}");
    }
}

pub async fn the_rows_of_a_deleted_run_stay(fixture: Fixture) {
    let run = fixture.started().await;
    let target = format!("run:{run}");
    fixture.write(audited(order("run.cancel", &target), Write::Cancel(run))).await;
    fixture.write(audited(order("run.delete", &target), delete(run))).await;
    assert_eq!(fixture.store.run(run).await.unwrap(), None);
    assert_eq!(outcomes(&fixture).await, ["canceled", "deleted"]);
}

/// A process starts runs with audit rows, and is killed in the middle, again and again.
pub async fn a_kill_leaves_a_change_and_its_row_or_neither(fixture: Fixture) {
    let mut raw = fixture.raw().await;
    let mut before = 0;
    for _ in 0..12 {
        let mut command = Command::new(env!("CARGO_BIN_EXE_audit"));
        command.arg(fixture.url()).arg(fixture.options().schema).kill_on_drop(true);
        let mut process = command.spawn().expect("run the program");
        // Past a few commits, in the middle of one.
        let goal = before + fastrand::i64(1..80);
        while raw.number("SELECT count(*) FROM workflow_audit").await < goal {
            assert!(process.try_wait().expect("the state of the process").is_none(), "it works until it is killed");
        }
        process.kill().await.expect("kill the process");
        // Each check is one statement: the server may still commit what was asked before the kill.
        let without_row = "SELECT count(*) FROM workflow_runs AS r WHERE NOT EXISTS \
             (SELECT 1 FROM workflow_audit AS a WHERE a.outcome = 'started ' || r.id)";
        assert_eq!(raw.number(without_row).await, 0);
        let surplus = "SELECT (SELECT count(*) FROM workflow_audit) - (SELECT count(*) FROM workflow_runs)";
        assert_eq!(raw.number(surplus).await, 0, "rows without their change");
        before = raw.number("SELECT count(*) FROM workflow_runs").await;
    }
}
