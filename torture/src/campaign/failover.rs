//! The kind `failover`: the primary dies with its machine, its synchronous standby is promoted, and
//! the old primary comes back.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use workflow_sdk::{Client, ClientError, DatabaseErrorKind, RunId};

use super::wire::until;
use super::{Cluster, Part, Report, Round, RoundOptions, SESSIONS_END_WITHIN};
use crate::proxy::Proxy;
use crate::worker_process::WorkerProcess;

/// How soon after a promotion work must go on.
const GOES_ON: Duration = Duration::from_secs(30);

/// How long each worker may take to continue: twice the longest time that one call of the engine
/// waits for the database.
const RECOVERY: Duration = Duration::from_secs(60);

/// How long a client that is misled waits for an answer that must not come.
const CALL: Duration = Duration::from_secs(2);

/// Texts that no log may contain. Errors are allowed: a worker must log that it cannot reach the
/// database.
const FORBIDDEN: &[&str] = &["panicked", "deadlock", "does not fit"];

/// A worker logs it when it is led to the old primary.
const REFUSED: &str = "its server is on an older timeline";

/// The pair of servers, and the addresses that lead to its primary.
struct Pair {
    primary: Cluster,
    /// The standby; after a failover the old primary, until it follows the new one.
    other: Cluster,
    /// The address of all clients and workers, apart from one of each.
    address: Proxy,
    /// The address of one worker and one client, which leads to the old primary for a while.
    misled: Proxy,
}

pub(super) async fn round(mut part: Part) -> Report {
    let count = part.count;
    let mut pair = Pair::start(&part).await;
    part.server = Some(pair.address.url());
    let options = RoundOptions { forbidden: FORBIDDEN, ..RoundOptions::default() };
    let mut round = Round::begin(part, "failover", options).await;
    let url = std::mem::replace(&mut round.settings.url, pair.misled.url());
    let misled = round.workers.len();
    round.spawn();
    round.settings.url = url;
    let schema = round.testbed.schema().expect("PostgreSQL").to_owned();
    let client = Client::connect(pair.misled.url()).schema(schema).pool_size(1).call_timeout(CALL);
    let client = client.await.expect("connect to the primary");
    round.all_started().await;
    round.wait_for_work().await;
    for _ in 0..count {
        tokio::time::sleep(Duration::from_millis(round.random.u64(200..900))).await;
        round.wait_for_a_body().await;
        let in_transaction = round.sessions_at_work().await > 0;
        pair.primary.kill_all();
        round.ledger.read();
        let mid_step = round.workers.iter().any(|worker| round.ledger.is_cut(worker.pid()));
        round.report.faults += 1;
        round.report.delivered += usize::from(mid_step || in_transaction);
        if !round.fail_over(&mut pair).await || !round.mislead(&mut pair, misled, &client).await {
            break;
        }
        let rewinds = round.random.bool();
        let is_rewound = pair.other.rejoin(&pair.primary, rewinds).await;
        pair.primary.wait_for_standby().await;
        round.note(if is_rewound { "old primaries rewound" } else { "old primaries copied again" }, 1);
        round.report.done += 1;
    }
    client.store().close().await;
    drop(client);
    // The server's death releases the locks of all workers, so each may have been taken for dead.
    round.disturbed = round.workers.iter().map(WorkerProcess::pid).collect();
    round.unlocked.clone_from(&round.disturbed);
    let plan = Arc::clone(&round.part.plan);
    let mut report = round.finish().await;
    report.sessions(&plan, pair.primary.sessions_left(SESSIONS_END_WITHIN).await);
    report
}

impl Pair {
    async fn start(part: &Part) -> Self {
        let directory = part.plan.directory.as_deref();
        let primary = Cluster::start_primary(directory).await;
        let other = primary.start_standby(directory).await;
        primary.wait_for_standby().await;
        let address = Proxy::to(&primary.url()).expect("create a proxy");
        let misled = Proxy::to(&primary.url()).expect("create a proxy");
        Self { primary, other, address, misled }
    }
}

impl Round {
    /// Promotes the standby of a primary that has died, and leads both addresses to it. Returns
    /// `false` if work does not go on.
    async fn fail_over(&mut self, pair: &mut Pair) -> bool {
        tokio::time::sleep(Duration::from_millis(self.random.u64(0..500))).await;
        pair.other.promote().await;
        let promoted = Instant::now();
        std::mem::swap(&mut pair.primary, &mut pair.other);
        self.ledger.read();
        let lines = self.ledger.lines.len();
        let (commits, commits_of_misled) = (pair.address.commits(), pair.misled.commits());
        pair.address.lead_to(pair.primary.address());
        pair.misled.lead_to(pair.primary.address());
        let pids: Vec<u32> = self.workers.iter().map(WorkerProcess::pid).collect();
        let ledger = &mut self.ledger;
        let goes_on = until(GOES_ON, || {
            ledger.read();
            pair.address.commits() > commits && ledger.lines[lines..].iter().any(|line| pids.contains(&line.pid))
        });
        if !goes_on.await {
            self.violation("I-Live", format!("no work was committed within {GOES_ON:?} of a promotion"));
            return false;
        }
        self.most("ms from a promotion to the next work", millis(promoted));
        if !self.all_continue(RECOVERY).await {
            self.violation("I-Live", format!("a worker had not continued {RECOVERY:?} after a promotion"));
            return false;
        }
        self.most("ms from a promotion to work by each worker", millis(promoted));
        // Only the worker writes here, so it has met the timeline of the new primary.
        if !until(RECOVERY, || pair.misled.commits() > commits_of_misled).await {
            self.violation("I-Live", format!("the misled worker had committed nothing {RECOVERY:?} after a promotion"));
            return false;
        }
        true
    }

    /// Leads one worker and one client to the old primary, which comes back as if it had not been
    /// replaced. Both must refuse it, and go on once they are led to the new primary. Returns
    /// `false` if they do not go on.
    async fn mislead(&mut self, pair: &mut Pair, worker: usize, client: &Client) -> bool {
        // Meets the new timeline.
        let begun = Instant::now();
        while !is_answered(client).await {
            if begun.elapsed() > RECOVERY {
                self.violation("I-Live", format!("a client was not answered {RECOVERY:?} after a promotion"));
                return false;
            }
        }
        pair.other.restart_as_old_primary().await;
        let schema = self.testbed.schema().expect("PostgreSQL").to_owned();
        let before = pair.other.contents(&schema).await;
        let refused = refusals(&self.workers[worker]);
        pair.misled.lead_to(pair.other.address());
        pair.misled.cut();
        let read = client.run(RunId::generate()).await;
        if matches!(&read, Err(ClientError::Database(error)) if error.kind == DatabaseErrorKind::OldTimeline) {
            self.note("reads refused because of the older timeline", 1);
        }
        if matches!(read, Ok(_) | Err(ClientError::UnknownRun { .. })) || is_answered(client).await {
            self.violation("I-Timeline", "a client was answered by the old primary".into());
        }
        let misled = &self.workers[worker];
        if !until(GOES_ON, || refusals(misled) > refused).await {
            self.violation("I-Timeline", format!("a worker did not refuse the old primary within {GOES_ON:?}"));
        }
        if pair.other.contents(&schema).await != before {
            self.violation("I-Timeline", "a worker or a client has written to the old primary".into());
        }
        pair.misled.lead_to(pair.primary.address());
        pair.misled.cut();
        pair.other.end_by(Signal::QUIT);
        let goes_on = self.all_continue(RECOVERY).await;
        if !goes_on {
            self.violation("I-Live", format!("a worker had not continued {RECOVERY:?} after it was misled"));
        }
        goes_on
    }
}

/// Returns `true` if a database answers the write of this client, which changes nothing.
async fn is_answered(client: &Client) -> bool {
    let sent = client.signal(RunId::generate(), "probe", &0_u64).await;
    matches!(sent, Ok(_) | Err(ClientError::UnknownRun { .. }))
}

/// Returns how often the worker has refused an old primary.
fn refusals(worker: &WorkerProcess) -> usize {
    worker.log().matches(REFUSED).count()
}

/// Returns the milliseconds since this moment.
fn millis(since: Instant) -> usize {
    usize::try_from(since.elapsed().as_millis()).unwrap_or(usize::MAX)
}
