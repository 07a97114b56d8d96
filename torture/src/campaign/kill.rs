//! The kind `kill`: workers that die.

use std::time::Duration;

use super::{Part, Report, Round, RoundOptions};

/// The longest time between two kills, in milliseconds. In it a worker can begin a body.
const GAP: u64 = 400;

pub(super) async fn round(part: Part) -> Report {
    let count = part.count;
    let mut round = Round::begin(part, "kill", RoundOptions { at_once: 60, ..RoundOptions::default() }).await;
    round.wait_for_work().await;
    for _ in 0..count {
        tokio::time::sleep(Duration::from_millis(round.random.u64(20..GAP))).await;
        round.wait_for_a_body().await;
        let victim = match round.random.u32(0..4) {
            0 => round.random.usize(0..round.workers.len()),
            _ => round.busiest(),
        };
        let was_at_work = round.kill(victim).await;
        round.report.faults += 1;
        round.report.done += 1;
        round.report.delivered += usize::from(was_at_work);
        round.spawn();
    }
    round.finish().await
}
