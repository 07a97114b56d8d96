//! What the tests of this backend share: a schema of their own on the server of the tests.

use std::collections::BTreeMap;
use std::time::Duration;

use sqlx::{AssertSqlSafe, Connection, PgConnection};
use uuid::Uuid;

use crate::backend::{
    AttemptWrite, Backend, BackendOptions, ClaimRequest, ClaimedRun, EndWrite, Outcome, RunEnd, Write,
};
use crate::model::{
    AttemptStatus, Claim, Clock, Effect, Lane, NewRun, RunId, StartTime, StepAttempt, StepKind, Timestamp, WorkerId,
};

use super::PostgresBackend;

pub(super) type TestResult<T = ()> = Result<T, Box<dyn std::error::Error>>;

pub(super) const LEASE: Duration = Duration::from_secs(30);
pub(super) const START: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);

/// A schema of its own, and a clock that stands at [`START`].
pub(super) struct Fixture {
    pub(super) backend: PostgresBackend,
    pub(super) schema: String,
    pub(super) clock: Clock,
    pub(super) worker: WorkerId,
}

/// The server of all tests of the workspace. By its path, for the package that has it depends on this one.
#[path = "../../../../tests/src/postgres.rs"]
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
    let options = BackendOptions { pool_size, schema: schema.clone(), clock: clock.clone() };
    let backend = PostgresBackend::open(&url()?, options).await?;
    Ok(Fixture { backend, schema, clock, worker: WorkerId::generate() })
}

impl Fixture {
    /// Another handle on the same schema, as another process has one.
    pub(super) async fn second(&self) -> TestResult<PostgresBackend> {
        let options = BackendOptions { pool_size: 4, schema: self.schema.clone(), clock: self.clock.clone() };
        Ok(PostgresBackend::open(&url()?, options).await?)
    }

    /// The outcome of a batch of one.
    pub(super) async fn commit(&self, write: Write) -> TestResult<Outcome> {
        let outcomes = self.backend.commit(&[write]).await?;
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

    /// A statement of the test's own, on a connection of its own; `{schema}` stands for the schema.
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

pub(super) fn lane() -> Lane {
    Lane { queue: "default".into(), workflow: "checkout".into(), version: "1".into() }
}

pub(super) fn new_run() -> NewRun {
    NewRun {
        id: RunId::generate(),
        lane: lane(),
        input: "null".into(),
        key: None,
        start: StartTime::Now,
        deadline: None,
        tags: BTreeMap::new(),
        parent: None,
        depth: 0,
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

pub(super) fn end(claim: Claim) -> Write {
    Write::End(EndWrite { claim, parent_run_id: None, has_children: false, end: RunEnd::Succeeded("1".into()) })
}

pub(super) fn claim_write(worker: WorkerId, limit: u32) -> Write {
    Write::Claim(ClaimRequest { worker, lanes: vec![lane()], limit, lease: LEASE })
}

/// Waits until somebody waits for this lock: a statement on this schema, or a batch that begins.
pub(super) async fn until_one_waits(fixture: &Fixture, lock: &str) -> TestResult {
    let mut connection = fixture.connect().await?;
    let waiting = "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND wait_event = $1
                   AND (query LIKE '%' || $2 || '%' OR query LIKE 'BEGIN%pg_advisory_xact_lock%')";
    for _ in 0..1000 {
        let query = sqlx::query(waiting).bind(lock).bind(&fixture.schema);
        if query.fetch_optional(&mut connection).await?.is_some() {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Err("nobody waits".into())
}
