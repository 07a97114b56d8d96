//! The kind `hang`: steps that block their threads for longer than their leases.

use std::time::Duration;

use workflow_sdk::RunId;

use super::load::patiently;
use super::{Part, Report, Round, RoundOptions};
use crate::ledger::Fact;
use crate::worker_process::WorkerProcess;
use crate::workflows;

/// The lease of every worker, in milliseconds. It is longer than a busy machine delays a thread:
/// otherwise the run would be taken over although its lease is renewed.
const LEASE: u64 = 3000;

/// A hung run loses its lease after three leases. Another worker needs about one more to claim it.
const TAKEN_OVER_WITHIN: Duration = Duration::from_secs(40);

/// A thread more than there are hung runs, so that the others go on.
const THREADS: usize = 3;

pub(super) async fn round(part: Part) -> Report {
    let count = part.count;
    let options = RoundOptions { workers: 2, at_once: 12, ..RoundOptions::default() };
    let mut round = Round::begin_with(part, "hang", options, |settings| {
        settings.lease = Some(LEASE);
        settings.threads = THREADS;
    })
    .await;
    round.wait_for_work().await;
    // A hung worker loses claims while it lives, and its body overlaps with that of its successor.
    round.disturbed = round.workers.iter().map(WorkerProcess::pid).collect();
    for _ in 0..count {
        tokio::time::sleep(Duration::from_millis(round.random.u64(50..500))).await;
        let client = &round.testbed.client;
        let hung = patiently(|| client.start(workflows::stuck, 7)).await.expect("start a run").id();
        round.testbed.ledger.append(Fact::Started, &hung.to_string(), 0);
        let ended_before = round.load.ended();
        let was_taken_over = round.is_taken_over(hung).await;
        if !was_taken_over {
            round.violation("I-Live", format!("run {hung} hung, and kept its lease for {TAKEN_OVER_WITHIN:?}"));
        }
        if round.load.ended() == ended_before {
            round.violation("I-Live", format!("no program ended while run {hung} hung"));
        }
        round.testbed.open_gate("stuck");
        round.ends(hung).await;
        round.testbed.close_gate("stuck");
        round.report.faults += 1;
        round.report.done += 1;
        round.report.delivered += usize::from(was_taken_over);
    }
    round.finish().await
}

impl Round {
    async fn is_taken_over(&self, run: RunId) -> bool {
        for _ in 0..TAKEN_OVER_WITHIN.as_millis() / 50 {
            if self.testbed.epoch(run).await > 1 {
                return true;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        false
    }

    /// Waits until the run has ended.
    async fn ends(&mut self, run: RunId) {
        for _ in 0..TAKEN_OVER_WITHIN.as_millis() / 50 {
            if self.testbed.client.run(run).await.expect("read a run").status.is_terminal() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        self.violation("I-Live", format!("run {run} has not ended {TAKEN_OVER_WITHIN:?} after it hung"));
    }
}
