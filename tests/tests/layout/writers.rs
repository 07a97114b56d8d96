//! One door for writes, and one for payloads.

use crate::sources::{all_shipped, shipped};

#[test]
fn only_the_executor_commits() {
    for source in all_shipped() {
        let path = source.shown();
        // A store that stands in front of another one hands its batches on.
        let is_door = path.starts_with("workflow-engine/executor/")
            || path == "workflow-engine/store/coded.rs"
            || path == "workflow-testing/crash_store.rs"
            || path.starts_with("workflow-testing/memory/");
        assert!(is_door || !source.text.contains("store.commit("), "{path} commits beside the executor");
        assert!(is_door || !source.text.contains("store().commit("), "{path} commits beside the executor");
    }
}

/// The one exception: the transaction of a step commits itself, because its statements cannot be
/// queued. The drive's port opens it, and one file commits it under the fence of the claim.
#[test]
fn only_a_step_transaction_commits_beside_the_executor() {
    let packages = ["workflow-engine", "workflow-sdk", "workflow-worker"];
    for source in packages.into_iter().flat_map(shipped) {
        let (path, code) = (source.shown(), source.code());
        let opens = path == "workflow-worker/drive/port.rs";
        assert!(opens || !code.contains("store().begin("), "{path} opens transactions");
        let commits = path == "workflow-worker/drive/transaction.rs";
        assert!(commits || !code.contains("transaction.commit("), "{path} commits transactions");
    }
    let port = shipped("workflow-worker").into_iter().find(|source| source.path == "drive/port.rs").unwrap();
    assert!(port.text.contains("store().begin("), "the rule looks for a call that does not exist");
}

/// Each payload passes the codec on its way to a database and back. No code below the codec knows
/// of clients, and no code above it has a store without one.
#[test]
fn payloads_have_one_door() {
    for source in shipped("workflow-sdk") {
        let opens = source.text.contains("SqliteStore::open(") || source.text.contains("PostgresStore::open(");
        assert!(!opens || source.path == "client/open.rs", "{} opens a database", source.path);
        let connects = source.text.contains("open(&url, self.options");
        assert!(!connects || source.path == "client/connect.rs", "{} connects beside the client", source.path);
    }
    let client = shipped("workflow-sdk").into_iter().find(|source| source.path == "client/mod.rs").unwrap();
    assert!(client.text.contains("CodedStore::new(store, coding.clone())"), "a client's store is coded");
}
