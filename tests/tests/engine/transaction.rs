//! Transactional steps: the rows of the body are committed together with the outcome.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt;
use futures::future::{Either, select};
use futures::stream::FuturesUnordered;
use workflow_engine::store::Write;
use workflow_sdk::prelude::*;
use workflow_sdk::sqlx::{self, AssertSqlSafe, Connection};
use workflow_sdk::{
    AttemptStatus, CancelOutcome, DEFAULT_PAYLOAD_LIMIT, DatabaseErrorKind, RunFilter, RunId, StepKind,
};
use workflow_tests::faulty::Fault;
use workflow_tests::{Database, FaultyStore, Live, LocalWorker, Probe, until};
use workflow_worker::Worker;

use crate::failure;

const SOON: Duration = Duration::from_millis(20);

/// The state of the workers: a table of the test, in the database of the engine.
#[derive(Clone)]
struct Shop {
    database: Database,
    schema: String,
    client: Client,
    probe: Probe,
    kept: Arc<Mutex<Option<Tx>>>,
}

impl Shop {
    async fn new(db: &Live) -> Self {
        db.raw().await.execute("CREATE TABLE effects (note TEXT NOT NULL)").await;
        Self {
            database: db.database,
            schema: db.schema().map(|schema| format!("{schema}.")).unwrap_or_default(),
            client: db.client.clone(),
            probe: Probe::new(),
            kept: Arc::default(),
        }
    }

    /// Runs a statement, in which `{schema}` precedes the name of a table.
    async fn execute(&self, tx: &mut Tx, statement: &str) -> Result<()> {
        let query = sqlx::raw_sql(AssertSqlSafe(statement.replace("{schema}", &self.schema)));
        match self.database {
            Database::Memory => unreachable!("these cases do not run on the in-memory store"),
            Database::Sqlite => sqlx::Executor::execute(tx.sqlite()?, query).await.map(drop)?,
            Database::Postgres => sqlx::Executor::execute(tx.postgres()?, query).await.map(drop)?,
        }
        Ok(())
    }

    async fn add(&self, tx: &mut Tx, note: &str) -> Result<()> {
        self.execute(tx, &format!("INSERT INTO {{schema}}effects (note) VALUES ('{note}')")).await
    }
}

async fn effects(db: &Live) -> Vec<String> {
    db.raw().await.lines("SELECT note FROM effects ORDER BY note", "note").await
}

#[workflow]
async fn echo(ctx: &Ctx<Shop>, text: String) -> Result<String> {
    let _ = ctx;
    Ok(text)
}

pub async fn rows_and_outcome_are_committed_together(db: Live) {
    #[workflow]
    async fn debit(ctx: &Ctx<Shop>) -> Result<(u64, String)> {
        let shop = ctx.state();
        let body = async |mut tx: Tx| {
            shop.probe.note("body");
            shop.add(&mut tx, ctx.idempotency_key()).await?;
            Ok::<_, Error>((7, "paid".to_owned()))
        };
        let paid = ctx.transaction("debit", body).await?;
        ctx.sleep(SOON).await?;
        Ok(paid)
    }
    let shop = Shop::new(&db).await;
    let worker = LocalWorker::start(db.worker(shop.clone()).register(debit).linger(Duration::ZERO));
    let run = db.client.start(debit, ()).await.unwrap();
    assert_eq!(run.result().await.unwrap(), (7, "paid".to_owned()));
    assert_eq!(effects(&db).await, [format!("{}/debit", run.id())]);
    assert_eq!(shop.probe.times("body"), 1, "the replay after the sleep runs no body");
    let history = run.history().await.unwrap();
    let row = &history[0];
    assert_eq!(
        (row.step_key.as_str(), row.kind, row.status),
        ("debit", StepKind::Transaction, AttemptStatus::Succeeded)
    );
    assert_eq!((row.position, row.output.as_deref()), (Some(1), Some(r#"[7,"paid"]"#)));
    worker.stop().await;
}

pub async fn an_error_rolls_back_and_is_retried(db: Live) {
    #[workflow]
    async fn stubborn(ctx: &Ctx<Shop>) -> Result<u32> {
        let body = async |mut tx: Tx| {
            ctx.state().add(&mut tx, &format!("attempt {}", ctx.attempt())).await?;
            match ctx.attempt() {
                1 => Err(Error::msg("not yet")),
                2 => panic!("not yet either"),
                attempt => Ok(attempt),
            }
        };
        ctx.transaction("debit", body).retry(Retry::fixed(SOON)).await
    }
    let worker = LocalWorker::start(db.worker(Shop::new(&db).await).register(stubborn));
    let run = db.client.start(stubborn, ()).await.unwrap();
    assert_eq!(run.result().await.unwrap(), 3);
    assert_eq!(effects(&db).await, ["attempt 3"]);
    let failed: Vec<_> = run.history().await.unwrap().into_iter().filter_map(|row| row.error).collect();
    assert_eq!(failed.iter().map(|error| error.kind).collect::<Vec<_>>(), [ErrorKind::Application, ErrorKind::Panic]);
    worker.stop().await;
}

pub async fn a_value_that_cannot_be_stored_rolls_back(db: Live) {
    #[workflow]
    async fn nan(ctx: &Ctx<Shop>) -> Result<()> {
        let body = async |mut tx: Tx| {
            ctx.state().add(&mut tx, "nan").await?;
            Ok::<_, Error>(f64::NAN)
        };
        ctx.transaction("debit", body).await.map(drop)
    }
    let worker = LocalWorker::start(db.worker(Shop::new(&db).await).register(nan));
    let run = db.client.start(nan, ()).await.unwrap();
    assert_eq!(failure(run.result().await).kind, ErrorKind::Refused);
    assert!(effects(&db).await.is_empty());
    worker.stop().await;
}

pub async fn the_handle_of_the_other_database_is_refused(db: Live) {
    #[workflow]
    async fn confused(ctx: &Ctx<Shop>) -> Result<()> {
        let body = async |mut tx: Tx| match ctx.state().database {
            Database::Sqlite | Database::Memory => tx.postgres().map(drop),
            Database::Postgres => tx.sqlite().map(drop),
        };
        ctx.transaction("debit", body).await
    }
    let worker = LocalWorker::start(db.worker(Shop::new(&db).await).register(confused));
    let error = failure(db.client.start(confused, ()).await.unwrap().result().await);
    assert_eq!((error.kind, error.fatal), (ErrorKind::Refused, true));
    let message = match db.database {
        Database::Sqlite => "this transaction is on SQLite, not on PostgreSQL; use tx.sqlite()",
        Database::Postgres => "this transaction is on PostgreSQL, not on SQLite; use tx.postgres()",
        Database::Memory => {
            "this transaction is on a database in memory, which has no tables and takes no SQL; test this body on SQLite \
             (a file in a temporary directory), or keep its statements behind the worker's state"
        }
    };
    assert_eq!(error.message, message);
    worker.stop().await;
}

pub async fn outcomes_keep_their_order_beside_ordinary_steps(db: Live) {
    #[workflow]
    async fn mixed(ctx: &Ctx<Shop>, n: u32) -> Result<Vec<u32>> {
        let shop = ctx.state();
        let mut all = FuturesUnordered::new();
        for branch in 0..6_u32 {
            let step = move || async move { Ok::<_, Error>(branch) };
            let body = move |mut tx: Tx| async move {
                shop.add(&mut tx, &format!("{n}-{branch}")).await?;
                Ok::<_, Error>(branch)
            };
            all.push(match branch % 2 {
                0 => Either::Left(ctx.step(format!("branch-{branch}"), step)),
                _ => Either::Right(ctx.transaction(format!("branch-{branch}"), body)),
            });
        }
        let mut order = Vec::new();
        while let Some(branch) = all.next().await {
            order.push(branch?);
        }
        ctx.sleep(SOON).await?;
        Ok(order)
    }
    let worker = LocalWorker::start(db.worker(Shop::new(&db).await).register(mixed).linger(Duration::ZERO));
    let runs = db.client.start_many(mixed, 0..20).await.unwrap();
    for run in &runs {
        let order = run.result().await.unwrap();
        let history = run.history().await.unwrap();
        let recorded = history.iter().filter(|row| row.kind != StepKind::Sleep && row.position.is_some());
        let recorded: Vec<String> = recorded.map(|row| row.step_key.clone()).collect();
        let order: Vec<String> = order.iter().map(|branch| format!("branch-{branch}")).collect();
        assert_eq!(recorded, order, "the replay after the sleep sees the recorded order");
    }
    assert_eq!(effects(&db).await.len(), 60);
    worker.stop().await;
}

pub async fn a_body_that_waits_for_its_own_transaction_times_out(db: Live) {
    #[workflow]
    async fn hung(ctx: &Ctx<Shop>) -> Result<()> {
        let shop = ctx.state();
        let body = async |mut tx: Tx| {
            shop.add(&mut tx, "hung").await?;
            match shop.database {
                Database::Memory => unreachable!("these cases do not run on the in-memory store"),
                // The start waits for the executor, and the executor for this transaction.
                Database::Sqlite => drop(shop.client.start(echo, "late".to_owned()).await?),
                Database::Postgres => std::future::pending().await,
            }
            Ok::<_, Error>(())
        };
        let call = ctx.transaction("debit", body).timeout(Duration::from_millis(200)).retry(Retry::none());
        call.await
    }
    let worker = LocalWorker::start(db.worker(Shop::new(&db).await).register(hung).register(echo));
    let error = failure(db.client.start(hung, ()).await.unwrap().result().await);
    assert_eq!(error.kind, ErrorKind::Timeout);
    assert!(error.message.contains("attempt 1 took longer than its timeout of 200ms and was rolled back"), "{error}");
    assert!(error.message.ends_with("start runs with .within(&mut tx)"), "{error}");
    assert!(effects(&db).await.is_empty());
    let after = db.client.start(echo, "after".to_owned()).await.unwrap();
    assert_eq!(after.result().await.unwrap(), "after");
    worker.stop().await;
}

pub async fn a_kept_handle_is_refused(db: Live) {
    #[workflow]
    async fn keeper(ctx: &Ctx<Shop>) -> Result<()> {
        let shop = ctx.state();
        let body = async |mut tx: Tx| {
            shop.add(&mut tx, "kept").await?;
            *shop.kept.lock().unwrap() = Some(tx);
            Ok::<_, Error>(())
        };
        ctx.transaction("debit", body).await
    }
    let shop = Shop::new(&db).await;
    let worker = LocalWorker::start(db.worker(shop.clone()).register(keeper));
    let run = db.client.start(keeper, ()).await.unwrap();
    let mut kept = until("the handle is kept", async || shop.kept.lock().unwrap().take()).await;
    until("the handle is refused", async || {
        let refused = match shop.database {
            Database::Memory => unreachable!("these cases do not run on the in-memory store"),
            Database::Sqlite => kept.sqlite().err(),
            Database::Postgres => kept.postgres().err(),
        };
        refused.filter(|error| error.message().starts_with("the transaction is over")).map(drop)
    })
    .await;
    drop(kept);
    let error = failure(run.result().await);
    assert_eq!((error.kind, error.fatal), (ErrorKind::Refused, true));
    assert!(error.message.contains("was kept elsewhere"), "{error}");
    assert!(effects(&db).await.is_empty());
    worker.stop().await;
}

pub async fn a_body_that_ends_the_transaction_itself_is_refused(db: Live) {
    #[workflow]
    async fn meddler(ctx: &Ctx<Shop>, statements: Vec<String>) -> Result<()> {
        let body = async |mut tx: Tx| {
            for statement in &statements {
                ctx.state().execute(&mut tx, statement).await?;
            }
            ctx.state().add(&mut tx, "after").await
        };
        ctx.transaction("debit", body).await
    }
    let worker = LocalWorker::start(db.worker(Shop::new(&db).await).register(meddler));
    for statements in [vec!["ROLLBACK"], vec!["COMMIT", "BEGIN"]] {
        let statements = statements.into_iter().map(str::to_owned).collect();
        let error = failure(db.client.start(meddler, statements).await.unwrap().result().await);
        assert_eq!((error.kind, error.fatal), (ErrorKind::Refused, true));
        assert!(error.message.contains("a COMMIT or ROLLBACK of its own"), "{error}");
    }
    // The engine cannot roll back a statement that ran outside of its transaction.
    assert_eq!(effects(&db).await, ["after"]);
    let sound = db.client.start(meddler, Vec::new()).await.unwrap();
    sound.result().await.unwrap();
    assert_eq!(effects(&db).await, ["after", "after"]);
    worker.stop().await;
}

pub async fn a_failed_statement_can_be_ignored_only_on_sqlite(db: Live) {
    #[workflow]
    async fn careless(ctx: &Ctx<Shop>) -> Result<()> {
        let body = async |mut tx: Tx| {
            ctx.state().add(&mut tx, "careless").await?;
            let _ = ctx.state().execute(&mut tx, "INSERT INTO {schema}effects (note) VALUES (NULL)").await;
            Ok::<_, Error>(())
        };
        ctx.transaction("debit", body).await
    }
    let worker = LocalWorker::start(db.worker(Shop::new(&db).await).register(careless));
    let result = db.client.start(careless, ()).await.unwrap().result().await;
    match db.database {
        Database::Memory => unreachable!("these cases do not run on the in-memory store"),
        Database::Sqlite => {
            result.unwrap();
            assert_eq!(effects(&db).await, ["careless"]);
        }
        Database::Postgres => {
            assert_eq!(failure(result).kind, ErrorKind::Refused);
            assert!(effects(&db).await.is_empty());
        }
    }
    worker.stop().await;
}

pub async fn a_transaction_of_the_driver_is_a_savepoint(db: Live) {
    #[workflow]
    async fn nested(ctx: &Ctx<Shop>) -> Result<()> {
        let shop = ctx.state();
        let insert = |note: &str| AssertSqlSafe(format!("INSERT INTO {}effects VALUES ('{note}')", shop.schema));
        let body = async |mut tx: Tx| {
            shop.add(&mut tx, "outer").await?;
            for (note, keep) in [("dropped", false), ("kept", true)] {
                match shop.database {
                    Database::Memory => unreachable!("these cases do not run on the in-memory store"),
                    Database::Sqlite => {
                        let mut inner = tx.sqlite()?.begin().await?;
                        sqlx::query(insert(note)).execute(&mut *inner).await?;
                        if keep { inner.commit().await? } else { inner.rollback().await? }
                    }
                    Database::Postgres => {
                        let mut inner = tx.postgres()?.begin().await?;
                        sqlx::query(insert(note)).execute(&mut *inner).await?;
                        if keep { inner.commit().await? } else { inner.rollback().await? }
                    }
                }
            }
            if ctx.attempt() == 1 { Err(Error::msg("once more")) } else { Ok(()) }
        };
        ctx.transaction("debit", body).retry(Retry::fixed(SOON)).await
    }
    let worker = LocalWorker::start(db.worker(Shop::new(&db).await).register(nested));
    db.client.start(nested, ()).await.unwrap().result().await.unwrap();
    assert_eq!(effects(&db).await, ["kept", "outer"]);
    worker.stop().await;
}

pub async fn a_deferred_constraint_fails_the_attempt(db: Live) {
    #[workflow]
    async fn orphan(ctx: &Ctx<Shop>) -> Result<u32> {
        let body = async |mut tx: Tx| {
            let parent = if ctx.attempt() == 1 { 1 } else { 0 };
            let statement = format!("INSERT INTO {{schema}}children (parent) VALUES ({parent})");
            ctx.state().execute(&mut tx, &statement).await?;
            Ok::<_, Error>(ctx.attempt())
        };
        ctx.transaction("debit", body).retry(Retry::fixed(SOON)).await
    }
    let shop = Shop::new(&db).await;
    let mut raw = db.raw().await;
    raw.execute("CREATE TABLE parents (id BIGINT PRIMARY KEY)").await;
    raw.execute("INSERT INTO parents VALUES (0)").await;
    raw.execute("CREATE TABLE children (parent BIGINT REFERENCES parents (id) DEFERRABLE INITIALLY DEFERRED)").await;
    let worker = LocalWorker::start(db.worker(shop).register(orphan));
    let run = db.client.start(orphan, ()).await.unwrap();
    assert_eq!(run.result().await.unwrap(), 2);
    assert_eq!(raw.number("SELECT count(*) FROM children").await, 1);
    let history = run.history().await.unwrap();
    let error = history.iter().find_map(|row| row.error.as_ref()).unwrap();
    assert!(error.message.starts_with("the transaction was not committed"), "{error}");
    // No later outcome had a position, so the next one gets that of the failed commit.
    assert_eq!(history.iter().filter_map(|row| row.position).collect::<Vec<_>>(), [1]);
    worker.stop().await;
}

/// Runs a transactional step whose first commit has this fault. Returns the effects, and the
/// attempt that succeeded.
async fn with_fault(db: &Live, fault: Fault) -> (Vec<String>, u32) {
    #[workflow]
    async fn debit(ctx: &Ctx<Shop>) -> Result<u32> {
        let body = async |mut tx: Tx| {
            ctx.state().add(&mut tx, &format!("attempt {}", ctx.attempt())).await?;
            Ok::<_, Error>(ctx.attempt())
        };
        ctx.transaction("debit", body).retry(Retry::fixed(SOON)).await
    }
    let store = Arc::new(FaultyStore::new(Arc::clone(db.client.store())));
    let client = Client::over(Arc::clone(&store) as _, DEFAULT_PAYLOAD_LIMIT);
    store.fail_next_transaction(fault);
    // The run stays in memory between attempts. A park would read the history again, and hide a
    // wrong assumption about the commit.
    let worker = Worker::new(client.clone(), Shop::new(db).await).register(debit).linger(Duration::from_secs(3600));
    let worker = LocalWorker::start(worker);
    let run = client.start(debit, ()).await.unwrap();
    let attempt = run.result().await.unwrap();
    worker.stop().await;
    (effects(db).await, attempt)
}

/// The first outcome of a run with a crash clears it while the body of a transaction is open, which
/// on SQLite keeps every other write waiting. The body needs polls of its drive until it ends.
pub async fn a_body_goes_on_while_the_crashes_of_its_run_are_cleared(db: Live) {
    #[workflow]
    async fn debit_beside(ctx: &Ctx<Shop>) -> Result<u64> {
        let shop = ctx.state();
        let body = async |_tx: Tx| {
            shop.probe.note("body");
            shop.probe.open("beside");
            shop.probe.pass("body").await;
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            Ok::<_, Error>(1)
        };
        let beside = ctx.step("beside", async || {
            shop.probe.pass("beside").await;
            shop.probe.open("body");
            Ok::<_, Error>(2)
        });
        let (paid, beside) = futures::try_join!(ctx.transaction("debit", body), beside)?;
        Ok(paid + beside)
    }
    let shop = Shop::new(&db).await;
    let run = db.client.start(debit_beside, ()).await.unwrap();
    db.raw().await.execute("UPDATE workflow_runs SET crashes = 1").await;
    let worker = LocalWorker::start(db.worker(shop.clone()).register(debit_beside));
    assert_eq!(run.result().await.unwrap(), 3);
    let history = run.history().await.unwrap();
    assert_eq!((shop.probe.times("body"), run.run().await.unwrap().epoch), (1, 1), "{history:#?}");
    assert_eq!(db.raw().await.number("SELECT crashes FROM workflow_runs").await, 0);
    worker.stop().await;
}

pub async fn a_commit_whose_reply_was_lost_is_not_repeated(db: Live) {
    let (effects, attempt) = with_fault(&db, Fault::After(DatabaseErrorKind::Unreachable)).await;
    assert_eq!((effects, attempt), (vec!["attempt 1".to_owned()], 1));
}

pub async fn a_commit_that_never_arrived_is_retried(db: Live) {
    let (effects, attempt) = with_fault(&db, Fault::Before(DatabaseErrorKind::Unreachable)).await;
    assert_eq!((effects, attempt), (vec!["attempt 2".to_owned()], 2));
}

pub async fn a_connection_lost_during_the_commit_fails_the_attempt(db: Live) {
    #[workflow]
    async fn debit(ctx: &Ctx<Shop>) -> Result<u32> {
        let body = async |mut tx: Tx| {
            ctx.state().add(&mut tx, &format!("attempt {}", ctx.attempt())).await?;
            Ok::<_, Error>(ctx.attempt())
        };
        ctx.transaction("debit", body).retry(Retry::fixed(SOON)).await
    }
    if db.database == Database::Sqlite {
        // A SQLite file has no connection that another process could end.
        return;
    }
    let shop = Shop::new(&db).await;
    let cut = "
        CREATE FUNCTION {schema}cut() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            IF NEW.note = 'attempt 1' THEN PERFORM pg_terminate_backend(pg_backend_pid()); END IF;
            RETURN NULL;
        END $$;
        CREATE CONSTRAINT TRIGGER cut AFTER INSERT ON {schema}effects DEFERRABLE INITIALLY DEFERRED
            FOR EACH ROW EXECUTE FUNCTION {schema}cut();";
    db.raw().await.execute(cut.replace("{schema}", &shop.schema)).await;
    let worker = LocalWorker::start(db.worker(shop).register(debit).linger(Duration::from_secs(3600)));
    let run = db.client.start(debit, ()).await.unwrap();
    assert_eq!(run.result().await.unwrap(), 2);
    assert_eq!(effects(&db).await, ["attempt 2"]);
    let history = run.history().await.unwrap();
    let error = history.iter().find_map(|row| row.error.as_ref()).unwrap();
    assert!(error.message.starts_with("the transaction was not committed"), "{error}");
    worker.stop().await;
}

pub async fn a_body_that_is_dropped_leaves_nothing(db: Live) {
    #[workflow]
    async fn race(ctx: &Ctx<Shop>) -> Result<String> {
        let shop = ctx.state();
        let body = async |mut tx: Tx| {
            shop.add(&mut tx, "loser").await?;
            shop.probe.open("begun");
            std::future::pending::<()>().await;
            Ok::<_, Error>("transaction".to_owned())
        };
        let step = async || {
            shop.probe.pass("begun").await;
            Ok::<_, Error>("step".to_owned())
        };
        let (step, transaction) = (ctx.step("step", step), ctx.transaction("debit", body));
        // On SQLite, the outcome of the step cannot be written while the transaction is open.
        match select(step, transaction.timeout(Duration::from_secs(3)).retry(Retry::none())).await {
            Either::Left((step, _)) => step,
            Either::Right((transaction, step)) => {
                assert_eq!(transaction.unwrap_err().kind(), ErrorKind::Timeout);
                step.await
            }
        }
    }
    let shop = Shop::new(&db).await;
    let worker = LocalWorker::start(db.worker(shop).register(race));
    let run = db.client.start(race, ()).await.unwrap();
    assert_eq!(run.result().await.unwrap(), "step");
    assert!(effects(&db).await.is_empty());
    worker.stop().await;
}

pub async fn a_run_that_is_canceled_rolls_back(db: Live) {
    #[workflow]
    async fn patient(ctx: &Ctx<Shop>) -> Result<()> {
        let shop = ctx.state();
        let body = async |mut tx: Tx| {
            shop.add(&mut tx, "canceled").await?;
            // On SQLite the cancel joins the transaction, because no other write is possible now.
            if shop.database == Database::Sqlite {
                shop.client.cancel(ctx.run_id()).within(&mut tx).await?;
                shop.probe.note("commits");
                return Ok::<_, Error>(());
            }
            shop.probe.note("begun");
            std::future::pending().await
        };
        ctx.transaction("debit", body).timeout(Duration::MAX).await?;
        std::future::pending().await
    }
    let shop = Shop::new(&db).await;
    let worker = db.worker(shop.clone()).register(patient).lease(Duration::from_secs(3));
    // The grace period ends the workflow: after its transaction it waits for a future that is not
    // a call of its context.
    let worker = LocalWorker::start(worker.cancel_grace(Duration::from_secs(1)));
    let run = db.client.start(patient, ()).await.unwrap();
    if db.database == Database::Postgres {
        shop.probe.noted("begun").await;
        assert_eq!(db.client.cancel(run.id()).await.unwrap(), CancelOutcome::Requested);
    }
    assert!(run.result().await.is_err());
    assert_eq!(run.status().await.unwrap(), RunStatus::Canceled);
    let expected: &[&str] = if db.database == Database::Sqlite { &["canceled"] } else { &[] };
    assert_eq!(effects(&db).await, expected);
    worker.stop().await;
}

pub async fn starts_and_cancels_join(db: Live) {
    #[workflow]
    async fn order(ctx: &Ctx<Shop>, other: RunId) -> Result<RunId> {
        let shop = ctx.state();
        let body = async |mut tx: Tx| {
            shop.add(&mut tx, "order").await?;
            let run = shop.client.start(echo, "parcel".to_owned()).key("parcel").within(&mut tx).await?;
            let canceled = shop.client.cancel(other).within(&mut tx).await?;
            assert_eq!(canceled, CancelOutcome::Canceled);
            if ctx.attempt() == 1 { Err(Error::msg("roll back")) } else { Ok(run.id()) }
        };
        ctx.transaction("order", body).retry(Retry::fixed(SOON)).await
    }
    let shop = Shop::new(&db).await;
    let other = db.client.start(echo, "other".to_owned()).delay(Duration::from_secs(3600)).await.unwrap();
    let worker = LocalWorker::start(db.worker(shop).register(order).register(echo));
    let run = db.client.start(order, other.id()).await.unwrap();
    let parcel = run.result().await.unwrap();
    let parcel = db.client.handle::<String>(parcel).await.unwrap();
    assert_eq!(parcel.result().await.unwrap(), "parcel");
    assert_eq!(other.status().await.unwrap(), RunStatus::Canceled);
    assert_eq!(db.client.list(&RunFilter::new()).await.unwrap().len(), 3);
    assert_eq!(effects(&db).await, ["order"]);
    worker.stop().await;
}

pub async fn a_database_in_memory_has_transactions_too(db: Live) {
    #[workflow]
    async fn counted(ctx: &Ctx<Client>) -> Result<i64> {
        let body = async |mut tx: Tx| {
            let connection = tx.sqlite()?;
            sqlx::query("CREATE TABLE IF NOT EXISTS effects (n)").execute(&mut *connection).await?;
            sqlx::query("INSERT INTO effects VALUES (1)").execute(&mut *connection).await?;
            let count: i64 = sqlx::query_scalar("SELECT count(*) FROM effects").fetch_one(connection).await?;
            ctx.state().start_by_name("unserved", &serde_json::Value::Null).within(&mut tx).await?;
            match ctx.attempt() {
                1 => Err(Error::msg("roll back")),
                2 => std::future::pending().await,
                _ => Ok(count),
            }
        };
        let call = ctx.transaction("count", body).timeout(Duration::from_millis(100));
        call.retry(Retry::fixed(SOON)).await
    }
    if db.database == Database::Postgres {
        return;
    }
    let client = Client::connect("sqlite::memory:").await.unwrap();
    let worker = LocalWorker::start(Worker::new(client.clone(), client.clone()).register(counted));
    let run = client.start(counted, ()).await.unwrap();
    assert_eq!(run.result().await.unwrap(), 1);
    assert_eq!(client.list(&RunFilter::new()).await.unwrap().len(), 2, "one of three starts was committed");
    worker.stop().await;
}

/// With a full queue, the record of one step waits for room while the body of another step holds
/// the transaction for which the executor waits.
pub async fn a_body_goes_on_while_the_queue_of_the_executor_is_full(db: Live) {
    #[workflow]
    async fn crowded(ctx: &Ctx<Shop>) -> Result<()> {
        let shop = ctx.state();
        let debit = ctx.transaction("debit", async |mut tx| {
            shop.add(&mut tx, "debit").await?;
            shop.probe.note("holds");
            shop.probe.pass("debit").await;
            ok(())
        });
        let mail = ctx.step("mail", async || {
            shop.probe.pass("mail").await;
            shop.probe.note("mailed");
            ok(())
        });
        futures::try_join!(debit, mail)?;
        Ok(())
    }
    let shop = Shop::new(&db).await;
    let probe = shop.probe.clone();
    let worker = LocalWorker::start(db.worker(shop).register(crowded));
    let run = db.client.start(crowded, ()).await.unwrap();
    probe.noted("holds").await;
    // PostgreSQL keeps no writer waiting, so its queue need not fill up.
    let executor = db.client.executor();
    for _ in 0..20_000 {
        let Some(room) = executor.try_reserve().unwrap() else { break };
        drop(room.send(Write::Cancel(RunId::generate())));
        tokio::task::yield_now().await;
    }
    assert!(db.database == Database::Postgres || executor.try_reserve().unwrap().is_none(), "the queue is full");
    probe.open("mail");
    // The drive polls the debit before the mail, and goes on to the record of the mail without
    // another poll. So the debit, which is open from here on, is polled after the record was sent.
    probe.noted("mailed").await;
    probe.open("debit");
    run.result().await.unwrap();
    assert_eq!(effects(&db).await, ["debit"]);
    worker.stop().await;
}
