//! Streams of events over real connections, on each database.

mod reader;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::time::timeout;
use workflow_http::{Access, Actor, Streams, router};
use workflow_sdk::prelude::*;
use workflow_tests::{Database, FaultyStore, Live, LocalWorker, until};

use reader::{Event, Reader};

#[workflow]
async fn greets(ctx: &Ctx, name: String) -> Result<String> {
    let greeting = ctx.signal::<String>("greeting").await?.unwrap_or_default();
    ctx.step("greet", async || ok(format!("{greeting}, {name}"))).await
}

#[workflow]
async fn logs(ctx: &Ctx, (items, bytes): (u64, usize)) -> Result<u64> {
    for item in 0..items {
        ctx.emit("log", &json!({ "item": item, "token": "s3cr3t", "text": "x".repeat(bytes) }))?;
        ctx.step("next", async || ok(item)).await?;
    }
    Ok(items)
}

/// A server on a port of this machine, and what stops it.
struct Server {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    served: tokio::task::JoinHandle<()>,
}

impl Server {
    async fn start(client: &Client, access: Access) -> Self {
        let (stop, stopped) = oneshot::channel();
        let streams = access.open_streams().clone();
        let app = axum::Router::new().nest("/workflows", router(client.clone(), access));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stopped = async move {
            drop(stopped.await);
            streams.end();
        };
        let service = app.into_make_service_with_connect_info::<SocketAddr>();
        let served =
            tokio::spawn(async move { axum::serve(listener, service).with_graceful_shutdown(stopped).await.unwrap() });
        Self { address, stop, served }
    }

    async fn open(&self, path: &str, headers: &[(&str, &str)]) -> Reader {
        Reader::open(self.address, &format!("/workflows/api/v1{path}"), headers).await
    }
}

fn status_of(event: &Event) -> &str {
    event.data["status"].as_str().unwrap_or_default()
}

/// Reads until an event says that the run has this status.
async fn until_status(reader: &mut Reader, run: &str, status: &str) -> Event {
    loop {
        let event = reader.next().await.expect("the stream goes on");
        let items = event.data["items"].as_array().into_iter().flatten();
        if items.into_iter().any(|item| item["run"] == run && item["status"] == status) {
            return event;
        }
    }
}

async fn a_reconnected_reader_has_missed_nothing(database: Database) {
    let live = Live::new(database).await;
    let server = Server::start(&live.client, Access::open()).await;
    let path = "/events?query=workflow:greets";
    let mut reader = server.open(path, &[]).await;
    assert_eq!(reader.status, 200);
    assert!(reader.head.contains("text/event-stream") && reader.head.contains("no-store"), "{}", reader.head);
    // It loses the connection before the first event.
    let place = reader.place().await;
    drop(reader);
    let first = live.client.start(greets, "Ada".into()).await.unwrap().id();
    let mut reader = server.open(path, &[("Last-Event-ID", &place)]).await;
    let event = until_status(&mut reader, &first.to_string(), "pending").await;
    assert_eq!(event.name, "runs");
    drop(reader);

    // Changes while there is no reader, by this process and by another one.
    live.client.cancel(first).await.unwrap();
    let second = live.second_client().await.start(greets, "Bob".into()).await.unwrap().id();
    let mut reader = server.open(path, &[("Last-Event-ID", &event.id)]).await;
    let event = reader.next().await.unwrap();
    assert_eq!(event.name, "runs", "{event:?}");
    let items = event.data["items"].as_array().unwrap();
    let has = |run: String, status: &str| items.iter().any(|it| it["run"] == run && it["status"] == status);
    assert!(has(first.to_string(), "canceled") && has(second.to_string(), "pending"), "{event:?}");

    // An id of another query, or of an earlier process, cannot be gone on from.
    for id in [event.id.as_str(), "nonsense"] {
        let mut reader = server.open("/events?query=status:failed", &[("Last-Event-ID", id)]).await;
        assert_eq!(reader.next().await.unwrap().name, "reset");
    }
    live.sweep().await;
}

async fn a_run_is_followed_to_its_end(database: Database) {
    let live = Live::new(database).await;
    let server = Server::start(&live.client, Access::open()).await;
    let run = live.client.start(greets, "Ada".into()).await.unwrap();
    let path = format!("/runs/{}/events", run.id());
    let mut reader = server.open(&path, &[]).await;
    let event = reader.next().await.unwrap();
    assert_eq!((event.name.as_str(), status_of(&event)), ("run", "pending"));
    let working = LocalWorker::start(live.worker(()).register(greets));
    let mut last = event;
    while status_of(&last) != "parked" {
        last = reader.next().await.unwrap();
    }
    drop(reader);
    run.signal("greeting", &"hello".to_owned()).await.unwrap();
    run.result().await.unwrap();
    let mut reader = server.open(&path, &[("Last-Event-ID", &last.id)]).await;
    let mut steps = Vec::new();
    let end = loop {
        let event = reader.next().await.expect("an end");
        match event.name.as_str() {
            "step" => steps.push(event.data["step"].as_str().unwrap().to_owned()),
            "end" => break event,
            _ => {}
        }
    };
    assert!(steps.iter().any(|step| step == "greet"), "{steps:?}");
    assert_eq!(status_of(&end), "succeeded");
    assert_eq!(reader.next().await, None, "the stream ends");
    assert_eq!(server.open(&path, &[("Last-Event-ID", &end.id)]).await.status, 204, "a browser asks no more");
    let mut late = server.open(&path, &[]).await;
    assert_eq!(late.next().await.map(|event| event.name), Some("end".to_owned()));
    working.stop().await;
    live.sweep().await;
}

/// A reader that does not read keeps the server from reading ahead, and loses nothing.
async fn a_reader_that_does_not_read_holds_little(database: Database) {
    const ITEMS: u64 = 300;
    const BYTES: usize = 100_000;
    let live = Live::new(database).await;
    let working = LocalWorker::start(live.worker(()).register(logs));
    let run = live.client.start(logs, (ITEMS, BYTES)).await.unwrap();
    run.result().await.unwrap();
    let store = Arc::new(FaultyStore::new(Arc::clone(live.client.store())));
    let client = Client::over(store.clone(), 1024 * 1024);
    let server = Server::start(&client, Access::open()).await;
    let path = format!("/runs/{}/stream/log", run.id());
    let mut reader = server.open(&path, &[]).await;
    let first = reader.next().await.unwrap();
    assert_eq!((first.id.as_str(), &first.data["item"]["json"]["token"]), ("1", &json!("[redacted]")));
    // The connection holds a few megabytes of the thirty, and the server has stopped to read.
    let settled = reader::settled(async || store.reads("emitted")).await;
    assert!(settled < 30, "{settled} of 38 reads while nothing was taken");
    for number in 2..=ITEMS {
        let event = reader.next().await.unwrap();
        assert_eq!((event.id, &event.data["item"]["json"]["item"]), (number.to_string(), &json!(number - 1)));
    }
    assert_eq!(reader.next().await.unwrap().name, "end");
    let mut rest = server.open(&path, &[("Last-Event-ID", "299")]).await;
    assert_eq!(rest.next().await.unwrap().id, "300");
    working.stop().await;
    live.sweep().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reconnected_reader_has_missed_nothing_on_sqlite() {
    a_reconnected_reader_has_missed_nothing(Database::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reconnected_reader_has_missed_nothing_on_postgres() {
    a_reconnected_reader_has_missed_nothing(Database::Postgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_is_followed_to_its_end_on_sqlite() {
    a_run_is_followed_to_its_end(Database::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_is_followed_to_its_end_on_postgres() {
    a_run_is_followed_to_its_end(Database::Postgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_does_not_read_holds_little_on_sqlite() {
    a_reader_that_does_not_read_holds_little(Database::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_does_not_read_holds_little_on_postgres() {
    a_reader_that_does_not_read_holds_little(Database::Postgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_readers_over_http_cost_the_reads_of_one() {
    const READERS: usize = 50;
    let live = Live::new(Database::Sqlite).await;
    let store = Arc::new(FaultyStore::new(Arc::clone(live.client.store())));
    let client = Client::over(store.clone(), 1024 * 1024);
    let server = Server::start(&client, Access::open()).await;
    let mut readers = Vec::new();
    for _ in 0..READERS {
        readers.push(server.open("/events?query=workflow:greets", &[]).await);
    }
    let before = store.reads_for_changes();
    let run = client.start(greets, "Ada".into()).await.unwrap().id().to_string();
    for reader in &mut readers {
        until_status(reader, &run, "pending").await;
    }
    let after = store.reads_for_changes();
    assert!(after.0 - before.0 < READERS / 2, "{} reads of the version", after.0 - before.0);
    assert!(after.1 - before.1 < READERS / 2, "{} reads of the list", after.1 - before.1);
    live.sweep().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_stops_ends_its_streams_at_once() {
    let live = Live::new(Database::Sqlite).await;
    let streams = Streams::default();
    let server = Server::start(&live.client, Access::open().streams(streams.clone())).await;
    let run = live.client.start(greets, "Ada".into()).await.unwrap().id();
    let mut reader = server.open("/events", &[]).await;
    let place = reader.place().await;
    let wait = async |path: String| Reader::open(server.address, &format!("/workflows/api/v1{path}"), &[]).await.status;
    let stop = async {
        until("all three wait", async || format!("{streams:?}").contains("open: 3").then_some(())).await;
        server.stop.send(()).unwrap();
        timeout(Duration::from_secs(10), server.served).await.expect("the server ends").unwrap();
        while reader.next().await.is_some() {}
    };
    tokio::join!(stop, wait(format!("/changes?cursor={place}&wait=60s")), wait(format!("/runs/{run}/result?wait=60s")));
    live.sweep().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_are_bounded_and_have_the_rules_of_other_reads() {
    let live = Live::new(Database::Sqlite).await;
    let blind = Actor::viewer("eve").without_payloads();
    let access = Access::token("right", blind).streams(Streams::at_most(1));
    let server = Server::start(&live.client, access).await;
    let run = live.client.start(greets, "Ada".into()).await.unwrap().id();
    let token = ("Authorization", "Bearer right");
    for path in ["/events".to_owned(), format!("/runs/{run}/events"), format!("/runs/{run}/stream/log")] {
        let refused = server.open(&path, &[]).await.problem().await;
        assert_eq!((refused["status"].clone(), refused["code"].clone()), (json!(401), json!("unauthorized")), "{path}");
    }
    for path in [format!("/runs/{run}/stream/log"), format!("/runs/{run}/published/paid")] {
        assert_eq!(server.open(&path, &[token]).await.problem().await["code"], "forbidden", "{path}");
    }
    for (path, code) in [
        ("/events?query=status:faild", "bad_query"),
        ("/events?query=&run=01900000-0000-7000-8000-000000000000", "bad_input"),
        ("/events?limit=0", "bad_limit"),
        ("/events?cursor=nonsense", "bad_cursor"),
        ("/changes?wait=long", "bad_input"),
        ("/runs/01900000-0000-7000-8000-000000000000/events", "not_found"),
    ] {
        assert_eq!(server.open(path, &[token]).await.problem().await["code"], code, "{path}");
    }

    let mut open = server.open("/events", &[token]).await;
    assert_eq!(open.status, 200);
    let full = server.open("/events", &[token]).await.problem().await;
    assert_eq!((full["status"].clone(), full["code"].clone()), (json!(429), json!("full")), "{full}");
    let full = server.open(&format!("/runs/{run}/result?wait=60s"), &[token]).await.problem().await;
    assert_eq!(full["code"], "full", "a wait counts as a stream: {full}");
    assert_eq!(server.open(&format!("/runs/{run}/result"), &[token]).await.status, 202, "without a wait");
    live.client.cancel(run).await.unwrap();
    until_status(&mut open, &run.to_string(), "canceled").await;
    drop(open);
    reader::until_open(async || server.open("/events", &[token]).await.status == 200).await;
    live.sweep().await;
}
