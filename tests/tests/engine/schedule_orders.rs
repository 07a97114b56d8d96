//! Orders that create, change and backfill schedules, and their audit rows.

use std::sync::Arc;

use serde_json::{Value, json};

use workflow_engine::store::Write;
use workflow_sdk::operate::{
    Action, AuditEntry, BackfillSchedule, ListAudit, OperateError, OperateErrorCode, Order, OrderOutcome,
};
use workflow_sdk::prelude::*;
use workflow_sdk::{DEFAULT_PAYLOAD_LIMIT, DatabaseErrorKind, Overlap, RunFilter, SCHEDULE_TAG, Schedule, Timestamp};
use workflow_tests::faulty::{Fault, FaultyStore};
use workflow_tests::{Live, LocalWorker};

use crate::schedules::{Moved, NOON, hours, looked, runs};

const HOUR: Duration = Duration::from_secs(3600);

/// The settings of a schedule that starts each of its occurrences.
fn hourly() -> Value {
    let all = json!({ "all": { "window": { "secs": 86_400, "nanos": 0 }, "max": 1000 } });
    json!({ "every_ms": 3_600_000, "overlap": "allow", "catch_up": all, "tags": { "team": "sales" } })
}

fn create(name: &str, settings: Value) -> Value {
    json!({ "action": "create_schedule", "schedule": name, "workflow": "unserved", "input": 1, "settings": settings })
}

fn update(name: &str, settings: Value) -> Value {
    json!({ "action": "update_schedule", "schedule": name, "settings": settings })
}

fn backfill(name: &str, after: Timestamp, until: Timestamp) -> Value {
    let (after, until) = (after.as_micros(), until.as_micros());
    json!({ "action": "backfill_schedule", "schedule": name, "after": after, "until": until })
}

/// Returns the order with another value of a field.
fn with(mut order: Value, field: &str, value: Value) -> Value {
    order[field] = value;
    order
}

/// Carries out an order that comes as text.
async fn perform(client: &Client, order: impl ToString) -> Result<OrderOutcome, OperateError> {
    let order: Order = serde_json::from_str(&order.to_string()).unwrap();
    Ok(client.operate().perform(order.actor("ada").reason("because")).await?.outcome)
}

/// Returns all audit rows, the oldest first.
async fn rows(client: &Client) -> Vec<AuditEntry> {
    let page = client.operate().audit(ListAudit::new().limit(1000)).await.unwrap();
    page.items.into_iter().rev().collect()
}

/// Returns verb, target, outcome and arguments of the last row.
async fn last(client: &Client) -> (String, String, String, Value) {
    let row = rows(client).await.pop().expect("an audit row");
    assert_eq!((row.actor.as_deref(), row.reason.as_deref()), (Some("ada"), Some("because")));
    (row.verb, row.target, row.outcome, row.arguments)
}

pub async fn an_operator_creates_changes_backfills_and_deletes_a_schedule(db: Live) {
    let moved = Moved::new(&db).await;
    let client = &moved.client;
    let exact = r#"{"n": 12345678901234567890123, "f":1.10}"#;
    let text = create("hourly", hourly()).to_string().replace(r#""input":1"#, &format!(r#""input":{exact}"#));
    assert_eq!(perform(client, text).await.unwrap(), OrderOutcome::Changed);
    let (verb, target, outcome, arguments) = last(client).await;
    assert_eq!((verb.as_str(), target.as_str(), outcome.as_str()), ("schedule.create", "schedule:hourly", "applied"));
    assert_eq!((&arguments["workflow"], &arguments["settings"]["every_ms"]), (&json!("unserved"), &json!(3_600_000)));
    assert_eq!(arguments["settings"].get("tags"), None, "an audit row has no tags");

    let hourly = client.schedule("hourly");
    let worker = LocalWorker::start(moved.worker());
    moved.clock.advance(HOUR);
    looked(&hourly, 1.0).await;
    let (run, _) = runs(client, "hourly").await.remove(0);
    assert_eq!((run.input.as_str(), run.tags["team"].as_str()), (exact, "sales"));

    let two_hours = update("hourly", json!({ "every_ms": 7_200_000, "limit": 9 }));
    assert_eq!(perform(client, &two_hours).await.unwrap(), OrderOutcome::Changed);
    let arguments = json!({ "settings": { "every_ms": 7_200_000, "limit": 9 } });
    let row = |verb: &str, outcome: &str, arguments: &Value| {
        (verb.to_owned(), "schedule:hourly".to_owned(), outcome.to_owned(), arguments.clone())
    };
    assert_eq!(last(client).await, row("schedule.update", "applied", &arguments));
    let declared = hourly.describe().await.unwrap().declared;
    assert_eq!((declared.overlap, declared.tags["team"].as_str()), (Overlap::Allow, "sales"), "the rest stays");
    moved.clock.advance(3 * HOUR);
    looked(&hourly, 4.0).await;
    worker.stop().await;
    assert_eq!(hours(client, "hourly").await, [1.0, 2.0, 4.0], "the new times hold");

    let (after, until) = (NOON - 6 * HOUR, NOON + 2 * HOUR);
    let operate = client.operate();
    let preview = operate.backfill_preview(BackfillSchedule::new("hourly", after, until)).await.unwrap();
    assert_eq!((preview.count, preview.first[0].at, preview.last[3].at), (4, after + 2 * HOUR, until));
    assert_eq!(preview.first[0].local, "2027-01-01T08:00:00+00:00[UTC]");
    let before = runs(client, "hourly").await.len();
    let filled = perform(client, backfill("hourly", after, until)).await.unwrap();
    assert_eq!(filled, OrderOutcome::Backfilled { started: 3, existing: 1 });
    let all = runs(client, "hourly").await;
    assert_eq!(all.len(), before + 3);
    assert!(all.iter().all(|(run, _)| run.input == exact), "they have the input of the schedule");
    let (verb, _, outcome, arguments) = last(client).await;
    assert!(verb == "schedule.backfill" && outcome.starts_with("started "), "{outcome}");
    assert_eq!(arguments, json!({ "after": after.as_micros(), "until": until.as_micros() }));
    let count = rows(client).await.len();
    let again = perform(client, backfill("hourly", after, until)).await.unwrap();
    assert_eq!(again, OrderOutcome::Backfilled { started: 0, existing: 4 });
    assert_eq!(rows(client).await.len(), count, "what starts nothing leaves no row");

    let next = operate.next_occurrences("hourly", 2).await.unwrap();
    assert_eq!([next[0].at, next[1].at], [NOON + 6 * HOUR, NOON + 8 * HOUR]);
    assert_eq!(operate.next_occurrences("hourly", 0).await.unwrap_err().code, OperateErrorCode::BadLimit);
    let delete = json!({ "action": "delete_schedule", "schedule": "hourly" });
    assert_eq!(perform(client, delete).await.unwrap(), OrderOutcome::Changed);
    assert_eq!(operate.next_occurrences("hourly", 2).await.unwrap_err().code, OperateErrorCode::NotFound);
    let verbs: Vec<String> = rows(client).await.into_iter().map(|row| row.verb).collect();
    assert_eq!(verbs, ["schedule.create", "schedule.update", "schedule.backfill", "schedule.delete"]);
}

pub async fn an_order_about_a_schedule_that_is_refused_changes_nothing(db: Live) {
    use OperateErrorCode::{BadInput, BadLimit, Conflict, NotFound, TooLarge};
    let moved = Moved::new(&db).await;
    let client = &moved.client;
    let every = |name: &str| Schedule::every(name, HOUR).start_by_name("unserved", &1.into());
    client.create_schedule(every("taken")).await.unwrap();
    moved.worker().schedule(every("coded")).run_until(async {}).await.unwrap();
    let before = client.schedules().await.unwrap();
    let daily = || json!({ "cron": ["0 7 * * *"] });
    let large = json!("x".repeat(DEFAULT_PAYLOAD_LIMIT));
    let long = "n".repeat(201);
    for (order, code, says) in [
        (create("new", json!({ "cron": ["0 25 * * *"] })), BadInput, "in the field \"25\" of the hour at column 3"),
        (create("new", json!({ "cron": ["0 7 * *"] })), BadInput, "is not a cron expression"),
        (create("new", json!({ "cron": ["0 7 * * *"], "zone": "Mars" })), BadInput, "no time zone \"Mars\""),
        (create("new", json!({ "cron": ["0 0 31 2 *"] })), BadInput, "no occurrence within five years"),
        (create("new", json!({ "every_ms": 1500 })), BadInput, "the interval 1.5s is refused"),
        (create("new", json!({ "cron": ["0 7 * * *"], "every_ms": 1000 })), BadInput, "expressions and an interval"),
        (update("taken", json!({ "cron": ["0 7 * * *"], "every_ms": 1000 })), BadInput, "expressions and an interval"),
        (create("new", json!({})), BadInput, "has no times"),
        (create("", daily()), BadInput, "is empty"),
        (create(&long, daily()), BadInput, "has 201 bytes"),
        (create("taken", daily()), Conflict, "exists already"),
        (create("coded", json!({ "every_ms": 3_600_000 })), Conflict, "exists already"),
        (with(create("new", daily()), "workflow", json!("")), BadInput, "starts nothing"),
        (with(create("new", daily()), "input", large.clone()), TooLarge, "workflow \"unserved\""),
        (update("none", daily()), NotFound, "\"none\""),
        (update("taken", json!({})), BadInput, "says nothing"),
        (update("taken", json!({ "cron": [] })), BadInput, "has no times"),
        (update("taken", json!({ "zone": "Mars" })), BadInput, "no time zone \"Mars\""),
        (update("taken", json!({ "queue": "" })), BadInput, "is empty"),
        (with(update("taken", json!({})), "input", large), TooLarge, "workflow \"unserved\""),
        (with(update("coded", json!({})), "input", json!(2)), Conflict, "the code of a worker"),
        (update("coded", json!({ "version": "9" })), Conflict, "the code of a worker"),
        (backfill("none", NOON - HOUR, NOON), NotFound, "\"none\""),
        (backfill("taken", NOON, NOON - HOUR), BadInput, "has no time in it"),
        (backfill("taken", NOON, NOON), BadInput, "has no time in it"),
        (backfill("taken", NOON - 10_001 * HOUR, NOON), BadInput, "more than 10000 runs"),
        (with(backfill("taken", NOON - 3 * HOUR, NOON), "max", json!(2)), BadInput, "more than 2 runs"),
        (with(backfill("taken", NOON - HOUR, NOON), "max", json!(0)), BadLimit, "at most 0 runs"),
        (with(backfill("taken", NOON - HOUR, NOON), "max", json!(1_000_001)), BadLimit, "at most 1000001 runs"),
    ] {
        let error = perform(client, &order).await.expect_err(says);
        assert!(error.message.contains(says) && !error.message.contains("; "), "{error}\n lacks\n{says}");
        assert_eq!((error.code, error.help.is_empty()), (code, false), "{error}");
    }
    let operate = client.operate();
    let mut reversed = BackfillSchedule::new("taken", NOON, NOON - HOUR);
    assert_eq!(operate.backfill_preview(reversed.clone()).await.unwrap_err().code, BadInput);
    reversed.max = Some(0);
    assert_eq!(operate.backfill_preview(reversed).await.unwrap_err().code, BadLimit);
    assert_eq!(client.schedules().await.unwrap(), before);
    assert_eq!((rows(client).await.len(), client.list(&RunFilter::new()).await.unwrap().len()), (0, 0));
}

pub async fn an_order_about_a_schedule_has_its_effect_once(db: Live) {
    let store = Arc::new(FaultyStore::new(Arc::clone(db.client.store())));
    let client = Client::over(Arc::clone(&store) as _, DEFAULT_PAYLOAD_LIMIT);
    let lose_the_reply =
        || store.fail_next(|write| matches!(write, Write::Audited(_)), Fault::After(DatabaseErrorKind::Unreachable));

    lose_the_reply();
    assert_eq!(perform(&client, create("hourly", hourly())).await.unwrap(), OrderOutcome::Changed);
    let created = client.schedule("hourly").describe().await.unwrap();
    assert_eq!(perform(&client, create("hourly", hourly())).await.unwrap(), OrderOutcome::Unchanged);
    for other in [with(create("hourly", hourly()), "input", json!(2)), create("hourly", json!({ "every_ms": 1000 }))] {
        assert_eq!(perform(&client, other).await.unwrap_err().code, OperateErrorCode::Conflict);
    }
    assert_eq!(client.schedule("hourly").describe().await.unwrap(), created);
    assert_eq!(rows(&client).await.len(), 1);

    lose_the_reply();
    let new_year = Timestamp::from_micros(1_767_225_600_000_000);
    let day = backfill("hourly", new_year, new_year + 24 * HOUR);
    let filled = perform(&client, &day).await.unwrap();
    assert!(matches!(filled, OrderOutcome::Backfilled { started, existing } if started + existing == 24), "{filled:?}");
    assert_eq!(store.faults_left(), 0);
    assert_eq!(rows(&client).await.len(), 2, "one row for 24 runs");
    let again = perform(&client, &day).await.unwrap();
    assert_eq!(again, OrderOutcome::Backfilled { started: 0, existing: 24 });
    let filter = RunFilter::new().tag(SCHEDULE_TAG, "hourly").page_size(1000);
    assert_eq!((rows(&client).await.len(), client.list(&filter).await.unwrap().len()), (2, 24));
}

pub async fn a_worker_keeps_what_an_operator_has_changed(db: Live) {
    let moved = Moved::new(&db).await;
    let client = &moved.client;
    let coded = |name: &str| Schedule::every(name, HOUR).start_by_name("unserved", &1.into()).tag("team", "sales");
    let declares = async |name: &str| moved.worker().schedule(coded(name)).run_until(async {}).await;
    let view = async || client.operate().schedule("coded").await.unwrap();
    declares("coded").await.unwrap();
    let change = update("coded", json!({ "every_ms": 7_200_000, "limit": 9 }));
    assert_eq!(perform(client, change).await.unwrap(), OrderOutcome::Changed);
    declares("coded").await.unwrap();
    let changed = view().await;
    assert_eq!((changed.declaration.timing.every, changed.declaration.limit), (Some(2 * HOUR), Some(9)));
    assert_eq!(changed.declaration.tags["team"], "sales", "the order says nothing about tags");
    assert_eq!(changed.drifted_from.unwrap().timing.every, Some(HOUR), "the change is shown");

    // The code decides what is started: its next version holds beside the operator's times.
    moved.worker().schedule(coded("coded").version("2")).run_until(async {}).await.unwrap();
    let changed = view().await.declaration;
    assert_eq!((changed.lane.version.as_str(), changed.timing.every), ("2", Some(2 * HOUR)));

    // A second change begins at the first one.
    perform(client, update("coded", json!({ "clear": ["limit"] }))).await.unwrap();
    let changed = view().await.declaration;
    assert_eq!((changed.timing.every, changed.limit), (Some(2 * HOUR), None));
    let revert = Action::RevertSchedule { schedule: "coded".into() };
    client.operate().perform(Order::new(revert)).await.unwrap();
    let reverted = view().await;
    assert_eq!((reverted.declaration.timing.every, reverted.drifted_from), (Some(HOUR), None));

    // Code cannot declare a schedule that an operator has created.
    perform(client, create("by hand", json!({ "every_ms": 60_000 }))).await.unwrap();
    let refused = declares("by hand").await.unwrap_err().to_string();
    assert!(refused.contains("a client has created a schedule \"by hand\""), "{refused}");
}
