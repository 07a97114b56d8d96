//! `workflow kb` and `workflow inbox` on each database: exit codes, and what people and programs
//! read.

use std::process::Command;

use serde_json::Value;
use workflow_flows::{InboxMessage, InboxStore, KbDocument, KbStore};
use workflow_tests::{Database, Live};

/// The program on a database.
struct Shell<'l>(&'l Live);

impl Shell<'_> {
    /// Returns the exit code, the standard output and the standard error.
    fn run(&self, arguments: &[&str]) -> (i32, String, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_workflow"));
        command.args(arguments).args(["--to", &self.0.url_of_tables()]).env("TZ", "UTC");
        let output = command.output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    }

    fn says(&self, arguments: &[&str]) -> String {
        let (code, out, err) = self.run(arguments);
        assert_eq!(code, 0, "{arguments:?}: {out}{err}");
        out
    }
}

async fn documents(db: &Live, shell: &Shell<'_>) {
    let (code, _, err) = shell.run(&["kb", "list"]);
    assert_eq!((code, err.contains("no knowledge base")), (9, true), "{err}");
    let kb = KbStore::connect(&db.url_of_tables()).await.unwrap();
    let document = KbDocument::new("support", "t-1", "Printer \u{1b}[31mjam", "Empty the tray.\nThen wait.");
    kb.put(&document.tag("resolved")).await.unwrap();
    kb.put(&KbDocument::new("sales", "s-1", "Ink", "The printer takes black ink.")).await.unwrap();

    let found = shell.says(&["kb", "search", "printer", "--base", "support"]);
    assert!(found.contains("t-1") && found.contains("resolved") && !found.contains("s-1"), "{found}");
    assert!(!found.contains('\u{1b}'), "no document controls the terminal: {found:?}");
    assert_eq!(shell.says(&["kb", "search", "printer -tray", "-o", "ids"]), "sales\ts-1\n");
    assert_eq!(shell.says(&["kb", "search", "toner tray", "--any", "-o", "ids"]), "support\tt-1\n");
    assert_eq!(shell.says(&["kb", "search", "printer", "--tag", "none", "-o", "ids"]), "");
    let json: Value = serde_json::from_str(&shell.says(&["kb", "search", "black", "--json"])).unwrap();
    assert_eq!((&json[0]["key"], &json[0]["excerpt"]), (&"s-1".into(), &"The printer takes black ink.".into()));
    assert_eq!(shell.says(&["kb", "list", "-o", "ids"]), "sales\ts-1\nsupport\tt-1\n");
    assert_eq!(shell.says(&["kb", "list", "--after", "sales", "s-1", "-o", "ids"]), "support\tt-1\n");
    let (_, out, err) = shell.run(&["kb", "list", "--limit", "1"]);
    assert!(out.contains("s-1") && !out.contains("t-1") && err.contains("--after \"sales\" \"s-1\""), "{out}{err}");
    let shown = shell.says(&["kb", "show", "support", "t-1"]);
    assert!(shown.contains("revision  1") && shown.ends_with("\nEmpty the tray.\nThen wait.\n"), "{shown}");
    assert!(!shown.contains('\u{1b}'), "{shown:?}");

    for (arguments, code) in [
        (&["kb", "show", "support", "t-2"][..], 4),
        (&["kb", "show", "support"], 2),
        (&["kb", "search", "?!"], 2),
        (&["kb", "search", "-ink"], 2),
        (&["kb", "search", "ink", "--limit", "51"], 2),
        (&["kb", "list", "--limit", "0"], 2),
        (&["kb", "delete", "support", "t-1"], 2),
    ] {
        let (found, out, err) = shell.run(arguments);
        assert_eq!(found, code, "{arguments:?}: {out}{err}");
    }
}

async fn messages(db: &Live, shell: &Shell<'_>) {
    let (code, _, err) = shell.run(&["inbox", "list"]);
    assert_eq!((code, err.contains("no inbox")), (9, true), "{err}");
    let inbox = InboxStore::connect(&db.url_of_tables()).await.unwrap();
    for (key, to, text) in [("k1", "ops", "first\u{7}"), ("k2", "billing", "second")] {
        let mut message = InboxMessage::new(key, text);
        to.clone_into(&mut message.to);
        inbox.put(&message).await.unwrap();
    }
    assert_eq!(shell.says(&["inbox", "list", "-o", "ids"]), "2\n1\n");
    assert_eq!(shell.says(&["inbox", "list", "--receiver", "ops", "-o", "ids"]), "1\n");
    let listed = shell.says(&["inbox", "list"]);
    assert!(listed.contains("billing") && !listed.contains('\u{7}'), "{listed:?}");
    let read = shell.says(&["inbox", "read", "1"]);
    assert!(read.contains("to       ops") && read.ends_with("\nfirst\u{fffd}\n"), "{read:?}");
    assert_eq!(shell.says(&["inbox", "list", "-o", "ids"]), "2\n", "a message that was read is not listed");
    assert_eq!(shell.says(&["inbox", "list", "--all", "--before", "2", "-o", "ids"]), "1\n");
    assert_eq!(shell.run(&["inbox", "read", "9"]).0, 4);
    assert_eq!(shell.run(&["inbox", "read", "x"]).0, 2);
}

#[tokio::test]
async fn documents_and_messages_are_read_on_each_database() {
    for database in [Database::Sqlite, Database::Postgres] {
        let live = Live::new(database).await;
        let shell = Shell(&live);
        documents(&live, &shell).await;
        messages(&live, &shell).await;
        live.sweep().await;
    }
}

#[test]
fn a_server_is_not_asked() {
    for verb in ["kb", "inbox"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_workflow"));
        let output = command.args([verb, "list", "--to", "https://runs.test"]).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(String::from_utf8(output.stderr).unwrap().contains("cannot ask a server"));
    }
}
