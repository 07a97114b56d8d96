use std::time::{Duration, Instant};

use workflow_engine::model::{Lane, WorkerId};
use workflow_engine::store::{ClaimRequest, Claimed, Outcome, Write};
use workflow_sdk::{Client, DEFAULT_QUEUE, Workflow};

use crate::database::{Database, Kind, Location};
use crate::report::{Report, Target};
use crate::samples::Samples;
use crate::tables::Tables;
use crate::workflows::five_steps;
use crate::{BoxResult, Common, clock};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    common: Common,
    /// Number of ended runs of the worker's own workflow.
    #[arg(long, default_value_t = 1_000_000)]
    finished: u32,
    /// Number of sleeping runs of the worker's own workflow.
    #[arg(long, default_value_t = 1_000_000)]
    sleeping: u32,
    /// Number of due runs of another workflow, queue or version.
    #[arg(long, default_value_t = 100_000)]
    foreign: u32,
    /// Number of measured claims, in the clean table and in the full one.
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u32).range(1..))]
    claims: u32,
    /// Number of runs that each claim takes.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
}

/// Claims measured in one table before the other table has its turn.
const IN_TURN: u32 = 50;

pub(crate) async fn run(args: Args) -> BoxResult<()> {
    let location = Location::parse(args.common.database.as_deref())?;
    let clean = match &location {
        // Both databases exist at the same time, so the second SQLite file needs a path of its own.
        Location::File(path) => Location::File(path.with_extension("clean")).fresh(),
        Location::Directory(_) | Location::Postgres(_) => location.fresh(),
    };
    let full = location.fresh();
    drop((clean.client().await?, full.client().await?));
    fill(&full, &args).await?;
    let mut clean_table = Claims::open(&clean, &args).await?;
    let mut full_table = Claims::open(&full, &args).await?;
    let mut left = args.claims;
    while left > 0 {
        let claims = left.min(IN_TURN);
        clean_table.measure(claims).await?;
        full_table.measure(claims).await?;
        left -= claims;
    }
    let mut report = Report::new("backlog", location.kind())
        .setting("finished", args.finished)
        .setting("sleeping", args.sleeping)
        .setting("foreign", args.foreign)
        .setting("claims", args.claims)
        .setting("limit", args.limit);
    let (clean_claims, clean_looks) = clean_table.samples()?;
    let (full_claims, full_looks) = full_table.samples()?;
    report.figure("claim in a clean table, p50", clean_claims.p50_ms(), "ms");
    report.figure("claim in a clean table, p99", clean_claims.p99_ms(), "ms");
    report.figure("claim with backlog, p50", full_claims.p50_ms(), "ms");
    report.figure("claim with backlog, p99", full_claims.p99_ms(), "ms");
    report.figure("p50, with backlog / clean", full_claims.p50_ms() / clean_claims.p50_ms(), "");
    report.judged("p99, with backlog / clean", full_claims.p99_ms() / clean_claims.p99_ms(), "", Target::AtMost(3.0));
    report.figure("look for the next due run, clean, p99", clean_looks.p99_ms(), "ms");
    report.figure("look for the next due run, backlog, p99", full_looks.p99_ms(), "ms");
    clean.remove().await?;
    full.remove().await?;
    report.print(args.common.json);
    Ok(())
}

/// Claims in one of the two tables, with the statements of a worker that serves only `five_steps`.
struct Claims {
    client: Client,
    request: ClaimRequest,
    claims: Vec<Duration>,
    looks: Vec<Duration>,
}

impl Claims {
    /// Opens the table and adds as many due runs as will be claimed.
    async fn open(database: &Database, args: &Args) -> BoxResult<Self> {
        let client = database.client().await?;
        let due = u64::from(args.claims) * u64::from(args.limit);
        client.start_many(five_steps, 0..due).await?;
        let request = ClaimRequest {
            worker: WorkerId::generate(),
            lanes: vec![lane(five_steps)],
            limited: Vec::new(),
            gated: Vec::new(),
            gates_first: Vec::new(),
            limit: args.limit,
            // The lease outlasts the benchmark: otherwise claimed runs would become due again.
            lease: Duration::from_secs(24 * 3600),
        };
        Ok(Self { client, request, claims: Vec::new(), looks: Vec::new() })
    }

    async fn measure(&mut self, claims: u32) -> BoxResult<()> {
        for _ in 0..claims {
            let started = Instant::now();
            let outcome = self.client.executor().commit(Write::Claim(self.request.clone())).await?;
            self.claims.push(started.elapsed());
            match outcome {
                Outcome::Claimed(Claimed { runs, .. }) if runs.len() == self.request.limit as usize => {}
                other => return Err(format!("expected a claim of {} runs, got {other:?}", self.request.limit).into()),
            }
            let started = Instant::now();
            self.client.store().next_due(&self.request.lanes).await?;
            self.looks.push(started.elapsed());
        }
        Ok(())
    }

    fn samples(self) -> BoxResult<(Samples, Samples)> {
        Ok((Samples::new(self.claims)?, Samples::new(self.looks)?))
    }
}

fn lane<W: Workflow>(_: W) -> Lane {
    Lane { queue: DEFAULT_QUEUE.into(), workflow: W::NAME.into(), version: W::VERSION.into() }
}

/// Inserts the backlog and updates the database's statistics, as a database that grew over time has
/// them.
async fn fill(database: &Database, args: &Args) -> BoxResult<()> {
    let mut tables = Tables::open(database).await?;
    let Lane { queue, workflow, version } = lane(five_steps);
    let now = clock::now_micros();
    // `i` is the number of the row. The leases of ended runs lie in the past; sleeping runs become
    // due in an hour or later.
    tables
        .execute(&format!(
            "INSERT INTO {{lanes}} (queue, workflow_name, version)
             VALUES ('{queue}', '{workflow}', '{version}'), ('elsewhere', '{workflow}', '{version}'),
                    ('{queue}', 'another', '{version}'), ('{queue}', '{workflow}', 'older')"
        ))
        .await?;
    let number = |condition: &str| format!("(SELECT id FROM {{lanes}} WHERE {condition})");
    let own = format!(
        "'{workflow}', {}",
        number(&format!("queue = '{queue}' AND workflow_name = '{workflow}' AND version = '{version}'"))
    );
    let finished = format!("{own}, 'succeeded', '480', {now} - i, {now} - i");
    let sleeping = format!("{own}, 'parked', NULL, {now} + 3600000000 + i * 1000, NULL");
    let foreign = format!(
        "CASE i % 3 WHEN 1 THEN 'another' ELSE '{workflow}' END,
         CASE i % 3 WHEN 0 THEN {} WHEN 1 THEN {} ELSE {} END, 'pending', NULL, {now} - i, NULL",
        number("queue = 'elsewhere'"),
        number("workflow_name = 'another'"),
        number("version = 'older'"),
    );
    for (kind, (rows, columns)) in
        [(args.finished, finished), (args.sleeping, sleeping), (args.foreign, foreign)].into_iter().enumerate()
    {
        let (numbers, id) = match database.kind() {
            Kind::Sqlite => (
                format!("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows})"),
                format!("printf('01900000-0000-7000-8{kind}00-%012x', i)"),
            ),
            Kind::Postgres => (
                format!("WITH n(i) AS (SELECT generate_series(1::bigint, {rows}))"),
                format!("('01900000-0000-7000-8{kind}00-' || lpad(to_hex(i), 12, '0'))::uuid"),
            ),
        };
        let insert = format!(
            "{numbers} INSERT INTO {{runs}}
                 (id, workflow_name, lane_id, status, output, available_at, completed_at, input, epoch, created_at)
             SELECT {id}, {columns}, '7', 1, {now} - i FROM n WHERE i <= {rows}"
        );
        tables.execute(&insert).await?;
    }
    match database.kind() {
        Kind::Sqlite => {
            tables.execute("ANALYZE").await?;
            tables.execute("PRAGMA wal_checkpoint(TRUNCATE)").await?;
        }
        Kind::Postgres => drop(tables.execute("VACUUM ANALYZE {runs}").await?),
    }
    let rows = i64::from(args.finished) + i64::from(args.sleeping) + i64::from(args.foreign);
    let found = tables.number("SELECT count(*) FROM {runs}").await?;
    if found == rows { Ok(()) } else { Err(format!("the backlog has {found} runs, not {rows}").into()) }
}
