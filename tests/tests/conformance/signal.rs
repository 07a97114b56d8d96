use std::time::Duration;

use workflow_engine::model::{AcceptedSignal, Claim, NewRun, NewSignal, Retention, SignalKey, StartTime, WorkerId};
use workflow_engine::store::{APPROVAL_BUDGET, ApprovalCursor, ApprovalList, INBOX_PAGE, RunWakes, Write};
use workflow_sdk::{AttemptStatus, CancelOutcome, RunId, RunStatus, SignalOutcome, StepAttempt, StepKind, Timestamp};
use workflow_tests::builders::{
    LEASE, attempt, begun, consume, end_in_family, new_run, park, park_write, signal, succeed, succeeded,
};
use workflow_tests::outcome::{applied, canceled, duplicate, lost, signaled};
use workflow_tests::{Database, Fixture};

const HOUR: Duration = Duration::from_secs(3600);

async fn send(fixture: &Fixture, signal: NewSignal) -> SignalOutcome {
    signaled(&fixture.write(Write::Signal(signal)).await)
}

async fn sent(fixture: &Fixture, run_id: RunId, name: &str, payload: &str) {
    assert_eq!(send(fixture, signal(run_id, name, payload)).await, SignalOutcome::Accepted);
}

/// Returns number, name and payload of the unconsumed signals with these names.
async fn inbox(fixture: &Fixture, run_id: RunId, names: &[&str]) -> Vec<(i64, String, String)> {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let inbox = fixture.store.inbox(run_id, &names).await.unwrap().expect("the run exists");
    let run = fixture.run(run_id).await;
    assert_eq!((inbox.wakes, inbox.cancel_requested), (run.wakes, run.cancel_requested_at.is_some()));
    inbox.signals.into_iter().map(|signal| (signal.seq, signal.name, signal.payload)).collect()
}

fn received(step_key: &str, position: i64, payload: &str) -> StepAttempt {
    StepAttempt { kind: StepKind::Signal, ..succeeded(step_key, position, &format!("[{payload}]")) }
}

pub async fn signal_numbers_increase_in_each_run(fixture: Fixture) {
    let (first, second) = (fixture.started().await, fixture.started().await);
    sent(&fixture, first, "paid", "1").await;
    let writes: Vec<Write> = [(first, "2"), (second, "10"), (first, "3"), (second, "11")]
        .map(|(run_id, payload)| Write::Signal(signal(run_id, "paid", payload)))
        .into();
    for outcome in fixture.commit(&writes).await {
        assert_eq!(signaled(&outcome), SignalOutcome::Accepted);
    }
    for (run_id, payloads) in [(first, vec!["1", "2", "3"]), (second, vec!["10", "11"])] {
        let inbox = inbox(&fixture, run_id, &["paid"]).await;
        assert!(inbox.is_sorted_by(|a, b| a.0 < b.0), "{inbox:?}");
        assert_eq!(inbox.iter().map(|(_, _, payload)| payload.as_str()).collect::<Vec<_>>(), payloads);
    }
}

/// Several processes send signals concurrently. Every signal has a number of its own, and the
/// signals of each sender keep their order.
pub async fn concurrent_senders_keep_their_order(fixture: Fixture) {
    let run_id = fixture.started().await;
    let second = fixture.second().await;
    let senders = [fixture.store.clone(), second.clone(), fixture.store.clone(), second].map(|store| {
        tokio::spawn(async move {
            let sender = uuid::Uuid::new_v4().simple().to_string();
            for number in 0..15 {
                let signal = signal(run_id, &sender, &number.to_string());
                store.commit(&[Write::Signal(signal)]).await.expect("commit");
            }
            sender
        })
    });
    let mut numbers = Vec::new();
    for sender in futures::future::join_all(senders).await {
        let inbox = inbox(&fixture, run_id, &[&sender.unwrap()]).await;
        assert_eq!(inbox.len(), 15);
        assert!(inbox.iter().map(|(_, _, payload)| payload.parse::<u32>().unwrap()).eq(0..15), "{inbox:?}");
        numbers.extend(inbox.into_iter().map(|(seq, _, _)| seq));
    }
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), 60);
    assert_eq!(fixture.run(run_id).await.wakes, 60);
}

pub async fn a_given_key_makes_one_signal(fixture: Fixture) {
    let run_id = fixture.started().await;
    let key = || SignalKey::Given("payment-1".into());
    let first = NewSignal { key: key(), ..signal(run_id, "paid", "1") };
    assert_eq!(send(&fixture, first.clone()).await, SignalOutcome::Accepted);
    let before = fixture.snapshot(run_id).await;
    let other = NewSignal { key: key(), ..signal(run_id, "other", "2") };
    let accepted = AcceptedSignal::new(run_id, "paid".into(), "1".into(), fixture.now());
    fixture.advance(HOUR);
    assert_eq!(send(&fixture, first).await, SignalOutcome::Repeated(accepted.clone()));
    assert_eq!(send(&fixture, other).await, SignalOutcome::Repeated(accepted), "the first one is told");
    assert_eq!(fixture.snapshot(run_id).await, before, "a repeated signal does not wake the run");
    assert_eq!(inbox(&fixture, run_id, &["paid", "other"]).await.len(), 1);

    let elsewhere = fixture.started().await;
    let same_key = NewSignal { key: key(), ..signal(elsewhere, "paid", "3") };
    assert_eq!(send(&fixture, same_key).await, SignalOutcome::Accepted, "a key belongs to its run");
}

/// The reply to the first commit was lost. The sender must not get the outcome of a signal that
/// another sender has sent before it.
pub async fn a_signal_applied_again_is_accepted_again(fixture: Fixture) {
    let run_id = fixture.started().await;
    let signal = signal(run_id, "paid", "1");
    for _ in 0..2 {
        assert_eq!(send(&fixture, signal.clone()).await, SignalOutcome::Accepted);
    }
    assert_eq!(inbox(&fixture, run_id, &["paid"]).await.len(), 1);
    assert_eq!(fixture.run(run_id).await.wakes, 1);
}

pub async fn a_key_stays_taken_after_its_signal_is_consumed(fixture: Fixture) {
    let claim = fixture.held().await;
    let first = NewSignal { key: SignalKey::Given("k".into()), ..signal(claim.run_id, "paid", "1") };
    assert_eq!(send(&fixture, first.clone()).await, SignalOutcome::Accepted);
    let seq = inbox(&fixture, claim.run_id, &["paid"]).await[0].0;
    applied(&fixture.write(consume(claim, received("paid", 1, "1"), seq)).await);
    assert!(matches!(send(&fixture, first).await, SignalOutcome::Repeated(_)));
    assert_eq!(inbox(&fixture, claim.run_id, &["paid"]).await, []);
}

/// The sender did not hear of its commit, and sends again after the run has consumed the signal and
/// has ended.
pub async fn a_key_stays_taken_after_its_run_has_ended(fixture: Fixture) {
    let claim = fixture.held().await;
    let given = |key: &str, payload: &str| NewSignal {
        key: SignalKey::Given(key.into()),
        ..signal(claim.run_id, "paid", payload)
    };
    let generated = signal(claim.run_id, "paid", "2");
    for first in [given("k", "1"), generated.clone()] {
        assert_eq!(send(&fixture, first).await, SignalOutcome::Accepted);
    }
    let accepted = AcceptedSignal::new(claim.run_id, "paid".into(), "1".into(), fixture.now());
    applied(&fixture.write(consume(claim, received("paid", 1, "1"), 1)).await);
    applied(&fixture.write(succeed(claim, "1")).await);
    let before = fixture.snapshot(claim.run_id).await;
    fixture.advance(HOUR);
    assert_eq!(send(&fixture, given("k", "3")).await, SignalOutcome::Repeated(accepted));
    assert_eq!(send(&fixture, generated).await, SignalOutcome::Accepted);
    assert_eq!(send(&fixture, given("l", "4")).await, SignalOutcome::Finished);
    assert_eq!(fixture.snapshot(claim.run_id).await, before, "nothing was changed");
}

pub async fn the_first_of_two_signals_with_a_key_in_a_batch_is_accepted(fixture: Fixture) {
    let run_id = fixture.started().await;
    let given = |payload: &str| {
        Write::Signal(NewSignal { key: SignalKey::Given("k".into()), ..signal(run_id, "paid", payload) })
    };
    let outcomes = fixture.commit(&[given("1"), given("2")]).await;
    let accepted = AcceptedSignal::new(run_id, "paid".into(), "1".into(), fixture.now());
    let expected = [SignalOutcome::Accepted, SignalOutcome::Repeated(accepted)];
    assert_eq!(outcomes.iter().map(signaled).collect::<Vec<_>>(), expected);
    let inbox = inbox(&fixture, run_id, &["paid"]).await;
    assert_eq!(inbox.iter().map(|(_, _, payload)| payload.as_str()).collect::<Vec<_>>(), ["1"]);
}

pub async fn a_signal_to_an_unknown_or_finished_run_changes_nothing(fixture: Fixture) {
    let unknown = RunId::generate();
    let claim = fixture.held().await;
    applied(&fixture.write(succeed(claim, "1")).await);
    let open = fixture.started().await;
    let before = fixture.snapshot(claim.run_id).await;
    let writes = [unknown, claim.run_id, open].map(|run_id| Write::Signal(signal(run_id, "paid", "1")));
    let outcomes: Vec<SignalOutcome> = fixture.commit(&writes).await.iter().map(signaled).collect();
    assert_eq!(outcomes, [SignalOutcome::Unknown, SignalOutcome::Finished, SignalOutcome::Accepted]);
    assert_eq!(fixture.snapshot(claim.run_id).await, before);
    assert_eq!(fixture.store.inbox(unknown, &["paid".into()]).await.unwrap(), None);
    assert_eq!(inbox(&fixture, claim.run_id, &["paid"]).await, []);
    assert_eq!(inbox(&fixture, open, &["paid"]).await.len(), 1);
}

pub async fn an_inbox_reports_a_cancel_request(fixture: Fixture) {
    let claim = fixture.held().await;
    sent(&fixture, claim.run_id, "paid", "1").await;
    assert_eq!(inbox(&fixture, claim.run_id, &["paid"]).await.len(), 1);
    let cancel = fixture.write(Write::Cancel(claim.run_id)).await;
    assert_eq!(canceled(&cancel), CancelOutcome::Requested);
    for names in [&["paid"], &["other"]] {
        inbox(&fixture, claim.run_id, names).await;
    }
    let names = ["other".to_owned()];
    assert!(fixture.store.inbox(claim.run_id, &names).await.unwrap().expect("the run exists").cancel_requested);
}

pub async fn a_signal_reaches_a_run_started_in_its_batch(fixture: Fixture) {
    let run = new_run();
    let outcomes = fixture.commit(&[Write::Signal(signal(run.id, "paid", "1")), Write::Start(run.clone())]).await;
    assert_eq!(signaled(&outcomes[0]), SignalOutcome::Accepted);
    assert_eq!(inbox(&fixture, run.id, &["paid"]).await.len(), 1);
}

pub async fn a_signal_does_not_make_a_delayed_run_due(fixture: Fixture) {
    let new = NewRun { start: StartTime::After(HOUR), ..new_run() };
    fixture.start(&new).await;
    sent(&fixture, new.id, "paid", "1").await;
    let run = fixture.run(new.id).await;
    assert_eq!((run.status, run.available_at, run.wakes), (RunStatus::Pending, fixture.now() + HOUR, 1));
    assert_eq!(fixture.claim_due().await, []);
    fixture.advance(HOUR);
    assert_eq!(fixture.claim_only().await.wakes, 1, "the first claim reports the signal");
}

pub async fn a_signal_makes_a_parked_run_due(fixture: Fixture) {
    for until in [fixture.now() + HOUR, Timestamp::FAR_FUTURE] {
        let claim = fixture.held().await;
        applied(&fixture.write(park(claim, until)).await);
        fixture.advance(Duration::from_secs(1));
        sent(&fixture, claim.run_id, "paid", "1").await;
        assert_eq!(fixture.run(claim.run_id).await.available_at, fixture.now());
        assert_eq!(fixture.claim_due().await, [claim.run_id]);
    }
}

pub async fn a_signal_does_not_delay_a_due_run(fixture: Fixture) {
    let claim = fixture.held().await;
    let due_at = fixture.now();
    applied(&fixture.write(park(claim, due_at)).await);
    fixture.advance(HOUR);
    sent(&fixture, claim.run_id, "paid", "1").await;
    assert_eq!(fixture.run(claim.run_id).await.available_at, due_at, "the run keeps its place in the queue");
}

/// No wake is lost between the worker's check for signals and its park.
pub async fn a_signaled_run_keeps_its_lease_and_cannot_park_unaware(fixture: Fixture) {
    let claim = fixture.held().await;
    let lease_until = fixture.run(claim.run_id).await.available_at;
    sent(&fixture, claim.run_id, "paid", "1").await;
    let run = fixture.run(claim.run_id).await;
    assert_eq!((run.status, run.available_at, run.wakes), (RunStatus::Running, lease_until, 1));
    applied(&fixture.write(park(claim, Timestamp::FAR_FUTURE)).await);
    assert_eq!(fixture.run(claim.run_id).await.available_at, fixture.now());

    let claim = fixture.claim_only().await.claim;
    applied(&fixture.write(Write::Park(park_write(claim, 1, Timestamp::FAR_FUTURE))).await);
    assert_eq!(fixture.run(claim.run_id).await.available_at, Timestamp::FAR_FUTURE, "this park has seen the signal");
}

pub async fn a_signal_comes_before_the_park_of_its_batch(fixture: Fixture) {
    let claim = fixture.held().await;
    let park = park(claim, Timestamp::FAR_FUTURE);
    let outcomes = fixture.commit(&[park, Write::Signal(signal(claim.run_id, "paid", "1"))]).await;
    applied(&outcomes[0]);
    assert_eq!(fixture.claim_due().await, [claim.run_id]);
}

pub async fn a_signal_races_with_the_park(fixture: Fixture) {
    const RUNS: usize = 100;
    fixture.started_many(RUNS).await;
    let claims: Vec<Claim> =
        fixture.claim(&workflow_tests::builders::claim_request()).await.runs.iter().map(|run| run.claim).collect();
    let second = fixture.second().await;
    let signals: Vec<Write> =
        claims.iter().rev().map(|claim| Write::Signal(signal(claim.run_id, "paid", "1"))).collect();
    let sender = tokio::spawn(async move {
        for batch in signals.chunks(3) {
            second.commit(batch).await.expect("commit");
        }
    });
    for batch in claims.chunks(3) {
        let parks: Vec<Write> = batch.iter().map(|claim| park(*claim, Timestamp::FAR_FUTURE)).collect();
        fixture.commit(&parks).await.iter().for_each(applied);
    }
    sender.await.unwrap();
    assert_eq!(fixture.claim_due().await.len(), RUNS, "no run stays parked after its signal");
}

pub async fn a_signal_is_consumed_once(fixture: Fixture) {
    let claim = fixture.held().await;
    sent(&fixture, claim.run_id, "paid", "1").await;
    sent(&fixture, claim.run_id, "paid", "2").await;
    let [(first, ..), (second, ..)] = inbox(&fixture, claim.run_id, &["paid"]).await[..] else { panic!("two") };
    let take = consume(claim, received("paid", 1, "1"), first);
    // Applied again after a lost reply, the write does not consume the next signal.
    for _ in 0..2 {
        applied(&fixture.write(take.clone()).await);
        let left = inbox(&fixture, claim.run_id, &["paid"]).await;
        assert_eq!(left.iter().map(|(seq, ..)| *seq).collect::<Vec<_>>(), [second]);
    }
    assert_eq!(fixture.history(claim.run_id).await.len(), 1);
    // This column is for inspecting the tables by hand; the engine never reads it.
    if fixture.database != Database::Memory {
        let by =
            fixture.raw().await.text(format!("SELECT consumed_by FROM workflow_signals WHERE seq = {first}")).await;
        assert_eq!(by, "paid");
    }
}

pub async fn a_stale_claim_consumes_no_signal(fixture: Fixture) {
    let (stale, current) = fixture.taken_over().await;
    sent(&fixture, stale.run_id, "paid", "1").await;
    let seq = inbox(&fixture, stale.run_id, &["paid"]).await[0].0;
    let before = fixture.snapshot(stale.run_id).await;
    lost(&fixture.write(consume(stale, received("paid", 1, "1"), seq)).await);
    assert_eq!(fixture.snapshot(stale.run_id).await, before);
    assert_eq!(inbox(&fixture, stale.run_id, &["paid"]).await.len(), 1);
    // The stale write is also lost in one batch with a valid one.
    let other = fixture.held().await;
    sent(&fixture, other.run_id, "paid", "1").await;
    let takes = [stale, other].map(|claim| consume(claim, received("paid", 1, "1"), seq));
    let outcomes = fixture.commit(&takes).await;
    lost(&outcomes[0]);
    applied(&outcomes[1]);
    assert_eq!(inbox(&fixture, stale.run_id, &["paid"]).await.len(), 1);
    assert_eq!(inbox(&fixture, other.run_id, &["paid"]).await, []);

    applied(&fixture.write(park(current, Timestamp::FAR_FUTURE)).await);
    duplicate(&fixture.write(consume(current, received("paid", 1, "1"), seq)).await);
    assert_eq!(
        inbox(&fixture, stale.run_id, &["paid"]).await.len(),
        1,
        "a claim that has parked its run consumes nothing"
    );
}

pub async fn the_inbox_returns_the_requested_names(fixture: Fixture) {
    let run_id = fixture.started().await;
    for (name, payload) in [("a", "1"), ("b", "2"), ("a", "3"), ("a:1", "4"), ("A", "5")] {
        sent(&fixture, run_id, name, payload).await;
    }
    let payloads = async |names: &[&str]| -> Vec<String> {
        inbox(&fixture, run_id, names).await.into_iter().map(|(_, _, payload)| payload).collect()
    };
    assert_eq!(payloads(&["a"]).await, ["1", "3"]);
    assert_eq!(payloads(&["b", "a"]).await, ["1", "2", "3"], "signals come in the order of their acceptance");
    assert_eq!(payloads(&["A", "A"]).await, ["5"]);
    assert_eq!(payloads(&["none"]).await, [""; 0]);
    assert_eq!(payloads(&[]).await, [""; 0]);
}

pub async fn the_inbox_has_pages(fixture: Fixture) {
    let claim = fixture.held().await;
    let page = i64::from(INBOX_PAGE);
    let signals: Vec<Write> =
        (0..page + 10).map(|number| Write::Signal(signal(claim.run_id, "paid", &number.to_string()))).collect();
    fixture.commit(&signals).await;
    let first = inbox(&fixture, claim.run_id, &["paid"]).await;
    assert!(first.iter().map(|(_, _, payload)| payload.parse::<i64>().unwrap()).eq(0..page), "{first:?}");
    let takes: Vec<Write> = first
        .iter()
        .zip(0..)
        .map(|((seq, _, payload), index)| consume(claim, received(&format!("paid:{index}"), index, payload), *seq))
        .collect();
    fixture.commit(&takes).await.iter().for_each(applied);
    let second = inbox(&fixture, claim.run_id, &["paid"]).await;
    assert!(second.iter().map(|(_, _, payload)| payload.parse::<i64>().unwrap()).eq(page..page + 10), "{second:?}");
}

pub async fn payloads_of_signals_come_back_byte_for_byte(fixture: Fixture) {
    let run_id = fixture.started().await;
    let payloads = [r#"{"b":1,"a":[ 2 ]}"#, r#""\u0000 \" é""#, "1.0", "-0.0", "12345678901234567890"];
    for payload in payloads {
        sent(&fixture, run_id, "odd \"name\" é", payload).await;
    }
    let inbox = inbox(&fixture, run_id, &["odd \"name\" é"]).await;
    assert_eq!(inbox.iter().map(|(_, _, payload)| payload.as_str()).collect::<Vec<_>>(), payloads);
}

pub async fn wakes_are_read_for_many_runs_and_by_each_renewal(fixture: Fixture) {
    let (woken, quiet) = (fixture.held().await, fixture.held().await);
    sent(&fixture, woken.run_id, "paid", "1").await;
    sent(&fixture, woken.run_id, "paid", "2").await;
    let mut wakes = fixture.store.wakes(&[woken.run_id, quiet.run_id, RunId::generate()]).await.unwrap();
    wakes.sort_unstable_by_key(|run| run.wakes);
    let of = |claim: Claim, wakes| RunWakes { id: claim.run_id, wakes, cancel_requested: false, paused: false };
    assert_eq!(wakes, [of(quiet, 0), of(woken, 2)]);
    assert_eq!(fixture.store.wakes(&[]).await.unwrap(), []);

    let mut session = fixture.store.open_lease(WorkerId::generate(), &[], &Retention::default()).await.unwrap();
    let mut renewed = session.renew(&[woken, quiet], LEASE).await.unwrap();
    renewed.sort_unstable_by_key(|renewed| renewed.wakes);
    assert_eq!(
        renewed.iter().map(|renewed| (renewed.claim, renewed.wakes)).collect::<Vec<_>>(),
        [(quiet, 0), (woken, 2)]
    );
    session.close().await.unwrap();
}

fn asked(step_key: &str) -> StepAttempt {
    StepAttempt { kind: StepKind::Approval, output: Some(r#"{"to":"ops"}"#.into()), ..begun(step_key) }
}

/// Asks for the first approvals and decisions.
fn asked_first(run: Option<RunId>, limit: u32) -> ApprovalList {
    ApprovalList { run, decisions: true, after: ApprovalCursor::first(), limit }
}

async fn approvals(fixture: &Fixture, run: Option<RunId>) -> Vec<(RunId, String)> {
    let approvals = fixture.store.approvals(&asked_first(run, 100)).await.unwrap();
    approvals.waiting.into_iter().map(|approval| (approval.run_id, approval.step_key)).collect()
}

pub async fn pending_approvals_of_unfinished_runs_are_listed(fixture: Fixture) {
    let (first, second, ended) = (fixture.held().await, fixture.held().await, fixture.held().await);
    let later = |seconds: u64, row: StepAttempt| StepAttempt {
        started_at: row.started_at + Duration::from_secs(seconds),
        ..row
    };
    let writes = [
        attempt(first, later(3, asked("ship"))),
        attempt(first, asked("refund")),
        attempt(first, begun("step")),
        attempt(second, later(2, asked("ship"))),
        attempt(ended, asked("ship")),
    ];
    fixture.commit(&writes).await.iter().for_each(applied);
    applied(&fixture.write(end_in_family(ended, None, false)).await);
    let all = [(first.run_id, "refund".into()), (second.run_id, "ship".into()), (first.run_id, "ship".into())];
    assert_eq!(approvals(&fixture, None).await, all, "the longest waiting approval comes first");
    assert_eq!(approvals(&fixture, Some(second.run_id)).await, all[1..2]);
    assert_eq!(approvals(&fixture, Some(ended.run_id)).await, []);
    assert_eq!(approvals(&fixture, Some(RunId::generate())).await, []);
    let limited = fixture.store.approvals(&asked_first(None, 1)).await.unwrap().waiting;
    assert_eq!(limited.len(), 1);
    assert_eq!(limited[0].output.as_deref(), Some(r#"{"to":"ops"}"#));

    // A decided approval and an abandoned one are not listed. A parked run still waits for its
    // approval.
    let decided = StepAttempt { kind: StepKind::Approval, ..succeeded("refund", 1, "[{}]") };
    let written_off = StepAttempt {
        status: AttemptStatus::Succeeded,
        completed_at: Some(fixture.now()),
        output: Some("[]".into()),
        ..asked("ship")
    };
    applied(&fixture.write(attempt(first, decided)).await);
    applied(&fixture.write(attempt(second, written_off)).await);
    applied(&fixture.write(park(first, Timestamp::FAR_FUTURE)).await);
    assert_eq!(approvals(&fixture, None).await, [(first.run_id, "ship".into())]);
}

pub async fn decisions_are_listed_beside_approvals(fixture: Fixture) {
    let (first, second) = (fixture.held().await, fixture.held().await);
    let at = |seconds: u64, row: StepAttempt| StepAttempt {
        started_at: row.started_at + Duration::from_secs(seconds),
        ..row
    };
    let waits = |name: &str| StepAttempt { kind: StepKind::Signal, output: Some("{}".into()), ..begun(name) };
    let writes = [
        attempt(first, at(1, asked("ship"))),
        attempt(first, at(3, waits("each/1/decision:each/1/ask"))),
        attempt(second, at(2, waits("decision:ask:1"))),
        attempt(second, waits("predecision:ask")),
        attempt(second, waits("paid")),
        attempt(second, begun("decision:step")),
    ];
    fixture.commit(&writes).await.iter().for_each(applied);
    let listed = async |list: &ApprovalList| fixture.store.approvals(list).await.unwrap().waiting;
    let all = listed(&asked_first(None, 100)).await;
    let keys: Vec<(&str, StepKind)> = all.iter().map(|asked| (asked.step_key.as_str(), asked.kind)).collect();
    let decision = |key| (key, StepKind::Signal);
    let expected = [("ship", StepKind::Approval), decision("decision:ask:1"), decision("each/1/decision:each/1/ask")];
    assert_eq!(keys, expected, "the longest waiting one comes first");
    assert_eq!(listed(&asked_first(Some(second.run_id), 100)).await, all[1..2]);

    // Pages follow each other without a gap.
    let mut list = asked_first(None, 1);
    for one in &all {
        let page = listed(&list).await;
        assert_eq!(page.iter().collect::<Vec<_>>(), [one]);
        list.after = page[0].cursor();
    }
    assert_eq!(listed(&list).await, []);
    let of_run = ApprovalList { run: Some(first.run_id), after: all[0].cursor(), ..asked_first(None, 100) };
    assert_eq!(listed(&of_run).await, all[2..]);
    let approvals_alone = ApprovalList { decisions: false, ..asked_first(None, 100) };
    assert_eq!(listed(&approvals_alone).await, all[..1]);
}

/// The waits of a run that ended without success stay. However many they are, a read looks at a
/// bounded number of them, and says where the next one begins.
pub async fn a_list_of_approvals_looks_at_a_bounded_number(fixture: Fixture) {
    let (ended, waits) = (fixture.held().await, fixture.held().await);
    let last = StepAttempt { started_at: begun("a").started_at + Duration::from_secs(1), ..asked("last") };
    let names: Vec<String> = (0..=APPROVAL_BUDGET).map(|number| format!("ask-{number:05}")).collect();
    for part in names.chunks(1_000) {
        let writes: Vec<Write> = part.iter().map(|name| attempt(ended, asked(name))).collect();
        fixture.commit(&writes).await.iter().for_each(applied);
    }
    applied(&fixture.write(attempt(waits, last)).await);
    applied(&fixture.write(end_in_family(ended, None, false)).await);
    let mut list = asked_first(None, 10);
    let first = fixture.store.approvals(&list).await.unwrap();
    assert_eq!(first.waiting, []);
    list.after = first.end.expect("more waits than one read looks at");
    assert_eq!(list.after.step_key, names[APPROVAL_BUDGET as usize - 1]);
    let second = fixture.store.approvals(&list).await.unwrap();
    let keys: Vec<&str> = second.waiting.iter().map(|asked| asked.step_key.as_str()).collect();
    assert_eq!((keys, second.end), (vec!["last"], None));
}

pub async fn a_full_inbox_takes_no_signal(fixture: Fixture) {
    let claim = fixture.held().await;
    let run_id = claim.run_id;
    let limited = |name: &str, limit: u32| NewSignal { limit: Some(limit), ..signal(run_id, name, "1") };
    assert_eq!(send(&fixture, limited("paid", 0)).await, SignalOutcome::Full);
    let first = NewSignal { key: SignalKey::Given("k".into()), ..limited("paid", 2) };
    assert_eq!(send(&fixture, first.clone()).await, SignalOutcome::Accepted);
    // Of three in one batch, the first fits.
    let batch = [1, 2, 3].map(|_| Write::Signal(limited("paid", 2)));
    let outcomes: Vec<SignalOutcome> = fixture.commit(&batch).await.iter().map(signaled).collect();
    assert_eq!(outcomes, [SignalOutcome::Accepted, SignalOutcome::Full, SignalOutcome::Full]);
    let before = fixture.run(run_id).await.wakes;
    assert_eq!(send(&fixture, limited("other", 2)).await, SignalOutcome::Full);
    assert_eq!(fixture.run(run_id).await.wakes, before, "a refused signal wakes nothing");
    // A signal that is in the inbox is answered as always.
    assert!(matches!(send(&fixture, first).await, SignalOutcome::Repeated(_)));
    // Other inboxes, other limits and signals without a limit are not affected.
    let elsewhere = fixture.started().await;
    assert_eq!(send(&fixture, NewSignal { run_id: elsewhere, ..limited("paid", 2) }).await, SignalOutcome::Accepted);
    assert_eq!(send(&fixture, limited("paid", 3)).await, SignalOutcome::Accepted);
    assert_eq!(send(&fixture, signal(run_id, "paid", "1")).await, SignalOutcome::Accepted);
    // A consumed signal makes room, although an older one still waits: four wait, then three.
    applied(&fixture.write(consume(claim, received("wait", 1, "1"), 2)).await);
    assert_eq!(send(&fixture, limited("paid", 3)).await, SignalOutcome::Full);
    assert_eq!(send(&fixture, limited("paid", 4)).await, SignalOutcome::Accepted);
    assert_eq!(send(&fixture, limited("paid", 4)).await, SignalOutcome::Full);
}
