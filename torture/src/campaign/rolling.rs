//! The kind `rolling`: two releases side by side, and a migration of the schema while they work.
//! Most runs wait behind gates, which the workers of both releases look at.

use std::time::Duration;

use rustix::process::Signal;
use sqlx::{AssertSqlSafe, Executor, raw_sql};
use workflow_sdk::{GateLimits, QueueLimits, RunId};

use super::limits::{EVERYWHERE, Gauge, running};
use super::load::patiently;
use super::wire::until;
use super::{Part, Report, Round, RoundOptions};
use crate::ledger::Fact;
use crate::workflows::rolled::{FirstVersion, SecondVersion, rolled};
use workflow_tests::RawConnection;

/// A migration as a later release may bring it: it only adds, and changes nothing that this release
/// knows.
const NEXT_MIGRATION: &str = "
    ALTER TABLE workflow_runs ADD COLUMN next_release TEXT;
    ALTER TABLE step_attempts ADD COLUMN next_release TEXT DEFAULT 'none';
    ALTER TABLE workflow_signals ADD COLUMN next_release TEXT;
    CREATE INDEX next_release ON workflow_runs (next_release) WHERE next_release IS NOT NULL;
    CREATE TABLE workflow_next_release (id TEXT PRIMARY KEY);
    INSERT INTO workflow_schema SELECT max(version) + 1 FROM workflow_schema";

const LOCK_TABLES: &str = "
    LOCK TABLE workflow_runs, step_attempts, workflow_signals, workflow_workers IN ACCESS EXCLUSIVE MODE";

/// Texts that no log may contain. Errors are allowed, because an older release must log that a run
/// does not fit its code.
const FORBIDDEN: &[&str] = &["panicked", "deadlock", "database is locked", "SQLITE_BUSY"];

/// How long a process may take to continue. A run that a later release began is looked at again
/// only after half a minute.
const RECOVERY: Duration = Duration::from_secs(90);

/// The number of worker processes.
const WORKERS: usize = 3;

/// The number of gates, and the limit of each.
const GATES: usize = 2;
const LIMIT_OF_GATE: u32 = 4;

pub(super) async fn round(part: Part) -> Report {
    let count = part.count;
    let options = RoundOptions { workers: WORKERS, gates: GATES, forbidden: FORBIDDEN, ..RoundOptions::default() };
    let mut round = Round::begin(part, "rolling", options).await;
    let limits = QueueLimits::none().per_gate(GateLimits::none().concurrency(LIMIT_OF_GATE));
    let client = round.testbed.client.clone();
    client.queue("default").set_limits(limits).await.expect("limit the gates");
    tokio::time::sleep(EVERYWHERE).await;
    workflow_tests::until("the runs from before the limits have ended", async || {
        (running(&client, GATES).await.1 <= LIMIT_OF_GATE).then_some(())
    })
    .await;
    let gauge = Gauge::start(client, GATES);
    let mut runs: Vec<(RunId, u64)> = Vec::new();
    // The last fault of the count is the migration.
    for _ in 1..count {
        start(&mut round, &mut runs).await;
        tokio::time::sleep(Duration::from_millis(round.random.u64(50..600))).await;
        let was_at_work = replace(&mut round).await;
        round.report.faults += 1;
        round.report.delivered += usize::from(was_at_work);
        round.report.done += 1;
    }
    // All workers move to the later release, because only it knows every run.
    round.settings.release = 1;
    for _ in 0..WORKERS {
        end_one(&mut round, 0).await;
        round.spawn();
    }
    // Before the migration, which keeps readers waiting.
    let (_, most, looks) = gauge.end().await;
    round.note("looks at the gates", looks);
    round.most("runs of a gate at once", most as usize);
    if most > LIMIT_OF_GATE {
        round.violation("I-Limit", format!("{most} runs behind a gate held a slot at once, of {LIMIT_OF_GATE}"));
    }
    start(&mut round, &mut runs).await;
    let was_at_work = migrate(&mut round).await;
    round.report.faults += 1;
    round.report.delivered += usize::from(was_at_work);
    round.report.done += 1;
    start(&mut round, &mut runs).await;
    let ids: Vec<RunId> = runs.iter().map(|(id, _)| *id).collect();
    let mut ended = Vec::new();
    for _ in 0..RECOVERY.as_secs() * 10 {
        ended = round.testbed.client.store().ended(&ids).await.expect("look for ended runs");
        if ended.len() == ids.len() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    if ended.len() < ids.len() {
        let left = ids.len() - ended.len();
        round.violation("I-Live", format!("{left} of {} runs of two releases have not ended", ids.len()));
    }
    for (id, output) in runs {
        let run = round.testbed.client.run(id).await.expect("an acknowledged start is never lost");
        if run.status.is_terminal() && run.output.as_deref() != Some(output.to_string().as_str()) {
            round.violation("I-Answer", format!("the expected output of {id} is {output}, and the run is {run:?}"));
        }
    }
    round.finish().await
}

/// Starts some runs of each workflow that changes.
async fn start(round: &mut Round, runs: &mut Vec<(RunId, u64)>) {
    let client = round.testbed.client.clone();
    for n in 0..2 {
        // Both versions wait behind one gate. A worker of one must not put it to sleep for the
        // other.
        let gate = format!("gate-{}", n + 1);
        let changing = patiently(|| client.start(rolled, n).gate(&gate)).await.expect("start a run").id();
        let first = patiently(|| client.start(FirstVersion, n).gate(&gate)).await.expect("start a run").id();
        let second = patiently(|| client.start(SecondVersion, n).gate(&gate)).await.expect("start a run").id();
        for (id, output) in [(changing, n + 3), (first, n + 1), (second, n + 2)] {
            round.testbed.ledger.append(Fact::Started, &id.to_string(), 0);
            runs.push((id, output));
        }
    }
}

/// Ends a worker, as a deployment or a crash does, and starts one of a random release.
async fn replace(round: &mut Round) -> bool {
    let victim = round.busiest();
    let was_at_work = match round.random.u32(0..3) {
        0 => {
            round.note("killed", 1);
            round.kill(victim).await
        }
        _ => {
            round.note("asked to end", 1);
            end_one(round, victim).await
        }
    };
    round.settings.release = round.random.u32(0..2);
    round.note(if round.settings.release > 0 { "forward" } else { "back" }, 1);
    round.spawn();
    was_at_work
}

/// Asks a worker to end. Returns `true` if it had work in progress.
async fn end_one(round: &mut Round, number: usize) -> bool {
    // `remove` keeps the order, so the first worker is always the oldest.
    let mut worker = round.workers.remove(number);
    round.ledger.read();
    let was_at_work = round.ledger.is_cut(worker.pid()) || round.held_by(&worker).await > 0;
    // A signal ends a process at once if its handler is not installed yet, so this waits for the
    // start.
    until(RECOVERY, || worker.id().is_some() || worker.ended().is_some()).await;
    worker.signal(Signal::TERM);
    if !until(RECOVERY, || worker.ended().is_some()).await {
        round.violation("I-Live", format!("process {} did not end when it was asked to", worker.pid()));
    } else if let Some(status) = worker.ended().filter(|status| !status.success()) {
        round.violation("I-Clean", format!("process {} ended with {status}", worker.pid()));
    }
    round.dead.push(worker);
    was_at_work
}

/// Migrates the schema while the workers run. They continue; a new worker of this release refuses
/// to start.
async fn migrate(round: &mut Round) -> bool {
    until(RECOVERY, || round.workers.iter().all(|worker| worker.id().is_some())).await;
    let was_at_work = round.workers.iter().any(|worker| round.ledger.is_cut(worker.pid()));
    match round.testbed.raw().await {
        RawConnection::Sqlite(mut connection) => {
            let patiently = format!("PRAGMA busy_timeout = 60000; BEGIN IMMEDIATE; {NEXT_MIGRATION}; COMMIT");
            connection.execute(raw_sql(AssertSqlSafe(patiently))).await.expect("migrate");
        }
        // As the engine's own migrations do: it locks all tables or none, and gives up before the
        // server looks for deadlocks.
        RawConnection::Postgres(mut connection) => {
            let migrate = format!(
                "BEGIN; SET LOCAL statement_timeout = '500ms'; {LOCK_TABLES}; SET LOCAL statement_timeout = 0; {NEXT_MIGRATION}; COMMIT"
            );
            while let Err(error) = connection.execute(raw_sql(AssertSqlSafe(migrate.clone()))).await {
                let state = error.as_database_error().and_then(sqlx::error::DatabaseError::code);
                assert_eq!(state.as_deref(), Some("57014"), "migrate: {error}");
                connection.execute("ROLLBACK").await.expect("roll a migration back");
                round.note("postponed migrations", 1);
            }
        }
    }
    if !round.all_continue(RECOVERY).await {
        round.violation("I-Live", "a worker did not continue during a migration".into());
    }
    let mut late = round.testbed.spawn("late", &round.settings);
    if !until(RECOVERY, || late.ended().is_some()).await {
        round.violation("I-Clean", "a worker of an older release was not refused".into());
    } else if late.ended().is_some_and(|status| status.success()) || !late.log().contains("NewerSchema") {
        round.violation(
            "I-Clean",
            format!("a worker of an older release was not refused with a reason: {}", late.log()),
        );
    }
    was_at_work
}
