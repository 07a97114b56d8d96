//! The OpenAPI document: it is made from the types of the answers, committed, and compared here.
//! `WORKFLOW_WRITE_OPENAPI=1 cargo test -p workflow-http --test http document` writes it anew.

mod flows;
mod paths;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use utoipa::ToSchema;
use utoipa::openapi::{RefOr, Schema};
use workflow_sdk::operate;

const COMMITTED: &str = include_str!("../../../openapi.json");

fn add<T: ToSchema>(schemas: &mut BTreeMap<String, RefOr<Schema>>) {
    let mut found = vec![(T::name().into_owned(), T::schema())];
    T::schemas(&mut found);
    schemas.extend(found);
}

/// Returns the schemas of every request and answer, and of what they contain.
fn schemas() -> Value {
    let mut schemas = BTreeMap::new();
    add::<operate::QueryError>(&mut schemas);
    add::<operate::StartRun>(&mut schemas);
    add::<operate::Order>(&mut schemas);
    add::<operate::Done>(&mut schemas);
    add::<operate::RunPage>(&mut schemas);
    add::<operate::RunDetail>(&mut schemas);
    add::<operate::StoredPayload>(&mut schemas);
    add::<operate::HistoryPage>(&mut schemas);
    add::<operate::Timeline>(&mut schemas);
    add::<operate::ChangePage>(&mut schemas);
    add::<operate::EmittedPage>(&mut schemas);
    add::<operate::Counts>(&mut schemas);
    add::<operate::QueueView>(&mut schemas);
    add::<operate::GatePage>(&mut schemas);
    add::<operate::LimitView>(&mut schemas);
    add::<operate::SeatPage>(&mut schemas);
    add::<operate::WorkerView>(&mut schemas);
    add::<operate::WorkflowView>(&mut schemas);
    add::<operate::SchedulePage>(&mut schemas);
    add::<operate::OccurrenceView>(&mut schemas);
    add::<operate::BackfillView>(&mut schemas);
    add::<operate::ApprovalPage>(&mut schemas);
    add::<operate::AuditPage>(&mut schemas);
    add::<operate::StartBulk>(&mut schemas);
    add::<operate::BulkPage>(&mut schemas);
    add::<operate::BulkPreview>(&mut schemas);
    add::<operate::BulkView>(&mut schemas);
    add::<operate::StatsPage>(&mut schemas);
    add::<operate::FailurePage>(&mut schemas);
    add::<operate::SystemView>(&mut schemas);
    let mut schemas = serde_json::to_value(schemas).unwrap();
    open(&mut schemas);
    describe(&mut schemas);
    let all = schemas.as_object_mut().unwrap();
    all.extend(bodies());
    // An order has the fields of a start beside its own, the body of a start has no others.
    let mut start = all["StartRun"].clone();
    start["additionalProperties"] = json!(false);
    all.insert("NewRun".to_owned(), start);
    schemas
}

/// Returns the schemas of the types that only this interface has.
fn bodies() -> serde_json::Map<String, Value> {
    let (text, anything) = (|| json!({ "type": "string" }), || json!({}));
    let body = |properties: Value, required: &[&str]| {
        let mut body = json!({ "type": "object", "properties": properties, "required": required });
        body["additionalProperties"] = json!(false);
        body
    };
    let fork = json!({ "from": text(), "input": anything(), "version": text(), "queue": text(), "key": text(),
                       "reason": text() });
    let signal = json!({ "name": text(), "payload": anything(), "key": text(), "reason": text() });
    let priority = json!({ "priority": { "$ref": "#/components/schemas/Priority" }, "reason": text() });
    let queue = json!({ "queue": text(), "reason": text() });
    let decision = json!({ "approve": { "type": "boolean" }, "note": text(), "reason": text() });
    let query = json!({ "$ref": "#/components/schemas/QueryError" });
    let findings = json!({ "type": "array", "items": { "$ref": "#/components/schemas/Finding" } });
    let problem = json!({ "type": text(), "title": text(), "status": { "type": "integer" }, "code": text(),
                          "detail": text(), "help": text(), "query": query, "findings": findings });
    let problem = json!({ "type": "object", "properties": problem, "description": "A problem of RFC 9457",
                          "required": ["type", "title", "status", "code", "detail", "help"] });
    let bodies = json!({ "NewFork": body(fork, &[]), "NewPreview": body(json!({ "query": text() }), &["query"]), "NewSignal": body(signal, &["name", "payload"]),
                         "Decision": body(decision, &["approve"]), "Problem": problem,
                         "NewPriority": body(priority, &["priority"]), "NewQueue": body(queue, &["queue"]) });
    let mut bodies = bodies.as_object().cloned().unwrap_or_default();
    bodies.extend(flows::bodies());
    bodies
}

/// Lets objects have further fields: answers get some within a version, and objects are joined.
fn open(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            fields.retain(|name, value| name != "additionalProperties" || *value != json!(false));
            fields.values_mut().for_each(open);
        }
        Value::Array(items) => items.iter_mut().for_each(open),
        _ => {}
    }
}

/// Leaves the examples and links of Rust out of the descriptions, says how large unsigned numbers
/// get, and lets a payload be `null`.
fn describe(schema: &mut Value) {
    let Value::Object(fields) = schema else {
        schema.as_array_mut().into_iter().flatten().for_each(describe);
        return;
    };
    if fields.get("format") == Some(&json!("int32")) && fields.contains_key("minimum") {
        fields.remove("format");
        fields.entry("maximum").or_insert(json!(u32::MAX));
    }
    let of = fields.get("oneOf").and_then(|of| of.get(0)).cloned();
    if let Some(of) = of.filter(|of| of["$ref"].as_str().is_some_and(|to| to.contains("/Payload"))) {
        *fields = of.as_object().cloned().unwrap_or_default();
    }
    if let Some(Value::String(text)) = fields.get_mut("description") {
        *text = plain(text);
    }
    fields.values_mut().for_each(describe);
}

/// Returns a doc comment up to its example, without the targets of links.
fn plain(text: &str) -> String {
    let text = text.split("\n\n```").next().unwrap_or_default();
    let mut plain = String::new();
    for piece in text.replace("[`", "\u{1}").replace("`]", "\u{2}").split('\u{1}') {
        match piece.split_once('\u{2}') {
            None => plain.push_str(piece),
            Some((link, rest)) => {
                plain.push_str(link.rsplit("::").next().unwrap_or(link));
                let target = rest.strip_prefix('(').and_then(|rest| rest.split_once(')'));
                plain.push_str(target.map_or(rest, |(_, rest)| rest));
            }
        }
    }
    plain.lines().collect::<Vec<_>>().join(" ")
}

fn document() -> Value {
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Workflows",
            "description": "Starts, shows and changes durable workflow runs. Errors are problems (RFC 9457). \
                            Times are microseconds since 1970.",
            "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
            "version": "1",
        },
        "servers": [{ "url": "/api/v1" }],
        "security": [{ "bearer": [] }, {}],
        "paths": paths::all(),
        "components": {
            "schemas": schemas(),
            "securitySchemes": { "bearer": { "type": "http", "scheme": "bearer" } },
        },
    })
}

#[test]
fn the_committed_openapi_document_describes_these_types() {
    let document = document();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/openapi.json");
    if std::env::var_os("WORKFLOW_WRITE_OPENAPI").is_some() {
        std::fs::write(path, format!("{}\n", serde_json::to_string_pretty(&document).unwrap())).unwrap();
        return;
    }
    let committed: Value = serde_json::from_str(COMMITTED).unwrap();
    for (name, of) in document["components"]["schemas"].as_object().unwrap() {
        assert_eq!(committed["components"]["schemas"][name], *of, "{name}: see the head of this file");
    }
    for (path, of) in document["paths"].as_object().unwrap() {
        assert_eq!(committed["paths"][path], *of, "{path}: see the head of this file");
    }
    assert!(committed == document, "the document is not that of the types: see the head of this file");
}

/// Returns the methods and paths that the sources of the router mount below the prefix.
fn mounted() -> BTreeSet<(String, String)> {
    let source = include_str!("../../../src/lib.rs");
    let api = source.split("let api = Router::new()").nth(1).unwrap().split(".fallback(").next().unwrap();
    let flows = include_str!("../../../src/flows.rs").split("pub(crate) fn routes(").nth(1).unwrap();
    let flows = flows.split("\n}\n").next().unwrap();
    let mut mounted = BTreeSet::new();
    for route in api.split(".route(\"").skip(1).chain(flows.split(".route(\"").skip(1)) {
        let (path, handlers) = route.split_once('"').unwrap();
        let path = path.strip_prefix("/api/v1").unwrap_or(path);
        let handlers = handlers.lines().next().unwrap();
        for method in ["get", "post", "put", "patch", "delete"] {
            if handlers.contains(&format!(" {method}(")) || handlers.contains(&format!(").{method}(")) {
                mounted.insert((method.to_owned(), path.to_owned()));
            }
        }
    }
    mounted
}

#[test]
fn every_mounted_route_is_in_the_document() {
    let committed: Value = serde_json::from_str(COMMITTED).unwrap();
    let mut described = BTreeSet::new();
    for (path, methods) in committed["paths"].as_object().unwrap() {
        described.extend(methods.as_object().unwrap().keys().map(|method| (method.clone(), path.clone())));
    }
    let mounted = mounted();
    assert!(mounted.contains(&("delete".to_owned(), "/runs/{run}".to_owned())), "{mounted:?}");
    assert_eq!(mounted, described, "left: the router; right: openapi.json");
}

#[test]
fn every_reference_of_the_document_leads_to_a_schema() {
    let document: Value = serde_json::from_str(COMMITTED).unwrap();
    let pieces = COMMITTED.split("\"$ref\": \"#").skip(1);
    for target in pieces.map(|rest| rest.split('"').next().unwrap()) {
        assert!(document.pointer(target).is_some(), "{target} is missing");
    }
}
