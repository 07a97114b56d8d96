use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use workflow_sdk::prelude::*;
use workflow_sdk::{AttemptStatus, ClientError, RunFilter, RunHandle, RunId, RunSummary, StepKind, Timestamp};
use workflow_tests::{Live, LocalWorker, Probe, until};

use crate::reaches;

const HOUR: Duration = Duration::from_secs(3600);

#[workflow]
async fn echo(ctx: &Ctx, text: String) -> Result<String> {
    ctx.step("echo", async || Ok::<_, Error>(text.clone())).await
}

#[workflow]
async fn other(ctx: &Ctx, text: String) -> Result<String> {
    let _ = ctx;
    Ok(text)
}

pub async fn a_key_makes_one_run(db: Live) {
    let first = db.client.start(echo, "a".into()).key("order-42").await.unwrap();
    let again = db.client.start(echo, "a".into()).key("order-42").await.unwrap();
    let elsewhere = db.second_client().await.start(echo, "a".into()).key("order-42").await.unwrap();
    assert_eq!((again.id(), elsewhere.id()), (first.id(), first.id()));
    assert_eq!(first.run().await.unwrap().key.as_deref(), Some("order-42"));

    let conflict = db.client.start(echo, "b".into()).key("order-42").await.unwrap_err();
    let ClientError::KeyConflict { workflow, key, run_id } = &conflict else { panic!("{conflict:?}") };
    assert_eq!((workflow.as_str(), key.as_str(), *run_id), ("echo", "order-42", first.id()));
    assert_eq!(
        conflict.to_string(),
        format!(
            "key \"order-42\" of workflow \"echo\" belongs to run {}, which has another input; \
             use another key for another input, or look at that run",
            first.id()
        )
    );
    let foreign = db.client.start(other, "b".into()).key("order-42").await.unwrap();
    assert_ne!(foreign.id(), first.id(), "a key is unique per workflow");

    let found = db.client.find(echo, "order-42").await.unwrap().unwrap();
    assert_eq!(found.id(), first.id());
    assert!(db.client.find(echo, "order-4").await.unwrap().is_none());
    assert!(matches!(db.client.find(echo, "").await, Err(ClientError::Name(_))));

    let worker = LocalWorker::start(db.worker(()).register(echo));
    assert_eq!(found.result().await.unwrap(), "a");
    let ended = db.client.start(echo, "a".into()).key("order-42").await.unwrap();
    assert_eq!(
        (ended.id(), ended.result().await.unwrap()),
        (first.id(), "a".to_owned()),
        "the key applies after the end of the run, too"
    );
    worker.stop().await;
    assert_eq!(db.client.list(&RunFilter::new()).await.unwrap().len(), 2);
}

pub async fn the_order_of_map_entries_does_not_change_the_input(db: Live) {
    #[workflow]
    async fn mapped(ctx: &Ctx, input: HashMap<String, u32>) -> Result<usize> {
        let _ = ctx;
        Ok(input.len())
    }
    let input = || (0..50).map(|n| (format!("key {n}"), n)).collect::<HashMap<_, _>>();
    let text = |map: &HashMap<String, u32>| serde_json::to_string(map).unwrap();
    let (one, two) = (input(), input());
    assert_ne!(text(&one), text(&two), "the two maps have different orders of iteration");
    let first = db.client.start(mapped, one).key("k").await.unwrap();
    assert_eq!(db.client.start(mapped, two).key("k").await.unwrap().id(), first.id());
    let mut third = input();
    third.insert("key 0".into(), 1);
    let conflict = db.client.start(mapped, third).key("k").await.unwrap_err();
    assert!(matches!(conflict, ClientError::KeyConflict { run_id, .. } if run_id == first.id()));
}

pub async fn a_run_starts_after_its_delay_or_at_its_time(db: Live) {
    const DELAY: Duration = Duration::from_millis(400);

    let worker = LocalWorker::start(db.worker(()).register(echo));
    let delayed = db.client.start(echo, "a".into()).delay(DELAY).await.unwrap();
    let at = Timestamp::from(SystemTime::now() + DELAY);
    let timed = db.client.start(echo, "b".into()).at(at).await.unwrap();
    let past = db.client.start(echo, "c".into()).at(SystemTime::now() - HOUR).await.unwrap();
    let row = delayed.run().await.unwrap();
    assert_eq!((row.status, row.available_at), (RunStatus::Pending, row.created_at + DELAY));
    assert_eq!(timed.run().await.unwrap().available_at, at);
    assert_eq!(past.result().await.unwrap(), "c");
    assert_eq!((delayed.result().await.unwrap(), timed.result().await.unwrap()), ("a".into(), "b".into()));
    let row = delayed.run().await.unwrap();
    assert!(row.started_at.unwrap() >= row.created_at + DELAY);
    assert!(timed.run().await.unwrap().started_at.unwrap() >= at);
    worker.stop().await;
}

pub async fn a_worker_takes_only_runs_of_its_queues(db: Live) {
    let mail = db.client.start(echo, "mail".into()).queue("mail").await.unwrap();
    let slow = db.client.start(echo, "slow".into()).queue("slow").await.unwrap();
    let default = db.client.start(echo, "default".into()).await.unwrap();
    let worker = LocalWorker::start(db.worker(()).register(echo).queues(["mail", "fast"]));
    assert_eq!(mail.result().await.unwrap(), "mail");
    // This run started later and has ended, so the worker has claimed since.
    let later = db.client.start(echo, "fast".into()).queue("fast").await.unwrap();
    assert_eq!(later.result().await.unwrap(), "fast");
    for run in [&slow, &default] {
        assert_eq!((run.status().await.unwrap(), run.run().await.unwrap().epoch), (RunStatus::Pending, 0));
    }
    worker.stop().await;
    let worker = LocalWorker::start(db.worker(()).register(echo));
    assert_eq!(default.result().await.unwrap(), "default");
    assert_eq!(slow.status().await.unwrap(), RunStatus::Pending);
    worker.stop().await;
}

pub async fn a_worker_takes_only_runs_of_its_versions(db: Live) {
    #[workflow(name = "echo", version = "2")]
    async fn echo_2(ctx: &Ctx, text: String) -> Result<String> {
        let _ = ctx;
        Ok(format!("{text} of 2"))
    }
    let old = db.client.start(echo, "a".into()).await.unwrap();
    let new = db.client.start(echo_2, "b".into()).await.unwrap();
    let named = db.client.start_by_name("echo", &json!("c")).version("2").await.unwrap();
    let worker = LocalWorker::start(db.worker(()).register(echo_2));
    assert_eq!(new.result().await.unwrap(), "b of 2");
    assert_eq!(named.result().await.unwrap(), json!("c of 2"));
    assert_eq!(old.status().await.unwrap(), RunStatus::Pending);
    worker.stop().await;
    let worker = LocalWorker::start(db.worker(()).register(echo).register(echo_2));
    assert_eq!(old.result().await.unwrap(), "a");
    worker.stop().await;
}

pub async fn a_run_is_stored_as_it_was_started(db: Live) {
    let run = db
        .client
        .start(echo, "ä\u{0}\"🦀".into())
        .key("k")
        .queue("mail")
        .tag("region", "us")
        .tag("region", "eu")
        .tag("empty", "")
        .deadline(HOUR)
        .await
        .unwrap();
    let row = run.run().await.unwrap();
    assert_eq!((row.id, row.status, row.epoch), (run.id(), RunStatus::Pending, 0));
    assert_eq!((row.lane.workflow.as_str(), row.lane.version.as_str()), ("echo", "1"));
    assert_eq!((row.lane.queue.as_str(), row.key.as_deref()), ("mail", Some("k")));
    assert_eq!(serde_json::from_str::<String>(&row.input).unwrap(), "ä\u{0}\"🦀");
    assert_eq!(row.tags, BTreeMap::from([("region".into(), "eu".into()), ("empty".into(), String::new())]));
    assert_eq!(row.deadline_at, Some(row.created_at + HOUR));
    assert_eq!((row.started_at, row.completed_at, row.output.as_deref()), (None, None, None));

    let worker = LocalWorker::start(db.worker(()).register(echo).queues(["mail"]));
    assert_eq!(run.result().await.unwrap(), "ä\u{0}\"🦀");
    worker.stop().await;
}

pub async fn thousands_are_started_at_once(db: Live) {
    const RUNS: usize = 5000;

    let runs = db.client.start_many(echo, (0..RUNS).map(|n| n.to_string())).await.unwrap();
    let ids: Vec<RunId> = runs.iter().map(RunHandle::id).collect();
    assert_eq!(ids.iter().collect::<HashSet<_>>().len(), RUNS);
    assert!(ids.is_sorted(), "the ids are in the order of the inputs");
    for n in [0, 1, 4095, 4096, 4999] {
        assert_eq!(runs[n].run().await.unwrap().input, format!("\"{n}\""));
    }
    assert_eq!(db.raw().await.number("SELECT count(*) FROM workflow_runs").await, 5000);
    assert!(db.client.start_many(echo, Vec::new()).await.unwrap().is_empty());
}

pub async fn one_refused_input_of_many_starts_no_run(db: Live) {
    let client = db.connect().payload_limit(10).await.unwrap();
    let inputs = ["a".to_owned(), "x".repeat(9), "b".to_owned()];
    let error = client.start_many(echo, inputs).await.unwrap_err();
    assert!(matches!(error, ClientError::Payload(_)), "{error}");
    assert!(client.list(&RunFilter::new()).await.unwrap().is_empty());
}

pub async fn a_thousand_concurrent_starts_are_all_stored(db: Live) {
    let tasks = (0..32).map(|task| {
        let client = db.client.clone();
        tokio::spawn(async move {
            let mut ids = Vec::new();
            for n in (0..1000).filter(|n| n % 32 == task) {
                // Half of the starts use a key that another task uses, too.
                let start = client.start(echo, format!("{}", n / 2));
                let start = if n % 4 < 2 { start.key(format!("key {}", n / 2)) } else { start };
                ids.push(start.await.unwrap().id());
            }
            ids
        })
    });
    let mut ids = HashSet::new();
    for task in tasks.collect::<Vec<_>>() {
        ids.extend(task.await.unwrap());
    }
    assert_eq!(ids.len(), 750, "250 keys, and 500 runs without one");
    assert_eq!(db.raw().await.number("SELECT count(*) FROM workflow_runs").await, 750);
}

pub async fn a_run_is_started_by_name(db: Live) {
    #[workflow(name = "sum of two")]
    async fn sum(ctx: &Ctx, (a, b): (u32, u32)) -> Result<Value> {
        let _ = ctx;
        Ok(json!({ "sum": a + b }))
    }
    let worker = LocalWorker::start(db.worker(()).register(sum));
    let run = db.client.start_by_name("sum of two", &json!([1, 2])).key("k").await.unwrap();
    assert_eq!(run.result().await.unwrap(), json!({ "sum": 3 }));
    let typed = db.client.start(sum, (1, 2)).key("k").await.unwrap();
    assert_eq!(typed.id(), run.id(), "both starts have the same name, key and input");
    worker.stop().await;
}

pub async fn a_result_of_another_type_is_an_error(db: Live) {
    let worker = LocalWorker::start(db.worker(()).register(echo));
    let run = db.client.start(echo, "seven".into()).await.unwrap();
    run.result().await.unwrap();
    let wrong = db.client.handle::<u64>(run.id()).await.unwrap();
    let error = wrong.result().await.unwrap_err();
    assert!(matches!(&error, ClientError::Decode { run_id, .. } if *run_id == run.id()));
    assert_eq!(
        error.to_string(),
        format!(
            "the output of run {} does not decode as u64: invalid type: string, expected u64 at line 1 column 7; \
             ask for the type that the workflow returns, or for serde_json::Value",
            run.id()
        )
    );
    let value = db.client.handle::<Value>(run.id()).await.unwrap();
    assert_eq!(value.result().await.unwrap(), json!("seven"));
    worker.stop().await;
}

pub async fn the_result_of_a_removed_run_is_an_error(db: Live) {
    #[workflow]
    async fn unserved(ctx: &Ctx<Probe>) -> Result<()> {
        ctx.sleep(HOUR).await
    }
    let second = db.second_client().await;
    let run = db.client.start(unserved, ()).await.unwrap();
    let still_there = db.client.start(unserved, ()).await.unwrap();
    let elsewhere = second.handle::<()>(run.id()).await.unwrap();
    let mut waiting = std::pin::pin!(still_there.result());
    assert!(futures::poll!(&mut waiting).is_pending());
    let delete = format!("DELETE FROM workflow_runs WHERE id = '{}'", run.id());
    db.raw().await.execute(delete).await;
    for result in <[_; 2]>::from(futures::join!(run.result(), elsewhere.result())) {
        assert!(matches!(result, Err(ClientError::UnknownRun { run_id }) if run_id == run.id()), "{result:?}");
    }
    assert!(futures::poll!(&mut waiting).is_pending(), "another wait goes on");
}

pub async fn every_waiting_caller_gets_the_result(db: Live) {
    #[workflow]
    async fn gated(ctx: &Ctx<Probe>, fails: bool) -> Result<u32> {
        ctx.step("gate", async || Ok::<_, Error>(ctx.state().pass("gate").await)).await?;
        if fails { Err(Error::msg("closed")) } else { Ok(1) }
    }
    let second = db.second_client().await;
    for fails in [false, true] {
        let probe = Probe::new();
        let worker = LocalWorker::start(db.worker(probe.clone()).register(gated));
        let run = db.client.start(gated, fails).await.unwrap();
        let elsewhere = second.handle::<u32>(run.id()).await.unwrap();
        let wait = |run: RunHandle<u32>| tokio::spawn(async move { run.result().await });
        let waits = [wait(run.clone()), wait(run.clone()), wait(elsewhere)];
        // A caller that stops waiting does not disturb the others.
        assert!(tokio::time::timeout(Duration::from_millis(20), run.result()).await.is_err());
        reaches(&run, RunStatus::Running).await;
        probe.open("gate");
        for wait in waits {
            match wait.await.unwrap() {
                Ok(output) => assert!(!fails && output == 1),
                Err(ClientError::RunFailed { run_id, error }) => {
                    assert!(fails && run_id == run.id());
                    assert_eq!((error.kind, error.message.as_str()), (ErrorKind::Application, "closed"));
                }
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!(run.result().await.is_err(), fails, "a later call gets the same result");
        worker.stop().await;
    }
}

pub async fn a_history_shows_running_steps(db: Live) {
    #[workflow]
    async fn two(ctx: &Ctx<Probe>) -> Result<()> {
        ctx.step("first", async || Ok::<_, Error>("one".to_owned())).await?;
        ctx.step("second", async || Ok::<_, Error>(ctx.state().pass("gate").await)).await?;
        ctx.sleep(Duration::from_millis(1)).await
    }
    let probe = Probe::new();
    let run = db.client.start(two, ()).await.unwrap();
    assert_eq!(run.status().await.unwrap(), RunStatus::Pending);
    assert_eq!(run.history().await.unwrap(), []);
    let worker = LocalWorker::start(db.worker(probe.clone()).register(two));
    let seen = async || {
        let history = run.history().await.unwrap();
        (history.len() == 2).then_some(history)
    };
    let history = workflow_tests::until("the long step is shown while it runs", seen).await;
    assert_eq!(run.status().await.unwrap(), RunStatus::Running);
    assert_eq!((history[0].status, history[0].output.as_deref()), (AttemptStatus::Succeeded, Some("\"one\"")));
    assert_eq!((history[1].status, history[1].completed_at), (AttemptStatus::Running, None));
    probe.open("gate");
    run.result().await.unwrap();
    let history = run.history().await.unwrap();
    let rows: Vec<_> = history.iter().map(|row| (row.step_key.as_str(), row.kind, row.position)).collect();
    let step = StepKind::Step;
    assert_eq!(rows, [("first", step, Some(1)), ("second", step, Some(2)), ("sleep", StepKind::Sleep, Some(3))]);
    assert!(history.iter().all(|row| row.status == AttemptStatus::Succeeded && row.epoch == 1));
    assert!(history.is_sorted_by_key(|row| row.completed_at));
    worker.stop().await;
}

async fn pages(client: &Client, filter: RunFilter) -> Vec<RunSummary> {
    let size = filter.page_size as usize;
    let (mut all, mut page) = (Vec::new(), client.list(&filter).await.unwrap());
    while page.len() == size {
        let last = page.last().unwrap().id;
        all.append(&mut page);
        page = client.list(&filter.clone().after(last)).await.unwrap();
    }
    assert!(page.len() < size);
    all.append(&mut page);
    all
}

pub async fn the_pages_of_a_list_show_each_run_once(db: Live) {
    let mut expected = Vec::new();
    for n in 0..250 {
        let start = db.client.start(echo, n.to_string()).tag("rest", (n % 5).to_string());
        let start = if n % 2 == 0 { start.queue("even") } else { start };
        let start = if n % 10 == 0 { start.key(format!("ten/{n}")) } else { start };
        expected.push(start.await.unwrap().id());
    }
    let foreign = db.client.start(other, String::new()).await.unwrap();
    foreign.cancel().await.unwrap();
    expected.reverse();

    let echoes = RunFilter::new().workflow("echo");
    for size in [7, 50, 100, 1000] {
        let ids: Vec<RunId> =
            pages(&db.client, echoes.clone().page_size(size)).await.iter().map(|run| run.id).collect();
        assert_eq!(ids, expected, "pages of {size}");
    }
    let count = async |filter: RunFilter| pages(&db.client, filter.page_size(30)).await.len();
    assert_eq!(count(RunFilter::new()).await, 251);
    assert_eq!(count(RunFilter::new().status(RunStatus::Canceled)).await, 1);
    assert_eq!(count(echoes.clone().status(RunStatus::Canceled)).await, 0);
    assert_eq!(count(echoes.clone().status(RunStatus::Canceled).status(RunStatus::Pending)).await, 250);
    assert_eq!(count(echoes.clone().queue("even")).await, 125);
    assert_eq!(count(echoes.clone().queue("even").tag("rest", "3")).await, 25);
    assert_eq!(count(echoes.clone().key_prefix("ten/1")).await, 11, "the keys ten/10 and ten/100 to ten/190");
    let middle = db.client.run(expected[100]).await.unwrap().created_at;
    let (newer, older) = (echoes.clone().created_from(middle), echoes.created_before(middle));
    let newer = count(newer).await;
    assert!((101..250).contains(&newer), "{newer}");
    assert_eq!(newer + count(older).await, 250);
}

pub async fn every_call_reports_an_unknown_run(db: Live) {
    let id = RunId::generate();
    let text = format!(
        "there is no run {id} in this database; \
         it may have been deleted: check the id, and that the client is connected to the database of the run"
    );
    let errors = [
        db.client.run(id).await.unwrap_err(),
        db.client.history(id).await.unwrap_err(),
        db.client.cancel(id).await.unwrap_err(),
        db.client.handle::<()>(id).await.unwrap_err(),
    ];
    for error in errors {
        assert!(matches!(error, ClientError::UnknownRun { run_id } if run_id == id), "{error:?}");
        assert_eq!(error.to_string(), text);
    }
}

/// Counts the connections to the database: on PostgreSQL the sessions whose last statement names
/// the schema, on SQLite the open descriptors of this process. It counts descriptors of the WAL,
/// because SQLite keeps the database file open as long as the process has another connection.
async fn connections(db: &Live) -> i64 {
    if let Some(schema) = db.schema() {
        let sessions = "SELECT count(*) FROM pg_stat_activity WHERE pid <> pg_backend_pid()";
        return db.raw().await.number(format!("{sessions} AND query LIKE '%{schema}%'")).await;
    }
    let url = db.url();
    let log = format!("{}-wal", url.trim_start_matches("sqlite://"));
    let open = std::fs::read_dir("/proc/self/fd").unwrap();
    // A descriptor may be closed while this loop reads the others.
    let open = open.filter_map(|fd| std::fs::read_link(fd.unwrap().path()).ok());
    i64::try_from(open.filter(|to| to.as_os_str() == log.as_str()).count()).unwrap()
}

pub async fn a_client_that_is_dropped_leaves_no_connection(db: Live) {
    let before = connections(&db).await;
    let client = db.second_client().await;
    let run = client.start(echo, "a".into()).await.unwrap();
    // A client that waits for a result listens for changes of other processes.
    let result = tokio::spawn(async move { run.result().await });
    let listening = async || match db.schema() {
        Some(schema) => {
            db.raw()
                .await
                .number(format!("SELECT count(*) FROM pg_stat_activity WHERE query = 'LISTEN \"workflow_{schema}\"'"))
                .await
        }
        None => connections(&db).await - before - 1,
    };
    until("a listener", async || (listening().await > 0).then_some(())).await;
    result.abort();
    drop(client);
    until("no more connections than before", async || (connections(&db).await <= before).then_some(())).await;
}
