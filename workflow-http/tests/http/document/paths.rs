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

fn header(name: &str) -> Value {
    parameter("header", name, json!({ "type": "string" }))
}

/// The key under which a request that is sent again has no second effect.
fn key() -> Value {
    parameter("header", "Idempotency-Key", json!({ "type": "string", "maxLength": 255 }))
}

fn number(name: &str, least: u32, most: u32) -> Value {
    parameter("query", name, json!({ "type": "integer", "minimum": least, "maximum": most }))
}

/// A time that must be given, in microseconds since 1970.
fn time(name: &str) -> Value {
    let mut time = parameter("query", name, json!({ "type": "integer", "format": "int64" }));
    time["required"] = json!(true);
    time
}

fn one_of(place: &str, name: &str, words: &[&str]) -> Value {
    parameter(place, name, json!({ "type": "string", "enum": words }))
}

/// Up to 300 seconds, with or without the letter.
fn wait() -> Value {
    parameter("query", "wait", json!({ "type": "string", "pattern": "^[0-9]{1,9}s?$", "examples": ["30s"] }))
}

/// Whether the tools of a document are asked.
fn connect() -> Value {
    parameter("query", "connect", json!({ "type": "boolean" }))
}

/// A header that is not understood is passed over, so it has no pattern.
fn traceparent() -> Value {
    parameter("header", "traceparent", json!({ "type": "string" }))
}

fn operation(method: &'static str, path: &'static str, id: &str, summary: &str) -> Operation {
    let places = path.split('{').skip(1).filter_map(|rest| rest.split('}').next());
    let in_path = places.map(|name| match name {
        "run" | "bulk" => parameter("path", name, json!({ "type": "string", "format": "uuid" })),
        "token" => parameter("path", name, json!({ "type": "string", "maxLength": 2048 })),
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

    fn takes_anything(mut self) -> Self {
        self.value["requestBody"] = json!({ "required": true, "content": { "application/json": { "schema": {} } } });
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

    /// Answers with a stream of events, or with nothing to a reader that has got all of them.
    fn streams(mut self, events: &str) -> Self {
        let content = json!({ "text/event-stream": { "schema": { "type": "string" } } });
        self.value["responses"]["200"] = json!({ "description": events, "content": content });
        self.asks([parameter("header", "Last-Event-ID", json!({ "type": "string" }))])
    }

    fn answers_nothing(mut self, when: &str) -> Self {
        self.value["responses"]["204"] = json!({ "description": when });
        self
    }

    fn changes(self) -> Self {
        self.asks([traceparent()]).answers(
            200,
            "The order was performed, or there was nothing to change",
            reference("Done"),
        )
    }
}

fn get(path: &'static str, id: &str, summary: &str) -> Operation {
    operation("get", path, id, summary)
}

fn post(path: &'static str, id: &str, summary: &str) -> Operation {
    operation("post", path, id, summary)
}

/// The parameters that choose a query, a run or everything.
fn watched() -> [Value; 5] {
    let run = parameter("query", "run", json!({ "type": "string", "format": "uuid" }));
    [text("query"), run, one_of("query", "of", &["runs", "all"]), number("limit", 1, 200), text("cursor")]
}

/// The operations of flows, which a router has if it is given flows.
fn flows() -> Vec<Operation> {
    let run_or_done = || json!({ "anyOf": [reference("RunDetail"), reference("Done")] });
    vec![
        post("/flows:check", "checkFlow", "Tells every fault of a document")
            .asks([connect()])
            .takes("FlowDocument")
            .reads("CheckedFlow"),
        post("/flows:run", "runFlow", "Starts a run of a deployed flow or of a document, on behalf of the actor")
            .asks([wait(), parameter("header", "Idempotency-Key", json!({ "type": "string", "maxLength": 126 }))])
            .takes("NewFlowRun")
            .answers(200, "The key has a run; or, with wait, the run has ended", run_or_done())
            .answers(201, "The run was started", reference("Done"))
            .answers(202, "With wait: the run has not ended yet", reference("RunDetail")),
        get("/flows", "listFlows", "Lists the newest version of each flow").answers(
            200,
            "The flows, by their names",
            list_of("FlowSummary"),
        ),
        get("/flows/{flow}", "readFlow", "Reads a version of a flow with its graph")
            .asks([text("version")])
            .reads("FlowDetail"),
        operation("put", "/flows/{flow}", "deployFlow", "Deploys a document as a version of a flow")
            .asks([connect()])
            .takes("NewFlowVersion")
            .answers(200, "A version had this body, and nothing was added", reference("DeployedFlow"))
            .answers(201, "The version was added", reference("DeployedFlow")),
        get("/flows/{flow}/versions", "listFlowVersions", "Lists the versions of a flow, the newest first").answers(
            200,
            "The versions",
            list_of("FlowSummary"),
        ),
        get("/flows/{flow}/diagram", "drawFlow", "Draws a version of a flow")
            .asks([text("version")])
            .reads("FlowDiagram"),
        post("/events/{event}", "emitToFlows", "Starts the flows that have the event as a trigger, then delivers it")
            .asks([key()])
            .takes("NewEvent")
            .reads("Emitted"),
        post("/hooks/{path}", "receiveHook", "Starts a run of the flow that has this webhook; signed, or by an actor")
            .asks(["webhook-id", "webhook-timestamp", "webhook-signature", "x-hub-signature-256"].map(header))
            .takes_anything()
            .answers(200, "The key has a run", reference("Done"))
            .answers(201, "The run was started", reference("Done")),
        post("/steps/{run}/{key}/ready", "readyStep", "Decides an approval or a decision")
            .takes("StepAnswer")
            .changes(),
        post("/steps/{run}/{key}/done", "doneStep", "Ends a step that is done outside").takes("StepReport").changes(),
        get("/gates/{token}", "questionOfToken", "Shows what the one gate of a token asks; needs no other right")
            .reads("GateQuestion"),
        post("/gates/{token}", "decideByToken", "Decides the one gate of a token; needs no other right")
            .takes("TokenAnswer")
            .changes(),
    ]
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
            .asks([wait(), key()])
            .asks([traceparent()])
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
            .asks([cursor(), limit(1_000), text("step")])
            .reads("HistoryPage"),
        get("/runs/{run}/timeline", "readTimeline", "Reads the history as data for a drawing")
            .asks([number("from", 0, u32::MAX), limit(5_000)])
            .reads("Timeline"),
        get("/runs/{run}/result", "awaitResult", "Waits for the end of a run")
            .asks([wait()])
            .answers(200, "The run has ended", reference("RunDetail"))
            .answers(202, "The run has not ended yet", reference("RunDetail")),
        get("/runs/{run}/events", "streamRun", "Follows a run until its end")
            .streams("The events run, step, reset and end, each with JSON")
            .answers_nothing("The reader has got the end"),
        get("/runs/{run}/stream/{name}", "streamItems", "Follows the items that a run emits, until its end")
            .streams("The events item and end, each with JSON")
            .answers_nothing("The reader has got the end"),
        get("/runs/{run}/emitted/{name}", "listItems", "Lists items that a run has emitted, or waits for the next one")
            .asks([number("after", 0, u32::MAX), limit(64), wait()])
            .reads("EmittedPage"),
        get("/runs/{run}/published/{name}", "readPublished", "Reads the value that a run published last")
            .reads("StoredPayload"),
        post("/runs/{run}/fork", "forkRun", "Starts a run from the history of this one")
            .asks([key(), traceparent()])
            .takes("NewFork")
            .answers(200, "The key has a run", reference("Done"))
            .answers(201, "The run was started", reference("Done")),
        post("/runs/{run}/signals", "signalRun", "Sends a signal to a run").asks([key()]).takes("NewSignal").changes(),
        post("/runs/{run}/priority", "setPriority", "Sets the priority of a run that has not begun")
            .takes("NewPriority")
            .changes(),
        post("/runs/{run}/queue", "moveRun", "Moves a run to another queue").takes("NewQueue").changes(),
        post("/runs/{run}/approvals/{approval}", "decideApproval", "Decides about an approval")
            .takes("Decision")
            .changes(),
        post("/runs/{run}/{change}", "changeRun", "Changes a run").asks([reason()]).changes(),
        post("/orders", "perform", "Performs any order").takes("Order").changes(),
        get("/bulk", "listBulks", "Lists bulk operations, the newest first")
            .asks([cursor(), limit(1_000)])
            .reads("BulkPage"),
        post("/bulk", "startBulk", "Orders a bulk operation").asks([traceparent()]).takes("StartBulk").answers(
            202,
            "The operation was ordered",
            reference("Done"),
        ),
        post("/bulk/preview", "previewBulk", "Counts the runs that a bulk operation would change")
            .takes("NewPreview")
            .reads("BulkPreview"),
        get("/bulk/{bulk}", "readBulk", "Reads a bulk operation").reads("BulkView"),
        post("/bulk/{bulk}/stop", "stopBulk", "Stops a bulk operation").changes(),
        get("/changes", "listChanges", "Lists what has changed since a cursor, or waits for a change")
            .asks(watched())
            .asks([wait()])
            .reads("ChangePage"),
        get("/events", "streamChanges", "Follows what changes")
            .asks(watched())
            .streams("The events runs, committed and reset, each with JSON"),
        get("/counts", "readCounts", "Counts runs by state").reads("Counts"),
        get("/system", "readSystem", "Reads the facts that the database has about itself").reads("SystemView"),
        get("/queues", "listQueues", "Lists queues").answers(200, "The queues", list_of("QueueView")),
        get("/queues/{queue}/gates", "listGates", "Lists the gates of a queue")
            .asks([cursor(), limit(200)])
            .reads("GatePage"),
        get("/limits", "listLimits", "Lists limits for steps").answers(200, "The limits", list_of("LimitView")),
        get("/limits/{limit}/seats", "listSeats", "Lists the steps that hold a seat of a limit, and those that wait")
            .asks([text("key"), cursor(), limit(500)])
            .reads("SeatPage"),
        get("/workers", "listWorkers", "Lists workers").answers(200, "The workers", list_of("WorkerView")),
        get("/workflows", "listWorkflows", "Lists workflows").answers(200, "The workflows", list_of("WorkflowView")),
        get("/schedules", "listSchedules", "Lists schedules").asks([cursor(), limit(500)]).reads("SchedulePage"),
        get("/schedules/{schedule}", "readSchedule", "Reads a schedule").reads("ScheduleView"),
        get("/schedules/{schedule}/next", "listOccurrences", "Lists the next occurrences of a schedule")
            .asks([number("count", 1, 1_000)])
            .answers(200, "The occurrences, the first one first", list_of("OccurrenceView")),
        get("/schedules/{schedule}/backfill", "previewBackfill", "Counts the occurrences that a backfill would start")
            .asks([time("after"), time("until"), number("max", 1, 100_000)])
            .reads("BackfillView"),
        get("/approvals", "listApprovals", "Lists the approvals and decisions that runs wait for")
            .asks([parameter("query", "run", json!({ "type": "string", "format": "uuid" })), cursor(), limit(1_000)])
            .reads("ApprovalPage"),
        get("/audit", "listAudit", "Lists the orders that changed something")
            .asks([text("verb"), text("target"), text("actor"), cursor(), limit(1_000)])
            .reads("AuditPage"),
        get("/stats", "readStats", "Reads how many runs were started and ended, and how long they took")
            .asks([text("since"), text("until"), one_of("query", "step", &["minute", "hour", "day"])])
            .asks([one_of("query", "by", &["all", "queue", "workflow", "lane"])])
            .asks([text("queue"), text("workflow"), text("version")])
            .reads("StatsPage"),
        get("/failures", "listFailures", "Lists groups of alike failures, those that failed last first")
            .asks([text("since"), text("workflow"), limit(1_000)])
            .reads("FailurePage"),
    ]
}

/// Returns the paths of the document.
pub(super) fn all() -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for Operation { method, path, value } in operations().into_iter().chain(flows()) {
        paths.entry(path).or_insert_with(|| json!({}))[method] = value;
    }
    Value::Object(paths)
}
