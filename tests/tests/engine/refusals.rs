//! Invalid input. Each is refused with an error that names the subject, the value and the
//! remedy.

use std::time::Duration;

use serde_json::{Value, json};
use workflow_sdk::prelude::*;
use workflow_sdk::{
    ClientError, ConnectError, InvalidTags, MAX_TAG_BYTES, MAX_TAGS, PayloadError, RunFilter, Timestamp,
};
use workflow_tests::{Database, Live, LocalWorker};
use workflow_worker::{Worker, WorkerError};

use crate::{failure, reaches};

async fn connect_error(connect: impl IntoFuture<Output = Result<Client, ConnectError>>) -> ConnectError {
    connect.await.expect_err("the connection is refused")
}

#[workflow]
async fn echo(ctx: &Ctx, input: Value) -> Result<Value> {
    let _ = ctx;
    Ok(input)
}

async fn nothing_is_stored(client: &Client) {
    assert!(client.list(&RunFilter::new()).await.unwrap().is_empty());
}

pub async fn an_unknown_scheme(db: Live) {
    drop(db);
    for (url, shown) in [
        ("mysql://ann:secret@db/app", "mysql://ann:***@db/app"),
        ("orders.db", "orders.db"),
        ("", ""),
        ("SQLITE://orders.db", "SQLITE://orders.db"),
    ] {
        let error = connect_error(Client::connect(url)).await;
        assert!(matches!(error, ConnectError::UnknownScheme { .. }), "{error:?}");
        assert_eq!(
            error.to_string(),
            format!(
                "database URL {shown:?} has an unknown scheme; \
                 use sqlite://path/to/file.db, sqlite::memory: or postgres://user@host/database"
            )
        );
    }
}

pub async fn a_malformed_url(db: Live) {
    let (url, text) = match db.database {
        Database::Memory => unreachable!("these cases do not run on the in-memory store"),
        Database::Sqlite => (
            "sqlite://orders.db?mode=rwc&password=secret",
            "database URL \"sqlite://orders.db?mode=rwc&password=***\" cannot be understood: \
             parameters are not accepted; what they would set is set by this crate",
        ),
        Database::Postgres => (
            "postgres://ann:secret@db:port/app",
            "database URL \"postgres://ann:***@db:port/app\" cannot be understood: invalid port number",
        ),
    };
    let error = connect_error(Client::connect(url)).await;
    assert!(matches!(error, ConnectError::InvalidUrl { .. }), "{error:?}");
    assert_eq!(error.to_string(), text);
    assert!(!format!("{error:?} {:?}", Client::connect(url)).contains("secret"));
    let error = connect_error(Client::connect("sqlite://")).await;
    assert_eq!(
        error.to_string(),
        "database URL \"sqlite://\" cannot be understood: \
         it names no file; write sqlite://path/to/file.db or sqlite::memory:"
    );
}

/// On PostgreSQL, the URL names a server that does not exist.
pub async fn a_database_that_cannot_be_written(db: Live) {
    if db.database == Database::Postgres {
        let error = connect_error(Client::connect("postgres://ann:secret@127.0.0.1:1/app")).await;
        let ConnectError::Database { source, .. } = &error else { panic!("{error:?}") };
        assert_eq!(source.to_string(), "connect: the database cannot be reached");
        assert_eq!(error.to_string(), "cannot connect to \"postgres://ann:***@127.0.0.1:1/app\"");
        assert!(!format!("{error:?}").contains("secret"));
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let missing = directory.path().join("missing/orders.db");
    let error = connect_error(Client::connect(format!("sqlite://{}", directory.path().display()))).await;
    assert!(matches!(error, ConnectError::NotAFile { .. }), "{error:?}");
    // A path below a file: not even root can create a file there.
    let file = directory.path().join("file");
    std::fs::write(&file, "").unwrap();
    let below_file = file.join("orders.db");
    for path in [missing.as_path(), below_file.as_path()] {
        let error = connect_error(Client::connect(format!("sqlite://{}", path.display()))).await;
        assert!(matches!(error, ConnectError::NotWritable { .. }), "{error:?}");
        assert_eq!(
            error.to_string(),
            format!(
                "cannot write the database file \"{}\"; its directory must exist and be writable for this user",
                path.display()
            )
        );
    }
}

pub async fn a_file_that_is_read_only(db: Live) {
    if db.database == Database::Postgres {
        // A PostgreSQL session can be read-only.
        let separator = if db.url().contains('?') { '&' } else { '?' };
        let url = format!("{}{separator}options=-c%20default_transaction_read_only=on", db.url());
        let error = connect_error(Client::connect(&url).schema(db.schema().unwrap())).await;
        assert!(matches!(error, ConnectError::ReadOnly { .. }), "{error:?}");
        assert!(error.to_string().ends_with(
            " is read-only; a client must be able to write: check the file's permissions, or the server's role"
        ));
        return;
    }
    // Root may write to files of any mode, but not to some files of the kernel.
    let is_root = rustix::process::geteuid().is_root();
    let directory = tempfile::tempdir().unwrap();
    let path = if is_root {
        std::path::PathBuf::from("/sys/kernel/notes")
    } else {
        let path = directory.path().join("orders.db");
        drop(Client::connect(format!("sqlite://{}", path.display())).await.unwrap());
        let read_only = <std::fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o444);
        std::fs::set_permissions(&path, read_only).unwrap();
        path
    };
    let error = connect_error(Client::connect(format!("sqlite://{}", path.display()))).await;
    assert!(matches!(error, ConnectError::ReadOnly { .. }), "{error:?}");
    assert_eq!(
        error.to_string(),
        format!(
            "database \"sqlite://{}\" is read-only; \
             a client must be able to write: check the file's permissions, or the server's role",
            path.display()
        )
    );
}

pub async fn a_file_that_is_not_a_database(db: Live) {
    if db.database == Database::Postgres {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("orders.db");
    std::fs::write(&path, "id;total\n".repeat(1000)).unwrap();
    let error = connect_error(Client::connect(format!("sqlite://{}", path.display()))).await;
    assert!(matches!(error, ConnectError::NotADatabase { .. }), "{error:?}");
    assert_eq!(
        error.to_string(),
        format!("\"{}\" is not a readable SQLite database; move it away, or restore it from a backup", path.display())
    );
    assert_eq!(std::fs::read(&path).unwrap().len(), 9000, "the file is left as it was");
}

pub async fn a_newer_schema(db: Live) {
    db.raw().await.execute("UPDATE workflow_schema SET version = version + 98").await;
    let error = connect_error(db.connect()).await;
    assert!(matches!(error, ConnectError::NewerSchema { found: 99, .. }), "{error:?}");
    assert_eq!(
        error.to_string(),
        "the database has schema version 99, this program knows up to 1; update the program (it was not changed)"
    );
}

pub async fn options_out_of_range(db: Live) {
    for size in [0, 1001] {
        let error = connect_error(db.connect().pool_size(size)).await;
        assert!(matches!(error, ConnectError::InvalidPoolSize { .. }), "{error:?}");
        assert_eq!(error.to_string(), format!("pool size {size} is out of range; use 1 to 1000 connections"));
    }
    for time in [Duration::ZERO, Duration::from_secs(3601), Duration::MAX] {
        for (option, connect) in
            [("timeout", db.connect().timeout(time)), ("call_timeout", db.connect().call_timeout(time))]
        {
            let error = connect_error(connect).await;
            assert!(matches!(error, ConnectError::InvalidTimeout { .. }), "{error:?}");
            assert_eq!(error.to_string(), format!("{option} {time:?} is refused; use 1ms to 3600s"));
        }
    }
    for name in ["", "Orders", "1st", "a-b", "a\"; DROP SCHEMA public", &"x".repeat(32)] {
        let error = connect_error(db.connect().schema(name)).await;
        assert!(matches!(error, ConnectError::InvalidSchema { .. }), "{error:?}");
        assert_eq!(
            error.to_string(),
            format!("schema name {name:?} is refused; use 1 to 31 of a-z, 0-9 and _, not beginning with a digit")
        );
    }
}

fn nested(depth: usize) -> Value {
    (0..depth).fold(json!(0), |inner, _| Value::Array(vec![inner]))
}

pub async fn an_input_that_cannot_be_stored(db: Live) {
    #[workflow]
    async fn ratio(ctx: &Ctx, of: f64) -> Result<f64> {
        let _ = ctx;
        Ok(of)
    }
    let client = db.connect().payload_limit(100).await.unwrap();
    let payload = |error: ClientError| match error {
        ClientError::Payload(error) => error,
        other => panic!("{other:?}"),
    };

    let error = payload(client.start(echo, json!("x".repeat(99))).await.unwrap_err());
    assert!(matches!(error, PayloadError::TooLarge { bytes: 101, limit: 100, .. }), "{error:?}");
    assert_eq!(
        error.to_string(),
        "input of workflow \"echo\" is 101 bytes, the limit is 100; \
         keep large data elsewhere and pass a reference, or raise payload_limit"
    );

    for number in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let error = payload(client.start(ratio, number).await.unwrap_err());
        assert!(matches!(error, PayloadError::RoundTrip { .. }), "{error:?}");
        assert_eq!(
            error.to_string(),
            "input of workflow \"ratio\" of type f64 can be written but not read back \
             (invalid type: null, expected f64 at line 1 column 4); \
             it may hold a NaN, an infinite number, or a nesting deeper than 127"
        );
    }

    let error = payload(db.client.start(echo, nested(200)).await.unwrap_err());
    assert_eq!(
        error.to_string(),
        "input of workflow \"echo\" of type serde_json::value::Value can be written but not read back \
         (recursion limit exceeded at line 1 column 128); \
         it may hold a NaN, an infinite number, or a nesting deeper than 127"
    );
    let error = payload(db.client.start_by_name("echo", &nested(128)).await.unwrap_err());
    assert!(matches!(error, PayloadError::RoundTrip { .. }), "{error:?}");
    nothing_is_stored(&client).await;

    client.start(echo, json!("x".repeat(98))).await.unwrap();
    db.client.start(echo, nested(127)).await.unwrap();
}

/// An amount whose decoder has a check of its own.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "i64")]
struct Cents(i64);

impl TryFrom<i64> for Cents {
    type Error = String;

    fn try_from(cents: i64) -> Result<Self, String> {
        if cents > 0 { Ok(Self(cents)) } else { Err(format!("an amount of {cents} cents cannot be charged")) }
    }
}

pub async fn an_input_that_its_own_check_refuses(db: Live) {
    #[workflow]
    async fn charge(ctx: &Ctx, amount: Cents) -> Result<i64> {
        Ok(amount.0 + ctx.signal::<Cents>("more").await?.map_or(0, |more| more.0))
    }
    let error = db.client.start(charge, Cents(-1)).await.unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, ClientError::Payload(PayloadError::RoundTrip { .. })), "{error:?}");
    assert!(text.contains("an amount of -1 cents cannot be charged"), "the starter gets the reason: {text}");
    nothing_is_stored(&db.client).await;
    let run = db.client.start(charge, Cents(1)).await.unwrap();
    let error = run.signal("more", &Cents(-2)).await.unwrap_err().to_string();
    assert!(error.contains("an amount of -2 cents cannot be charged"), "{error}");
}

pub async fn a_value_of_a_step_that_cannot_be_stored(db: Live) {
    #[workflow]
    async fn values(ctx: &Ctx) -> Result<Vec<String>> {
        let refused = |error: Error| {
            assert_eq!((error.kind(), error.is_fatal()), (ErrorKind::Refused, true), "{error}");
            error.message().to_owned()
        };
        let nan = ctx.step("nan", async || Ok::<_, Error>(f64::NAN)).await.map_err(refused).unwrap_err();
        let large = ctx.step("large", async || Ok::<_, Error>("x".repeat(1000))).await.map_err(refused).unwrap_err();
        let deep = ctx.step("deep", async || Ok::<_, Error>(nested(200))).await.map_err(refused).unwrap_err();
        Ok(vec![nan, large, deep])
    }
    let client = db.connect().payload_limit(1000).await.unwrap();
    let worker = LocalWorker::start(Worker::new(client.clone(), ()).register(values));
    let run = client.start(values, ()).await.unwrap();
    let id = run.id();
    let why = "it may hold a NaN, an infinite number, or a nesting deeper than 127";
    let expected = [
        format!(
            "output of step \"nan\" of run {id} of type f64 can be written but not read back \
             (invalid type: null, expected f64 at line 1 column 4); {why}"
        ),
        format!(
            "output of step \"large\" of run {id} is 1002 bytes, the limit is 1000; \
             keep large data elsewhere and pass a reference, or raise payload_limit"
        ),
        format!(
            "output of step \"deep\" of run {id} of type serde_json::value::Value can be written but not read back \
             (recursion limit exceeded at line 1 column 128); {why}"
        ),
    ];
    assert_eq!(run.result().await.unwrap(), expected);
    assert_eq!(run.history().await.unwrap().len(), 3, "no attempt is repeated");
    worker.stop().await;
}

/// Names that are refused, each with the reason in the error text.
fn bad_names() -> [(String, String); 3] {
    let rule = "use 1 to 255 bytes without control characters";
    let long = "ü".repeat(128);
    [
        (String::new(), format!("\"\" is empty; {rule}")),
        (long, format!("{:?} is 256 bytes long; {rule}", "ü".repeat(80))),
        ("a\nb".into(), format!("\"a\\nb\" has the control character '\\n' at byte 1; {rule}")),
    ]
}

pub async fn names_that_cannot_be_stored(db: Live) {
    let client = &db.client;
    for (name, reason) in bad_names() {
        let start = || client.start(echo, json!(1));
        let mut errors = vec![
            ("workflow name", client.start_by_name(&name, &json!(1)).await.unwrap_err()),
            ("workflow version", start().version(&name).await.unwrap_err()),
            ("queue name", start().queue(&name).await.unwrap_err()),
            ("idempotency key", start().key(&name).await.unwrap_err()),
            ("tag", start().tag(&name, "value").await.unwrap_err()),
        ];
        if !name.is_empty() {
            errors.push(("tag", start().tag("name", &name).await.unwrap_err()));
        }
        for (subject, error) in errors {
            assert!(matches!(error, ClientError::Name(_)), "{error:?}");
            assert_eq!(error.to_string(), format!("{subject} {reason}"));
        }
        let error = Worker::new(client.clone(), ()).register(echo).queues([name]).run_until(async {}).await;
        let error = error.unwrap_err();
        assert!(matches!(error, WorkerError::Name(_)), "{error:?}");
        assert_eq!(error.to_string(), format!("queue name {reason}"));
    }
    nothing_is_stored(client).await;
    let longest = "q".repeat(255);
    let run = client.start(echo, json!(1)).key(&longest).queue(&longest).tag(&longest, &longest).await.unwrap();
    assert_eq!(run.run().await.unwrap().key.as_deref(), Some(longest.as_str()));
}

pub async fn tags_over_their_limit(db: Live) {
    let tagged = |count: usize, bytes: usize| {
        let start = db.client.start(echo, json!(1));
        (0..count).fold(start, |start, number| start.tag(format!("{number:03}"), "x".repeat(bytes - 3)))
    };
    for (count, bytes) in [(MAX_TAGS + 1, 4), (MAX_TAGS, 258)] {
        let error = tagged(count, bytes).await.unwrap_err();
        let expected = InvalidTags::TooMany { count, bytes: count * bytes };
        assert!(matches!(&error, ClientError::Tags(found) if *found == expected), "{error:?}");
    }
    nothing_is_stored(&db.client).await;
    let run = tagged(MAX_TAGS, MAX_TAG_BYTES / MAX_TAGS).await.unwrap();
    assert_eq!(run.run().await.unwrap().tags.len(), MAX_TAGS);
    // The mark of a fork does not count.
    run.fork().await.unwrap();
    let error = run.fork().tag("more", "").await.unwrap_err();
    assert!(matches!(error, ClientError::Tags(_)), "{error:?}");
    // Tags and input have one limit together.
    let client = db.connect().payload_limit(100).await.unwrap();
    client.start(echo, json!("x".repeat(90))).tag("tag", "value").await.unwrap();
    let error = client.start(echo, json!("x".repeat(90))).tag("tag", "a value").await.unwrap_err();
    let is_too_large = matches!(&error, ClientError::Payload(PayloadError::TooLarge { bytes: 102, limit: 100, .. }));
    assert!(is_too_large, "{error:?}");
}

pub async fn a_step_whose_name_cannot_be_stored(db: Live) {
    #[workflow]
    async fn named(ctx: &Ctx, name: String) -> Result<()> {
        ctx.step(&name, async || Ok::<_, Error>(())).await
    }
    let worker = LocalWorker::start(db.worker(()).register(named));
    for (name, reason) in bad_names() {
        let run = db.client.start(named, name).await.unwrap();
        let error = failure(run.result().await);
        assert_eq!((error.kind, error.fatal), (ErrorKind::Refused, true));
        assert_eq!(error.message, format!("step name {reason}"));
        assert_eq!(run.history().await.unwrap(), []);
    }
    worker.stop().await;
}

pub async fn a_step_inside_a_step(db: Live) {
    #[workflow]
    async fn outer(ctx: &Ctx, sleeps: bool) -> Result<()> {
        let body = async || {
            if sleeps {
                return ctx.sleep(Duration::from_secs(1)).await;
            }
            ctx.step("inner", async || Ok::<_, Error>(())).await
        };
        ctx.step("outer", body).await
    }
    let worker = LocalWorker::start(db.worker(()).register(outer));
    for (sleeps, name) in [(false, "inner"), (true, "sleep")] {
        let run = db.client.start(outer, sleeps).await.unwrap();
        let error = failure(run.result().await);
        assert_eq!((error.kind, error.fatal, error.step_key.as_deref()), (ErrorKind::Refused, true, Some("outer")));
        let (before, after) = error.message.split_once(" was called at ").unwrap();
        assert_eq!(before, format!("{name:?}"));
        let (location, way_out) = after.split_once(" inside ").unwrap();
        assert!(location.contains("refusals.rs:"), "{location}");
        assert_eq!(
            way_out,
            "the body of step \"outer\"; a body is one effect: call it from the workflow, before or after that step"
        );
    }
    worker.stop().await;
}

/// Returns the error of a worker that cannot start.
async fn worker_error<S: Send + Sync + 'static>(worker: Worker<S>) -> WorkerError {
    worker.run_until(std::future::pending()).await.expect_err("the worker is refused")
}

pub async fn a_worker_that_cannot_work(db: Live) {
    #[workflow(name = "echo")]
    async fn twin(ctx: &Ctx) -> Result<()> {
        let _ = ctx;
        Ok(())
    }
    let error = worker_error(db.worker(()).register(echo).register(twin)).await;
    assert!(matches!(error, WorkerError::DuplicateWorkflow { .. }), "{error:?}");
    assert_eq!(
        error.to_string(),
        "workflow \"echo\" version \"1\" is registered twice; \
         give one of them another name with #[workflow(name = \"..\")], or another version"
    );

    let error = worker_error(db.worker(())).await;
    assert!(matches!(error, WorkerError::NoWorkflows), "{error:?}");
    assert_eq!(error.to_string(), "the worker has no workflow; call register(..) for each workflow that it is to run");

    let error = worker_error(db.worker(()).register(echo).concurrency(0)).await;
    assert!(matches!(error, WorkerError::ZeroConcurrency), "{error:?}");
    assert_eq!(error.to_string(), "concurrency 0 is refused: the worker could run nothing; use 1 or more");

    let error = worker_error(db.worker(()).register(echo).lease(Duration::from_millis(199))).await;
    assert!(matches!(error, WorkerError::OutOfRange { option: "lease", .. }), "{error:?}");
    assert_eq!(error.to_string(), "lease 199ms is refused; use 200ms to 86400s");
    type Set = fn(Worker<()>, Duration) -> Worker<()>;
    let set: [(&str, Set); 5] = [
        ("lease", Worker::lease),
        ("linger", Worker::linger),
        ("grace", Worker::grace),
        ("cancel_grace", Worker::cancel_grace),
        ("poll_interval", Worker::poll_interval),
    ];
    for (name, set) in set {
        let error = worker_error(set(db.worker(()).register(echo), Duration::MAX)).await;
        assert!(matches!(error, WorkerError::OutOfRange { option, .. } if option == name), "{error:?}");
    }
    let error = worker_error(db.worker(()).register(echo).poll_interval(Duration::ZERO)).await;
    assert!(matches!(error, WorkerError::OutOfRange { option: "poll_interval", .. }), "{error:?}");

    let left = db.raw().await.number("SELECT count(*) FROM workflow_workers").await;
    assert_eq!(left, 0, "no refused worker was recorded");
}

pub async fn a_worker_without_queues(db: Live) {
    let queues: [&str; 0] = [];
    let result = tokio::time::timeout(
        Duration::from_secs(2),
        db.worker(()).register(echo).queues(queues).run_until(std::future::pending()),
    );
    let error = result.await.expect("a worker that could never claim anything is refused").unwrap_err();
    assert_eq!(
        error.to_string(),
        "the worker serves no queue; name one or more, or leave queues(..) out for \"default\""
    );
}

/// The longest times are times that do not come. Neither they nor the largest concurrency overflow
/// anywhere.
pub async fn extremes_that_are_accepted(db: Live) {
    #[workflow]
    async fn patient(ctx: &Ctx) -> Result<()> {
        ctx.step("quick", async || ok(())).timeout(Duration::MAX).await?;
        ctx.child(echo, json!(1)).delay(Duration::MAX).deadline(Duration::MAX).detach().await?;
        let go = ctx.signal::<()>("go").timeout(Duration::MAX);
        futures::future::select(ctx.sleep(Duration::MAX), go).await;
        Ok(())
    }
    #[workflow]
    async fn unlucky(ctx: &Ctx) -> Result<()> {
        ctx.step("fails", async || Err::<(), _>("no luck")).retry(Retry::fixed(Duration::MAX)).await
    }
    let worker = db.worker(()).register(echo).register(patient).register(unlucky);
    let worker = LocalWorker::start(worker.concurrency(u32::MAX).linger(Duration::ZERO));
    let waits = db.client.start(patient, ()).deadline(Duration::MAX).await.unwrap();
    let tries_never = db.client.start(unlucky, ()).await.unwrap();
    reaches(&waits, RunStatus::Parked).await;
    reaches(&tries_never, RunStatus::Parked).await;
    let begins_never = db.client.start(echo, json!(1)).delay(Duration::MAX).await.unwrap();
    let children = db.client.list(&RunFilter::new().parent(waits.id())).await.unwrap();
    for run in [waits.id(), tries_never.id(), begins_never.id(), children[0].id] {
        let run = db.client.run(run).await.unwrap();
        assert_eq!(run.available_at, Timestamp::FAR_FUTURE, "{run:?}");
    }
    waits.signal("go", &()).await.unwrap();
    waits.result().await.unwrap();
    worker.stop().await;
}
