//! The kind `postmaster`: a server that dies.

use std::sync::Arc;
use std::time::Duration;

use rustix::process::Signal;

use super::{Cluster, Part, Report, Round, RoundOptions, SESSIONS_END_WITHIN};
use crate::ledger::Fact;

/// The time between the restart of the server and its next end, in milliseconds.
const GAP: std::ops::Range<u64> = 200..900;

pub(super) async fn round(mut part: Part) -> Report {
    let count = part.count;
    let mut cluster = Cluster::start(part.plan.directory.as_deref()).await;
    part.server = Some(cluster.url());
    let options = RoundOptions {
        // A worker must log that it cannot reach the server, so `ERROR` is allowed.
        forbidden: &["panicked", "deadlock", "does not fit"],
        ..RoundOptions::default()
    };
    let mut round = Round::begin(part, "postmaster", options).await;
    round.all_started().await;
    round.wait_for_work().await;
    for _ in 0..count {
        let gap = round.random.u64(GAP);
        tokio::time::sleep(Duration::from_millis(gap)).await;
        let signal = if round.random.bool() { Signal::KILL } else { Signal::QUIT };
        let in_transaction = round.sessions_at_work().await;
        cluster.end_by(signal);
        round.ledger.read();
        let mid_step = round.workers.iter().any(|worker| round.ledger.is_cut(worker.pid()));
        round.report.faults += 1;
        round.report.done += 1;
        round.report.delivered += usize::from(mid_step || in_transaction > 0);
        cluster.restart().await;
    }
    // The server's death releases the locks of all workers, so each may have been taken for dead.
    round.disturbed = round.workers.iter().map(crate::worker_process::WorkerProcess::pid).collect();
    round.unlocked.clone_from(&round.disturbed);
    let plan = Arc::clone(&round.part.plan);
    let mut report = round.finish().await;
    report.sessions(&plan, cluster.sessions_left(SESSIONS_END_WITHIN).await);
    report
}

impl Round {
    /// Waits until every worker has started. A worker whose database does not answer during its
    /// start ends with an error, as it should.
    pub async fn all_started(&self) {
        for worker in &self.workers {
            worker.ready().await;
        }
    }

    /// Waits until a worker has begun a body.
    pub async fn wait_for_work(&mut self) {
        while !self.ledger.lines.iter().any(|line| line.fact == Fact::Begin) {
            tokio::time::sleep(Duration::from_millis(10)).await;
            self.ledger.read();
        }
    }

    /// Returns the number of other sessions that are in a transaction or a statement.
    pub async fn sessions_at_work(&self) -> i64 {
        let busy = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'
            AND state IN ('active', 'idle in transaction') AND pid <> pg_backend_pid()";
        self.testbed.raw().await.number(busy).await
    }
}
