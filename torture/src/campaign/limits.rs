//! The kind `limits`: workers die, stand still for longer than their leases or lose connections,
//! while the queue of all runs and its gates have limits.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use rustix::process::Signal;
use workflow_sdk::{Client, GateLimits, QueueLimits};
use workflow_tests::until;

use super::cuts::Cuts;
use super::{Part, Report, Round, RoundOptions};
use crate::worker_process::WorkerProcess;

/// The queue of the programs.
const QUEUE: &str = "default";

/// The limit of the queue. The workers have room for at least seven times as many runs.
const LIMIT: u32 = 5;

/// The number of gates, and the limit of each.
const GATES: usize = 3;
const LIMIT_OF_GATE: u32 = 2;

/// The lease of every worker, in milliseconds.
const LEASE: u64 = 1000;

/// One of so many faults is a stop past the lease, and on PostgreSQL another one a cut connection.
const STOPS: usize = 8;

/// How long a change of a limit may take to hold everywhere, and a little more for a slow machine.
pub(super) const EVERYWHERE: Duration = Duration::from_secs(4);

pub(super) async fn round(part: Part) -> Report {
    let count = part.count;
    let options = RoundOptions { gates: GATES, ..RoundOptions::default() };
    let mut cuts = Cuts::of(&part);
    let mut round = Round::begin_with(part, "limits", options, |settings| settings.lease = Some(LEASE)).await;
    cuts.spawn(&mut round);
    // A lease that ends during a stop is a lost claim.
    round.disturbed = round.workers.iter().map(WorkerProcess::pid).collect();
    let client = round.testbed.client.clone();
    let limits = QueueLimits::none().concurrency(LIMIT).per_gate(GateLimits::none().concurrency(LIMIT_OF_GATE));
    client.queue(QUEUE).set_limits(limits).await.expect("limit the queue");
    tokio::time::sleep(EVERYWHERE).await;
    until("the runs from before the limits have ended", async || {
        let (all, of_gate) = running(&client, GATES).await;
        (all <= LIMIT && of_gate <= LIMIT_OF_GATE).then_some(())
    })
    .await;
    let gauge = Gauge::start(client, GATES);
    for fault in 1..=count {
        tokio::time::sleep(Duration::from_millis(round.random.u64(50..250))).await;
        let victim = round.busiest();
        let was_at_work = if fault % STOPS == 0 {
            round.testbed.stop(&round.workers[victim]).await;
            let held = round.held_by(&round.workers[victim]).await > 0;
            tokio::time::sleep(Duration::from_millis(round.random.u64(LEASE..3 * LEASE))).await;
            round.workers[victim].signal(Signal::CONT);
            round.note("stops", 1);
            held
        } else if fault % STOPS == STOPS / 2 && cuts.cut(&mut round).await {
            true
        } else {
            let dead = round.workers[victim].pid();
            let was_at_work = round.kill(victim).await;
            round.note("kills", 1);
            cuts.replace(&mut round, dead);
            round.disturbed.extend(round.workers.iter().map(WorkerProcess::pid));
            was_at_work
        };
        round.report.faults += 1;
        round.report.done += 1;
        round.report.delivered += usize::from(was_at_work);
    }
    let (most, most_of_gate, looks) = gauge.end().await;
    round.note("looks at the queue", looks);
    round.most("runs at once", most as usize);
    round.most("runs of a gate at once", most_of_gate as usize);
    if most > LIMIT {
        round.violation("I-Limit", format!("{most} runs of queue {QUEUE} held a slot at once, of {LIMIT}"));
    }
    if most_of_gate > LIMIT_OF_GATE {
        let limit = LIMIT_OF_GATE;
        round.violation("I-Limit", format!("{most_of_gate} runs behind a gate held a slot at once, of {limit}"));
    }
    // The rest of the load ends under the limit: with a lost slot it could not.
    round.finish().await
}

/// Returns the number of running runs, and the largest one behind one of so many gates.
pub(super) async fn running(client: &Client, gates: usize) -> (u32, u32) {
    let queue = client.queue(QUEUE);
    let mut of_gate = 0;
    for gate in 1..=gates {
        let running = queue.running_behind(&format!("gate-{gate}")).await.expect("count the runs behind a gate");
        of_gate = of_gate.max(running);
    }
    (queue.running(1000).await.expect("count the running runs"), of_gate)
}

/// Counts the running runs again and again. Each count is one statement, which sees the commits of
/// one moment.
pub(super) struct Gauge {
    task: tokio::task::JoinHandle<()>,
    seen: Arc<Seen>,
}

#[derive(Default)]
struct Seen {
    most: AtomicU32,
    most_of_gate: AtomicU32,
    looks: AtomicUsize,
    is_over: AtomicBool,
}

impl Gauge {
    pub(super) fn start(client: Client, gates: usize) -> Self {
        let seen = Arc::new(Seen::default());
        let task = tokio::spawn({
            let seen = Arc::clone(&seen);
            async move {
                while !seen.is_over.load(Ordering::Relaxed) {
                    let (all, of_gate) = running(&client, gates).await;
                    seen.most.fetch_max(all, Ordering::Relaxed);
                    seen.most_of_gate.fetch_max(of_gate, Ordering::Relaxed);
                    seen.looks.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        Self { task, seen }
    }

    /// Returns the largest count, the largest one of a gate, and the number of counts.
    pub(super) async fn end(self) -> (u32, u32, usize) {
        self.seen.is_over.store(true, Ordering::Relaxed);
        self.task.await.expect("the gauge ends");
        let seen = &self.seen;
        let (most, of_gate) = (seen.most.load(Ordering::Relaxed), seen.most_of_gate.load(Ordering::Relaxed));
        (most, of_gate, seen.looks.load(Ordering::Relaxed))
    }
}
