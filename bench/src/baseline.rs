//! The bare program, the baseline of the benchmarks.
//!
//! It writes the rows that an engine must write, in batches and with the same durability, and
//! nothing else. This shows what the database itself can do. The program uses one connection and
//! one transaction per batch. It checks nothing, claims nothing and sends no replies.

use std::ops::Range;
use std::time::{Duration, Instant};

use serde_json::json;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, PgConnection, SqliteConnection};
use uuid::Uuid;

use crate::BoxResult;
use crate::clock::now_micros;
use crate::database::{Database, Kind};
use crate::workflows::{STEP_BYTES, STEPS};

/// The connection of the bare program.
#[derive(Debug)]
enum Bare {
    Sqlite(SqliteConnection),
    Postgres(PgConnection),
}

/// Writes the steps and the ends of `runs`, which must exist and be pending.
///
/// Each chunk of `batch` runs takes one commit per step; the last of these also writes the ends.
pub(crate) async fn steps_and_ends(database: &Database, runs: &[Uuid], batch: usize) -> BoxResult<Duration> {
    let mut bare = Bare::connect(database).await?;
    let started = Instant::now();
    for runs in runs.chunks(batch) {
        for step in 0..STEPS {
            bare.begin().await?;
            bare.insert_steps(database, runs, step).await?;
            if step == STEPS - 1 {
                bare.end_runs(database, runs).await?;
            }
            bare.commit().await?;
        }
    }
    Ok(started.elapsed())
}

/// Writes `count` steps of `run`, which must exist, each in a commit of its own.
///
/// Returns how long each durable commit took.
pub(crate) async fn single_commits(database: &Database, run: Uuid, count: u32) -> BoxResult<Vec<Duration>> {
    let mut bare = Bare::connect(database).await?;
    let mut times = Vec::new();
    for step in 0..count {
        let started = Instant::now();
        bare.begin().await?;
        bare.insert_steps(database, &[run], step).await?;
        bare.commit().await?;
        times.push(started.elapsed());
    }
    Ok(times)
}

/// Inserts `count` runs as a client starts them, `batch` of them per commit.
pub(crate) async fn starts(database: &Database, count: u32, batch: u32) -> BoxResult<Duration> {
    let mut bare = Bare::connect(database).await?;
    let started = Instant::now();
    for first in (0..count).step_by(batch as usize) {
        bare.begin().await?;
        bare.insert_runs(database, first..count.min(first.saturating_add(batch))).await?;
        bare.commit().await?;
    }
    Ok(started.elapsed())
}

/// Writes one step of each of `runs`, all in one commit.
pub(crate) async fn one_commit(database: &Database, runs: &[Uuid]) -> BoxResult<Duration> {
    let mut bare = Bare::connect(database).await?;
    let started = Instant::now();
    bare.begin().await?;
    bare.insert_steps(database, runs, 0).await?;
    bare.commit().await?;
    Ok(started.elapsed())
}

impl Bare {
    async fn connect(database: &Database) -> BoxResult<Self> {
        Ok(match database.kind() {
            Kind::Sqlite => {
                let options: SqliteConnectOptions = database.url.parse()?;
                let options = options.pragma("synchronous", "FULL").disable_statement_logging();
                Self::Sqlite(options.connect().await?)
            }
            Kind::Postgres => Self::Postgres(PgConnection::connect(&database.url).await?),
        })
    }

    async fn begin(&mut self) -> BoxResult<()> {
        match self {
            Self::Sqlite(connection) => sqlx::query("BEGIN IMMEDIATE").execute(connection).await.map(drop)?,
            Self::Postgres(connection) => sqlx::query("BEGIN").execute(connection).await.map(drop)?,
        }
        Ok(())
    }

    async fn commit(&mut self) -> BoxResult<()> {
        match self {
            Self::Sqlite(connection) => sqlx::query("COMMIT").execute(connection).await.map(drop)?,
            Self::Postgres(connection) => sqlx::query("COMMIT").execute(connection).await.map(drop)?,
        }
        Ok(())
    }

    async fn insert_steps(&mut self, database: &Database, runs: &[Uuid], step: u32) -> BoxResult<()> {
        let table = database.table("step_attempts");
        let key = format!("step#{}", step + 1);
        let output = format!("\"{step:0>width$}\"", width = STEP_BYTES as usize);
        let now = now_micros();
        match self {
            Self::Sqlite(connection) => {
                let rows: Vec<_> = runs.iter().map(|run| json!([run, key, step, now, output])).collect();
                sqlx::query(
                    "INSERT INTO step_attempts
                         (run_id, step_key, attempt, kind, status, position, epoch, started_at, completed_at, output)
                     SELECT value ->> 0, value ->> 1, 1, 'step', 'succeeded', value ->> 2, 1, value ->> 3, value ->> 3,
                            value ->> 4
                     FROM jsonb_each(?1)",
                )
                .bind(serde_json::to_string(&rows)?)
                .execute(connection)
                .await?;
            }
            Self::Postgres(connection) => {
                let insert = AssertSqlSafe(format!(
                    "INSERT INTO {table}
                         (run_id, step_key, attempt, kind, status, position, epoch, started_at, completed_at, output)
                     SELECT run_id, step_key, 1, 'step', 'succeeded', $3, 1, $4, $4, output
                     FROM unnest($1::uuid[], $2::text[], $5::text[]) AS row(run_id, step_key, output)"
                ));
                sqlx::query(insert)
                    .bind(runs)
                    .bind(vec![key; runs.len()])
                    .bind(i64::from(step))
                    .bind(now)
                    .bind(vec![output; runs.len()])
                    .execute(connection)
                    .await?;
            }
        }
        Ok(())
    }

    /// Inserts runs with the columns and values that a start sets. The seeds are the inputs.
    async fn insert_runs(&mut self, database: &Database, seeds: Range<u32>) -> BoxResult<()> {
        let ids: Vec<Uuid> = seeds.clone().map(|_| Uuid::now_v7()).collect();
        let now = now_micros();
        match self {
            Self::Sqlite(connection) => {
                let rows: Vec<_> = ids.iter().zip(seeds).map(|(id, seed)| json!([id, seed.to_string()])).collect();
                sqlx::query(
                    "INSERT INTO workflow_runs
                         (id, workflow_name, lane_id, status, key, available_at, deadline_at, created_at, depth, parent_run_id,
                          parent_step_key, on_parent_end, tags, input)
                     SELECT value ->> 0, 'one_step', 1, 'pending', NULL, ?2, NULL, ?2, 0, NULL, NULL, NULL, '{}',
                            value ->> 1
                     FROM jsonb_each(?1)",
                )
                .bind(serde_json::to_string(&rows)?)
                .bind(now)
                .execute(connection)
                .await?;
            }
            Self::Postgres(connection) => {
                let insert = AssertSqlSafe(format!(
                    "INSERT INTO {}
                         (id, workflow_name, lane_id, status, input, key, available_at, deadline_at, created_at, tags, depth,
                          parent_run_id, parent_step_key, on_parent_end)
                     SELECT id, 'one_step', 1, 'pending', input, NULL, $3, NULL, $3, '{{}}', 0, NULL, NULL, NULL
                     FROM unnest($1::uuid[], $2::text[]) AS row(id, input)",
                    database.table("workflow_runs")
                ));
                let inputs: Vec<String> = seeds.map(|seed| seed.to_string()).collect();
                sqlx::query(insert).bind(ids).bind(inputs).bind(now).execute(connection).await?;
            }
        }
        Ok(())
    }

    async fn end_runs(&mut self, database: &Database, runs: &[Uuid]) -> BoxResult<()> {
        match self {
            Self::Sqlite(connection) => {
                sqlx::query(
                    "UPDATE workflow_runs SET status = 'succeeded', output = '480', completed_at = ?2
                     WHERE id IN (SELECT value FROM json_each(?1))",
                )
                .bind(serde_json::to_string(runs)?)
                .bind(now_micros())
                .execute(connection)
                .await?;
            }
            Self::Postgres(connection) => {
                let update = AssertSqlSafe(format!(
                    "UPDATE {} AS r SET status = 'succeeded', output = '480', completed_at = $2
                     FROM unnest($1::uuid[]) AS row(id) WHERE r.id = row.id",
                    database.table("workflow_runs")
                ));
                sqlx::query(update).bind(runs).bind(now_micros()).execute(connection).await?;
            }
        }
        Ok(())
    }
}
