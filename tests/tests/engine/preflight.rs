//! Checks before a deploy: the replay of exported histories, and the preflight of a database with
//! the new code.

use std::time::Duration;

use workflow_sdk::prelude::*;
use workflow_sdk::testing::{ReplayError, replay};
use workflow_sdk::{ClientError, Misfit, Replayed, RunId};
use workflow_tests::{Database, Live, LocalWorker, Probe, RawConnection, until};
use workflow_worker::{PreflightReport, ReplayRunError, Worker, WorkerError};

use crate::reaches;

const HOUR: Duration = Duration::from_secs(3600);

/// The code that recorded the histories.
mod before {
    use super::*;

    #[workflow(name = "order")]
    pub(super) async fn order(ctx: &Ctx<Probe>, wait: Duration) -> Result<String> {
        let receipt =
            ctx.step("charge", async || Ok::<_, Error>(format!("receipt {}", ctx.state().count("charge")))).await?;
        ctx.sleep(wait).await?;
        Ok(receipt)
    }

    #[workflow(name = "refund")]
    pub(super) async fn refund(ctx: &Ctx<Probe>, wait: Duration) -> Result<()> {
        ctx.step("refund", async || Ok::<_, Error>(ctx.state().count("refund"))).await?;
        ctx.sleep(wait).await
    }

    #[workflow(name = "gift")]
    pub(super) async fn gift(ctx: &Ctx<Probe>, _wait: Duration) -> Result<()> {
        ctx.sleep(HOUR).await
    }

    #[workflow(name = "gone")]
    pub(super) async fn gone(ctx: &Ctx<Probe>, _wait: Duration) -> Result<()> {
        ctx.sleep(HOUR).await
    }
}

/// The code that is to be deployed.
mod after {
    use super::*;

    #[workflow(name = "order")]
    pub(super) async fn order(ctx: &Ctx<Probe>, wait: Duration) -> Result<String> {
        let receipt =
            ctx.step("charge-card", async || Ok::<_, Error>(format!("{}", ctx.state().count("card")))).await?;
        ctx.sleep(wait).await?;
        Ok(receipt)
    }

    #[workflow(name = "refund")]
    pub(super) async fn refund(ctx: &Ctx<Probe>, wait: Duration) -> Result<()> {
        ctx.step("check", async || Ok::<_, Error>(ctx.state().count("check"))).await?;
        ctx.step("refund", async || Ok::<_, Error>(ctx.state().count("refund"))).await?;
        ctx.sleep(wait).await
    }

    #[workflow(name = "gift")]
    pub(super) async fn gift(ctx: &Ctx<Probe>, wait: u64) -> Result<()> {
        ctx.sleep(Duration::from_secs(wait)).await
    }

    #[workflow(name = "order", version = "2")]
    pub(super) async fn order_2(ctx: &Ctx<Probe>, wait: Duration) -> Result<String> {
        ctx.sleep(wait).await?;
        Ok(String::new())
    }
}

fn before_worker(db: &Live) -> Worker<Probe> {
    let worker = db.worker(Probe::new()).register(before::order).register(before::refund);
    worker.register(before::gift).register(before::gone)
}

/// Returns a run that is parked after one step.
async fn parked(db: &Live) -> RunId {
    let worker = LocalWorker::start(before_worker(db));
    let run = db.client.start(before::order, HOUR).await.unwrap();
    reaches(&run, RunStatus::Parked).await;
    worker.stop().await;
    run.id()
}

pub async fn an_exported_history_replays_on_its_code(db: Live) {
    let parked = parked(&db).await;
    let probe = Probe::new();
    let history = db.client.export(parked).await.unwrap();
    assert_eq!((history.run.status, history.steps.len()), (RunStatus::Parked, 2));
    let replayed = replay(before::order, probe.clone(), &history.to_json()).unwrap();
    assert!(matches!(&replayed, Replayed::Waits(calls) if calls[0].key == "sleep"), "{replayed:?}");

    let worker = LocalWorker::start(before_worker(&db));
    let run = db.client.start(before::order, Duration::ZERO).await.unwrap();
    run.result().await.unwrap();
    worker.stop().await;
    let history = db.client.export(run.id()).await.unwrap().to_string();
    let replayed = replay(before::order, probe.clone(), &history).unwrap();
    assert_eq!(replayed, Replayed::Ended(Ok("\"receipt 1\"".into())));
    assert_eq!(probe.notes(), [""; 0], "a body began");
}

pub async fn a_history_of_signals_replays(db: Live) {
    const GO: Signal<String> = Signal::new("go");

    #[workflow]
    async fn relay(ctx: &Ctx<Probe>) -> Result<String> {
        let first = ctx.signal(GO).await?.unwrap_or_default();
        let second = ctx.signal(GO).await?.unwrap_or_default();
        Ok(first + &second)
    }

    let worker = LocalWorker::start(db.worker(Probe::new()).register(relay));
    let run = db.client.start(relay, ()).await.unwrap();
    db.client.signal(run.id(), GO, &"a".to_owned()).await.unwrap();
    let received = async || {
        let history = db.client.export(run.id()).await.unwrap();
        history.steps.iter().any(|step| step.position.is_some()).then_some(history)
    };
    let history = workflow_tests::until("the first signal is received", received).await;
    let replayed = replay(relay, Probe::new(), &history.to_json()).unwrap();
    assert!(matches!(&replayed, Replayed::Waits(calls) if calls.len() == 1), "{replayed:?}");
    let report = db.worker(Probe::new()).register(relay).preflight().await.unwrap();
    assert_eq!(report.fits, 1, "{report}");
    db.client.signal(run.id(), GO, &"b".to_owned()).await.unwrap();
    assert_eq!(run.result().await.unwrap(), "ab");
    worker.stop().await;
    let history = db.client.export(run.id()).await.unwrap().to_json();
    assert_eq!(replay(relay, Probe::new(), &history).unwrap(), Replayed::Ended(Ok("\"ab\"".into())));
}

pub async fn an_exported_history_diverges_on_other_code(db: Live) {
    let history = db.client.export(parked(&db).await).await.unwrap().to_json();
    let probe = Probe::new();
    let error = replay(after::order, probe.clone(), &history).unwrap_err();
    let ReplayError::Misfit(Misfit::Diverged(divergence)) = &error else { panic!("{error}") };
    assert_eq!(divergence.summary(), "nothing asks for step \"charge\"; was it renamed to \"charge-card\"?");
    assert_eq!(format!("{error:?}"), divergence.to_string(), "unwrap shows the report");
    assert_eq!(probe.notes(), [""; 0], "a body began");
}

pub async fn an_unsuitable_history_is_refused(db: Live) {
    let unknown = RunId::generate();
    assert!(matches!(db.client.export(unknown).await, Err(ClientError::UnknownRun { run_id }) if run_id == unknown));
    let history = db.client.export(parked(&db).await).await.unwrap().to_json();
    let other = replay(after::order_2, Probe::new(), &history).unwrap_err().to_string();
    let said = "the history belongs to a run of \"order\" version \"1\", but the workflow is \"order\" version \"2\"";
    assert!(other.starts_with(said), "{other}");
    assert!(matches!(replay(before::order, Probe::new(), "{}"), Err(ReplayError::History(_))));
}

/// Returns every row of every table.
/// Waits until so many starts have been counted. A process writes its counts later than the runs.
async fn until_counted(raw: &mut RawConnection, starts: i64) {
    let counted = "SELECT CAST(coalesce(sum(started), 0) AS bigint) FROM workflow_stats";
    until("the starts have been counted", async || (raw.number(counted).await >= starts).then_some(())).await;
}

async fn dump(raw: &mut RawConnection) -> Vec<String> {
    let mut all = Vec::new();
    for table in raw.table_names().await {
        let row = match raw {
            RawConnection::Sqlite(_) => {
                let columns = raw.lines(format!("SELECT name FROM pragma_table_info('{table}')"), "name").await;
                columns.iter().map(|column| format!("quote({column})")).collect::<Vec<_>>().join(" || ',' || ")
            }
            RawConnection::Postgres(_) => "t::text".into(),
        };
        let mut rows = raw.lines(format!("SELECT '{table} ' || {row} AS line FROM {table} AS t"), "line").await;
        rows.sort();
        all.extend(rows);
    }
    all
}

fn after_worker(client: Client, probe: &Probe) -> Worker<Probe> {
    Worker::new(client, probe.clone()).register(after::order).register(after::refund).register(after::gift)
}

/// Returns the text of the report, with the ids and line numbers replaced.
fn shown(report: &PreflightReport, names: &[(RunId, &str)]) -> String {
    let text = names.iter().fold(report.to_string(), |text, (id, name)| text.replace(&id.to_string(), name));
    let line = |line: &str| match line.split_once("tests/engine/preflight.rs:") {
        Some((before, _)) => format!("{before}tests/engine/preflight.rs:LINE"),
        None => line.to_owned(),
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

const REPORT: &str = r#"preflight of 108 unfinished runs: not clean
     101 fit
       3 would diverge
       1 would fail
       1 cannot be read
       2 not judged, their workflow is not registered

run REFUND ("refund" version "1"): the code does not fit the run's history
  recorded: #1 step "refund" (succeeded, 1 byte)
  current:  step "check" (new)
              --> tests/tests/engine/preflight.rs:LINE
  differs:  nothing asks for step "refund"; in its place comes step "check"
  help:     keep the old way for runs that have gone it:
                if ctx.patched("check")? {
                    // step "check"
                } else {
                    // step "refund", as it was; nothing if that follows here
                }
            or deploy code that makes the recorded calls (the run waits for it), or terminate the run
  note:     nothing was changed? outside of steps a workflow may depend only on its input and on ctx

run ORDER-2 ("order" version "1"): the code does not fit the run's history
  recorded: #1 step "charge" (succeeded, 11 bytes)
  current:  step "charge-card" (new)
              --> tests/tests/engine/preflight.rs:LINE
  differs:  nothing asks for step "charge"; was it renamed to "charge-card"?
  help:     keep the old way for runs that have gone it:
                if ctx.patched("charge-card")? {
                    // step "charge-card"
                } else {
                    // step "charge", as it was
                }
            or deploy code that makes the recorded calls (the run waits for it), or terminate the run
  note:     nothing was changed? outside of steps a workflow may depend only on its input and on ctx
  alike:    run ORDER-1

run GIFT ("gift" version "1"): fails (refused): the input of workflow "gift" does not decode as u64: invalid type: map, expected u64 at line 1 column 0; start the run again with an input of that type

run RIDDLE ("refund" version "1"): UNREADABLE

"gone" version "1" is not registered: 2 not judged"#;

pub async fn every_unfinished_run_is_judged(db: Live) {
    let worker = LocalWorker::start(before_worker(&db));
    let start = async |name: &str| {
        let input = serde_json::to_value(HOUR).unwrap();
        let run = db.client.start_by_name(name, &input).await.unwrap();
        reaches(&run, RunStatus::Parked).await;
        run.id()
    };
    let first = start("order").await;
    let names = [
        (first, "ORDER-1"),
        (start("order").await, "ORDER-2"),
        (start("refund").await, "REFUND"),
        (start("refund").await, "RIDDLE"),
        (start("gift").await, "GIFT"),
    ];
    start("gone").await;
    start("gone").await;
    db.client.start(before::order, Duration::ZERO).await.unwrap().result().await.unwrap();
    db.client.terminate(start("order").await).await.unwrap();
    worker.stop().await;
    // More runs than one page of the list. They have no history, so they fit any code.
    db.client.start_many(before::order, vec![HOUR; 101]).await.unwrap();
    let mut raw = db.raw().await;
    let riddle = match db.database {
        Database::Memory => unreachable!("these cases do not run on the in-memory store"),
        Database::Sqlite => format!("run_id = '{}'", names[3].0),
        Database::Postgres => format!("run_id = '{}'::uuid", names[3].0),
    };
    raw.execute(format!("UPDATE step_attempts SET kind = 'riddle' WHERE step_key = 'refund' AND {riddle}")).await;

    until_counted(&mut raw, 110).await;
    let rows = dump(&mut raw).await;
    let probe = Probe::new();
    let report = after_worker(db.client.clone(), &probe).preflight().await.unwrap();
    assert_eq!(dump(&mut raw).await, rows, "the preflight wrote to the database");
    assert_eq!(probe.notes(), [""; 0], "a body began");
    let unreadable = report.unreadable[0].found.to_string();
    assert!(unreadable.contains("riddle"), "{unreadable}");
    assert_eq!(shown(&report, &names).replace(&unreadable, "UNREADABLE"), REPORT);
    assert_eq!(format!("{:?}", report.exit_code()), format!("{:?}", std::process::ExitCode::FAILURE));

    if db.database == Database::Postgres {
        let text = report.to_string();
        assert_eq!(
            reader_preflight(&db, &mut raw, &probe).await,
            text,
            "a role that may only read gets the same report"
        );
    }
}

/// Returns the report that a role gets that may only read.
async fn reader_preflight(db: &Live, raw: &mut RawConnection, probe: &Probe) -> String {
    let schema = db.schema().unwrap();
    let role = format!("{schema}_r");
    raw.execute(format!(
        "CREATE ROLE {role}; GRANT USAGE ON SCHEMA {schema} TO {role}; GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {role}"
    ))
    .await;
    let url = db.url();
    let joint = if url.contains('?') { '&' } else { '?' };
    let client = Client::connect(format!("{url}{joint}options[role]={role}")).schema(schema).await.unwrap();
    client.start(before::order, HOUR).await.expect_err("the role must not be able to write");
    let report = after_worker(client.clone(), probe).preflight().await.unwrap();
    client.store().close().await;
    raw.execute(format!("DROP OWNED BY {role}; DROP ROLE {role}")).await;
    report.to_string()
}

pub async fn a_report_without_divergence_is_clean(db: Live) {
    parked(&db).await;
    let report = before_worker(&db).preflight().await.unwrap();
    assert_eq!(report.to_string(), "preflight of 1 unfinished run: clean\n       1 fit");
    let exit = |code: std::process::ExitCode| format!("{code:?}");
    assert_eq!(exit(report.exit_code()), exit(std::process::ExitCode::SUCCESS));
    assert!(report.strict().is_clean());

    let report = db.worker(Probe::new()).register(before::gift).preflight().await.unwrap();
    assert!(report.is_clean(), "another worker may serve the other workflow");
    assert!(!report.strict().is_clean());
}

pub async fn a_workflow_that_publishes_is_judged(db: Live) {
    #[workflow]
    async fn publishing(ctx: &Ctx<Probe>) -> Result<()> {
        ctx.publish("progress", &0)?;
        ctx.emit("log", &"begun")?;
        ctx.step("work", async || Ok::<_, Error>(ctx.state().count("work"))).await?;
        Ok(())
    }
    let run = db.client.start(publishing, ()).await.unwrap();
    let report = db.worker(Probe::new()).register(publishing).preflight().await.unwrap();
    assert_eq!(report.to_string(), "preflight of 1 unfinished run: clean\n       1 fit");
    let history = db.client.export(run.id()).await.unwrap().to_json();
    let replayed = replay(publishing, Probe::new(), &history).unwrap();
    assert!(matches!(&replayed, Replayed::Waits(calls) if calls[0].key == "work"), "{replayed:?}");
}

pub async fn a_worker_without_workflows_judges_no_run(db: Live) {
    assert!(matches!(db.worker(()).preflight().await, Err(WorkerError::NoWorkflows)));
    let twice = db.worker(Probe::new()).register(before::order).register(after::order);
    assert!(matches!(twice.preflight().await, Err(WorkerError::DuplicateWorkflow { .. })));
}

pub async fn one_run_of_the_database_is_replayed(db: Live) {
    let waiting = parked(&db).await;
    let mut raw = db.raw().await;
    let rows = dump(&mut raw).await;
    let probe = Probe::new();
    let before = db.worker(probe.clone()).register(before::order);
    let replayed = before.replay(waiting).await.unwrap();
    assert!(matches!(&replayed, Replayed::Waits(calls) if calls[0].key == "sleep"), "{replayed:?}");
    let after = after_worker(db.client.clone(), &probe);
    let misfit = after.replay(waiting).await.unwrap_err();
    assert!(matches!(&misfit, ReplayRunError::Misfit(Misfit::Diverged(_))), "{misfit:?}");
    assert!(misfit.to_string().contains("charge-card"), "{misfit}");
    assert_eq!(dump(&mut raw).await, rows, "the replay wrote to the database");
    assert_eq!(probe.notes(), [""; 0], "a body began");

    let gifts = db.worker(probe.clone()).register(before::gift);
    let refused = gifts.replay(waiting).await.unwrap_err();
    assert!(matches!(&refused, ReplayRunError::Unregistered { workflow, .. } if workflow == "order"), "{refused:?}");
    let unknown = RunId::generate();
    let refused = before.replay(unknown).await.unwrap_err();
    assert!(matches!(&refused, ReplayRunError::UnknownRun { run_id } if *run_id == unknown), "{refused:?}");
    let nothing = db.worker(()).replay(waiting).await.unwrap_err();
    assert!(matches!(nothing, ReplayRunError::Worker(WorkerError::NoWorkflows)), "{nothing:?}");
    raw.execute("UPDATE step_attempts SET kind = 'riddle' WHERE step_key = 'charge'").await;
    let riddle = before.replay(waiting).await.unwrap_err();
    assert!(matches!(&riddle, ReplayRunError::Unreadable(_)) && riddle.to_string().contains("riddle"), "{riddle:?}");
}
