//! The tools of the knowledge base, and the inbox of the channel `in-app`, on each database.

use std::sync::Arc;

use serde_json::{Value, json};
use workflow_flows::{ErrorClass, InboxStore, KbDocument, KbStore, Tool, ToolCall, ToolError};
use workflow_tests::{Database, Live};
use workflow_tools::notify::InApp;

async fn call(tools: &[Arc<dyn Tool>], name: &str, args: Value) -> Result<Value, ToolError> {
    let tool = tools.iter().find(|tool| tool.name() == name).unwrap();
    tool.call(ToolCall::new(args, "ann", "run-1/step")).await
}

/// Words of the languages behind a search, and of their errors.
const FOREIGN: [&str; 8] = ["fts5", "syntax", "tsquery", "sqlite", "postgres", "SELECT", "database", "near \""];

async fn search_and_get(db: &Live) {
    let kb = KbStore::connect(&db.url_of_tables()).await.unwrap();
    let document = KbDocument::new("support", "t-1", "Printer jam", "Empty the tray.").tag("resolved");
    kb.put(&document).await.unwrap();
    kb.put(&KbDocument::new("wages", "w-1", "Printer of wages", "Secret.")).await.unwrap();
    let tools = workflow_tools::knowledge::tools(&kb);

    let args = json!({ "base": "support", "query": "printer toner", "match": "any", "tags": ["resolved"], "limit": 5 });
    let found = call(&tools, "kb.search", args).await.unwrap();
    assert_eq!(found["documents"].as_array().unwrap().len(), 1, "one base is searched: {found}");
    assert_eq!((&found["documents"][0]["key"], &found["documents"][0]["revision"]), (&json!("t-1"), &json!(1)));
    let got = call(&tools, "kb.get", json!({ "base": "support", "key": "t-1" })).await.unwrap();
    assert_eq!((&got["text"], &got["tags"]), (&json!("Empty the tray."), &json!(["resolved"])));
    assert_eq!(call(&tools, "kb.get", json!({ "base": "support", "key": "w-1" })).await.unwrap(), Value::Null);

    for wrong in [
        json!({ "query": "printer" }),
        json!({ "base": "support" }),
        json!({ "base": 1, "query": "printer" }),
        json!({ "base": "support", "query": "printer", "limit": 0 }),
        json!({ "base": "support", "query": "printer", "limit": 51 }),
        json!({ "base": "support", "query": "printer", "match": "none" }),
        json!({ "base": "support", "query": "?!" }),
        json!({ "base": "support", "query": "a ".repeat(33) }),
        json!({ "base": "support", "query": "a".repeat(1025) }),
    ] {
        let error = call(&tools, "kb.search", wrong.clone()).await.unwrap_err();
        assert_eq!(error.class, ErrorClass::Invalid, "{wrong}: {error}");
    }
    for hostile in [
        "\" OR 1=1 --",
        "printer' || (SELECT 1) || '",
        "title:printer",
        "NEAR(printer jam, 1)",
        "^printer AND NOT",
        "{title text} : printer",
        "'a':1A & !( <-> :*",
        "\\",
        "*",
        "a*b*c*",
        "\"\"\"\"",
        "\u{0}\u{202e}printer",
        "((((((((((((((((printer",
        "--printer",
    ] {
        match call(&tools, "kb.search", json!({ "base": "support", "query": hostile })).await {
            Ok(found) => assert!(!found.to_string().contains("wages"), "{hostile}: {found}"),
            Err(error) => {
                assert_eq!(error.class, ErrorClass::Invalid, "{hostile}: {error}");
                let shown = FOREIGN.iter().find(|word| error.message.contains(*word));
                assert_eq!(shown, None, "{hostile}: {error}");
            }
        }
    }

    let dropped = if db.schema().is_some() { "" } else { "DROP TABLE workflow_knowledge_words;" };
    db.raw().await.execute(format!("{dropped} DROP TABLE workflow_knowledge")).await;
    let error = call(&tools, "kb.search", json!({ "base": "support", "query": "printer" })).await.unwrap_err();
    let expected = "kb.search: the knowledge base cannot be read now";
    assert_eq!((error.class, error.message.as_str()), (ErrorClass::Unavailable, expected));
}

async fn messages(db: &Live) {
    assert!(InboxStore::attach(&db.url_of_tables()).await.is_err());
    let inbox = InboxStore::connect(&db.url_of_tables()).await.unwrap();
    let channel = InApp::new(inbox.clone());
    let send = async |key: &str, to: &str, text: &str| {
        let args = json!({ "to": to, "title": "Ticket", "text": text, "data": { "n": 1 } });
        channel.call(ToolCall::new(args, "ann", key)).await
    };
    for (key, to, text) in [("r/1", "ops", "first"), ("r/1", "ops", "again"), ("r/2", "billing", "second")] {
        assert_eq!(send(key, to, text).await.unwrap(), json!({ "kept": true }));
    }
    let error = send("r/3", "ops", "a\0b").await.unwrap_err();
    assert_eq!((error.class, error.message.contains("NUL")), (ErrorClass::Invalid, true), "{error}");
    assert_eq!(send("r/4", &"x".repeat(256), "t").await.unwrap_err().class, ErrorClass::Invalid);

    let inbox = InboxStore::attach(&db.url_of_tables()).await.unwrap();
    let texts = async |to: Option<&str>, unread: bool, before: Option<i64>| -> Vec<String> {
        let found = inbox.list(to, unread, before, 10).await.unwrap();
        found.into_iter().map(|entry| entry.message.text).collect()
    };
    assert_eq!(texts(None, true, None).await, ["second", "first"], "a key is kept once, the newest comes first");
    let first = inbox.list(Some("ops"), true, None, 10).await.unwrap().remove(0);
    assert_eq!((first.message.actor.as_str(), &first.message.data), ("ann", &json!({ "n": 1 })));
    let read = inbox.mark_read(first.id).await.unwrap().unwrap();
    let again = inbox.mark_read(first.id).await.unwrap().unwrap();
    assert!(read.read_at.is_some() && read.read_at == again.read_at, "the first time stays");
    assert!(inbox.mark_read(i64::MAX).await.unwrap().is_none());
    assert_eq!(texts(None, true, None).await, ["second"]);
    assert_eq!(texts(None, false, None).await, ["second", "first"]);
    let second = inbox.list(None, true, None, 1).await.unwrap().remove(0);
    assert_eq!(texts(None, false, Some(second.id)).await, ["first"], "the list goes on before an id");
    assert!(texts(Some("o\0ps"), false, None).await.is_empty());
    assert_eq!(inbox.list(None, false, None, 0).await.unwrap().len(), 1, "a limit is at least 1");
}

#[tokio::test]
async fn the_knowledge_base_is_searched_and_no_query_reaches_the_database() {
    for database in [Database::Sqlite, Database::Postgres] {
        let live = Live::new(database).await;
        search_and_get(&live).await;
        live.sweep().await;
    }
}

#[tokio::test]
async fn messages_are_kept_once_and_read() {
    for database in [Database::Sqlite, Database::Postgres] {
        let live = Live::new(database).await;
        messages(&live).await;
        live.sweep().await;
    }
}
