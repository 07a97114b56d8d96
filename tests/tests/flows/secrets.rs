//! Secrets of flows in a table of the database.

use workflow_flows::{ErrorClass, SecretStore, SecretStoreError, Secrets};
use workflow_sdk::{Encryption, EncryptionKey};
use workflow_tests::Live;

/// Opens a store whose key has this id and this byte.
async fn open(url: &str, (id, byte): (&str, u8)) -> SecretStore {
    let codec = Encryption::new(EncryptionKey::new(id, [byte; 32]).unwrap());
    SecretStore::connect(url, codec).await.unwrap()
}

async fn get(store: &SecretStore, actor: &str, name: &str) -> Option<String> {
    store.get(actor, name).await.unwrap()
}

pub async fn a_value_is_opened_at_its_place_with_its_key_alone(db: Live) {
    let url = db.url_of_tables();
    let store = open(&url, ("k1", 1)).await;
    for (actor, name, value) in [("", "bank", "all-4711"), ("ann", "bank", "ann-4711"), ("ann", "mail", "mail-4711")] {
        store.set(actor, name, "replaced-4711").await.unwrap();
        store.set(actor, name, value).await.unwrap();
    }
    assert_eq!(get(&store, "ann", "bank").await.as_deref(), Some("ann-4711"));
    assert_eq!(get(&store, "bob", "bank").await.as_deref(), Some("all-4711"));
    for (actor, name) in [("bob", "mail"), ("", "mail"), ("ann", "none"), ("a\0", "bank"), ("ann", "")] {
        assert_eq!(get(&store, actor, name).await, None, "{actor:?} {name:?}");
    }

    let mut raw = db.raw().await;
    let sealed = raw.lines("SELECT sealed FROM workflow_flow_secrets", "sealed").await;
    assert_eq!(sealed.len(), 3);
    for (key, class) in [(("k2", 1), ErrorClass::Unavailable), (("k1", 2), ErrorClass::Invalid)] {
        let refused = open(&url, key).await.get("ann", "bank").await.unwrap_err();
        assert_eq!(refused.class, class, "{refused}");
        assert!(refused.message.contains("\"bank\"") && refused.message.contains("k1"), "{refused}");
    }
    let moved = "UPDATE workflow_flow_secrets SET sealed = (SELECT sealed FROM workflow_flow_secrets
                 WHERE actor = 'ann' AND name = 'mail') WHERE name = 'bank'";
    raw.execute(moved).await;
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

pub async fn secrets_are_copied_as_they_are_sealed(db: Live) {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| format!("sqlite://{}", directory.path().join(name).display());
    let (from, to, back) = (file("from.db"), db.url_of_tables(), file("back.db"));
    assert_eq!(SecretStore::transfer(&from, &to).await.unwrap(), 0, "there is no file");
    assert_eq!(SecretStore::transfer(&to, &back).await.unwrap(), 0, "there is no table");
    let source = open(&from, ("k1", 1)).await;
    for number in 0..70 {
        source.set(["", "ann"][number % 2], &format!("bank-{}", number / 2), &number.to_string()).await.unwrap();
    }
    for (from, to) in [(&from, &to), (&from, &to), (&to, &back)] {
        assert_eq!(SecretStore::transfer(from, to).await.unwrap(), 70);
    }
    let target = open(&to, ("k1", 1)).await;
    for copy in [&target, &open(&back, ("k1", 1)).await] {
        assert_eq!(copy.list().await.unwrap(), source.list().await.unwrap());
        assert_eq!(get(copy, "ann", "bank-30").await.as_deref(), Some("61"));
    }
    target.set("", "bank-3", "other").await.unwrap();
    let taken = SecretStore::transfer(&from, &to).await;
    assert!(matches!(&taken, Err(SecretStoreError::Taken { name }) if name == "bank-3"), "{taken:?}");
    assert_eq!(get(&target, "bob", "bank-3").await.as_deref(), Some("other"));
}
