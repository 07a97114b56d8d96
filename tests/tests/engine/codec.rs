//! Payloads that are encoded before they reach the database.

use std::time::Duration;

use futures::StreamExt;
use workflow_engine::model::{NewRun, Retention, WorkerId};
use workflow_engine::store::{Outcome, Write};
use workflow_sdk::prelude::*;
use workflow_sdk::{
    ClientError, CodecError, CodedPayload, DatabaseErrorKind, Encryption, EncryptionKey, PayloadCodec, PayloadContext,
    PayloadPlace, RunFilter, Schedule, UnreadablePayload, UnreadableReason,
};
use workflow_tests::builders::{attempt, claim_by, new_run, succeed, succeeded};
use workflow_tests::outcome::{claimed, one};
use workflow_tests::secret_values::{MARK, marked, marked_child, marked_failure, marked_panic, secret, tell};
use workflow_tests::{Database, Live, LocalWorker, Probe};
use workflow_worker::Worker;

use crate::{failure, reaches};

const HOUR: Duration = Duration::from_secs(3600);

fn key(id: &str) -> EncryptionKey {
    EncryptionKey::new(id, [id.len() as u8 + id.as_bytes()[1]; 32]).unwrap()
}

async fn client(db: &Live, codec: impl PayloadCodec) -> Client {
    db.connect().codec(codec).await.unwrap()
}

/// Returns the names of the columns, in any table, that contain this text.
async fn found(db: &Live, text: &str) -> Vec<String> {
    let mut raw = db.raw().await;
    let mut found = Vec::new();
    for table in raw.table_names().await {
        let columns = match db.database {
            Database::Memory => unreachable!("these cases do not run on the in-memory store"),
            Database::Sqlite => format!("SELECT name FROM pragma_table_info('{table}')"),
            Database::Postgres => format!(
                "SELECT column_name::text AS name FROM information_schema.columns \
                 WHERE table_schema = current_schema() AND table_name = '{table}'"
            ),
        };
        for column in raw.lines(columns, "name").await {
            let cells = format!("SELECT count(*) FROM {table} WHERE CAST({column} AS text) LIKE '%{text}%'");
            if raw.number(cells).await > 0 {
                found.push(format!("{table}.{column}"));
            }
        }
    }
    found
}

fn worker(client: &Client, probe: &Probe) -> LocalWorker {
    let worker = Worker::new(client.clone(), probe.clone()).linger(Duration::ZERO);
    LocalWorker::start(worker.register(marked).register(marked_child).register(marked_failure).register(marked_panic))
}

/// Runs every kind of call that writes a payload, and reads the results with the same client.
async fn run_everything(client: &Client, within: impl AsyncFn(workflow_sdk::Start<String>) -> RunHandle<String>) {
    let probe = Probe::new();
    let working = worker(client, &probe);
    let run = client.start(marked, secret("input")).key("k").await.unwrap();
    for _ in 0..2 {
        tell(client, &run).await;
    }
    let output = format!("{} and {}", secret("the next input"), secret("output"));
    assert_eq!(run.result().await.unwrap(), output);
    assert_eq!(run.run().await.unwrap().output, Some(serde_json::to_string(&output).unwrap()));
    assert_eq!(run.state::<String>("shown").await.unwrap(), Some(secret("shown")));
    let lines: Vec<String> = run.stream("lines").map(|line| line.unwrap()).collect().await;
    assert_eq!(lines, [0, 1, 2, 0, 1, 2].map(|number| secret(&format!("line {number}"))));

    let failed = client.start(marked_failure, secret("input of a failure")).await.unwrap();
    assert!(failure(failed.result().await).to_string().contains(&secret("failure")));
    let panicked = client.start(marked_panic, secret("input of a panic")).await.unwrap();
    assert!(failure(panicked.result().await).to_string().contains(MARK));
    let child = within(client.start(marked_child, secret("within"))).await;
    assert_eq!(child.result().await.unwrap(), secret("within"));

    let schedule = Schedule::every("hourly", HOUR).start(marked_child, secret("schedule"));
    let triggered = client.create_schedule(schedule).await.unwrap().trigger().await.unwrap();
    assert_eq!(triggered.result().await.unwrap(), secret("schedule"));

    let fork = run.fork().from("transaction").await.unwrap();
    let kept = fork.history().await.unwrap();
    assert!(kept.iter().any(|row| row.output == Some(serde_json::to_string(&secret("value")).unwrap())));
    for _ in 0..2 {
        tell(client, &fork).await;
    }
    fork.result().await.unwrap();
    let again = fork.fork().from("flaky").input(&secret("another")).await.unwrap();
    assert!(again.history().await.unwrap().iter().any(|row| row.step_key == "value"));
    again.terminate().await.unwrap();
    let export = client.export(run.id()).await.unwrap().to_json();
    assert!(export.contains(MARK), "an export has plain text");
    working.stop().await;
}

async fn start_within(db: &Live, start: workflow_sdk::Start<String>) -> RunHandle<String> {
    use workflow_sdk::sqlx::{Connection, PgConnection, SqliteConnection};
    match db.database {
        Database::Memory => unreachable!("these cases do not run on the in-memory store"),
        Database::Sqlite => {
            let mut connection = SqliteConnection::connect(&db.url()).await.unwrap();
            let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await.unwrap();
            let run = start.within(&mut transaction).await.unwrap();
            transaction.commit().await.unwrap();
            run
        }
        Database::Postgres => {
            let mut connection = PgConnection::connect(&db.url()).await.unwrap();
            let mut transaction = connection.begin().await.unwrap();
            let run = start.within(&mut transaction).await.unwrap();
            transaction.commit().await.unwrap();
            run
        }
    }
}

pub async fn no_payload_is_stored_as_plain_text(db: Live) {
    let client = client(&db, Encryption::new(key("k1")).refuse_plain()).await;
    run_everything(&client, async |start| start_within(&db, start).await).await;
    assert_eq!(found(&db, MARK).await, Vec::<String>::new());
    assert!(!found(&db, "coded:1:k1:").await.is_empty(), "the search covers the columns with payloads");
    // The search can find the mark: without a codec the same work leaves the mark in every column
    // with payloads.
    let plain = Live::new(db.database).await;
    run_everything(&plain.client, async |start| start_within(&plain, start).await).await;
    let columns = found(&plain, MARK).await;
    for column in [
        "step_attempts.error",
        "step_attempts.output",
        "workflow_runs.error",
        "workflow_runs.input",
        "workflow_runs.output",
        "workflow_schedules.input",
        "workflow_signals.payload",
    ] {
        assert!(columns.iter().any(|found| found == column), "{column} is not among {columns:?}");
    }
    assert_eq!(columns.len(), 7, "{columns:?}");
    plain.sweep().await;
}

/// Returns the error that a client with this codec gets for the result of a [`marked_child`] run.
async fn unreadable(db: &Live, codec: impl PayloadCodec, run: RunId) -> UnreadablePayload {
    let client = client(db, codec).await;
    let error = client.handle::<String>(run).await.unwrap().result().await.unwrap_err();
    match error {
        ClientError::Unreadable(unreadable) => unreadable,
        error => panic!("expected Unreadable, got {error:?}"),
    }
}

pub async fn a_client_without_the_key_sees_names_and_no_values(db: Live) {
    let owner = client(&db, Encryption::new(key("k1"))).await;
    let probe = Probe::new();
    let working = worker(&owner, &probe);
    let run = owner.start(marked_child, secret("input")).tag("region", "eu").await.unwrap();
    run.result().await.unwrap();
    let failed = owner.start(marked_failure, secret("input")).await.unwrap();
    failed.result().await.unwrap_err();
    working.stop().await;

    let listed = db.client.list(&RunFilter::new()).await.unwrap();
    assert_eq!(listed.len(), 2, "an unreadable run does not hide other runs");
    let seen = db.client.run(run.id()).await.unwrap();
    assert_eq!((seen.status, seen.tags["region"].as_str()), (RunStatus::Succeeded, "eu"));
    let why = UnreadablePayload::in_place_of(&seen.input).unwrap();
    assert_eq!((why.run_id, why.key_id.as_deref(), &why.reason), (run.id(), Some("k1"), &UnreadableReason::NoCodec));
    assert!(why.to_string().contains("connect with the codec"), "{why}");
    let error = db.client.run(failed.id()).await.unwrap().error.unwrap();
    assert_eq!(error.kind, ErrorKind::Application, "the kind of an error is not a payload");
    assert_eq!(UnreadablePayload::in_place_of_error(&error).unwrap().reason, UnreadableReason::NoCodec);
    for refused in [
        db.client.handle::<String>(run.id()).await.unwrap().result().await.err(),
        db.client.handle::<String>(failed.id()).await.unwrap().result().await.err(),
        db.client.export(run.id()).await.err(),
        db.client.history(failed.id()).await.err(),
        db.client.fork(run.id()).await.err(),
    ] {
        assert!(matches!(refused, Some(ClientError::Unreadable(_))), "{refused:?}");
    }
    let other = unreadable(&db, Encryption::new(key("k2")), run.id()).await;
    assert_eq!(other.reason, UnreadableReason::UnknownKey);
    let same_id = Encryption::new(EncryptionKey::new("k1", [9; 32]).unwrap());
    assert_eq!(unreadable(&db, same_id, run.id()).await.reason, UnreadableReason::NotAuthentic);
}

pub async fn a_client_without_the_key_changes_a_schedule_and_not_its_input(db: Live) {
    let owner = client(&db, Encryption::new(key("k1"))).await;
    let nightly = Schedule::every("nightly", HOUR).start(marked_child, secret("schedule"));
    let nightly = owner.create_schedule(nightly).await.unwrap();
    let stored = async || db.raw().await.text("SELECT input AS value FROM workflow_schedules").await;
    let before = stored().await;
    for stranger in [db.client.clone(), client(&db, Encryption::new(key("k2"))).await] {
        let seen = stranger.schedule("nightly");
        seen.pause("until the end of the month").await.unwrap();
        assert_eq!(stored().await, before);
        let (again, other) = futures::join!(seen.pause("until May"), seen.pause("until June"));
        assert!(again.is_ok() && other.is_ok(), "{again:?} {other:?}");
        assert!(seen.resume().await.unwrap());
        assert_eq!(stored().await, before);
        assert!(matches!(seen.trigger().await, Err(ClientError::Unreadable(_))));
        // Code that passes the mark on must not store it.
        let input = stranger.store().schedule("nightly").await.unwrap().unwrap().input.unwrap();
        let start = Write::Start(NewRun { input, ..new_run() });
        let refused = one(stranger.store().commit(&[start]).await.unwrap());
        assert!(matches!(&refused, Outcome::Refused(error) if error.kind == DatabaseErrorKind::Codec), "{refused:?}");
    }
    let run = nightly.trigger().await.unwrap();
    let input = run.run().await.unwrap().input;
    assert_eq!(input, serde_json::to_string(&secret("schedule")).unwrap());
}

#[workflow]
async fn waits(ctx: &Ctx<Probe>, text: String) -> Result<String> {
    let value = ctx.step("value", async || Ok::<_, Error>(secret("value"))).await?;
    ctx.sleep(HOUR).await?;
    Ok(format!("{text} {value} {}", ctx.state().count("ended")))
}

async fn make_due(db: &Live) {
    db.raw().await.execute("UPDATE workflow_runs SET available_at = 0 WHERE status IN ('pending', 'parked')").await;
}

/// Lets a worker with this client claim the run, and returns the error with which it parks it.
async fn parks(db: &Live, client: &Client, run: RunId) -> String {
    make_due(db).await;
    let working = LocalWorker::start(Worker::new(client.clone(), Probe::new()).register(waits));
    let told = async || db.client.run(run).await.unwrap().error.map(|_| ());
    workflow_tests::until("the run is parked with an error", told).await;
    let parked = client.run(run).await.unwrap();
    assert_eq!((parked.status, parked.completed_at), (RunStatus::Parked, None), "the run is parked and not failed");
    let error = parked.error.unwrap();
    assert_eq!(error.kind, ErrorKind::Divergence);
    assert!(client.explain(run).await.unwrap().to_string().contains("cannot be decoded"));
    working.stop().await;
    db.raw().await.execute("UPDATE workflow_runs SET error = NULL").await;
    error.to_string()
}

pub async fn a_run_waits_for_a_worker_that_has_its_key(db: Live) {
    let owner = client(&db, Encryption::new(key("k1"))).await;
    let run = owner.start(waits, secret("input")).await.unwrap();
    // Once before the first claim of the run, and once after a part of its history.
    let error = parks(&db, &db.client, run.id()).await;
    assert!(error.contains("the input of run") && error.contains("\"k1\"") && error.contains("no codec"), "{error}");
    let worker = |client: &Client| Worker::new(client.clone(), Probe::new()).register(waits).linger(Duration::ZERO);
    make_due(&db).await;
    let working = LocalWorker::start(worker(&owner));
    let stepped = async || (run.history().await.unwrap().len() == 2).then_some(());
    workflow_tests::until("the first step is recorded", stepped).await;
    reaches(&run, RunStatus::Parked).await;
    working.stop().await;
    let stranger = client(&db, Encryption::new(key("k2"))).await;
    assert!(parks(&db, &stranger, run.id()).await.contains("give its codec that key too"));

    let rotated = Encryption::new(key("k3")).with_old(key("k1")).unwrap();
    let history = client(&db, rotated).await.history(run.id()).await.unwrap();
    assert_eq!(
        history[0].output,
        Some(serde_json::to_string(&secret("value")).unwrap()),
        "a codec with an additional key decodes too"
    );
}

pub async fn a_row_that_was_changed_or_moved_is_refused(db: Live) {
    let owner = client(&db, Encryption::new(key("k1"))).await;
    let probe = Probe::new();
    let working = LocalWorker::start(Worker::new(owner.clone(), probe).register(waits).linger(Duration::ZERO));
    let mut runs = Vec::new();
    for text in ["a", "b"] {
        let run = owner.start(waits, text.into()).await.unwrap();
        let slept = async || (run.history().await.unwrap().len() == 2).then_some(());
        workflow_tests::until("the step is recorded", slept).await;
        reaches(&run, RunStatus::Parked).await;
        runs.push(run);
    }
    working.stop().await;
    let value =
        |run: RunId| format!("(SELECT output FROM step_attempts WHERE step_key = 'value' AND run_id = '{run}')");
    let put = async |text: &str| {
        let run = runs[1].id();
        let set = format!("UPDATE step_attempts SET output = {text} WHERE step_key = 'value' AND run_id = '{run}'");
        db.raw().await.execute(set).await;
        match runs[1].history().await {
            Err(ClientError::Unreadable(unreadable)) => unreadable,
            other => panic!("expected Unreadable, got {other:?}"),
        }
    };
    let moved = put(&value(runs[0].id())).await;
    assert_eq!((moved.reason, moved.run_id), (UnreadableReason::NotAuthentic, runs[1].id()));
    assert_eq!((moved.step_key.as_deref(), moved.key_id.as_deref()), (Some("value"), Some("k1")));
    for (text, reason) in [
        ("'coded:1:k1:AAAA'", UnreadableReason::NotAuthentic),
        ("'coded:1:k1:no base64'", UnreadableReason::Malformed),
        ("'coded:1:k1'", UnreadableReason::Malformed),
        ("'coded:'", UnreadableReason::Malformed),
        ("'coded:2:k1:AAAA'", UnreadableReason::Malformed),
        ("'coded:1:k 1:AAAA'", UnreadableReason::Malformed),
        ("'coded:1:k9:AAAA'", UnreadableReason::UnknownKey),
    ] {
        assert_eq!(put(text).await.reason, reason, "{text}");
    }
    // A value whose row claims another kind or status is not accepted either.
    for column in ["kind = 'sleep'", "status = 'failed'"] {
        let set = format!("UPDATE step_attempts SET {column} WHERE step_key = 'value' AND run_id = '{}'", runs[0].id());
        let mut raw = db.raw().await;
        raw.execute(set).await;
        match runs[0].history().await {
            Err(ClientError::Unreadable(changed)) => assert_eq!(changed.reason, UnreadableReason::NotAuthentic),
            other => panic!("expected Unreadable after {column}, got {other:?}"),
        }
        raw.execute("UPDATE step_attempts SET kind = 'step', status = 'succeeded' WHERE step_key = 'value'").await;
    }
    let parked = parks(&db, &owner, runs[1].id()).await;
    assert!(parked.contains("\"value\"") && parked.contains("\"k9\""), "{parked}");
    runs[0].history().await.unwrap();
}

pub async fn payloads_older_than_the_codec_are_read_unless_refused(db: Live) {
    let run = db.client.start(marked_child, secret("input")).await.unwrap();
    let strict = client(&db, Encryption::new(key("k1")).refuse_plain()).await;
    let seen = strict.run(run.id()).await.unwrap();
    assert_eq!(UnreadablePayload::in_place_of(&seen.input).unwrap().reason, UnreadableReason::Plain);
    let lenient = client(&db, Encryption::new(key("k1"))).await;
    assert_eq!(lenient.run(run.id()).await.unwrap().input, serde_json::to_string(&secret("input")).unwrap());
    let probe = Probe::new();
    let working = worker(&lenient, &probe);
    assert_eq!(lenient.handle::<String>(run.id()).await.unwrap().result().await.unwrap(), secret("input"));
    working.stop().await;
    assert_eq!(
        found(&db, MARK).await,
        ["workflow_runs.input"],
        "every value that was written with the codec is encoded"
    );
}

pub async fn a_plain_error_is_refused_with_plain_payloads(db: Live) {
    let strict = client(&db, Encryption::new(key("k1")).refuse_plain()).await;
    let [forged, expired] = ["forged", "expired"].map(|name| strict.start(marked_child, name.into()));
    let forged = forged.await.unwrap();
    let expired = expired.deadline(Duration::ZERO).await.unwrap();
    let mut raw = db.raw().await;
    let plain = r#"{"kind":"application","message":"forged","payload":{"type_name":"Payment","json":"{}"}}"#;
    let set = |error: &str, run: RunId| {
        format!("UPDATE workflow_runs SET status = 'failed', completed_at = 1, error = '{error}' WHERE id = '{run}'")
    };
    raw.execute(set(plain, forged.id())).await;
    match forged.result().await {
        Err(ClientError::Unreadable(unreadable)) => assert_eq!(unreadable.reason, UnreadableReason::Plain),
        other => panic!("expected Unreadable, got {other:?}"),
    }
    let listed = strict.list(&RunFilter::new()).await.unwrap();
    let error = listed.iter().find(|run| run.id == forged.id()).and_then(|run| run.error.as_ref()).unwrap();
    assert!(!error.message.contains("forged"), "{}", error.message);
    let seen = strict.run(forged.id()).await.unwrap().error.unwrap();
    assert!(UnreadablePayload::in_place_of_error(&seen).is_some() && seen.payload.is_none(), "{seen:?}");
    // The database writes this error itself, when no worker serves the run.
    let expiry = Write::Expire { limit: 10, patience: Duration::ZERO };
    assert!(matches!(strict.executor().commit(expiry).await, Ok(Outcome::Changed(1))));
    assert_eq!(failure(expired.result().await).kind, ErrorKind::Deadline);

    // The error of a step decides what the workflow does.
    let run = strict.start(marked_child, "fail".into()).await.unwrap();
    let probe = Probe::new();
    let working = worker(&strict, &probe);
    failure(run.result().await);
    working.stop().await;
    raw.execute(format!("UPDATE step_attempts SET error = '{plain}' WHERE error IS NOT NULL")).await;
    match run.history().await {
        Err(ClientError::Unreadable(unreadable)) => assert_eq!(unreadable.reason, UnreadableReason::Plain),
        other => panic!("expected Unreadable, got {other:?}"),
    }
}

/// Fails for the payloads that its function selects.
#[derive(Debug)]
struct Moody(fn(&PayloadContext<'_>) -> Result<(), CodecError>);

impl PayloadCodec for Moody {
    fn encode(&self, context: &PayloadContext<'_>, plain: &[u8]) -> Result<CodedPayload, CodecError> {
        (self.0)(context).map(|()| CodedPayload::new("moody", plain))
    }

    fn decode(&self, _: &PayloadContext<'_>, coded: &CodedPayload) -> Result<Vec<u8>, CodecError> {
        if coded.bytes == b"\"panic\"" { panic!("on purpose") } else { Ok(coded.bytes.clone()) }
    }
}

pub async fn a_codec_that_fails_or_panics_affects_one_write(db: Live) {
    let moody = Moody(|context| match context.place {
        PayloadPlace::Signal { name: "fails" } => Err(CodecError::Failed("no key today".into())),
        PayloadPlace::Signal { name: "panics" } => panic!("on purpose"),
        _ => Ok(()),
    });
    let client = client(&db, moody).await;
    let run = client.start(marked_child, "panic".into()).await.unwrap();
    let send = |name: &str| client.signal(run.id(), name, &1_u8);
    let (fails, panics, good) =
        futures::join!(send("fails").into_future(), send("panics").into_future(), send("good").into_future());
    let Err(ClientError::Database(error)) = fails else { panic!("expected Store, got {fails:?}") };
    assert_eq!(error.kind, DatabaseErrorKind::Codec);
    let why = error.source.to_string();
    assert!(why.contains("a signal \"fails\" to run") && why.contains("no key today"), "{why}");
    assert!(matches!(panics, Err(ClientError::Database(_))), "{panics:?}");
    assert_eq!(good.unwrap(), SignalOutcome::Accepted, "the other signals of the batch are committed");
    let why = UnreadablePayload::in_place_of(&client.run(run.id()).await.unwrap().input).unwrap();
    assert_eq!(why.reason, UnreadableReason::Failed("it panicked".into()));
}

pub async fn a_repeated_signal_is_decoded(db: Live) {
    let client = client(&db, Moody(|_| Ok(()))).await;
    let run = client.start(marked_child, String::new()).await.unwrap();
    let send = |number: u8| client.signal(run.id(), "good", &number).key("k");
    assert_eq!(send(1).await.unwrap(), SignalOutcome::Accepted);
    let SignalOutcome::Repeated(first) = send(2).await.unwrap() else { panic!("the key was used before") };
    assert_eq!(first.decode::<u8>().unwrap(), 1);
}

pub async fn a_batch_in_line_is_encoded_like_any_other(db: Live) {
    let moody = Moody(|context| match context.place {
        PayloadPlace::StepOutput { key: "fails" } => Err(CodecError::Failed("no key today".into())),
        _ => Ok(()),
    });
    let client = client(&db, moody).await;
    let (store, worker) = (client.store(), WorkerId::generate());
    let _lease = store.open_lease(worker, &[], &Retention::default()).await.unwrap();
    let claim = || Write::Claim(claim_by(worker, 1));
    let starts = [new_run(), NewRun { input: "\"second\"".into(), ..new_run() }].map(Write::Start);
    store.commit(&starts).await.unwrap();
    let first = claimed(one(store.commit(&[claim()]).await.unwrap())).runs[0].claim;
    let batch = [
        attempt(first, succeeded("good", 2, "\"secret\"")),
        claim(),
        attempt(first, succeeded("fails", 3, "1")),
        succeed(first, "1"),
    ];
    let before = [attempt(first, succeeded("before", 1, "\"secret\""))];
    let (before, outcomes) = futures::join!(store.commit(&before), store.commit(&batch));
    assert!(matches!(before.unwrap()[..], [Outcome::Applied]));
    let outcomes = outcomes.unwrap();
    let [Outcome::Applied, Outcome::Claimed(second), Outcome::Refused(error), Outcome::Refused(behind)] = &outcomes[..]
    else {
        panic!("{outcomes:?}")
    };
    assert_eq!((error.kind, second.runs[0].input.as_str()), (DatabaseErrorKind::Codec, "\"second\""));
    assert_eq!(behind.kind, DatabaseErrorKind::Codec, "the end may depend on the outcome before it");
    assert_eq!(client.run(first.run_id).await.unwrap().status, RunStatus::Running);
    let rows = store.history(first.run_id).await.unwrap();
    assert_eq!(rows.iter().map(|row| row.output.as_deref()).collect::<Vec<_>>(), [Some("\"secret\""); 2]);
    assert!(found(&db, "secret").await.is_empty());
}

pub async fn the_limit_counts_the_plain_text(db: Live) {
    let client = db.connect().codec(Encryption::new(key("k1"))).payload_limit(1000).await.unwrap();
    let run = client.start(marked_child, "x".repeat(998)).await.unwrap();
    assert_eq!(run.run().await.unwrap().input.len(), 1000);
    assert!(
        db.raw().await.number("SELECT CAST(length(input) AS bigint) FROM workflow_runs").await > 1300,
        "the stored text is longer because it is base64"
    );
    let refused = client.start(marked_child, "x".repeat(999)).await;
    assert!(matches!(refused, Err(ClientError::Payload(_))), "{refused:?}");
}
