use std::time::{Duration, Instant};

use futures::future::try_join_all;
use workflow_engine::model::{Lane, WorkerId};
use workflow_engine::store::{ClaimRequest, Claimed, Outcome, Write};
use workflow_sdk::{Client, QueueLimits, Workflow};
use workflow_worker::{GateLimits, Queue, Worker};

use crate::database::{Database, Kind, Location};
use crate::report::{Report, Target};
use crate::samples::Samples;
use crate::tables::Tables;
use crate::worker::LocalWorker;
use crate::workflows::moment;
use crate::{BoxResult, Common, clock};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    common: Common,
    /// Number of runs that wait behind a full gate in the large table.
    #[arg(long, default_value_t = 1_000_000)]
    waiting: u32,
    /// Number of runs that wait behind a full gate in the small table.
    #[arg(long, default_value_t = 1000)]
    few: u32,
    /// Number of measured claims of a run behind another gate, in each of the two tables.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..))]
    claims: u32,
    /// Number of runs that are started behind another gate one after the other, in the large table
    /// and in one where nothing waits.
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..))]
    starts: u32,
}

/// Claims measured in one table before the other one has its turn.
const IN_TURN: u32 = 50;

/// The queue of all runs.
const QUEUE: &str = "bench";

/// How long PostgreSQL may take to count the pages of a session that has ended.
const COUNTED: Duration = Duration::from_secs(2);

pub(crate) async fn run(args: Args) -> BoxResult<()> {
    let location = Location::parse(args.common.database.as_deref())?;
    let fresh = |name: &str| match &location {
        // All databases exist at the same time, so each SQLite file needs a path of its own.
        Location::File(path) => Location::File(path.with_extension(name)).fresh(),
        Location::Directory(_) | Location::Postgres(_) => location.fresh(),
    };
    let (empty, few, many) = (fresh("empty"), fresh("few"), fresh("many"));
    prepare(&empty, 0, 0).await?;
    prepare(&few, args.few, args.claims).await?;
    prepare(&many, args.waiting, args.claims).await?;

    let mut report = Report::new("gates", location.kind())
        .setting("waiting", args.waiting)
        .setting("few", args.few)
        .setting("claims", args.claims)
        .setting("starts", args.starts);
    measure_claims(&mut report, &few, &many, args.claims).await?;
    measure_starts(&mut report, &empty, &many, args.starts).await?;
    for database in [empty, few, many] {
        database.remove().await?;
    }
    report.print(args.common.json);
    Ok(())
}

/// Fills a table: a gate that is full, so many runs behind it, and so many due runs that each have
/// a gate of their own.
async fn prepare(database: &Database, waiting: u32, others: u32) -> BoxResult<()> {
    let client = database.client().await?;
    let limits = QueueLimits::none().per_gate(GateLimits::none().concurrency(1));
    client.queue(QUEUE).set_limits(limits).await?;
    client.start(moment, ()).queue(QUEUE).gate("full").await?;
    claim_one(&client).await?;
    let copied = client.start(moment, ()).queue(QUEUE).gate("full").await?.id();
    let mut tables = Tables::open(database).await?;
    if database.kind() == Kind::Postgres {
        // A vacuum of its own would be counted among the pages that the claims read.
        tables.execute("ALTER TABLE {runs} SET (autovacuum_enabled = false)").await?;
        tables.execute("ANALYZE {runs}").await?;
    }
    let (numbers, id) = match database.kind() {
        Kind::Sqlite => (
            format!("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {waiting})"),
            "printf('01900000-0000-7000-8000-%012x', i)",
        ),
        Kind::Postgres => (
            format!("WITH n(i) AS (SELECT generate_series(1::bigint, {waiting}))"),
            "('01900000-0000-7000-8000-' || lpad(to_hex(i), 12, '0'))::uuid",
        ),
    };
    // The statistics of the table stay those of a nearly empty one.
    let insert = format!(
        "{numbers} INSERT INTO {{runs}} (id, workflow_name, lane_id, status, available_at, input, epoch, created_at)
         SELECT {id}, r.workflow_name, r.lane_id, r.status, r.available_at, r.input, r.epoch, r.created_at
         FROM n CROSS JOIN {{runs}} AS r WHERE r.id = '{copied}' AND i <= {waiting}"
    );
    tables.execute(&insert).await?;
    if database.kind() == Kind::Postgres {
        // Each insert has woken the gate, and a claim reads a bounded number of wakes.
        let wakes = format!("SELECT count(*) FROM {}", database.table("workflow_gate_wakes"));
        while tables.number(&wakes).await? > 0 {
            let claimed = claim(&client).await?;
            if !claimed.runs.is_empty() {
                return Err("a run behind the full gate was claimed".into());
            }
        }
    }
    let other = |number: u32| client.start(moment, ()).queue(QUEUE).gate(format!("other-{number}")).into_future();
    try_join_all((0..others).map(other)).await?;
    if database.kind() == Kind::Sqlite {
        tables.execute("PRAGMA wal_checkpoint(TRUNCATE)").await?;
    }
    Ok(())
}

/// Claims one run, for longer than the benchmark takes.
async fn claim_one(client: &Client) -> BoxResult<Duration> {
    let started = Instant::now();
    let claimed = claim(client).await?;
    match claimed.runs.len() {
        1 => Ok(started.elapsed()),
        _ => Err(format!("expected a claim of one run, got {claimed:?}").into()),
    }
}

async fn claim(client: &Client) -> BoxResult<Claimed> {
    let request = ClaimRequest {
        worker: WorkerId::generate(),
        lanes: vec![lane(moment)],
        limited: vec![QUEUE.into()],
        gated: vec![QUEUE.into()],
        gates_first: Vec::new(),
        limit: 1,
        lease: Duration::from_secs(24 * 3600),
    };
    match client.executor().commit(Write::Claim(request)).await? {
        Outcome::Claimed(claimed) => Ok(claimed),
        other => Err(format!("expected a claim, got {other:?}").into()),
    }
}

fn lane<W: Workflow>(_: W) -> Lane {
    Lane { queue: QUEUE.into(), workflow: W::NAME.into(), version: W::VERSION.into() }
}

async fn measure_claims(report: &mut Report, few: &Database, many: &Database, claims: u32) -> BoxResult<()> {
    let mut tables = [Tables::open(few).await?, Tables::open(many).await?];
    let clients = [few.client().await?, many.client().await?];
    let mut times = [Vec::new(), Vec::new()];
    tokio::time::sleep(COUNTED).await;
    let before = pages(&mut tables, [few, many]).await?;
    let mut left = claims;
    while left > 0 {
        let in_turn = left.min(IN_TURN);
        for (client, times) in clients.iter().zip(&mut times) {
            for _ in 0..in_turn {
                times.push(claim_one(client).await?);
            }
        }
        left -= in_turn;
    }
    drop(clients);
    let [few_times, many_times] = times.map(Samples::new);
    let (few_times, many_times) = (few_times?, many_times?);
    report.figure("claim beside few waiting runs, p50", few_times.p50_ms(), "ms");
    report.figure("claim beside many waiting runs, p50", many_times.p50_ms(), "ms");
    report.judged("claim, many / few, p50", many_times.p50_ms() / few_times.p50_ms(), "", Target::AtMost(1.1));
    tokio::time::sleep(COUNTED).await;
    if let (Some(before), Some(after)) = (before, pages(&mut tables, [few, many]).await?) {
        let [few, many] = [0, 1].map(|table: usize| (after[table] - before[table]) as f64 / f64::from(claims));
        report.figure("pages of a claim beside few waiting runs", few, "");
        report.figure("pages of a claim beside many waiting runs", many, "");
        report.judged("pages, many / few", many / few, "", Target::AtMost(1.1));
    }
    Ok(())
}

/// Returns how many pages were read in each of two tables, from memory or from the disk. Only
/// PostgreSQL counts them.
async fn pages(tables: &mut [Tables<'_>; 2], databases: [&Database; 2]) -> BoxResult<Option<[i64; 2]>> {
    let mut counts = [0; 2];
    for ((tables, database), count) in tables.iter_mut().zip(databases).zip(&mut counts) {
        if database.kind() == Kind::Sqlite {
            return Ok(None);
        }
        let schema = &database.schema;
        let query = format!(
            "SELECT CAST(sum(heap_blks_read + heap_blks_hit + idx_blks_read + idx_blks_hit) AS bigint)
             FROM pg_statio_user_tables WHERE schemaname = '{schema}'"
        );
        *count = tables.number(&query).await?;
    }
    Ok(Some(counts))
}

/// Measures the time from a start to the beginning of its first step.
async fn measure_starts(report: &mut Report, empty: &Database, many: &Database, starts: u32) -> BoxResult<()> {
    let clients = [empty.client().await?, many.client().await?];
    let worker = |client: &Client| {
        let queue = Queue::new(QUEUE).per_gate(GateLimits::none().concurrency(1));
        LocalWorker::start(Worker::new(client.clone(), ()).register(moment).queue(queue))
    };
    let workers = [worker(&clients[0]), worker(&clients[1])];
    let mut times = [Vec::new(), Vec::new()];
    for number in 0..starts {
        for (client, times) in clients.iter().zip(&mut times) {
            let started = clock::now_micros();
            let gate = format!("quick-{}", number % 10);
            let begun = client.start(moment, ()).queue(QUEUE).gate(gate).await?.result().await?;
            times.push(Duration::from_micros(u64::try_from(begun - started)?));
        }
    }
    for worker in workers {
        worker.stop().await?;
    }
    let [empty, many] = times.map(Samples::new);
    let (empty, many) = (empty?, many?);
    report.figure("start to first step, nothing waits, p50", empty.p50_ms(), "ms");
    report.figure("start to first step, many wait, p50", many.p50_ms(), "ms");
    report.figure("start to first step, many wait, p99", many.p99_ms(), "ms");
    report.judged("start to first step, many / none, p50", many.p50_ms() / empty.p50_ms(), "", Target::AtMost(2.0));
    Ok(())
}
