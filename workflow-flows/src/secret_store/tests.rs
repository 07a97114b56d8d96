#![allow(clippy::unwrap_used)]

use workflow_sdk::{Encryption, EncryptionKey};

use super::*;

/// A codec whose key has this id and this byte.
fn codec(id: &str, byte: u8) -> Encryption {
    Encryption::new(EncryptionKey::new(id, [byte; 32]).unwrap())
}

async fn get(store: &SecretStore, actor: &str, name: &str) -> Option<String> {
    store.get(actor, name).await.unwrap()
}

#[tokio::test]
async fn a_value_is_opened_at_its_place_with_its_key_alone() {
    let directory = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}/secrets.db", directory.path().display());
    let store = SecretStore::connect(&url, codec("k1", 1)).await.unwrap();
    for (actor, name, value) in [("", "bank", "all-4711"), ("ann", "bank", "ann-4711"), ("ann", "mail", "mail-4711")] {
        store.set(actor, name, "replaced-4711").await.unwrap();
        store.set(actor, name, value).await.unwrap();
    }
    assert_eq!(get(&store, "ann", "bank").await.as_deref(), Some("ann-4711"));
    assert_eq!(get(&store, "bob", "bank").await.as_deref(), Some("all-4711"));
    for (actor, name) in [("bob", "mail"), ("", "mail"), ("ann", "none"), ("a\0", "bank"), ("ann", "")] {
        assert_eq!(get(&store, actor, name).await, None, "{actor:?} {name:?}");
    }

    let pool = sqlx::SqlitePool::connect(&url).await.unwrap();
    let sealed: Vec<String> =
        sqlx::query_scalar("SELECT sealed FROM workflow_flow_secrets").fetch_all(&pool).await.unwrap();
    assert_eq!(sealed.len(), 3);
    for sealed in sealed {
        let bytes = STANDARD.decode(&sealed).unwrap();
        assert!(!bytes.windows(4).any(|part| part == b"4711"), "{sealed}");
    }
    for (id, byte, class) in [("k2", 1, ErrorClass::Unavailable), ("k1", 2, ErrorClass::Invalid)] {
        let other = SecretStore::connect(&url, codec(id, byte)).await.unwrap();
        let refused = other.get("ann", "bank").await.unwrap_err();
        assert_eq!(refused.class, class, "{refused}");
        assert!(refused.message.contains("\"bank\"") && refused.message.contains("k1"), "{refused}");
    }
    let moved = "UPDATE workflow_flow_secrets SET sealed = (SELECT sealed FROM workflow_flow_secrets
                 WHERE actor = 'ann' AND name = 'mail') WHERE name = 'bank'";
    sqlx::query(moved).execute(&pool).await.unwrap();
    for actor in ["ann", "bob"] {
        assert_eq!(store.get(actor, "bank").await.unwrap_err().class, ErrorClass::Invalid);
    }

    store.set("", "bank", "new-4711").await.unwrap();
    assert!(store.remove("ann", "bank").await.unwrap());
    assert!(!store.remove("ann", "bank").await.unwrap());
    assert_eq!(get(&store, "ann", "bank").await.as_deref(), Some("new-4711"));
    let listed = store.list().await.unwrap();
    let names: Vec<(&str, &str)> = listed.iter().map(|entry| (entry.name.as_str(), entry.actor.as_str())).collect();
    assert_eq!(names, [("bank", ""), ("mail", "ann")]);
    assert!(listed.iter().all(|entry| entry.key_id == "k1"), "{listed:?}");
}

#[tokio::test]
async fn a_store_in_memory_is_like_one_in_a_table() {
    let store = SecretStore::in_memory(codec("k1", 1));
    store.set("ann", "bank", "a").await.unwrap();
    assert_eq!(get(&store, "bob", "bank").await, None);
    store.set("", "bank", "b").await.unwrap();
    let values = [get(&store, "ann", "bank").await, get(&store, "bob", "bank").await];
    assert_eq!(values.map(Option::unwrap), ["a", "b"]);
    assert_eq!(store.list().await.unwrap().len(), 2);
    assert!(store.remove("", "bank").await.unwrap());
    assert_eq!(get(&store, "bob", "bank").await, None);
}

#[tokio::test]
async fn names_and_values_that_do_not_fit_are_refused() {
    let store = SecretStore::in_memory(codec("k1", 1));
    let (long, large) = ("x".repeat(256), "x".repeat(SecretStore::LONGEST_VALUE + 1));
    for (actor, name, value) in [
        ("", "", "v"),
        ("", long.as_str(), "v"),
        (long.as_str(), "bank", "v"),
        ("a\u{1}b", "bank", "v"),
        ("", "ba\0nk", "v"),
        ("", "bank", ""),
        ("", "bank", large.as_str()),
    ] {
        let refused = store.set(actor, name, value).await;
        assert!(matches!(refused, Err(SecretStoreError::Refused { .. })), "{refused:?}");
    }
    assert_eq!(store.list().await.unwrap(), []);
}

#[tokio::test]
async fn secrets_are_copied_as_they_are_sealed() {
    let directory = tempfile::tempdir().unwrap();
    let url = |name: &str| format!("sqlite://{}/{name}", directory.path().display());
    let (from, to) = (url("from.db"), url("to.db"));
    assert_eq!(SecretStore::transfer(&from, &to).await.unwrap(), 0, "there is no file");
    let source = SecretStore::connect(&from, codec("k1", 1)).await.unwrap();
    for number in 0..70 {
        source.set(["", "ann"][number % 2], &format!("bank-{}", number / 2), &number.to_string()).await.unwrap();
    }
    for _ in 0..2 {
        assert_eq!(SecretStore::transfer(&from, &to).await.unwrap(), 70);
    }
    let target = SecretStore::connect(&to, codec("k1", 1)).await.unwrap();
    assert_eq!(target.list().await.unwrap(), source.list().await.unwrap());
    assert_eq!(get(&target, "ann", "bank-30").await.as_deref(), Some("61"));
    target.set("", "bank-3", "other").await.unwrap();
    let taken = SecretStore::transfer(&from, &to).await;
    assert!(matches!(&taken, Err(SecretStoreError::Taken { name }) if name == "bank-3"), "{taken:?}");
    assert_eq!(get(&target, "bob", "bank-3").await.as_deref(), Some("other"));
}
