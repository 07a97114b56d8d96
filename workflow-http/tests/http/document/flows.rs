//! The schemas of flows. Those of runs are made from their types.

use serde_json::{Map, Value, json};

fn text() -> Value {
    json!({ "type": "string" })
}

fn integer() -> Value {
    json!({ "type": "integer", "format": "int64" })
}

fn list_of(items: Value) -> Value {
    json!({ "type": "array", "items": items })
}

fn reference(schema: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{schema}") })
}

/// An answer, which gets further fields within a version.
fn answer(properties: Value, required: &[&str]) -> Value {
    json!({ "type": "object", "properties": properties, "required": required })
}

/// A request, whose unknown fields are refused.
fn request(properties: Value, required: &[&str]) -> Value {
    let mut request = answer(properties, required);
    request["additionalProperties"] = json!(false);
    request
}

/// Returns the schemas of requests and answers about flows.
pub(super) fn bodies() -> Map<String, Value> {
    let dialect = json!({ "type": "string", "enum": ["native", "two-table", "opcode", "cncf"] });
    let class = json!({ "type": "string", "enum": ["invalid", "rate_limited", "unavailable", "timeout", "connection", "failed"] });
    let version = json!({ "type": "string", "pattern": "^[A-Za-z0-9._+-]{1,128}$" });
    let time = json!({ "type": "integer", "format": "int64" });
    let millis = json!({ "type": "integer", "format": "int64", "minimum": 0 });
    let tags = json!({ "type": "object", "additionalProperties": text(), "propertyNames": text() });
    let finding = json!({
        "code": text(), "severity": { "type": "string", "enum": ["error", "warning"] }, "path": text(),
        "line": integer(), "column": integer(), "message": text(), "help": text(),
        "fix": { "type": "object", "description": "Edits that repair it: JSON Patch, or edits of the text" },
    });
    let summary = json!({
        "name": text(), "version": text(), "number": integer(), "digest": text(), "description": text(),
        "triggers": list_of(text()), "created_at": time, "created_by": text(),
    });
    let with = |name: &str, schema: Value| {
        let mut fields = summary.clone();
        fields[name] = schema;
        fields
    };
    let of_summary = ["name", "version", "number", "digest", "description", "triggers", "created_at", "created_by"];
    let checked = json!({
        "valid": { "type": "boolean" }, "name": text(), "dialect": dialect, "digest": text(),
        "findings": list_of(reference("Finding")), "untold": integer(),
    });
    let document = json!({ "document": text(), "dialect": dialect, "name": text(), "input": {} });
    let new_version = json!({ "document": text(), "dialect": dialect, "version": version });
    let new_run = json!({
        "flow": text(), "version": text(), "document": text(), "dialect": dialect, "name": text(), "input": {},
        "key": text(), "queue": text(), "priority": reference("Priority"), "at": time, "delay_ms": millis, "tags": tags,
    });
    let step_answer = json!({ "approved": { "type": "boolean" }, "choice": {}, "note": text() });
    let token_answer = json!({ "approved": { "type": "boolean" }, "choice": {}, "note": text(), "by": text(), "report": reference("StepReport") });
    let question = json!({
        "kind": { "type": "string", "enum": ["approval", "decision"] }, "prompt": text(), "to": text(),
        "options": { "type": "object", "additionalProperties": text() }, "show": {},
    });
    let error = request(json!({ "message": text(), "class": class }), &["message"]);
    let schemas = json!({
        "Finding": answer(finding, &["code", "severity", "path", "line", "column", "message"]),
        "FlowSummary": answer(summary.clone(), &of_summary),
        "FlowDetail": answer(with("definition", json!({ "description": "The graph" })), &of_summary),
        "DeployedFlow": answer(with("is_new", json!({ "type": "boolean" })), &of_summary),
        "FlowDiagram": answer(json!({ "mermaid": text(), "levels": list_of(list_of(text())) }), &["mermaid", "levels"]),
        "CheckedFlow": answer(checked, &["valid", "dialect", "findings", "untold"]),
        "FlowDocument": request(document, &["document"]),
        "NewFlowVersion": request(new_version, &["document"]),
        "NewFlowRun": request(new_run, &[]),
        "NewEvent": request(json!({ "key": text(), "data": {} }), &["key"]),
        "Emitted": json!({ "allOf": [reference("Done"), answer(json!({ "started": list_of(text()) }), &["started"])] }),
        "StepAnswer": request(step_answer, &[]),
        "StepReport": request(json!({ "result": {}, "error": error }), &[]),
        "GateQuestion": answer(question, &["kind", "prompt"]),
        "TokenAnswer": request(token_answer, &[]),
    });
    schemas.as_object().cloned().unwrap_or_default()
}
