//! Checks that values and errors of authors never appear in the log, in errors or in debug output.
//!
//! These tests put one mark into every value and every error, and do everything that can be done
//! with a value. The log of all crates at the TRACE level must not contain the mark. All other
//! tests look for their own values and the database's password in the log, too (`log_secrets.rs`).
//! The output of a panic hook belongs to the application and is not part of the log.

use std::time::Duration;

use workflow_sdk::prelude::*;
use workflow_sdk::{ClientError, RunFilter};
use workflow_tests::log_capture::log_lines;
use workflow_tests::secret_values::{MARK, marked, marked_child, marked_failure, marked_panic, secret, tell};
use workflow_tests::{Live, LocalWorker, Probe, until};
use workflow_worker::{ForeignAwait, Worker};

/// Asks for another step than [`marked`], so it diverges from that workflow's history.
#[workflow(name = "marked")]
async fn other_code(ctx: &Ctx<Probe>, input: String) -> Result<String> {
    let number: u64 = ctx.step("value", async || Ok::<_, Error>(1)).await?;
    Ok(format!("{number} {input}"))
}

/// Awaits a future that is not durable, publishes a value that is too large, and receives a signal
/// of the wrong type.
#[workflow(allow(tokio_time))]
async fn careless(ctx: &Ctx<Probe>, input: String) -> Result<String> {
    tokio::time::sleep(Duration::from_millis(1)).await;
    ctx.publish("too large", &input.repeat(100_000)).unwrap_err();
    let received: Option<u64> = ctx.signal("tell").timeout(Duration::from_secs(60)).await?;
    Ok(format!("{received:?}"))
}

/// Connects another client to the database, with a low payload limit.
async fn client(db: &Live) -> Client {
    db.connect().payload_limit(10_000).await.expect("a second client")
}

fn worker(client: &Client, probe: &Probe) -> Worker<Probe> {
    let worker = Worker::new(client.clone(), probe.clone()).linger(Duration::ZERO);
    worker.register(marked_child).register(marked_failure).register(marked_panic).register(careless)
}

#[track_caller]
fn nothing_logged() {
    let lines = log_lines(&[MARK]);
    assert!(lines.is_empty(), "{} lines of the log contain the mark; the first: {}", lines.len(), lines[0]);
}

pub async fn no_value_of_an_author_is_logged(db: Live) {
    let client = client(&db).await;
    let probe = Probe::new();
    let working = LocalWorker::start(worker(&client, &probe).register(marked));
    let run = client.start(marked, secret("input")).key("one").tag("region", "eu").await.unwrap();
    tell(&client, &run).await;
    let waits = async || client.explain(run.id()).await.unwrap().to_string().contains("tell").then_some(());
    until("the second generation waits", waits).await;
    working.stop().await;

    // Code that does not match the history: the divergence is logged, then the right code
    // continues.
    let due = "UPDATE workflow_runs SET available_at = 0 WHERE status = 'parked'";
    db.raw().await.execute(due).await;
    let working = LocalWorker::start(worker(&client, &probe).register(other_code));
    until("the run diverges", async || run.run().await.unwrap().error.map(drop)).await;
    working.stop().await;
    db.raw().await.execute(due).await;
    let working = LocalWorker::start(worker(&client, &probe).register(marked));
    tell(&client, &run).await;
    run.result().await.unwrap();

    client.start(marked_failure, secret("input")).await.unwrap().result().await.unwrap_err();
    client.start(marked_panic, secret("input")).await.unwrap().result().await.unwrap_err();
    let careless_run = client.start(careless, secret("input")).await.unwrap();
    careless_run.signal("tell", &secret("no number")).await.unwrap();
    careless_run.result().await.unwrap_err();
    client.start_by_name("careless", &serde_json::json!({ MARK: 1 })).await.unwrap().result().await.unwrap_err();
    let canceled = client.start(marked, secret("input")).await.unwrap();
    canceled.cancel().await.unwrap();
    canceled.result().await.unwrap_err();
    run.fork().from("flaky").await.unwrap().terminate().await.unwrap();
    working.stop().await;
    let strict = LocalWorker::start(worker(&client, &probe).foreign_await(ForeignAwait::Fail));
    client.start(careless, secret("input")).await.unwrap().result().await.unwrap_err();
    strict.stop().await;

    // A write fails in the database, and the error of a statement may show its values.
    let waiting = client.start_by_name("unserved", &secret("input").into()).await.unwrap();
    db.raw().await.execute("DROP TABLE workflow_signals").await;
    client.signal(waiting.id(), "tell", &secret("lost")).await.unwrap_err();
    client.store().close().await;
    assert!(!log_lines(&["TRACE workflow: batch committed"]).is_empty(), "everything is logged");
    assert!(!log_lines(&["run parked: the code does not fit"]).is_empty(), "the divergence was logged");
    nothing_logged();
}

/// Returns the display text and the debug output of an error and of all its sources.
pub fn texts(error: &dyn std::error::Error) -> String {
    let chain = std::iter::successors(Some(error), |error| error.source());
    chain.map(|error| format!("{error}\n{error:?}\n")).collect()
}

pub async fn no_error_and_no_debug_output_shows_a_value(db: Live) {
    let client = client(&db).await;
    let input = secret("input");
    let run = client.start(marked_child, input.clone()).key("taken").await.unwrap();
    let probe = Probe::new();
    let working = LocalWorker::start(worker(&client, &probe));
    run.result().await.unwrap();
    run.signal("tell", &input).await.unwrap();
    let errors: Vec<ClientError> = vec![
        run.clone().typed::<u64>().result().await.unwrap_err(),
        run.clone().typed::<Vec<bool>>().result().await.unwrap_err(),
        client.start(marked_child, secret("another")).key("taken").await.unwrap_err(),
        client.start(marked_child, input.repeat(1000)).await.unwrap_err(),
        client.signal(run.id(), "tell", &input.repeat(1000)).await.unwrap_err(),
        client.start_by_name("careless", &serde_json::json!({ MARK: f64::NAN })).key("\0").await.unwrap_err(),
        run.fork().from("nowhere").input(&input).await.unwrap_err(),
        client.retry(run.id()).await.unwrap_err(),
    ];
    working.stop().await;
    for error in errors {
        let texts = texts(&error);
        assert!(!texts.contains(MARK), "{texts}");
    }
    let shown = [
        format!("{client:?}"),
        format!("{run:?}"),
        format!("{:?}", client.start(marked_child, input.clone())),
        format!("{:?}", client.signal(run.id(), "tell", &input)),
        format!("{:?}", run.fork().input(&input)),
        format!("{:?}", client.approve(run.id(), "gate", &input).note(&input)),
        format!("{:?}", client.export(run.id())),
        format!("{:?}", client.stream::<String>(run.id(), "lines")),
        format!("{:?}", worker(&client, &probe)),
        format!("{:?}", Client::connect(format!("postgres://ann:{MARK}@db/app"))),
        format!("{:?}", client.list(&RunFilter::new()).await.unwrap()),
        format!("{:?}", client.history(run.id()).await.unwrap()),
    ];
    for shown in shown {
        assert!(!shown.contains(MARK), "{shown}");
    }
    for url in [
        format!("postgres://ann:{MARK}@127.0.0.1:1/app"),
        format!("postgres://127.0.0.1:1/app?password={MARK}"),
        format!("postgres://ann:{MARK}@127.0.0.1:99999/app"),
        format!("postgres://ann:{MARK}@[::1/app"),
        format!("postgres://ann:%{MARK}@/app?sslmode=what"),
        format!("postgres:ann:{MARK}@db/app"),
        format!("mysql://ann:{MARK}@db/app"),
        format!("sqlite://a.db?password={MARK}"),
    ] {
        let texts = texts(&Client::connect(&url).await.unwrap_err());
        assert!(!texts.contains(MARK), "{url}: {texts}");
    }
}
