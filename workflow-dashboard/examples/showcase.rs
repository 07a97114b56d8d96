//! Fills a database with runs of every kind, one of which loses its worker, and serves the
//! dashboard over it: `showcase ADDRESS DATABASE`. The stories of `browser/` use it.
//!
//! `showcase work DATABASE` is a worker alone, `showcase pages ADDRESS DATABASE` the pages alone.

use std::net::SocketAddr;
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use workflow_dashboard::{Access, router_with_flows};
use workflow_engine::model::{Lane, RunStatistics, StatisticsRow, StatisticsSpan};
use workflow_engine::store::{StatisticsWrite, Write};
use workflow_flows::check::{Options, check};
use workflow_flows::{FlowClient, FlowRuntime, FlowStore, Flows, ToolCall, flow};
use workflow_sdk::operate::{Action, Order};
use workflow_sdk::prelude::*;
use workflow_sdk::{BoxError, Client, QueueLimits, RunId, Schedule, Timestamp};
use workflow_worker::{Queue, Worker};

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Receipt {
    receipt: String,
    amount: f64,
    currency: String,
}

fn is_second_attempt(path: &str, order: u64) -> bool {
    let file = std::env::temp_dir().join(format!("showcase-{}-{path}-{order}", std::process::id()));
    std::fs::File::create_new(file).is_err()
}

#[workflow]
async fn checkout(ctx: &Ctx, order: u64) -> Result<String> {
    ctx.step("reserve", async || pause(150, order).await).await?;
    let paid = ctx
        .step("charge", async || charge(order).await)
        .retry(Retry::fixed(Duration::from_millis(300)).max_attempts(5))
        .await?;
    ctx.sleep(Duration::from_millis(600)).await?;
    ctx.step("mail", async || pause(90, order).await).await?;
    ctx.child(ship_parcel, order).await?;
    ok(paid.receipt)
}

async fn pause(millis: u64, value: u64) -> Result<u64> {
    tokio::time::sleep(Duration::from_millis(millis)).await;
    ok(value)
}

async fn charge(order: u64) -> Result<Receipt> {
    pause(250, order).await?;
    if order % 4 == 1 && !is_second_attempt("charge", order) {
        return Err(Error::msg("BankTimeout: no answer within 1.5 s"));
    }
    if order % 10 == 7 {
        return Err(Error::fatal("CardDeclined: insufficient funds"));
    }
    pause(if order == 20_931 { 2500 } else { 150 }, order).await?;
    ok(Receipt { receipt: format!("R-{order}"), amount: 129.90, currency: "EUR".into() })
}

#[workflow]
async fn ship_parcel(ctx: &Ctx, order: u64) -> Result<bool> {
    ctx.step("book", async || pause(200, order).await).await?;
    ctx.step("label", async || pause(120, order).await).await?;
    if order.is_multiple_of(3) {
        return ok(true);
    }
    ok(ctx.signal::<String>("picked_up").timeout(Duration::from_secs(86_400)).await?.is_some())
}

#[workflow]
async fn refund(ctx: &Ctx, cents: u64) -> Result<bool> {
    ctx.step("check", async || pause(50, cents).await).await?;
    let decision = ctx.approval("refund over 500 EUR").to("finance").timeout(Duration::from_secs(172_800)).await?;
    ok(decision.is_some_and(|decision| decision.approved))
}

#[workflow]
async fn import_csv(ctx: &Ctx, rows: u64) -> Result<u64> {
    ctx.step("read", async || pause(40, rows).await).await?;
    ctx.step("parse", async || Err::<u64, _>(Error::fatal("UnknownColumn(\"vat_id\") <script>alert(1)</script>"))).await
}

#[workflow]
async fn send_digest(ctx: &Ctx, user: u64) -> Result<()> {
    ctx.step("render", async || pause(30, user).await).await?;
    ctx.step("send", async || pause(60, user).await).await?;
    ok(())
}

#[workflow]
async fn deliver(ctx: &Ctx, order: u64) -> Result<bool> {
    ctx.step("pack", async || pause(100, order).await).await?;
    ctx.step("carry", async || pause(4000, order).await).await?;
    let decision = ctx.approval("hand over").to("recipient").await?;
    ctx.step("mail", async || pause(50, order).await).await?;
    ok(decision.is_some_and(|decision| decision.approved))
}

/// Returns the tools of the flow.
fn tools() -> FlowRuntime {
    let desk = |args: Value, _: ToolCall| async move {
        tokio::time::sleep(Duration::from_millis(80)).await;
        Ok(json!({ "done": args["what"] }))
    };
    let classify = |_: Value, _: ToolCall| async { Ok(json!({ "level": 3, "language": "en" })) };
    FlowRuntime::builder().tool("desk", desk).tool("classify", classify).build()
}

fn worker(client: Client) -> Worker<FlowRuntime> {
    Worker::new(client, tools())
        .register(flow)
        .register(checkout)
        .register(ship_parcel)
        .register(deliver)
        .register(refund)
        .register(import_csv)
        .register(send_digest)
        .queues(["default", "mail"])
        .queue(Queue::new("mail").concurrency(4))
        .schedule(Schedule::cron("daily-digest", "30 7 * * MON-FRI").zone("Europe/Berlin").start(send_digest, 1))
        .schedule(Schedule::every("sweep", Duration::from_secs(900)).start(import_csv, 3))
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    workflow_flows::expression::jq_helper();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (address, database) = match *arguments.as_slice() {
        ["work", database] => return Ok(worker(Client::connect(database).await?).run().await?),
        ["pages", address, database] => {
            let (client, flows) = (Client::connect(database).await?, FlowStore::connect(database).await?);
            return serve(client, flows, address).await;
        }
        [address, database] => (address, database),
        _ => return Err("usage: showcase [work|pages] ADDRESS DATABASE".into()),
    };
    let client = Client::connect(database).await?;
    tell_history(&client).await?;
    let crashed = lose_a_worker(&client, database).await?;
    let flows = FlowStore::connect(database).await?;
    start_runs(&client, &flows).await?;
    let working = tokio::spawn(worker(client.clone()).run());
    for order in [20_925, 20_926] {
        client.start(checkout, order).key(format!("order-{order}")).await?;
    }
    let (served, place) = (client.clone(), address.to_owned());
    tokio::spawn(async move { serve(served, flows, &place).await });
    tokio::time::sleep(Duration::from_secs(4)).await;
    println!("ready http://{address}/workflows crashed {crashed}");
    Ok(working.await??)
}

/// Writes the counts of the hour before: a version went out in it, and failed for a while.
async fn tell_history(client: &Client) -> Result<(), BoxError> {
    let now = Timestamp::from_micros(i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_micros())?);
    for minute in 1..60_u64 {
        let wave = (minute * 7 % 11) + if minute < 30 { 40 } else { 34 };
        for (workflow, version, share) in [("checkout", "0", 3), ("checkout", "1", 3), ("send_digest", "1", 1)] {
            let is_old = (workflow, version) == ("checkout", "0");
            if workflow == "checkout" && is_old != (minute > 22) {
                continue;
            }
            let mut counts = RunStatistics { begun: wave * share, started: wave * share, ..RunStatistics::default() };
            counts.failed = match workflow {
                "checkout" if (16..=22).contains(&minute) => 20 + minute % 4 * 6,
                "checkout" => minute % 3,
                _ => 0,
            };
            counts.succeeded = counts.begun - counts.failed;
            counts.waited = counts.begun * 12_000;
            for number in 0..counts.begun {
                counts.durations.note(Duration::from_millis(300 + number * number * share));
                counts.worked += (300 + number * number * share) * 1000;
            }
            let row = StatisticsRow {
                span: StatisticsSpan::Minute,
                begins_at: StatisticsSpan::Minute.begin(now - Duration::from_secs(60 * minute)),
                process: StatisticsRow::ALL_PROCESSES,
                lane: Lane { queue: "default".into(), workflow: workflow.into(), version: version.into() },
                counts,
            };
            let write = StatisticsWrite::Count { rows: vec![row], failures: Vec::new(), source_lines: Vec::new() };
            client.store().commit(&[Write::Statistics(Box::new(write))]).await?;
        }
    }
    Ok(())
}

async fn serve(client: Client, flows: FlowStore, address: &str) -> Result<(), BoxError> {
    let listener = tokio::net::TcpListener::bind(address).await?;
    let flows = Flows::new(client.clone(), flows);
    let app = axum::Router::new().nest("/workflows", router_with_flows(client, Access::local(), flows));
    Ok(axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await?)
}

/// Starts a run, and kills its worker in the middle of a step.
async fn lose_a_worker(client: &Client, database: &str) -> Result<RunId, BoxError> {
    let run = client.start(checkout, 20_931).key("order-20931").tag("customer", "42").tag("region", "eu").await?;
    let mut first = Command::new(std::env::current_exe()?).args(["work", database]).spawn()?;
    while client.operate().timeline(run.id()).await?.rows.len() < 2 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    tokio::time::sleep(Duration::from_millis(1200)).await;
    first.kill()?;
    first.wait()?;
    Ok(run.id())
}

/// Deploys two versions of a flow and another flow, and starts runs of both.
async fn start_flows(client: &Client, flows: &FlowStore) -> Result<(), BoxError> {
    let read = |text: &str| check(text, &Options::default()).flow.ok_or("the flow is not valid");
    let triage = read(include_str!("triage.yaml"))?;
    let mut before = triage.clone();
    before.description = "Before it translated".to_owned();
    flows.deploy(&before, "jon", Some("2")).await?;
    flows.deploy(&triage, "ada", Some("3")).await?;
    let ticket = json!({ "text": "Where is my parcel?", "parts": ["invoice", "photo", "label"] });
    client.start_flow(flows, "triage", ticket).await?.key("ticket-512").await?;
    flows.deploy(&read(include_str!("complaint.yaml"))?, "mira", None).await?;
    for order in [20_801, 20_802, 20_803, 20_804] {
        let complaint = json!({ "order": order });
        client.start_flow(flows, "complaint", complaint).await?.key(format!("complaint-{order}")).await?;
    }
    Ok(())
}

async fn start_runs(client: &Client, flows: &FlowStore) -> Result<(), BoxError> {
    for user in 0..14 {
        client.start(send_digest, user).queue("mail").key(format!("user-{}", 5500 + user)).await?;
    }
    for order in [20_917, 20_921, 20_922, 20_924] {
        client.start(checkout, order).key(format!("order-{order}")).await?;
    }
    start_flows(client, flows).await?;
    client.start(refund, 81_400).key("order-20714").await?;
    client.start(refund, 64_000).key("order-20715").await?;
    client.start(import_csv, 771).key("upload-771").await?;
    client.start_by_name("report_monthly", &"eu-west".into()).version("4").await?;
    client.start(send_digest, 88_120).delay(Duration::from_secs(240_000)).key("user-88120").await?;
    let paused = client.start(send_digest, 7).key("upload-770").await?;
    let reason = "wrong template";
    client.operate().perform(Order::new(Action::PauseRun { run: paused.id() }).actor("jon").reason(reason)).await?;
    let canceled = client.start(send_digest, 8).key("user-1208").await?;
    client
        .operate()
        .perform(Order::new(Action::CancelRun { run: canceled.id(), only_ask: false }).actor("mira").reason(reason))
        .await?;
    let limits = QueueLimits::none().concurrency(100).max_waiting(50_000);
    let set = Action::SetQueueLimits { queue: "accounts".into(), limits };
    client.operate().perform(Order::new(set).actor("mira")).await?;
    Ok(())
}
