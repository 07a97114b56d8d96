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
async fn a_store_in_memory_is_like_one_in_a_table() {
    let store = SecretStore::in_memory(codec("k1", 1));
    store.set("ann", "bank", "a-4711").await.unwrap();
    for (.., sealed, _) in store.backend.rows("", "", 9).await.unwrap() {
        let bytes = STANDARD.decode(&sealed).unwrap();
        assert!(!bytes.windows(4).any(|part| part == b"4711"), "{sealed}");
    }
    assert_eq!(get(&store, "bob", "bank").await, None);
    store.set("", "bank", "b").await.unwrap();
    let values = [get(&store, "ann", "bank").await, get(&store, "bob", "bank").await];
    assert_eq!(values.map(Option::unwrap), ["a-4711", "b"]);
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
