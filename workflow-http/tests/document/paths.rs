//! The operations of the document.

use serde_json::{Map, Value, json};

/// One operation: what the document says of a method of a path.
struct Operation {
    method: &'static str,
    path: &'static str,
    value: Value,
}

fn reference(schema: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{schema}") })
}

fn list_of(schema: &str) -> Value {
    json!({ "type": "array", "items": reference(schema) })
}

fn parameter(place: &str, name: &str, schema: Value) -> Value {
    json!({ "name": name, "in": place, "required": place == "path", "schema": schema })
}

fn text(name: &str) -> Value {
    parameter("query", name, json!({ "type": "string" }))
}

fn number(name: &str, least: u32, most: u32) -> Value {
    parameter("query", name, json!({ "type": "integer", "minimum": least, "maximum": most }))
}

fn one_of(place: &str, name: &str, words: &[&str]) -> Value {
    parameter(place, name, json!({ "type": "string", "enum": words }))
}

/// Up to 300 seconds, with or without the letter.
fn wait() -> Value {
    parameter("query", "wait", json!({ "type": "string", "pattern": "^[0-9]{1,9}s?$", "examples": ["30s"] }))
}

fn operation(method: &'static str, path: &'static str, id: &str, summary: &str) -> Operation {
    let places = path.split('{').skip(1).filter_map(|rest| rest.split('}').next());
    let in_path = places.map(|name| match name {
        "run" => parameter("path", name, json!({ "type": "string", "format": "uuid" })),
        "change" => one_of("path", name, &["cancel", "terminate", "pause", "resume", "retry"]),
        _ => parameter("path", name, json!({ "type": "string" })),
    });
    let problem = json!({ "application/problem+json": { "schema": reference("Problem") } });
    let default = json!({ "description": "A refusal or a failure", "content": problem });
    let value = json!({
        "operationId": id,
        "summary": summary,
        "parameters": in_path.collect::<Vec<_>>(),
        "responses": { "default": default },
    });
    Operation { method, path, value }
}

impl Operation {
    fn asks(mut self, parameters: impl IntoIterator<Item = Value>) -> Self {
        if let Some(all) = self.value["parameters"].as_array_mut() {
            all.extend(parameters);
        }
        self
    }

    fn takes(mut self, body: &str) -> Self {
        let content = json!({ "application/json": { "schema": reference(body) } });
        self.value["requestBody"] = json!({ "required": true, "content": content });
        self
    }

    fn answers(mut self, status: u16, when: &str, schema: Value) -> Self {
        let content = json!({ "application/json": { "schema": schema } });
        self.value["responses"][status.to_string()] = json!({ "description": when, "content": content });
        self
    }

    fn reads(self, schema: &str) -> Self {
        self.answers(200, "The answer", reference(schema))
    }

    fn changes(self) -> Self {
        self.answers(200, "The order was performed, or there was nothing to change", reference("Done"))
    }
}

fn get(path: &'static str, id: &str, summary: &str) -> Operation {
    operation("get", path, id, summary)
}

fn post(path: &'static str, id: &str, summary: &str) -> Operation {
    operation("post", path, id, summary)
}

fn operations() -> Vec<Operation> {
    let (cursor, reason) = (|| text("cursor"), || text("reason"));
    let limit = |most| number("limit", 1, most);
    let run_or_done = || json!({ "anyOf": [reference("RunDetail"), reference("Done")] });
    vec![
        get("/runs", "listRuns", "Lists runs, the newest first")
            .asks([text("query"), cursor(), limit(1_000), one_of("query", "direction", &["older", "newer"])])
            .reads("RunPage"),
        post("/runs", "startRun", "Starts a run; with wait, answers with the run when it has ended")
            .asks([wait(), parameter("header", "Idempotency-Key", json!({ "type": "string", "maxLength": 255 }))])
            .takes("NewRun")
            .answers(200, "The key has a run; or, with wait, the run has ended", run_or_done())
            .answers(201, "The run was started", reference("Done"))
            .answers(202, "With wait: the run has not ended yet", reference("RunDetail")),
        get("/runs/find", "findRuns", "Finds runs by the beginning or the end of their ids")
            .asks([parameter("query", "id", json!({ "type": "string" })), limit(100)])
            .answers(200, "The runs, the newest first", list_of("RunSummary")),
        get("/runs/{run}", "readRun", "Reads a run, its payloads and why it waits").reads("RunDetail"),
        operation("delete", "/runs/{run}", "deleteRun", "Deletes a run that has ended").asks([reason()]).changes(),
        get("/runs/{run}/payload", "readPayload", "Reads one payload as a whole")
            .asks([
                parameter("query", "of", json!({ "type": "string", "enum": ["input", "output", "step"] })),
                text("step"),
                parameter("query", "attempt", json!({ "type": "integer", "format": "int64" })),
            ])
            .reads("StoredPayload"),
        get("/runs/{run}/history", "listHistory", "Lists the attempts of a run")
            .asks([cursor(), limit(1_000)])
            .reads("HistoryPage"),
        get("/runs/{run}/timeline", "readTimeline", "Reads the history as data for a drawing")
            .asks([number("from", 0, u32::MAX), limit(5_000)])
            .reads("Timeline"),
        get("/runs/{run}/result", "awaitResult", "Waits for the end of a run")
            .asks([wait()])
            .answers(200, "The run has ended", reference("RunDetail"))
            .answers(202, "The run has not ended yet", reference("RunDetail")),
        post("/runs/{run}/fork", "forkRun", "Starts a run from the history of this one")
            .takes("NewFork")
            .answers(200, "The key has a run", reference("Done"))
            .answers(201, "The run was started", reference("Done")),
        post("/runs/{run}/signals", "signalRun", "Sends a signal to a run").takes("NewSignal").changes(),
        post("/runs/{run}/approvals/{approval}", "decideApproval", "Decides about an approval")
            .takes("Decision")
            .changes(),
        post("/runs/{run}/{change}", "changeRun", "Changes a run").asks([reason()]).changes(),
        post("/orders", "perform", "Performs any order").takes("Order").changes(),
        get("/counts", "readCounts", "Counts runs by state").reads("Counts"),
        get("/queues", "listQueues", "Lists queues").answers(200, "The queues", list_of("QueueView")),
        get("/queues/{queue}/gates", "listGates", "Lists the gates of a queue")
            .asks([cursor(), limit(200)])
            .reads("GatePage"),
        get("/limits", "listLimits", "Lists limits for steps").answers(200, "The limits", list_of("LimitView")),
        get("/workers", "listWorkers", "Lists workers").answers(200, "The workers", list_of("WorkerView")),
        get("/workflows", "listWorkflows", "Lists workflows").answers(200, "The workflows", list_of("WorkflowView")),
        get("/schedules", "listSchedules", "Lists schedules").asks([cursor(), limit(500)]).reads("SchedulePage"),
        get("/schedules/{schedule}", "readSchedule", "Reads a schedule").reads("ScheduleView"),
        get("/approvals", "listApprovals", "Lists the approvals that runs wait for")
            .asks([parameter("query", "run", json!({ "type": "string", "format": "uuid" })), limit(1_000)])
            .reads("ApprovalPage"),
        get("/audit", "listAudit", "Lists the orders that changed something")
            .asks([text("verb"), text("target"), text("actor"), cursor(), limit(1_000)])
            .reads("AuditPage"),
    ]
}

/// Returns the paths of the document.
pub(super) fn all() -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for Operation { method, path, value } in operations() {
        paths.entry(path).or_insert_with(|| json!({}))[method] = value;
    }
    Value::Object(paths)
}
