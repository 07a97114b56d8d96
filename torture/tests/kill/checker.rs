//! The checker finds each violation. Each invariant is broken once in the evidence that the checker
//! gets, and once in the database, where triggers record it.

use workflow_tests::Database;
use workflow_tests::until;
use workflow_torture::campaign::{Part, Plan, Round, RoundOptions, replay_ended};
use workflow_torture::checker::{self, CHECKS, Evidence, run_of};
use workflow_torture::ledger::{Fact, Line};
use workflow_torture::program::Answer;

type Forgery = (&'static str, &'static str, fn(&mut Evidence));

/// Each entry has the invariant, the violation, and the function that makes it.
const FORGERIES: &[Forgery] = &[
    ("I-Ack", "an acknowledged run is lost", |it| drop(it.runs.remove(&line(it, Fact::Started).subject))),
    ("I-Ack", "an acknowledged signal is lost", |it| {
        let line = line(it, Fact::Signaled);
        it.signals.retain(|signal| signal.run != line.subject);
        it.taken.retain(|taken| taken.run != line.subject);
    }),
    ("I-Ack", "an acknowledged cancel is lost", |it| {
        let run = line(it, Fact::Canceled).subject;
        let run = it.runs.get_mut(&run).expect("the run");
        (run.cancel_requested_at, run.status) = (None, "succeeded".into());
    }),
    ("I-Ack", "a client got another output", |it| {
        edit(it, Fact::Answered, |line| line.value.push('1'));
    }),
    ("I-Ack", "a delivered outcome was not recorded", |it| {
        let seen = step(it).subject();
        it.outcomes.retain(|outcome| outcome.subject() != seen);
    }),
    ("I-One", "an outcome was written again", |it| it.noted.push(("final".into(), "r".into(), String::new()))),
    ("I-One", "an outcome was changed", |it| stored(it).output = Some("0".into())),
    ("I-One", "an outcome is gone", |it| {
        let gone = stored(it).step_key.clone();
        it.attempts.retain(|row| row.step_key != gone);
    }),
    ("I-One", "a step has two outcomes", |it| {
        let twice = stored(it).clone();
        it.attempts.push(twice);
    }),
    ("I-Fence", "the trigger saw a stale claim", |it| it.noted.push(("fence".into(), "r".into(), String::new()))),
    ("I-Fence", "an older epoch recorded later", |it| {
        let mut late = it.outcomes[0].clone();
        late.epoch -= 1;
        it.outcomes.push(late);
    }),
    ("I-Fence", "an epoch was skipped", |it| {
        let mut claim = it.claims[0].clone();
        claim.epoch = it.runs[&claim.run].epoch + 2;
        it.claims.push(claim);
    }),
    ("I-NoDual", "two claims recorded one step", |it| {
        let mut twice = it.outcomes[0].clone();
        twice.epoch += 1;
        it.outcomes.push(twice);
    }),
    ("I-NoDual", "a run ended twice", |it| {
        let end = it.noted.iter().find(|(kind, ..)| kind == "end").expect("an end").clone();
        it.noted.push(end);
    }),
    ("I-NoDual", "the claim of a worker that lives is made due", |it| {
        let (worker, pid) = it.workers.iter().next().map(|(worker, pid)| (worker.clone(), *pid)).expect("a worker");
        it.dead.remove(&pid);
        it.noted.push(("released".into(), "r".into(), worker));
    }),
    ("I-Live", "a run does not end", |it| {
        it.runs.values_mut().next().expect("a run").status = "parked".into();
    }),
    ("I-AtLeast", "an outcome without a body", |it| {
        let subject = step(it).subject();
        it.lines.retain(|line| line.fact != Fact::Begin || line.subject != subject);
    }),
    ("I-AtLeast", "a body without an outcome", |it| {
        let subject = step(it).subject();
        it.outcomes.retain(|outcome| outcome.subject() != subject);
    }),
    ("I-AtLeast", "a body ran twice in a process that lived", |it| {
        let subject = step(it).subject();
        let begin = it.lines.iter().find(|line| line.fact == Fact::Begin && line.subject == subject).cloned();
        it.lines.push(begin.expect("a body"));
        it.dead.clear();
    }),
    ("I-Exact", "an effect twice", |it| {
        let effects = it.effects.as_mut().expect("effects");
        effects.push(effects[0].clone());
    }),
    ("I-Exact", "an effect is missing", |it| drop(it.effects.as_mut().expect("effects").pop())),
    ("I-Exact", "an effect without a step", |it| it.effects.as_mut().expect("effects").push("r/t1".into())),
    ("I-Mono", "an end was overwritten", |it| it.noted.push(("terminal".into(), "r".into(), String::new()))),
    ("I-Mono", "a status changed backwards", |it| it.noted.push(("status".into(), "r".into(), String::new()))),
    ("I-Mono", "a time moved backwards", |it| it.noted.push(("time".into(), "r".into(), String::new()))),
    ("I-Mono", "two outcomes at one position", |it| {
        let mut other = step(it).clone();
        other.step_key.push('x');
        it.outcomes.push(other);
    }),
    ("I-Mono", "a position is skipped", |it| {
        let mut last = step(it).clone();
        (last.step_key, last.position) = ("x".into(), Some(1_000_000));
        it.outcomes.retain(|outcome| outcome.run != last.run || outcome.kind != "transaction");
        it.lines.retain(|line| !line.subject.starts_with(&last.run));
        it.outcomes.push(last);
    }),
    ("I-Replay", "a replay delivered another value", |it| {
        // Behind a delivery that is known to be committed, because its process went on.
        let goes_on = |at: usize, line: &Line| {
            let later = it.lines[at + 1..].iter().filter(|later| later.fact == Fact::Delivered);
            later.filter(|later| later.pid == line.pid).any(|later| run_of(&later.subject) == run_of(&line.subject))
        };
        let delivered = |(at, line): (usize, &Line)| line.fact == Fact::Delivered && goes_on(at, line);
        let at = it.lines.iter().enumerate().position(delivered).expect("a process that went on");
        let again = Line { value: "1".into(), ..it.lines[at].clone() };
        it.lines.insert(at + 1, again);
    }),
    ("I-Replay", "the delivered value is not the recorded value", |it| {
        let subject = step(it).subject();
        let first = it.lines.iter_mut().filter(|line| line.fact == Fact::Delivered && line.subject == subject);
        first.for_each(|line| line.value = "1".into());
    }),
    ("I-Replay", "a replay does not end", |it| it.misfits.push(("r".into(), String::new()))),
    ("I-Replay", "a replay began a body", |it| {
        let mut again = line(it, Fact::Begin);
        again.pid = std::process::id();
        it.lines.push(again);
    }),
    ("I-Signal", "a signal was taken twice", |it| {
        let twice = it.taken[0].clone();
        it.taken.push(twice);
    }),
    ("I-Signal", "signals were taken out of order", |it| it.taken.reverse()),
    ("I-Signal", "a signal was taken that was not sent", |it| {
        let mut more = it.taken[0].clone();
        more.seq += 1000;
        it.taken.push(more);
    }),
    ("I-Timer", "a sleep ended early", |it| {
        let nap = it.outcomes.iter_mut().find(|outcome| outcome.kind == "sleep").expect("a sleep");
        nap.step_key = "z1-100000/sleep".into();
    }),
    ("I-Timer", "a sleep ended twice", |it| {
        let nap = it.outcomes.iter().find(|it| it.kind == "sleep").expect("a sleep").clone();
        it.outcomes.push(nap);
    }),
    ("I-Tree", "a child without a parent step", |it| {
        let child = it.runs.values_mut().find(|run| run.parent.is_some()).expect("a child");
        child.parent_step_key = Some("x".into());
    }),
    ("I-Tree", "a child is missing", |it| {
        let child = it.runs.values().find(|run| run.parent.is_some()).expect("a child").id.clone();
        it.runs.remove(&child);
    }),
    ("I-Tree", "a child outlives its parent", |it| {
        let child = it.runs.values_mut().find(|run| run.parent.is_some()).expect("a child");
        (child.status, child.on_parent_end) = ("running".into(), Some("cancel".into()));
        child.cancel_requested_at = None;
    }),
    ("I-Attempts", "more attempts than allowed", |it| {
        let tried = it.outcomes.iter_mut().find(|it| it.kind == "step" && it.step_key.starts_with('s'));
        tried.expect("a step").attempt = 5;
    }),
    ("I-Attempts", "a crash was not counted", |it| {
        it.noted.push(("uncounted".into(), "r".into(), String::new()));
    }),
    ("I-Attempts", "an innocent run was failed", |it| {
        let run = it.runs.values_mut().next().expect("a run");
        run.error = Some("{\"kind\":\"crash_loop\"}".into());
    }),
    ("I-Answer", "a wrong output", |it| {
        let (_, answer) =
            it.expected_answers.iter_mut().find(|(_, answer)| matches!(answer, Answer::Value(_))).expect("one");
        *answer = Answer::Value(1);
    }),
    ("I-Clean", "a deadlock", |it| it.damage.push("1 deadlocks".into())),
    ("I-Clean", "a row without a run", |it| stored(it).run = "r".into()),
    ("I-Clean", "an error in a log", |it| it.complaints.push("ERROR".into())),
];

/// Each entry has the invariant that gets new violations, and the change of the database.
const CHANGES: &[(&str, &str)] = &[
    ("I-Mono", "UPDATE workflow_runs SET status = 'failed' WHERE status = 'succeeded'"),
    ("I-Mono", "UPDATE workflow_runs SET completed_at = created_at - 1"),
    ("I-Fence", "UPDATE workflow_runs SET epoch = epoch + 2"),
    (
        "I-Attempts",
        "UPDATE workflow_runs SET status = 'running'; UPDATE workflow_runs SET epoch = epoch + 1, crashes = crashes + 1",
    ),
    ("I-NoDual", "UPDATE workflow_runs SET available_at = available_at - 1"),
    ("I-One", "UPDATE step_attempts SET output = '1' WHERE kind = 'step' AND status = 'succeeded'"),
    (
        "I-Fence",
        "UPDATE step_attempts SET status = 'running' WHERE kind = 'step' AND status = 'succeeded';
        UPDATE step_attempts SET status = 'succeeded' WHERE kind = 'step' AND status = 'running'",
    ),
    ("I-Signal", "UPDATE workflow_signals SET payload = '1'"),
    ("I-Signal", "UPDATE workflow_signals SET consumed_by = NULL; DELETE FROM workflow_signals"),
    ("I-Exact", "DELETE FROM effects"),
    ("I-One", "DELETE FROM step_attempts WHERE kind = 'sleep'"),
    ("I-Mono", "DELETE FROM workflow_runs WHERE parent_run_id IS NOT NULL"),
    ("I-Ack", "DELETE FROM workflow_runs WHERE parent_run_id IS NULL"),
];

/// Returns the first line of this kind.
fn line(evidence: &Evidence, what: Fact) -> workflow_torture::ledger::Line {
    evidence.lines.iter().find(|line| line.fact == what).expect("a line of this kind").clone()
}

fn edit(evidence: &mut Evidence, what: Fact, change: impl FnOnce(&mut workflow_torture::ledger::Line)) {
    change(evidence.lines.iter_mut().find(|line| line.fact == what).expect("a line of this kind"));
}

/// Returns the outcome of a plain step of the program: its first attempt succeeded, in a run that
/// was not cut short.
fn step(evidence: &Evidence) -> &checker::Outcome {
    let plain = |it: &&checker::Outcome| {
        it.kind == "step" && it.status == "succeeded" && it.attempt == 1 && !evidence.is_cut_short(&it.run)
    };
    let last = |it: &&checker::Outcome| it.step_key.starts_with('s') && !it.step_key.contains('/');
    evidence.outcomes.iter().filter(plain).find(last).expect("a step")
}

/// Returns the stored row of that outcome.
fn stored(evidence: &mut Evidence) -> &mut checker::Attempt {
    let outcome = step(evidence).clone();
    let same = |row: &&mut checker::Attempt| row.run == outcome.run && row.step_key == outcome.step_key;
    evidence.attempts.iter_mut().filter(|row| row.position.is_some()).find(same).expect("its row")
}

/// Runs a round with a kill, whose evidence has no violations, and then forges the evidence.
pub async fn every_violation_is_found(database: Database) {
    let plan = Plan::new(5, 60, database);
    let part = Part { seed: 5, count: 60, server: None, plan: plan.into() };
    let options = RoundOptions { most: 60, at_once: 10, ..RoundOptions::default() };
    let mut round = Round::begin(part, "forged", options).await;
    round.wait_for_work().await;
    round.kill(0).await;
    round.spawn();
    // Every program must have started, so that each entry finds evidence to forge.
    until("every program is started", async || round.load.has_started_all().then_some(())).await;
    let (testbed, evidence) = round.end().await;
    assert_eq!(checker::violations(&evidence), [], "the evidence has no violations before it is forged");

    for (invariant, what, forge) in FORGERIES {
        let mut forged = evidence.clone();
        forge(&mut forged);
        let found = checker::violations(&forged);
        assert!(found.iter().any(|it| it.invariant == *invariant), "{invariant}, {what}: found {found:?}");
    }
    for check in CHECKS {
        let forged = FORGERIES.iter().any(|(invariant, ..)| *invariant == check.invariant);
        assert!(forged, "no entry violates {}: {}", check.invariant, check.holds);
    }

    let count = |evidence: &Evidence, invariant: &str| {
        checker::violations(evidence).iter().filter(|it| it.invariant == invariant).count()
    };
    assert_eq!(replay_ended(&testbed).await, [], "every ended run replays to the same end");
    testbed.raw().await.execute("UPDATE workflow_runs SET output = '1' WHERE status = 'succeeded'").await;
    assert!(!replay_ended(&testbed).await.is_empty(), "a replay with another output must be reported");
    let mut before = Evidence {
        expected_answers: evidence.expected_answers,
        dead: evidence.dead,
        workers: evidence.workers,
        ..Evidence::of(&testbed).await
    };
    for (invariant, change) in CHANGES {
        testbed.raw().await.execute(change).await;
        let mut after = Evidence::of(&testbed).await;
        (after.expected_answers, after.dead, after.workers) =
            (before.expected_answers.clone(), before.dead.clone(), before.workers.clone());
        assert!(count(&after, invariant) > count(&before, invariant), "{invariant} after {change}");
        before = after;
    }
    testbed.sweep().await;
}
