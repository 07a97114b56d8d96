//! The kind `programs`: programs with a known answer, and a kill now and then.

use std::time::Duration;

use super::{Part, Report, Round, RoundOptions};

/// The time between two kills, in milliseconds.
const GAP: std::ops::Range<u64> = 1000..4000;

pub(super) async fn round(part: Part) -> Report {
    let count = part.count;
    let options = RoundOptions { at_once: 200, most: count, ..RoundOptions::default() };
    let mut round = Round::begin_with(part, "programs", options, |settings| {
        settings.concurrency = 80;
        settings.pause = 1;
    })
    .await;
    loop {
        let gap = round.random.u64(GAP);
        let over = crate::campaign::load::over_within(&round.load, Duration::from_millis(gap)).await;
        if over || round.load.is_stuck() {
            break;
        }
        if round.load.has_started_all() {
            // Few programs are left, and a kill would hit idle workers.
            continue;
        }
        let victim = round.busiest();
        let was_at_work = round.kill(victim).await;
        round.report.faults += 1;
        round.report.delivered += usize::from(was_at_work);
        round.spawn();
    }
    round.report.done += round.load.ended();
    round.finish().await
}
