//! The kind `pooler`: workers and clients behind a pooler in session mode that dies, stands still
//! or loses its connections to the server.

use std::sync::Arc;
use std::time::Duration;

use rustix::process::Signal;
use sqlx::{Connection, PgConnection};
use workflow_sdk::{Client, ConnectError};

use super::{Cluster, Part, Report, Round, RoundOptions, SESSIONS_END_WITHIN};
use crate::pooler_process::PoolerProcess;
use crate::worker_process::WorkerProcess;

/// How long a worker may take to continue, once the pooler works again: twice the longest time that
/// one call of the engine waits for the database.
const RECOVERY: Duration = Duration::from_secs(60);

/// Texts that no log may contain. Errors are allowed: a worker must log that it cannot reach the
/// database.
const FORBIDDEN: &[&str] = &["panicked", "deadlock", "does not fit"];

/// The sessions of the server, without the one that asks.
const SESSIONS: &str = "backend_type = 'client backend' AND pid <> pg_backend_pid()";

/// A fault of the pooler.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// SIGKILL; it is started again after a while.
    Killed,
    /// SIGSTOP, and SIGCONT after a while.
    Paused,
    /// The server ends about half of the pooler's sessions.
    Cut,
}

const FAULTS: [Fault; 3] = [Fault::Killed, Fault::Paused, Fault::Cut];

pub(super) async fn round(mut part: Part) -> Report {
    let count = part.count;
    let directory = part.plan.directory.clone();
    let cluster = Cluster::start(directory.as_deref()).await;
    let mut pooler = PoolerProcess::start(&cluster.url(), "session", directory.as_deref()).await;
    let lender = PoolerProcess::start(&cluster.url(), "transaction", directory.as_deref()).await;
    let mut server = PgConnection::connect(&cluster.url()).await.expect("connect past the pooler");
    part.server = Some(pooler.url().to_owned());
    let options = RoundOptions { forbidden: FORBIDDEN, ..RoundOptions::default() };
    let mut round = Round::begin(part, "pooler", options).await;
    round.all_started().await;
    round.wait_for_work().await;
    for number in 0..count {
        tokio::time::sleep(Duration::from_millis(round.random.u64(200..900))).await;
        round.wait_for_a_body().await;
        // Without its session a worker has no liveness lock, so each may be taken for dead.
        let pids = round.workers.iter().map(WorkerProcess::pid);
        round.unlocked.extend(pids);
        round.disturbed.clone_from(&round.unlocked);
        let in_transaction = number_of(&mut server, "state IN ('active', 'idle in transaction')").await > 0;
        round.ledger.read();
        let mid_step = round.workers.iter().any(|worker| round.ledger.is_cut(worker.pid()));
        let kills = round.random.u32(0..3) == 0;
        let fault = FAULTS[number % FAULTS.len()];
        round.fail(fault, kills, &mut pooler, &mut server).await;
        round.note(&format!("{fault:?}{}", if kills { " beside a dead worker" } else { "" }), 1);
        round.report.faults += 1;
        round.report.delivered += usize::from(mid_step || in_transaction);
        round.refuses(&lender).await;
        if !round.all_continue(RECOVERY).await {
            round.violation("I-Live", format!("a worker had not continued {RECOVERY:?} after {fault:?}"));
            break;
        }
        round.report.done += 1;
    }
    drop(server);
    let plan = Arc::clone(&round.part.plan);
    let mut report = round.finish().await;
    // A pooler keeps its sessions.
    drop((pooler, lender));
    report.sessions(&plan, cluster.sessions_left(SESSIONS_END_WITHIN).await);
    report
}

/// Returns the number of sessions in this state.
async fn number_of(server: &mut PgConnection, state: &str) -> i64 {
    let select = format!("SELECT count(*) FROM pg_stat_activity WHERE {SESSIONS} AND {state}");
    sqlx::query_scalar(sqlx::AssertSqlSafe(select)).fetch_one(server).await.expect("count sessions")
}

impl Round {
    /// Harms the pooler for a while. Meanwhile a worker may be killed; it is replaced once the
    /// pooler works again, because a worker whose database does not answer during its start ends.
    async fn fail(&mut self, fault: Fault, kills: bool, pooler: &mut PoolerProcess, server: &mut PgConnection) {
        let (before, after) = (self.random.u64(0..300), self.random.u64(0..1500));
        match fault {
            Fault::Killed => pooler.kill(),
            Fault::Paused => pooler.signal(Signal::STOP),
            Fault::Cut => {
                let cut = format!(
                    "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE {SESSIONS} AND random() < 0.5"
                );
                sqlx::raw_sql(sqlx::AssertSqlSafe(cut)).execute(server).await.expect("end sessions");
            }
        }
        tokio::time::sleep(Duration::from_millis(before)).await;
        if kills {
            let victim = self.busiest();
            let mut victim = self.workers.swap_remove(victim);
            victim.kill();
            self.dead.push(victim);
        }
        tokio::time::sleep(Duration::from_millis(after)).await;
        match fault {
            Fault::Killed => pooler.restart().await,
            Fault::Paused => pooler.signal(Signal::CONT),
            Fault::Cut => {}
        }
        if kills {
            self.spawn();
            self.all_started().await;
        }
    }

    /// Reports a client that connects through a pooler that lends transactions.
    async fn refuses(&mut self, lender: &PoolerProcess) {
        let schema = self.testbed.schema().expect("PostgreSQL").to_owned();
        match Client::connect(lender.url()).schema(schema).await {
            Err(ConnectError::TransactionPooler { .. }) => {}
            Err(other) => self.violation("I-Pooler", format!("not refused because of the pooler, but: {other}")),
            Ok(client) => {
                self.violation("I-Pooler", "a client connected through a pooler that lends transactions".into());
                client.store().close().await;
            }
        }
    }
}
