//! Long fault campaigns on real processes. A load keeps programs running, faults hit them, and once
//! everything has ended a [checker](crate::checker) reports violations.
//!
//! A campaign consists of rounds, each with its own database, ledger and seed. So a single round
//! can be repeated, and the checker reads little at a time. A new kind is one more entry of
//! [`KINDS`] and one more file beside this one: a function that causes faults in a [`Round`] until
//! enough were delivered.

mod bombs;
mod cluster;
mod cuts;
mod disk;
mod equal;
mod events;
mod failover;
mod files;
mod hang;
mod kill;
mod limits;
mod load;
pub mod planted;
mod pooler;
mod postmaster;
mod power;
mod programs;
mod races;
mod report;
mod rolling;
mod round;
mod schedules;
mod seats;
mod skew;
mod standby;
mod stops;
mod wire;
mod zombie;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use fastrand::Rng;
use futures::StreamExt;
use futures::future::LocalBoxFuture;
use futures::stream;

use crate::image::Image;
use crate::pooler_process::PoolerProcess;
use crate::skew::Skew;
use workflow_tests::Database;

use cluster::SESSIONS_END_WITHIN;
pub(crate) use cluster::{as_owner, free_port, own};

pub use cluster::Cluster;
pub use load::{Load, LoadOptions, LoadResult};
pub use report::{Report, RoundViolation};
pub use round::{Round, RoundOptions, replay_ended};

/// The settings of a campaign.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The seed of all random choices of the campaign. Timing is left to the machine.
    pub seed: u64,
    /// The number of faults to deliver, or of programs or races, depending on the kind.
    pub count: usize,
    /// The kind of database.
    pub database: Database,
    /// The number of concurrent rounds.
    pub jobs: usize,
    /// The program whose argument is a worker's settings; `None`: the `ledger_worker` that was
    /// built with this program.
    pub program: Option<PathBuf>,
    /// The directory of the rounds' data; `None`: the directory for temporary files.
    pub directory: Option<PathBuf>,
    /// Prints progress on standard error.
    pub prints_progress: bool,
}

impl Plan {
    /// Returns a plan of this many faults, one round at a time.
    #[must_use]
    pub fn new(seed: u64, count: usize, database: Database) -> Self {
        Self { seed, count, database, jobs: 1, program: None, directory: None, prints_progress: false }
    }
}

/// One round of a campaign: its share of the count, and its seed.
#[derive(Clone, Debug)]
pub struct Part {
    /// The plan of the campaign.
    pub plan: Arc<Plan>,
    /// The seed of the round. A campaign of one round with this seed repeats it.
    pub seed: u64,
    /// The share of the count for this round.
    pub count: usize,
    /// The URL of the campaign's PostgreSQL server; `None` on SQLite, or if each round has its own
    /// server.
    pub server: Option<String>,
}

/// A kind of campaign.
#[derive(Clone, Copy)]
pub struct Kind {
    /// The name on the command line.
    pub name: &'static str,
    /// The description of the kind.
    pub what: &'static str,
    /// The condition under which a fault counts as delivered.
    pub delivered: &'static str,
    /// The databases on which the kind runs.
    pub databases: &'static [Database],
    /// The share of the count that one round does.
    pub round: usize,
    /// `true` if each round starts its own server.
    pub has_own_servers: bool,
    /// Runs one round.
    pub run: fn(Part) -> LocalBoxFuture<'static, Report>,
}

impl std::fmt::Debug for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kind").field("name", &self.name).finish_non_exhaustive()
    }
}

const BOTH: &[Database] = &[Database::Sqlite, Database::Postgres];

/// Every kind of campaign.
pub const KINDS: &[Kind] = &[
    Kind {
        name: "kill",
        what: "workers die of SIGKILL at random moments, several per second, and are replaced at once",
        delivered: "the process ran a body or held a claim",
        databases: BOTH,
        round: 50,
        has_own_servers: false,
        run: |part| Box::pin(kill::round(part)),
    },
    Kind {
        name: "postmaster",
        what: "the PostgreSQL server dies of SIGKILL or stops immediately, under load, and is started again",
        delivered: "a worker ran a body, or a session was in a transaction, just before",
        databases: &[Database::Postgres],
        round: 50,
        has_own_servers: true,
        run: |part| Box::pin(postmaster::round(part)),
    },
    Kind {
        name: "failover",
        what: "the primary dies with its machine, its synchronous standby is promoted, and the old primary comes back and is refused",
        delivered: "a worker ran a body, or a session was in a transaction, just before",
        databases: &[Database::Postgres],
        round: 10,
        has_own_servers: true,
        run: |part| Box::pin(failover::round(part)),
    },
    Kind {
        name: "zombie",
        what: "workers are stopped (SIGSTOP) for 1 to 5 leases of a second, and continue",
        delivered: "a claim that the worker held was taken over while the worker was stopped",
        databases: BOTH,
        round: 25,
        has_own_servers: false,
        run: |part| Box::pin(zombie::round(part)),
    },
    Kind {
        name: "stops",
        what: "all workers are stopped (SIGSTOP) at once for half a lease to 8 leases, and continue",
        delivered: "a worker held a claim when it was stopped",
        databases: BOTH,
        round: 10,
        has_own_servers: false,
        run: |part| Box::pin(stops::round(part)),
    },
    Kind {
        name: "bombs",
        what: "runs abort their process, beside runs with long steps; each must fail, and no other run",
        delivered: "the run aborted a process",
        databases: BOTH,
        round: 4,
        has_own_servers: false,
        run: |part| Box::pin(bombs::round(part)),
    },
    Kind {
        name: "hang",
        what: "a step blocks its thread until another worker has taken its run over",
        delivered: "the run was taken over",
        databases: BOTH,
        round: 10,
        has_own_servers: false,
        run: |part| Box::pin(hang::round(part)),
    },
    Kind {
        name: "events",
        what: "workers die while runs wait for events, and while runs and a client emit them",
        delivered: "the process ran a body or held a claim",
        databases: BOTH,
        round: 25,
        has_own_servers: false,
        run: |part| Box::pin(events::round(part)),
    },
    Kind {
        name: "files",
        what: "a file of the database is moved away or replaced for a while, and put back",
        delivered: "something was acknowledged within the second before",
        databases: &[Database::Sqlite],
        round: 10,
        has_own_servers: false,
        run: |part| Box::pin(files::round(part)),
    },
    Kind {
        name: "pooler",
        what: "a pooler in session mode dies, stands still or loses sessions, while workers die; one that lends transactions is refused",
        delivered: "a worker ran a body, or a session was in a transaction, just before",
        databases: &[Database::Postgres],
        round: 25,
        has_own_servers: true,
        run: |part| Box::pin(pooler::round(part)),
    },
    Kind {
        name: "races",
        what: "clients in several processes start with one key, and signal, cancel and await runs that are about to end",
        delivered: "two starts with the key overlapped; the run ended between the first call and the last reply",
        databases: BOTH,
        round: 240,
        has_own_servers: false,
        run: |part| Box::pin(races::round(part)),
    },
    Kind {
        name: "equal",
        what: "equal programs on SQLite and PostgreSQL, without faults: a user must see equal results",
        delivered: "there are no faults; the count is the number of programs",
        databases: &[Database::Postgres],
        round: 500,
        has_own_servers: false,
        run: |part| Box::pin(equal::round(part)),
    },
    Kind {
        name: "programs",
        what: "random programs with a known answer, while workers die of SIGKILL about once a second",
        delivered: "as for kill; the count is the number of programs",
        databases: BOTH,
        round: 2000,
        has_own_servers: false,
        run: |part| Box::pin(programs::round(part)),
    },
    Kind {
        name: "wire",
        what: "the connections of a worker and of a client are cut, torn, stalled or slowed, half of them at a COMMIT",
        delivered: "the connection was active: at a COMMIT or its reply, within a transaction, or within a request",
        databases: &[Database::Postgres],
        round: 50,
        has_own_servers: false,
        run: |part| Box::pin(wire::round(part)),
    },
    Kind {
        name: "disk",
        what: "the disk under SQLite is full, or the files of a worker may not grow, until a commit is refused and a little longer",
        delivered: "a commit of a worker was refused because there was no space",
        databases: &[Database::Sqlite],
        round: 10,
        has_own_servers: false,
        run: |part| Box::pin(disk::round(part)),
    },
    Kind {
        name: "power",
        what: "the disk is copied at one moment, as a power cut would leave it; the copy is opened and compared with the ledger",
        delivered: "a commit was acknowledged within the last quarter of a second",
        databases: BOTH,
        round: 20,
        has_own_servers: true,
        run: |part| Box::pin(power::round(part)),
    },
    Kind {
        name: "skew",
        what: "on PostgreSQL the clocks of workers are wrong by an hour or ten years; on SQLite the host's clock moves back and forth",
        delivered: "the process whose clock moved ran a body or held a claim",
        databases: BOTH,
        round: 40,
        has_own_servers: false,
        run: |part| Box::pin(skew::round(part)),
    },
    Kind {
        name: "limits",
        what: "workers die of SIGKILL, stand still past their leases or lose connections, while the queue of all runs has a limit",
        delivered: "the process ran a body or held a claim, or its connection was active",
        databases: BOTH,
        round: 100,
        has_own_servers: false,
        run: |part| Box::pin(limits::round(part)),
    },
    Kind {
        name: "seats",
        what: "workers die of SIGKILL, stand still past their leases or lose connections, while steps share the seats and the rate of a limit",
        delivered: "the process ran a body or held a claim, or its connection was active",
        databases: BOTH,
        round: 100,
        has_own_servers: false,
        run: |part| Box::pin(seats::round(part)),
    },
    Kind {
        name: "schedules",
        what: "workers die of SIGKILL, stand still past their leases or lose connections while they fire schedules, which a person triggers and changes at the same moments",
        delivered: "as for limits; the count is the number of occurrences",
        databases: BOTH,
        round: 250,
        has_own_servers: false,
        run: |part| Box::pin(schedules::round(part)),
    },
    Kind {
        name: "rolling",
        what: "workers of two releases replace each other, forward and back; at the end the schema is migrated under them",
        delivered: "the process that was replaced ran a body or held a claim",
        databases: BOTH,
        round: 15,
        has_own_servers: false,
        run: |part| Box::pin(rolling::round(part)),
    },
];

/// Returns one line that says why this machine cannot run a kind; `None` if it can.
#[must_use]
pub fn refusal(kind: &Kind) -> Option<String> {
    match kind.name {
        "disk" | "power" => Image::available().err(),
        "skew" => Skew::available().err(),
        "pooler" => PoolerProcess::available().err(),
        "failover" => Cluster::can_have_a_standby().err(),
        _ => None,
    }
}

/// Returns the kind of this name.
#[must_use]
pub fn kind(name: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|kind| kind.name == name)
}

/// Runs a campaign to its end.
///
/// # Panics
/// If the kind does not run on this database.
pub async fn run(kind: &'static Kind, plan: Plan) -> Report {
    assert!(kind.databases.contains(&plan.database), "{} does not run on {:?}", kind.name, plan.database);
    let begun = Instant::now();
    let cluster = match plan.database {
        Database::Postgres if !kind.has_own_servers => Some(Cluster::start(plan.directory.as_deref()).await),
        _ => None,
    };
    let server = cluster.as_ref().map(Cluster::url);
    let mut total = Report::new(kind.name, &plan);
    let plan = Arc::new(plan);
    let mut seeds = Rng::with_seed(plan.seed);
    let rounds = plan.count.div_ceil(kind.round);
    let parts: Vec<Part> = (0..rounds)
        .map(|n| Part {
            plan: Arc::clone(&plan),
            // The first round has the campaign's seed, so that a campaign of one round repeats a
            // round.
            seed: if n == 0 { plan.seed } else { seeds.u64(..) },
            count: kind.round.min(plan.count - n * kind.round),
            server: server.clone(),
        })
        .collect();
    let mut reports = stream::iter(parts)
        .map(|part| tokio::task::spawn_blocking(move || run_round(kind, part)))
        .buffer_unordered(plan.jobs);
    while let Some(report) = reports.next().await {
        let report = report.unwrap_or_else(|error| Report::broken(kind.name, &plan, &error.to_string()));
        if plan.prints_progress {
            // Printed at once, because the end of a long campaign is hours away.
            report.violations.iter().for_each(|violation| eprintln!("  {}", violation.violation));
        }
        total.add(report);
        if plan.prints_progress {
            total.wall = begun.elapsed();
            eprintln!("{}", total.line());
        }
    }
    if let Some(cluster) = &cluster {
        total.sessions(&plan, cluster.sessions_left(SESSIONS_END_WITHIN).await);
    }
    total.wall = begun.elapsed();
    total
}

/// Runs a round on its own runtime, so that its futures need not be `Send`.
fn run_round(kind: &'static Kind, part: Part) -> Report {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    runtime.expect("a runtime for a round").block_on((kind.run)(part))
}
