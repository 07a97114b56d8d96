//! The knowledge base on the databases, beside the one in memory.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use workflow_flows::graph::Flow;
use workflow_flows::{
    ErrorClass, FlowClient, FlowError, FlowRuntime, FlowStart, KbDocument, KbError, KbSearch, KbStore, ToolCall,
    ToolError, flow,
};
use workflow_sdk::{ClientError, RunHandle};
use workflow_tests::{Database, Live, LocalWorker, until};

use crate::common::{step, steps, tool};
use crate::process::Process;

/// Opens the base of the case.
async fn open(db: &Live) -> KbStore {
    KbStore::connect(&db.url_of_tables()).await.unwrap()
}

fn learn(further: Value) -> Flow {
    let mut kb = json!({ "base": "support", "title": "Ticket {{input.id}}", "text": "{{input.text}}" });
    kb.as_object_mut().unwrap().extend(further.as_object().unwrap().clone());
    steps(json!([step("learn", json!({ "kb": kb }))]))
}

async fn start(db: &Live, flow: Flow, id: &str, text: &str) -> RunHandle<Value> {
    let input = json!({ "id": id, "text": text });
    db.client.start_definition(FlowStart::new(flow).input(input).actor("ann")).await.unwrap()
}

async fn error_of(run: &RunHandle<Value>) -> FlowError {
    match run.result().await {
        Err(ClientError::RunFailed { error, .. }) => error.downcast().unwrap(),
        other => panic!("{other:?}"),
    }
}

async fn keys(kb: &KbStore, search: &KbSearch) -> Vec<String> {
    kb.search(search).await.unwrap().into_iter().map(|found| found.key).collect()
}

pub async fn later_runs_find_what_earlier_ones_wrote(db: Live) {
    let kb = open(&db).await;
    let of_tool = kb.clone();
    let look = move |args: Value, _call: ToolCall| {
        let kb = of_tool.clone();
        async move {
            let search = KbSearch::new(args.as_str().unwrap()).map_err(|error| invalid(&error))?;
            kb.search(&search.base("support")).await.map_err(|error| invalid(&error))
        }
    };
    let runtime = FlowRuntime::builder().knowledge_base(kb.clone()).tool("look", look).build();
    let worker = LocalWorker::start(db.worker(runtime).register(flow));

    let tags = json!(["resolved", "{{input.id}}", "{{['vip', input.id + '!']}}"]);
    let keyed = learn(json!({ "key": "{{input.id}}", "tags": tags }));
    let first = start(&db, keyed.clone(), "t-1", "The printer wants paper.").await;
    assert_eq!(first.result().await.unwrap(), json!({ "base": "support", "key": "t-1", "revision": 1 }));
    let asked = start(&db, steps(json!([tool("look", "look", json!("{{input.text}}"))])), "", "printer -toner").await;
    let found = asked.result().await.unwrap();
    assert_eq!((&found[0]["title"], &found[0]["run"]), (&json!("Ticket t-1"), &json!(first.id().to_string())));

    let second = start(&db, keyed, "t-1", "The toner was empty.").await;
    assert_eq!(second.result().await.unwrap()["revision"], 2, "a document of this key is replaced");
    let entry = kb.find("support", "t-1").await.unwrap().unwrap();
    assert_eq!((entry.document.run, entry.document.text.as_str()), (Some(second.id()), "The toner was empty."));
    assert_eq!(entry.document.tags, ["resolved", "t-1", "vip", "t-1!"], "a list gives its items");
    assert!(keys(&kb, &KbSearch::new("paper").unwrap()).await.is_empty(), "old words are not found");
    assert_eq!(keys(&kb, &KbSearch::new("toner").unwrap()).await, ["t-1"]);

    let own = start(&db, learn(json!({})), "t-2", "").await;
    let key = own.result().await.unwrap()["key"].as_str().unwrap().to_owned();
    assert_eq!(key, format!("{}/learn", own.id()), "without a key the document has that of its step");
    let other = KbStore::attach(&db.url_of_tables()).await.unwrap();
    let listed: Vec<String> =
        other.list(None, Some(("support", &key)), 9).await.unwrap().into_iter().map(|found| found.key).collect();
    assert_eq!(listed, ["t-1"], "the list goes on behind a key");
    worker.stop().await;
}

fn invalid(error: &KbError) -> ToolError {
    ToolError::new(ErrorClass::Invalid, error.to_string())
}

pub async fn what_no_base_takes_fails_the_step(db: Live) {
    assert!(matches!(KbStore::attach(&db.url_of_tables()).await, Err(KbError::NoTables)));
    let elsewhere = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", elsewhere.path().join("kb.db").display());
    assert!(KbStore::attach(&url).await.is_err(), "nothing is created");
    let kb = KbStore::connect(&url).await.unwrap();
    let worker = LocalWorker::start(db.worker(FlowRuntime::builder().knowledge_base(kb).build()).register(flow));
    let error = error_of(&start(&db, learn(json!({})), "t", "text").await).await;
    let (class, message) = match db.database {
        Database::Sqlite => (ErrorClass::Unavailable, "has no knowledge base"),
        _ => (ErrorClass::Invalid, "the knowledge base is on SQLite, and the run is not"),
    };
    assert_eq!((error.class, error.message.contains(message)), (class, true), "{error}");
    worker.stop().await;

    let kb = open(&db).await;
    let runtime = FlowRuntime::builder().knowledge_base(kb.clone()).build();
    let worker = LocalWorker::start(db.worker(runtime).register(flow));
    for (id, text, message) in [
        (&*"x".repeat(1_100), "text", "the title has 1107 bytes"),
        ("t", &*"x".repeat(256 * 1_024 + 1), "the text has 262145 bytes"),
        ("t", "a\0b", "a NUL character"),
    ] {
        let error = error_of(&start(&db, learn(json!({})), id, text).await).await;
        assert_eq!((error.class, error.message.contains(message)), (ErrorClass::Invalid, true), "{error}");
    }
    assert!(kb.list(None, None, 9).await.unwrap().is_empty());
    worker.stop().await;
}

/// Three documents, and for each search the keys that it finds, those that fit best first.
pub async fn each_database_finds_what_memory_finds(db: Live) {
    let documents = [
        KbDocument::new("support", "jam", "Printer jam", "The paper is stuck. Open the tray.").tag("hardware"),
        KbDocument::new("support", "mail", "E-mail", "No e-mail arrives; the printer is fine.").tag("mail").tag("x"),
        KbDocument::new("sales", "ü", "Zürich", "日本語 printers' ink, 50% off: a_b \\ c").tag("hardware"),
    ];
    let stores = [open(&db).await, KbStore::in_memory()];
    for (kb, document) in stores.iter().flat_map(|kb| documents.iter().map(move |document| (kb, document))) {
        kb.put(document).await.unwrap();
    }
    let search = |query: &str| KbSearch::new(query).unwrap();
    for (search, expected) in [
        (search("printer"), &["jam", "mail"][..]),
        (search("PRINT*"), &["jam", "mail", "ü"]),
        (search("printer paper"), &["jam"]),
        (search("ink paper").any(), &["jam", "ü"]),
        (search("print* -ink -arrives"), &["jam"]),
        (search("print*").base("sales"), &["ü"]),
        (search("print*").tag("hardware").base("support"), &["jam"]),
        (search("print*").tag("hardware").tag("mail"), &[]),
        (search("\"e-mail arrives\""), &["mail"]),
        (search("\"mail no\""), &[]),
        (search("\"the pap\"*"), &["jam"]),
        (search("\"jam the\""), &[]),
        (search("本語"), &["ü"]),
        (search("zürich"), &["ü"]),
        (search("50"), &["ü"]),
        (search("a_b"), &["ü"]),
        (search("printer").base("none"), &[]),
        (search("printer").base("sup\0port"), &[]),
    ] {
        for kb in &stores {
            let found = keys(kb, &search).await;
            let (sorted, wanted): (BTreeSet<_>, BTreeSet<_>) = (found.iter().collect(), expected.iter().collect());
            assert_eq!(sorted.len(), found.len());
            assert!(
                sorted.iter().map(|key| key.as_str()).eq(wanted.into_iter().copied()),
                "{kb:?} {search:?}: {found:?}"
            );
        }
    }
    for kb in &stores {
        assert_eq!(keys(kb, &search("printer")).await, ["jam", "mail"], "a word in the title counts more");
        assert_eq!(keys(kb, &search("print*").limit(1)).await.len(), 1);
    }
}

/// Characters with a meaning for a tokenizer, for SQL or for the languages of the indexes.
const SIGNS: [&str; 24] = [
    "a", "ab", "b", "B", "ü", "日", "1", " ", " ", " ", "\"", "-", "*", "'", ":", "|", "&", "!", "(", ")", "\\", "%",
    "\0", "NEAR",
];

fn random_text(random: &mut fastrand::Rng, most: usize) -> String {
    (0..random.usize(0..most)).map(|_| SIGNS[random.usize(..SIGNS.len())]).collect()
}

pub async fn random_searches_agree_with_memory(db: Live) {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let (kb, memory) = (open(&db).await, KbStore::in_memory());
    for number in 0..60 {
        let (title, text) = (random_text(&mut random, 4), random_text(&mut random, 12));
        let document = KbDocument::new("b", format!("{}", number % 40), title, text);
        let [stored, kept] = [kb.put(&document).await, memory.put(&document).await];
        assert_eq!(stored.map_err(|error| error.to_string()), kept.map_err(|error| error.to_string()));
    }
    let (mut hits, mut refused) = (0, 0);
    for _ in 0..400 {
        let query = random_text(&mut random, 8);
        let search = match KbSearch::new(&query) {
            Ok(search) => search.limit(KbSearch::MAX_LIMIT),
            Err(error) => {
                assert!(matches!(error, KbError::Query { .. }), "{query:?}: {error}");
                refused += 1;
                continue;
            }
        };
        let search = if random.bool() { search.any() } else { search };
        let [found, expected] = [kb.search(&search).await.unwrap(), memory.search(&search).await.unwrap()];
        hits += found.len();
        let by_key = |found: Vec<workflow_flows::KbSummary>| -> BTreeSet<(String, String, i64)> {
            found.into_iter().map(|found| (found.key, found.excerpt, found.revision)).collect()
        };
        assert_eq!(by_key(found), by_key(expected), "{query:?}");
    }
    assert!(hits > 100 && refused > 5, "{hits} hits, {refused} refused");
}

/// Starts a worker process, with this failpoint.
fn spawn(db: &Live, failpoint: Option<&str>) -> Process {
    let (url, base) = (db.url(), db.url_of_tables());
    let arguments: [&str; 3] = [&url, db.schema().unwrap_or_default(), &base];
    Process::spawn(env!("CARGO_BIN_EXE_documents"), arguments, failpoint)
}

/// Kills a worker at each point around the commits of a run that writes a document, and lets
/// another one go on.
pub async fn a_worker_killed_at_a_commit_leaves_each_document_once(db: Live) {
    let kb = open(&db).await;
    let mut number = 0;
    for point in [
        "transaction.begun",
        "transaction.body_ended",
        "transaction.before_commit",
        "transaction.after_commit",
        "record.before_commit",
        "end.before_commit",
        "end.after_commit",
        "executor.before_commit",
        "executor.before_commit@2",
        "executor.before_commit@3",
        "executor.after_commit",
        "executor.after_commit@2",
        "executor.after_commit@3",
    ] {
        number += 1;
        let id = format!("t-{number}");
        let run = start(&db, learn(json!({ "key": "{{input.id}}" })), &id, "exactly once").await;
        let mut first = spawn(&db, Some(point));
        until(&format!("a death at {point}"), async || first.has_died().then_some(())).await;
        let second = spawn(&db, None);
        assert_eq!(run.result().await.unwrap()["revision"], 1, "{point}");
        drop(second);
        assert_eq!(kb.find("support", &id).await.unwrap().unwrap().revision, 1, "{point}");
        assert_eq!(keys(&kb, &KbSearch::new(&id).unwrap()).await, [id], "{point}");
    }
    assert_eq!(kb.list(None, None, 99).await.unwrap().len(), number);
}
