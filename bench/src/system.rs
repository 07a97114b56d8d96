//! Large systems for benchmarks: one for reads, with runs in all states, a long history and the
//! statistics of a month; others with many waiting or many old runs.

use std::time::{Duration, Instant};

use workflow_sdk::RunId;

use crate::database::{Database, Kind, Location};
use crate::report::Report;
use crate::tables::Tables;
use crate::workflows::{STEP_BYTES, STEPS};
use crate::{BoxResult, clock};

/// The size of a system.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Size {
    /// Number of runs: of 1,000, about 880 have succeeded, 100 wait for a worker, 10 have failed, 5
    /// are parked and 1 was canceled. One of 25,000 is running.
    #[arg(long, default_value_t = 10_000_000, value_parser = clap::value_parser!(u32).range(1_000..))]
    runs: u32,
    /// Number of steps of the longest run.
    #[arg(long, default_value_t = 50_000, value_parser = clap::value_parser!(u32).range(1..))]
    steps: u32,
}

/// The words that find few runs.
pub(crate) const RARE_TAG: &str = "tag.customer:rare";
pub(crate) const RARE_WORKFLOW: &str = "workflow:rare";

/// How many runs have the rare tag, and how many are of the rare workflow.
const RARE: u32 = 50;

const SECOND: i64 = 1_000_000;
const DAY: i64 = 86_400 * SECOND;

/// The time over which the runs were started: a month.
const SPAN: i64 = 30 * DAY;

impl Size {
    const fn settings(self) -> [(&'static str, u32); 2] {
        [("runs", self.runs), ("steps", self.steps)]
    }
}

/// Creates a database with a system of this size, and adds the size and the time to fill the tables
/// to the report. Returns the longest run, too.
pub(crate) async fn create(
    location: &Location,
    size: Size,
    mut report: Report,
) -> BoxResult<(Database, RunId, Report)> {
    let database = location.fresh();
    let filling = Instant::now();
    let long = fill(&database, size).await?;
    for (name, value) in size.settings() {
        report = report.setting(name, value);
    }
    report.figure("time to fill the tables", filling.elapsed().as_secs_f64(), "s");
    Ok((database, long, report))
}

/// Fills the tables of a new database, and updates its statistics, as a database that grew over
/// time has them. Returns the longest run.
async fn fill(database: &Database, size: Size) -> BoxResult<RunId> {
    drop(database.client().await?);
    let mut tables = Tables::open(database).await?;
    tables.execute(LANES).await?;
    let begin = clock::now_micros() - SPAN;
    let long = insert_runs(&mut tables, database.kind(), size, begin).await?;
    insert_steps(&mut tables, database.kind(), size, long, begin).await?;
    insert_statistics(&mut tables, database.kind()).await?;
    analyze(&mut tables, database.kind()).await?;
    Ok(long)
}

/// Updates the statistics of the tables.
async fn analyze(tables: &mut Tables<'_>, kind: Kind) -> BoxResult<()> {
    match kind {
        Kind::Sqlite => {
            tables.execute("ANALYZE").await?;
            tables.execute("PRAGMA wal_checkpoint(TRUNCATE)").await?;
        }
        Kind::Postgres => {
            for table in ["{runs}", "{steps}", "{stats}", "{tags}"] {
                tables.execute(&format!("VACUUM ANALYZE {table}")).await?;
            }
        }
    }
    Ok(())
}

/// The workflow of the waiting runs, which no worker serves.
pub(crate) const WAITING_WORKFLOW: &str = "import_csv";

/// Fills a new database with this number of runs of [`WAITING_WORKFLOW`], which wait for a worker.
pub(crate) async fn fill_with_waiting(database: &Database, runs: u32) -> BoxResult<()> {
    drop(database.client().await?);
    let mut tables = Tables::open(database).await?;
    tables.execute(LANES).await?;
    let (begin, pause) = (clock::now_micros() - SPAN - DAY, SPAN / i64::from(runs));
    let created_at = format!("{begin} + i * {pause}");
    let insert = format!(
        "{numbers} INSERT INTO {{runs}} (id, workflow_name, lane_id, status, created_at, available_at, input)
         SELECT {id}, l.workflow_name, l.id, 'pending', {created_at}, {created_at}, '{{\"order\":' || i || '}}'
         FROM n CROSS JOIN {{lanes}} AS l WHERE l.workflow_name = '{WAITING_WORKFLOW}'",
        numbers = numbers(database.kind(), runs),
        id = id_of(database.kind(), &created_at),
    );
    tables.execute(&insert).await?;
    analyze(&mut tables, database.kind()).await
}

/// The workflow of the old runs, which no worker serves.
pub(crate) const OLD_WORKFLOW: &str = "send_digest";

/// The shortest time since the end of an old run.
pub(crate) const OLD: Duration = Duration::from_secs(24 * 3600);

/// Many ended runs of [`OLD_WORKFLOW`], which were started at equal distances.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OldRuns {
    /// The time one pause before the first start, in microseconds since 1970.
    begin: i64,
    /// The time between two starts, in microseconds.
    pause: i64,
}

impl OldRuns {
    /// Fills a new database with this number of runs that ended longer than [`OLD`] ago, each with
    /// the history of a run of [`five_steps`](crate::workflows::five_steps).
    pub(crate) async fn fill(database: &Database, runs: u32) -> BoxResult<Self> {
        drop(database.client().await?);
        let kind = database.kind();
        let mut tables = Tables::open(database).await?;
        tables.execute(LANES).await?;
        let (begin, pause) = (clock::now_micros() - SPAN - 2 * DAY, SPAN / i64::from(runs));
        let created_at = format!("{begin} + i * {pause}");
        let (numbers, id) = (numbers(kind, runs), id_of(kind, &created_at));
        let insert = format!(
            "{numbers} INSERT INTO {{runs}} (id, workflow_name, lane_id, status, epoch, rank, created_at, started_at,
                                             completed_at, available_at, output, input)
             SELECT {id}, l.workflow_name, l.id, 'succeeded', 1, 0, {created_at}, {created_at} + {SECOND},
                    {created_at} + 3 * {SECOND}, {created_at}, '480', '7'
             FROM n CROSS JOIN {{lanes}} AS l WHERE l.workflow_name = '{OLD_WORKFLOW}'"
        );
        tables.execute(&insert).await?;
        let steps: Vec<String> = (0..STEPS).map(|number| format!("SELECT {number} AS number")).collect();
        let insert = format!(
            "{numbers} INSERT INTO {{steps}}
                 (run_id, step_key, attempt, kind, status, position, epoch, started_at, completed_at, output)
             SELECT {id}, CASE s.number WHEN 0 THEN 'step' ELSE 'step:' || s.number END, 1, 'step', 'succeeded',
                    s.number + 1, 1, {created_at} + {SECOND}, {created_at} + 2 * {SECOND}, '\"{text}\"'
             FROM n CROSS JOIN ({steps}) AS s",
            text = "0".repeat(STEP_BYTES as usize),
            steps = steps.join(" UNION ALL "),
        );
        tables.execute(&insert).await?;
        analyze(&mut tables, kind).await?;
        Ok(Self { begin, pause })
    }

    /// Returns the number of runs that were deleted, in the order of their starts. It exceeds their
    /// number once they are all gone and a younger run exists.
    pub(crate) async fn deleted(self, tables: &mut Tables<'_>) -> BoxResult<i64> {
        let first = tables.number("SELECT created_at FROM {runs} ORDER BY id LIMIT 1").await?;
        Ok((first - self.begin) / self.pause - 1)
    }
}

const LANES: &str = "INSERT INTO {lanes} (queue, workflow_name, version)
    VALUES ('default', 'checkout', '1'), ('default', 'checkout', '2'), ('default', 'refund', '1'),
           ('mail', 'send_digest', '1'), ('bulk', 'import_csv', '1'), ('default', 'rare', '1')";

/// Returns a table of the numbers from 1.
fn numbers(kind: Kind, most: u32) -> String {
    match kind {
        Kind::Sqlite => format!("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {most})"),
        Kind::Postgres => format!("WITH n(i) AS (SELECT generate_series(1::bigint, {most}))"),
    }
}

/// Returns the id of the run number `i`, which begins with the time of its start.
fn id_of(kind: Kind, created_at: &str) -> String {
    let ms = format!("(({created_at}) / 1000)");
    match kind {
        Kind::Sqlite => format!("printf('%08x-%04x-7000-8000-%012x', {ms} >> 16, {ms} & 65535, i)"),
        Kind::Postgres => format!(
            "(lpad(to_hex({ms} >> 16), 8, '0') || '-' || lpad(to_hex({ms} & 65535), 4, '0') || '-7000-8000-'
              || lpad(to_hex(i), 12, '0'))::uuid"
        ),
    }
}

/// Inserts the runs in the order of their starts. Returns the first one, which is running.
async fn insert_runs(tables: &mut Tables<'_>, kind: Kind, size: Size, begin: i64) -> BoxResult<RunId> {
    let Size { runs, .. } = size;
    let (pause, rare) = (SPAN / i64::from(runs), runs / RARE);
    let created_at = format!("{begin} + i * {pause}");
    let id = id_of(kind, &created_at);
    let lane = |workflow: &str, version: u32| {
        format!("(SELECT id FROM {{lanes}} WHERE workflow_name = '{workflow}' AND version = '{version}')")
    };
    // The inner query gives each run its state and its workflow by its number alone, so two
    // systems of one size are equal.
    let insert = format!(
        "{numbers}, r(i, created_at, status, workflow) AS (
             SELECT i, {created_at},
                 CASE WHEN i % 25000 = 1 THEN 'running' WHEN i % 200 = 0 THEN 'parked' WHEN i % 10 = 5 THEN 'pending'
                      WHEN i % 100 = 3 THEN 'failed' WHEN i % 1000 = 7 THEN 'canceled' ELSE 'succeeded' END,
                 CASE WHEN i % {rare} = 2 THEN 'rare' WHEN i % 7 < 3 THEN 'checkout' WHEN i % 7 < 4 THEN 'refund'
                      WHEN i % 7 < 5 THEN 'send_digest' ELSE 'import_csv' END
             FROM n
         )
         INSERT INTO {{runs}} (id, workflow_name, lane_id, status, epoch, rank, worker_id, created_at, started_at,
                               completed_at, available_at, tags, error, output, input)
         SELECT {id}, workflow,
             CASE workflow WHEN 'checkout' THEN CASE i % 2 WHEN 0 THEN {checkout} ELSE {old_checkout} END
                           WHEN 'refund' THEN {refund} WHEN 'send_digest' THEN {send_digest}
                           WHEN 'rare' THEN {rare_lane} ELSE {import_csv} END,
             status,
             CASE status WHEN 'pending' THEN 0 ELSE 1 END,
             CASE status WHEN 'pending' THEN 3 ELSE 0 END,
             CASE status WHEN 'running' THEN {worker} END,
             created_at,
             CASE WHEN status <> 'pending' THEN created_at + {SECOND} END,
             CASE WHEN status IN ('succeeded', 'failed', 'canceled') THEN created_at + 3 * {SECOND} END,
             CASE WHEN status IN ('running', 'parked') THEN {later} ELSE created_at END,
             CASE WHEN i % {rare} = 3 THEN '{{\"customer\":\"rare\"}}'
                  WHEN i % 20 = 0 THEN '{{\"team\":\"' || (i / 20 % 5) || '\"}}' ELSE '{{}}' END,
             CASE status WHEN 'failed'
                  THEN '{{\"kind\":\"application\",\"message\":\"card ' || i || ' is declined\",\"step_key\":\"charge\"}}' END,
             CASE status WHEN 'succeeded' THEN '480' END,
             '{{\"order\":' || i || ',\"lines\":[{{\"article\":\"chair\",\"count\":4}}]}}'
         FROM r",
        numbers = numbers(kind, runs),
        checkout = lane("checkout", 2),
        old_checkout = lane("checkout", 1),
        refund = lane("refund", 1),
        send_digest = lane("send_digest", 1),
        import_csv = lane("import_csv", 1),
        rare_lane = lane("rare", 1),
        worker = match kind {
            Kind::Sqlite => "'01900000-0000-7000-8000-000000000001'",
            Kind::Postgres => "'01900000-0000-7000-8000-000000000001'::uuid",
        },
        later = begin + SPAN + DAY,
    );
    tables.execute(&insert).await?;
    let ms = u64::try_from((begin + pause) / 1000)?;
    Ok(format!("{:08x}-{:04x}-7000-8000-{:012x}", ms >> 16, ms & 0xffff, 1).parse()?)
}

/// Inserts the history of the longest run.
async fn insert_steps(
    tables: &mut Tables<'_>,
    kind: Kind,
    Size { steps, .. }: Size,
    run: RunId,
    begin: i64,
) -> BoxResult<()> {
    let run = match kind {
        Kind::Sqlite => format!("'{run}'"),
        Kind::Postgres => format!("'{run}'::uuid"),
    };
    let insert = format!(
        "{numbers} INSERT INTO {{steps}}
             (run_id, step_key, attempt, kind, status, position, epoch, started_at, completed_at, output)
         SELECT {run}, 'step-' || i, 1, 'step', 'succeeded', i, 1, {begin} + i * {SECOND}, {begin} + i * {SECOND} + 300000, '7'
         FROM n",
        numbers = numbers(kind, steps),
    );
    tables.execute(&insert).await?;
    Ok(())
}

/// Inserts what was counted: hours of a month and minutes of two hours, per lane.
async fn insert_statistics(tables: &mut Tables<'_>, kind: Kind) -> BoxResult<()> {
    let process = match kind {
        Kind::Sqlite => "'00000000-0000-0000-0000-000000000000'",
        Kind::Postgres => "'00000000-0000-0000-0000-000000000000'::uuid",
    };
    let now = clock::now_micros();
    for (seconds, spans) in [(60, 120), (3600, 720)] {
        let span = seconds * SECOND;
        let last = now - now % span;
        let insert = format!(
            "{numbers} INSERT INTO {{stats}} (seconds, begins_at, process, queue, workflow_name, version, started, begun,
                                              succeeded, failed, waited, worked, durations)
             SELECT {seconds}, {last} - (i - 1) * {span}, {process}, l.queue, l.workflow_name, l.version,
                    100, 100, 97, 3, 100 * {SECOND}, 200 * {SECOND}, '[0,0,0,0,0,0,0,0,0,0,50,50]'
             FROM n CROSS JOIN {{lanes}} AS l",
            numbers = numbers(kind, spans),
        );
        tables.execute(&insert).await?;
    }
    Ok(())
}
