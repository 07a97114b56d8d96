use std::collections::{BTreeMap, HashMap, HashSet};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::fingerprint;

/// Returns whether a value and what its JSON text decodes to have equal fingerprints.
fn survives<T: Serialize + DeserializeOwned>(value: T) -> bool {
    let text = serde_json::to_string(&value).unwrap();
    let decoded: T = serde_json::from_str(&text).unwrap();
    fingerprint(&value).is_some() && fingerprint(&value) == fingerprint(&decoded)
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Untagged {
    Small(u8),
    Large(u64),
    Named { a: u8 },
    Other { a: u8, b: Option<u8> },
}

#[derive(Serialize, Deserialize)]
enum Tagged {
    Unit,
    Pair(u8, String),
    Fields { a: u8, b: Option<()> },
}

#[test]
fn values_that_json_keeps_survive() {
    assert!(survives((1_u8, -2_i64, 0.1_f64, 0.1_f32, 'c', true, u128::MAX, "text".to_owned())));
    assert!(survives([Some(1), None]));
    assert!(survives(()));
    assert!(survives([Tagged::Unit, Tagged::Pair(1, "a".into()), Tagged::Fields { a: 1, b: None }].map(Some)));
    assert!(survives((Untagged::Small(7), Untagged::Named { a: 1 })));
    assert!(survives(BTreeMap::from([(1, vec![1, 2]), (2, Vec::new())])));
    assert!(survives(serde_json::json!({"a": [1, -1, 1.5, null], "b": {"c": "d"}})));
    assert!(survives((0..100).map(|n| (n, n * n)).collect::<HashMap<u32, u32>>()));
    assert!(survives((0..100).collect::<HashSet<u32>>()));
}

#[test]
fn values_that_json_changes_do_not_survive() {
    assert!(!survives(Some(())));
    assert!(!survives(Some(None::<u8>)));
    assert!(!survives(vec![Some(Some(1)), Some(None), None]));
    assert!(!survives(Untagged::Large(7)));
    assert!(!survives(Untagged::Other { a: 1, b: None }));
    assert!(!survives(Tagged::Fields { a: 1, b: Some(()) }));
    assert!(!survives(HashMap::from([(1, Some(()))])));
}
