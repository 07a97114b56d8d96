//! The JSON Schema of documents accepts what the checks accept, and has every key of the lowering.

use std::collections::BTreeSet;

use serde_json::Value;
use workflow_flows::SCHEMA;

use crate::{checked, file, files};

fn schema() -> Value {
    serde_json::from_str(SCHEMA).unwrap()
}

/// A document as JSON, by way of a fix that changes nothing.
fn json(source: &str) -> Value {
    let fix: workflow_flows::check::Fix = serde_json::from_value(
        serde_json::json!({ "title": "", "edits": [{ "op": "add", "path": "/flow", "value": 1 }] }),
    )
    .unwrap();
    serde_json::from_str(&fix.apply(source).unwrap()).unwrap()
}

/// The documents in the fences of the guide.
fn guide() -> Vec<String> {
    crate::guide::documents()
}

#[test]
fn every_valid_document_fits_the_schema() {
    let validator = jsonschema::validator_for(&schema()).unwrap();
    let fixed = files("broken").into_iter().filter(|name| name.contains(".fixed."));
    let mut documents: Vec<String> = fixed.map(|name| file(&format!("broken/{name}"))).collect();
    documents.extend(guide());
    let mut count = 0;
    for source in documents {
        if !checked(&source).is_valid() {
            continue;
        }
        let errors: Vec<String> =
            validator.iter_errors(&json(&source)).map(|error| format!("{}: {error}", error.instance_path())).collect();
        assert!(errors.is_empty(), "{source}\n{}", errors.join("\n"));
        count += 1;
    }
    assert!(count >= 30, "{count} documents");
}

#[test]
fn documents_with_a_wrong_shape_do_not_fit_the_schema() {
    let validator = jsonschema::validator_for(&schema()).unwrap();
    for name in files("broken") {
        let is_shape = ["key_", "kind_", "type_"].iter().any(|prefix| name.starts_with(prefix));
        // A schema cannot say: names that must be one of others, texts in texts, pairs of keys.
        let is_beyond = [
            "key_without_effect",
            "key_wrong_kind",
            "key_needs_in_do",
            "key_next_in_do",
            "type_fallback",
            "type_option",
            "type_for_text",
            "type_wait_two",
            "type_on_timeout",
            "type_two_ways",
            "type_schema",
            "type_no_flow",
            "type_no_max",
        ];
        if !is_shape || name.contains(".fixed.") || is_beyond.iter().any(|beyond| name.starts_with(beyond)) {
            continue;
        }
        let source = file(&format!("broken/{name}"));
        if name == "type_version.yaml" {
            continue;
        }
        assert!(!validator.is_valid(&json(&source)), "{name} fits the schema");
    }
}

/// All names of properties of the schema.
fn properties(value: &Value, names: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                if let ("properties", Value::Object(properties)) = (key.as_str(), value) {
                    names.extend(properties.keys().cloned());
                }
                properties(value, names);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| properties(item, names)),
        _ => {}
    }
}

#[test]
fn every_key_of_the_lowering_stands_in_the_schema() {
    let keys = include_str!("../../src/lower/keys.rs");
    let tables = keys.split("/// A kind of step.").next().unwrap();
    let mut expected: BTreeSet<String> =
        tables.split('"').skip(1).step_by(2).map(str::to_owned).filter(|key| !key.contains(' ')).collect();
    let kinds = keys.split("pub(crate) const KINDS").nth(1).unwrap().split("];").next().unwrap();
    expected.extend(kinds.split("name: \"").skip(1).filter_map(|rest| rest.split('"').next()).map(str::to_owned));
    assert!(expected.len() > 70 && expected.contains("approval"), "{expected:?}");
    let mut names = BTreeSet::new();
    properties(&schema(), &mut names);
    let missing: Vec<&String> = expected.difference(&names).collect();
    let unknown: Vec<&String> = names.difference(&expected).collect();
    // `jq` stands in a loop too, and the keys beside a kind in the table of kinds.
    assert!(missing.is_empty(), "the schema lacks {missing:?}");
    let beside = [
        "args",
        "external",
        "then",
        "else",
        "cases",
        "default",
        "mode",
        "on_timeout",
        "on_reject",
        "fallback",
        "detach",
        "queue",
        "goto",
    ];
    let unknown: Vec<&&String> = unknown.iter().filter(|key| !beside.contains(&key.as_str())).collect();
    assert!(unknown.is_empty(), "the lowering lacks {unknown:?}");
}

#[test]
fn the_schema_fits_into_a_prompt() {
    assert!(SCHEMA.len() <= 20 * 1024, "{} bytes", SCHEMA.len());
}
