//! Helpers of this store's tests: a schema per test on the test server.

use std::collections::BTreeMap;
use std::time::Duration;

use sqlx::postgres::PgTypeInfo;
use sqlx::{AssertSqlSafe, Connection, Either, Executor, PgConnection, Row, SqlSafeStr};
use uuid::Uuid;

use workflow_engine::model::{
    AttemptStatus, Claim, Clock, Effect, KeyReuse, Lane, NewRun, RunId, StartTime, StepAttempt, StepKind, Timestamp,
    WorkerId,
};
use workflow_engine::store::{
    AttemptWrite, ClaimRequest, ClaimedRun, EndWrite, Outcome, RunEnd, Store, StoreOptions, Write,
};

use super::PostgresStore;
use super::sql::Statement;

pub(super) type TestResult<T = ()> = Result<T, Box<dyn std::error::Error>>;

pub(super) const LEASE: Duration = Duration::from_secs(30);
pub(super) const START: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);

/// A store on a new schema, whose clock stands at [`START`].
pub(super) struct Fixture {
    pub(super) store: PostgresStore,
    pub(super) schema: String,
    pub(super) clock: Clock,
    pub(super) worker: WorkerId,
}

/// The test server of the workspace. Included by its path, because its package depends on this one.
#[path = "../../tests/src/postgres.rs"]
#[expect(unreachable_pub, reason = "public where it belongs")]
mod server;

pub(super) fn url() -> TestResult<String> {
    Ok(server::postgres_url())
}

pub(super) fn new_schema() -> String {
    format!("t{}", &Uuid::new_v4().simple().to_string()[..20])
}

pub(super) async fn fixture() -> TestResult<Fixture> {
    fixture_with_pool(4).await
}

pub(super) async fn fixture_with_pool(pool_size: u32) -> TestResult<Fixture> {
    let (schema, clock) = (new_schema(), Clock::manual(START));
    let options = StoreOptions { pool_size, schema: schema.clone(), clock: clock.clone(), ..StoreOptions::default() };
    let store = PostgresStore::open(&url()?, options).await?;
    Ok(Fixture { store, schema, clock, worker: WorkerId::generate() })
}

/// Returns a fixture whose worker is recorded.
pub(super) async fn recorded_fixture() -> TestResult<Fixture> {
    let fixture = fixture().await?;
    fixture.record_worker().await?;
    Ok(fixture)
}

impl Fixture {
    /// Records the fixture's worker, as a worker with a lease session is.
    pub(super) async fn record_worker(&self) -> TestResult {
        let id = self.worker.as_uuid();
        let record =
            format!("INSERT INTO {{schema}}.workflow_workers (id, lock_key, started_at) VALUES ('{id}', 0, 0)");
        self.execute(&record).await
    }

    /// Keeps the text of each statement that inserts attempts from now on.
    pub(super) async fn watch_attempts(&self) -> TestResult {
        self.execute(
            "CREATE TABLE {schema}.seen (statement text);
             CREATE FUNCTION {schema}.see() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                 INSERT INTO {schema}.seen VALUES (current_query());
                 RETURN NULL;
             END $$;
             CREATE TRIGGER see AFTER INSERT ON {schema}.step_attempts FOR EACH STATEMENT EXECUTE FUNCTION {schema}.see();",
        )
        .await
    }

    /// Returns how many of the kept statements were those of the fast path, and how many were kept.
    pub(super) async fn fast_batches(&self) -> TestResult<(usize, usize)> {
        let read = format!("SELECT statement FROM {}.seen", self.schema);
        let rows = sqlx::query(AssertSqlSafe(read)).fetch_all(&mut self.connect().await?).await?;
        let statements = rows.iter().map(|row| row.try_get::<String, _>(0)).collect::<Result<Vec<_>, _>>()?;
        Ok((statements.iter().filter(|text| text.starts_with("-- batch: owners")).count(), statements.len()))
    }

    /// Opens another store on the schema, as another process does.
    pub(super) async fn second(&self) -> TestResult<PostgresStore> {
        let options = StoreOptions {
            pool_size: 4,
            schema: self.schema.clone(),
            clock: self.clock.clone(),
            ..StoreOptions::default()
        };
        Ok(PostgresStore::open(&url()?, options).await?)
    }

    /// Returns a fixture that stands for another process on the schema.
    pub(super) async fn neighbour(&self) -> TestResult<Self> {
        let (schema, clock) = (self.schema.clone(), self.clock.clone());
        Ok(Self { store: self.second().await?, schema, clock, worker: WorkerId::generate() })
    }

    /// Locks this run in the transaction. Fails if another transaction has locked it.
    pub(super) async fn hold(&self, transaction: &mut PgConnection, run: RunId) -> TestResult {
        let hold = format!("SELECT FROM {}.workflow_runs WHERE id = $1 FOR UPDATE NOWAIT", self.schema);
        sqlx::query(AssertSqlSafe(hold)).bind(run.as_uuid()).execute(transaction).await?;
        Ok(())
    }

    /// Commits one write and returns its outcome.
    pub(super) async fn commit(&self, write: Write) -> TestResult<Outcome> {
        let outcomes = self.store.commit(&[write]).await?;
        outcomes.into_iter().next().ok_or_else(|| "no outcome".into())
    }

    pub(super) async fn start(&self) -> TestResult<RunId> {
        let run = new_run();
        let id = run.id;
        self.commit(Write::Start(run)).await?;
        Ok(id)
    }

    pub(super) async fn claim(&self, limit: u32) -> TestResult<Vec<ClaimedRun>> {
        self.claim_for(self.worker, limit).await
    }

    pub(super) async fn claim_for(&self, worker: WorkerId, limit: u32) -> TestResult<Vec<ClaimedRun>> {
        match self.commit(claim_write(worker, limit)).await? {
            Outcome::Claimed(claimed) => Ok(claimed.runs),
            other => Err(format!("{other:?}").into()),
        }
    }

    /// Starts a run and claims it.
    pub(super) async fn started_claim(&self) -> TestResult<Claim> {
        let id = self.start().await?;
        let claimed = self.claim(1).await?;
        let claim = claimed.first().ok_or("nothing to claim")?.claim;
        assert_eq!(claim.run_id, id);
        Ok(claim)
    }

    /// Starts and claims `count` runs. Returns the claims in the order of their ids.
    pub(super) async fn started_claims(&self, count: usize) -> TestResult<Vec<Claim>> {
        let mut claims = Vec::with_capacity(count);
        for _ in 0..count {
            claims.push(self.started_claim().await?);
        }
        claims.sort();
        Ok(claims)
    }

    /// Commits the batch, and runs `other` once `waiting` sessions wait for a lock, the batch's
    /// among them.
    pub(super) async fn commit_while(
        &self,
        waiting: i64,
        batch: &[Write],
        other: impl Future<Output = TestResult>,
    ) -> TestResult<Vec<Outcome>> {
        let meanwhile = async {
            until_wait(self, waiting).await?;
            other.await
        };
        let (outcomes, meanwhile) = tokio::join!(self.store.commit(batch), meanwhile);
        meanwhile?;
        Ok(outcomes?)
    }

    /// Executes a statement on a new connection. `{schema}` stands for the schema.
    pub(super) async fn execute(&self, statement: &str) -> TestResult {
        let mut connection = self.connect().await?;
        let statement = statement.replace("{schema}", &self.schema);
        sqlx::raw_sql(AssertSqlSafe(statement)).execute(&mut connection).await?;
        Ok(())
    }

    pub(super) async fn connect(&self) -> TestResult<PgConnection> {
        Ok(PgConnection::connect(&url()?).await?)
    }
}

/// Returns the types of a statement's parameters.
pub(super) async fn parameter_types(
    connection: &mut PgConnection,
    name: &str,
    statement: &Statement,
) -> TestResult<Vec<PgTypeInfo>> {
    let prepared = connection.prepare(AssertSqlSafe(statement.text().to_owned()).into_sql_str()).await?;
    match sqlx::Statement::parameters(&prepared) {
        Some(Either::Left(types)) => Ok(types.to_vec()),
        other => Err(format!("{name}: {other:?}").into()),
    }
}

pub(super) fn lane() -> Lane {
    Lane { queue: "default".into(), workflow: "checkout".into(), version: "1".into() }
}

pub(super) fn new_run() -> NewRun {
    NewRun {
        gate: None,
        id: RunId::generate(),
        lane: lane(),
        input: "null".into(),
        key: None,
        key_reuse: KeyReuse::Never,
        single: None,
        priority: None,
        start: StartTime::Now,
        deadline: None,
        tags: BTreeMap::new(),
        parent: None,
        depth: 0,
        trace: None,
    }
}

pub(super) fn attempt(claim: Claim, key: &str, status: AttemptStatus, output: Option<&str>) -> Write {
    Write::Attempt(AttemptWrite {
        claim,
        row: StepAttempt {
            step_key: key.into(),
            attempt: 1,
            kind: StepKind::Step,
            status,
            position: (status != AttemptStatus::Running).then_some(1),
            output: output.map(Into::into),
            error: None,
            epoch: claim.epoch,
            started_at: START,
            completed_at: (status != AttemptStatus::Running).then_some(START + LEASE),
        },
        effect: Effect::None,
    })
}

/// Returns a successful attempt of the step `a`.
pub(super) fn step(claim: Claim) -> Write {
    step_of(claim, "a")
}

/// Returns a successful attempt of the step with this key.
pub(super) fn step_of(claim: Claim, key: &str) -> Write {
    attempt(claim, key, AttemptStatus::Succeeded, Some("1"))
}

/// Returns a fixture whose fence cache has the returned claims.
pub(super) async fn with_cached_claims(runs: usize) -> TestResult<(Fixture, Vec<Claim>)> {
    let fixture = recorded_fixture().await?;
    let claims = fixture.started_claims(runs).await?;
    let batch: Vec<Write> = claims.iter().map(|claim| step_of(*claim, "before")).collect();
    assert!(all_applied(&fixture.store.commit(&batch).await?));
    assert_eq!(fixture.store.session.known(&claims), runs);
    Ok((fixture, claims))
}

pub(super) fn end(claim: Claim) -> Write {
    Write::End(EndWrite {
        claim,
        parent_run_id: None,
        has_children: false,
        has_event_waits: false,
        end: RunEnd::Succeeded("1".into()),
    })
}

pub(super) fn claim_write(worker: WorkerId, limit: u32) -> Write {
    Write::Claim(ClaimRequest {
        worker,
        lanes: vec![lane()],
        limited: Vec::new(),
        gated: Vec::new(),
        gates_first: Vec::new(),
        limit,
        lease: LEASE,
    })
}

pub(super) fn all_applied(outcomes: &[Outcome]) -> bool {
    outcomes.iter().all(|outcome| matches!(outcome, Outcome::Applied))
}

/// Waits until a session that uses a table of this schema waits for a lock.
pub(super) async fn until_one_waits(fixture: &Fixture) -> TestResult {
    until_wait(fixture, 1).await
}

/// Waits until `count` sessions that use tables of this schema wait for locks.
pub(super) async fn until_wait(fixture: &Fixture, count: i64) -> TestResult {
    let mut connection = fixture.connect().await?;
    let waiting = "SELECT count(DISTINCT waits.pid) FROM pg_locks AS waits
                   JOIN pg_locks AS uses ON uses.pid = waits.pid
                   JOIN pg_class ON pg_class.oid = uses.relation
                   JOIN pg_namespace ON pg_namespace.oid = pg_class.relnamespace
                   WHERE NOT waits.granted AND waits.locktype IN ('transactionid', 'tuple') AND pg_namespace.nspname = $1";
    for _ in 0..1000 {
        let row = sqlx::query(waiting).bind(&fixture.schema).fetch_one(&mut connection).await?;
        if row.try_get::<i64, _>(0)? >= count {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Err(format!("there are not {count} sessions that wait").into())
}
