//! One mark stands in every value and every error; the log of everything, at its most talkative, must not have it. All tests look for
//! their own values, and the database's password, in the log (`disclosed.rs`): these do all that can be done with a value. What a panic hook
//! prints is the application's, and is not part of the log.

use std::time::Duration;

use workflow_sdk::prelude::*;
use workflow_sdk::{ClientError, RunFilter};
use workflow_tests::captured::log_lines;
use workflow_tests::marked::{MARK, marked, marked_child, marked_failure, marked_panic, secret, tell};
use workflow_tests::{Live, Probe, Working, until};
use workflow_worker::{ForeignAwait, Worker};

/// Asks for something else than [`marked`].
#[workflow(name = "marked")]
async fn other_code(ctx: &Ctx<Probe>, input: String) -> Result<String> {
    let number: u64 = ctx.step("value", async || Ok::<_, Error>(1)).await?;
    Ok(format!("{number} {input}"))
}

/// Waits for something that is not durable, and gives what its type cannot hold.
#[workflow(allow(tokio_time))]
async fn careless(ctx: &Ctx<Probe>, input: String) -> Result<String> {
    tokio::time::sleep(Duration::from_millis(1)).await;
    ctx.publish("too large", &input.repeat(100_000)).unwrap_err();
    let told: Option<u64> = ctx.signal("tell").timeout(Duration::from_secs(60)).await?;
    Ok(format!("{told:?}"))
}

/// The same database, with a limit that is soon reached.
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
    assert!(lines.is_empty(), "{} lines of the log hold it, as this: {}", lines.len(), lines[0]);
}

pub async fn nothing_that_an_author_hands_over_is_logged(db: Live) {
    let client = client(&db).await;
    let probe = Probe::new();
    let working = Working::start(worker(&client, &probe).register(marked));
    let run = client.start(marked, secret("input")).key("one").tag("region", "eu").await.unwrap();
    tell(&client, &run).await;
    let waits = async || client.explain(run.id()).await.unwrap().to_string().contains("tell").then_some(());
    until("the second generation waits", waits).await;
    working.stop().await;

    // Code that does not fit the history: the divergence is told, then the right code goes on.
    let due = "UPDATE workflow_runs SET available_at = 0 WHERE status = 'parked'";
    db.raw().await.execute(due).await;
    let working = Working::start(worker(&client, &probe).register(other_code));
    until("it diverges", async || run.run().await.unwrap().error.map(drop)).await;
    working.stop().await;
    db.raw().await.execute(due).await;
    let working = Working::start(worker(&client, &probe).register(marked));
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
    let strict = Working::start(worker(&client, &probe).foreign_await(ForeignAwait::Fail));
    client.start(careless, secret("input")).await.unwrap().result().await.unwrap_err();
    strict.stop().await;

    // The database does not take it: a statement's error shows what it was about.
    let waiting = client.start_by_name("nobody knows it", &secret("input").into()).await.unwrap();
    db.raw().await.execute("DROP TABLE workflow_signals").await;
    client.signal(waiting.id(), "tell", &secret("lost")).await.unwrap_err();
    client.backend().close().await;
    assert!(!log_lines(&["TRACE workflow_sdk::executor"]).is_empty(), "everything is logged");
    assert!(!log_lines(&["run parked: the code does not fit"]).is_empty(), "the divergence was logged");
    nothing_logged();
}

/// The text and the Debug of an error and of all its sources.
fn told(error: &dyn std::error::Error) -> String {
    let chain = std::iter::successors(Some(error), |error| error.source());
    chain.map(|error| format!("{error}\n{error:?}\n")).collect()
}

pub async fn no_error_and_no_debug_output_shows_a_value(db: Live) {
    let client = client(&db).await;
    let input = secret("input");
    let run = client.start(marked_child, input.clone()).key("taken").await.unwrap();
    let probe = Probe::new();
    let working = Working::start(worker(&client, &probe));
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
        let told = told(&error);
        assert!(!told.contains(MARK), "{told}");
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
        let told = told(&Client::connect(&url).await.unwrap_err());
        assert!(!told.contains(MARK), "{url}: {told}");
    }
}
