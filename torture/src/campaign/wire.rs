//! The kind `wire`: faults on the connections between a worker and PostgreSQL.

use std::time::{Duration, Instant};

use fastrand::Rng;

use super::{Part, Report, Round, RoundOptions};
use crate::proxy::{Fault, Moment, Proxy};

/// The longest time that one call of the engine waits for the database. After the path is healed,
/// everything must continue within twice this time.
const DEADLINE: Duration = Duration::from_secs(30);

/// Texts that no log may contain. Errors are allowed, because a worker must log that the database
/// did not answer in time, and what it gave up because of that.
const FORBIDDEN: &[&str] = &["panicked", "deadlock", "does not fit"];

/// How long a fault waits for its moment.
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) async fn round(mut part: Part) -> Report {
    let count = part.count;
    let direct = part.server.clone().expect("a server");
    let proxy = Proxy::to(&direct).expect("create a proxy");
    part.server = Some(proxy.url());
    let options = RoundOptions { workers: 1, forbidden: FORBIDDEN, ..RoundOptions::default() };
    let mut round = Round::begin(part, "wire", options).await;
    let hit = round.workers[0].pid();
    // The worker may lose its claims while it cannot renew them.
    round.disturbed.insert(hit);
    round.unlocked.insert(hit);
    round.settings.url = direct;
    round.spawn();
    round.all_started().await;
    for number in 0..count {
        let (fault, moment) = choose(&mut round.random, number);
        let before = proxy.delivered().len();
        proxy.arm(fault, moment);
        round.report.faults += 1;
        if !until(PATIENCE, || proxy.delivered().len() > before).await {
            proxy.heal();
            round.violation("I-Live", format!("no fault {} could be delivered within {PATIENCE:?}", fault.name()));
            break;
        }
        round.report.delivered += 1;
        match fault {
            // The path is slow but works, so one commit must get through before it is healed.
            Fault::Slow(_) | Fault::Bytes => {
                let commits = proxy.commits();
                until(PATIENCE, || proxy.commits() > commits).await;
            }
            Fault::Hole => tokio::time::sleep(Duration::from_millis(round.random.u64(10..500))).await,
            _ => {}
        }
        proxy.heal();
        let commits = proxy.commits();
        round.ledger.read();
        let lines = round.ledger.lines.len();
        let goes_on = until(2 * DEADLINE, || {
            round.ledger.read();
            proxy.commits() > commits && round.ledger.lines[lines..].iter().any(|line| line.pid == hit)
        });
        if !goes_on.await {
            let last = proxy.delivered().pop().map(|delivered| delivered.to_string()).unwrap_or_default();
            round.violation("I-Live", format!("process {hit} had not continued {:?} after {last}", 2 * DEADLINE));
            break;
        }
        round.report.done += 1;
    }
    let kinds = proxy.delivered();
    let at_commit = kinds.iter().filter(|delivered| delivered.moment.is_commit()).count();
    let in_transaction = kinds.iter().filter(|delivered| delivered.in_transaction).count();
    round.note("at COMMIT", at_commit);
    round.note("in a transaction", in_transaction);
    for delivered in &kinds {
        round.note(&delivered.to_string(), 1);
    }
    round.finish().await
}

/// Chooses a fault and its moment; every other fault hits a COMMIT.
fn choose(random: &mut Rng, number: usize) -> (Fault, Moment) {
    let moment = match number % 4 {
        0 => Moment::Commit,
        1 => Moment::CommitReply,
        _ => Moment::Frame(random.u32(0..300)),
    };
    let fault = match random.u32(0..40) {
        // Rare, because the connection that it hits waits for a whole deadline.
        0 => Fault::Hole,
        1..4 => Fault::Stall(Duration::from_millis(random.u64(1..300))),
        4..6 => Fault::Slow(Duration::from_millis(random.u64(1..10))),
        6..9 => Fault::Bytes,
        9..18 => Fault::Torn,
        18..28 => Fault::Close,
        _ => Fault::Reset,
    };
    (fault, moment)
}

/// Waits for a fact. Returns `false` if it did not become true in time.
pub(super) async fn until(patience: Duration, mut is_so: impl FnMut() -> bool) -> bool {
    let begun = Instant::now();
    while !is_so() {
        if begun.elapsed() > patience {
            return false;
        }
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
    true
}
