//! Random and damaged documents and names.

use proptest::prelude::*;
use workflow_engine::model::{check_name, check_queue, check_tags};
use workflow_engine::store::redact;
use workflow_sdk::{NameSubject, RunHistory, UnreadablePayload};

const HISTORY: &str = r#"{"format":1,"run":{"id":"018f0000-0000-7000-8000-000000000001","queue":"default","workflow":"greet",
"version":"1","status":"parked","input":"\"Ada\"","started_at":1700000000000000},"steps":[{"step_key":"compose","attempt":1,
"kind":"step","status":"failed","position":1,"output":"\"hello\"","error":{"kind":"application","message":"no","causes":["a"],
"coded":"coded:1:k:e30="},"epoch":1,"started_at":1700000000000000,"completed_at":1700000000001000}]}"#;

/// Generates text that replaces a part of a document.
fn part() -> impl Strategy<Value = String> {
    let known = [
        "null",
        "-1",
        "1e999",
        "\"\"",
        "[]",
        "{}",
        "true",
        "\"coded:\"",
        "\u{0}",
        "\"\\ud800\"",
        "9223372036854775808",
        ",",
    ];
    prop_oneof![
        proptest::sample::select(known.to_vec()).prop_map(str::to_owned),
        "[\\[\\]{}\",:0-9a-z\\\\]{0,12}",
        (1..300_usize).prop_map(|depth| "[".repeat(depth)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_damaged_history_is_refused_or_read(at in 0..HISTORY.len(), length in 0..40_usize, part in part()) {
        let mut bytes = HISTORY.as_bytes().to_vec();
        let end = (at + length).min(bytes.len());
        bytes.splice(at..end, part.bytes());
        let text = String::from_utf8_lossy(&bytes);
        if let Ok(history) = RunHistory::from_json(&text) {
            prop_assert_eq!(RunHistory::from_json(&history.to_json()).unwrap(), history);
        }
    }

    #[test]
    fn a_name_is_accepted_or_refused(name in any::<String>(), value in any::<String>()) {
        let turns = |c| matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        let fits = (1..=255).contains(&name.len()) && !name.chars().any(|c| c.is_control() || turns(c));
        prop_assert_eq!(check_name(NameSubject::Workflow, &name).is_ok(), fits);
        prop_assert_eq!(check_queue(&name).is_ok(), fits);
        prop_assert!(fits || check_tags(&[(name, value)].into()).is_err());
    }

    #[test]
    fn the_password_of_a_url_is_never_shown(
        user in "[a-z]{0,5}", password in "[a-zA-Z0-9@/?#:&=%]{0,8}", rest in "(:[0-9]{4})?/[a-z]{0,5}(\\?sslmode=x)?",
    ) {
        let shown = redact(&format!("postgres://{user}:S3CR3T{password}S3CR3T@db{rest}"));
        prop_assert!(!shown.contains("S3CR3T"), "{}", shown);
    }

    #[test]
    fn no_ordinary_text_is_read_as_an_unreadable_payload(text in any::<String>()) {
        prop_assert!(UnreadablePayload::in_place_of(&text).is_none());
        let marked = format!("unreadable:{text}");
        prop_assert!(UnreadablePayload::in_place_of(&marked).is_none());
    }
}

#[test]
fn a_document_nested_too_deeply_is_refused() {
    for depth in [128, 1000, 1_000_000] {
        assert!(RunHistory::from_json(&"[".repeat(depth)).is_err());
        let steps = format!(r#"{{"format":1,"run":{{}},"steps":{}"#, "[".repeat(depth));
        assert!(RunHistory::from_json(&steps).is_err());
    }
}
