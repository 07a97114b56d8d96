//! The kind `stops`: all workers are stopped at once, as on a machine that is suspended.

use std::time::Duration;

use rustix::process::Signal;

use super::{Part, Report, Round, RoundOptions};
use crate::worker_process::WorkerProcess;

/// The lease of every worker, in milliseconds.
const LEASE: u64 = 1000;

pub(super) async fn round(part: Part) -> Report {
    let count = part.count;
    let options = RoundOptions { workers: 3, ..RoundOptions::default() };
    let mut round = Round::begin_with(part, "stops", options, |settings| settings.lease = Some(LEASE)).await;
    round.all_started().await;
    round.wait_for_work().await;
    // A lease that ends during a stop is a lost claim.
    round.disturbed = round.workers.iter().map(WorkerProcess::pid).collect();
    for _ in 0..count {
        tokio::time::sleep(Duration::from_millis(round.random.u64(100..1500))).await;
        round.wait_for_a_body().await;
        for worker in &round.workers {
            round.testbed.stop(worker).await;
        }
        let mut held = 0;
        for worker in &round.workers {
            held += round.held_by(worker).await;
        }
        let stands = round.random.u64(LEASE / 2..8 * LEASE);
        tokio::time::sleep(Duration::from_millis(stands)).await;
        // In any order, so that the first one finds the leases of the others at their end.
        round.random.shuffle(&mut round.workers);
        for worker in &round.workers {
            worker.signal(Signal::CONT);
        }
        round.report.faults += 1;
        round.report.done += 1;
        round.report.delivered += usize::from(held > 0);
    }
    let mut report = round
        .finish_with(|evidence| {
            let crashes = evidence.noted.iter().filter(|(kind, ..)| kind == "crash");
            let violation = |(_, run, crashes): &(String, String, String)| crate::checker::Violation {
                invariant: "I-Attempts",
                run: run.clone(),
                what: format!("{crashes} crashes are counted, and no worker has died"),
            };
            crashes.map(violation).collect()
        })
        .await;
    report.notes.insert("taken over".into(), report.taken_over);
    report
}
