//! The graph of a flow on the page of its run, and the name of a flow on every page.

use serde_json::{Value, json};
use workflow_dashboard::{Access, Actor};
use workflow_flows::check::{Options, check};
use workflow_flows::graph::Flow;
use workflow_flows::{FLOW_TAG, FlowClient, FlowRuntime, FlowStart, FlowStore, ToolCall, flow};
use workflow_sdk::Schedule;
use workflow_sdk::operate::ListFailures;
use workflow_tests::{Database, Live, LocalWorker, until};

use crate::browser::{Browser, beside};
use crate::greets;

const SOURCE: &str = r#"
flow: 1
name: triage
do:
  - { id: classify, tool: echo, args: { level: 3 } }
  - id: urgent
    if: steps.classify.level > 2 && "<b>" != "</b>"
    then: [ { id: wake, tool: echo, args: {} } ]
    else: [ { id: note, set: { queue: later } } ]
  - { id: each, loop: { for: "{{input.parts}}", max: 9 }, do: [ { id: look, tool: echo, args: { part: "{{item}}" } } ] }
  - { id: skipped, when: steps.classify.level > 5, tool: echo, args: {} }
  - { id: gate, approval: { to: ops } }
  - { id: reply, tool: echo, args: {} }
"#;

pub(crate) fn parsed(source: &str) -> Flow {
    let checked = check(source, &Options::default());
    checked.flow.unwrap_or_else(|| panic!("{:?}", checked.findings))
}

fn runtime() -> FlowRuntime {
    FlowRuntime::builder().tool("echo", |args: Value, _: ToolCall| async move { Ok(args) }).build()
}

async fn a_flow_is_drawn_with_its_run(database: Database) {
    let live = Live::new(database).await;
    let working = LocalWorker::start(live.worker(runtime()).register(flow));
    let flows = FlowStore::in_memory();
    flows.deploy(&parsed(SOURCE), "ann", Some("v3")).await.unwrap();
    let start = live.client.start_flow(&flows, "triage", json!({ "parts": ["a", "b"] })).await.unwrap();
    let run = start.key("ticket-1").await.unwrap().id();
    until("the approval", async || {
        (live.client.operate().approvals(Default::default()).await.ok()?.items.len() == 1).then_some(())
    })
    .await;

    let browser = Browser::start(&live, Access::local()).await;
    let hidden = Browser::start(&live, Access::by(async |_| Some(Actor::viewer("eve").without_payloads()))).await;
    beside(move || {
        browser.get("/runs").shows("<strong>triage</strong><span class=\"tag\">flow v3</span>").shows("ticket-1");
        let timeline = browser.get(&format!("/runs/{run}"));
        timeline.is_page(200).shows("<dd>v3</dd>").shows("?tab=graph\">Graph</a>");
        let graph = browser.get(&format!("/runs/{run}?tab=graph"));
        graph
            .is_page(200)
            .shows("9 steps · 7 reached")
            .shows("<title>classify: echo, done</title>")
            .shows("<title>look: echo, done, 2 times</title>")
            .shows("<title>skipped: echo, skipped</title>")
            .shows("<title>gate: approval, waiting</title>")
            .shows("<g class=\"box open\">")
            .hides("<title>note:")
            .hides("<title>reply:")
            .shows("&quot;&lt;b&gt;&quot;");
        let reasons: Vec<&str> = graph.text.split("class=\"reason").skip(1).collect();
        let taken = |label: &str| {
            let reason = reasons.iter().find(|reason| reason.contains(&format!("<title>{label}</title>")));
            reason.unwrap_or_else(|| panic!("no {label} in {reasons:?}")).starts_with(" taken\"")
        };
        assert!(taken("then") && !taken("else"), "the edge of the decision");
        let panel = browser.get(&format!("/runs/{run}?tab=graph&step=each%2F1%2Flook"));
        panel.is_page(200).shows("Step each/1/look").shows("2 of 2").shows("The time before").hides("The time after");
        let other = hidden.get(&format!("/runs/{run}?tab=graph"));
        other.is_page(200).shows("inputs are hidden from you").hides("class=\"flow\"").hides("level &gt; 2");
    })
    .await;
    working.stop().await;
    live.sweep().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flow_is_drawn_with_its_run_on_sqlite() {
    a_flow_is_drawn_with_its_run(Database::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flow_is_drawn_with_its_run_on_postgres() {
    a_flow_is_drawn_with_its_run(Database::Postgres).await;
}

async fn pages_name_the_flow_of_a_run(database: Database) {
    let live = Live::new(database).await;
    let working = LocalWorker::start(live.worker(runtime()).register(flow));
    let broken = parsed("flow: 1\nname: broken\ndo: [ { id: stop, fail: no way } ]\n");
    let failed = live.client.start_definition(FlowStart::new(broken)).await.unwrap();
    failed.result().await.unwrap_err();
    let asks = parsed("flow: 1\nname: asks\ndo: [ { id: gate, approval: { to: ops } } ]\n");
    live.client.start_definition(FlowStart::new(asks)).await.unwrap();
    let yearly = Schedule::cron("yearly", "30 3 1 1 *").zone("UTC").start_by_name("flow", &Value::Null);
    live.client.create_schedule(yearly.tag(FLOW_TAG, "report")).await.unwrap();
    until("the approval and the failure", async || {
        let approvals = live.client.operate().approvals(Default::default()).await.ok()?;
        let failures = live.client.operate().failures(ListFailures::new()).await.ok()?;
        (approvals.items.len() == 1 && failures.items.len() == 1).then_some(())
    })
    .await;
    let browser = Browser::start(&live, Access::local()).await;
    beside(move || {
        for (path, name) in [
            ("/approvals", "asks"),
            ("/failures", "broken"),
            ("", "broken"),
            ("/workflows/flow", "broken"),
            ("/schedules", "report"),
        ] {
            browser.get(path).is_page(200).shows(&format!("{name} <span class=\"tag\">flow</span>"));
        }
        browser.get("/schedules").shows("One run of report starts now");
    })
    .await;
    working.stop().await;
    live.sweep().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_name_the_flow_of_a_run_on_sqlite() {
    pages_name_the_flow_of_a_run(Database::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_name_the_flow_of_a_run_on_postgres() {
    pages_name_the_flow_of_a_run(Database::Postgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_flow_has_no_graph() {
    let live = Live::new(Database::Sqlite).await;
    let plain = live.client.start(greets, 1).await.unwrap().id();
    let strange = live.client.start_by_name("flow", &json!({ "definition": "redacted" })).await.unwrap().id();
    let steps: Vec<String> = (0..401).map(|number| format!("{{ id: s{number}, tool: echo, args: {{}} }}")).collect();
    let many = parsed(&format!("flow: 1\nname: many\ndo: [ {} ]\n", steps.join(", ")));
    let many = live.client.start_definition(FlowStart::new(many)).await.unwrap().id();
    let browser = Browser::start(&live, Access::local()).await;
    beside(move || {
        browser.get(&format!("/runs/{plain}")).is_page(200).hides("tab=graph");
        let graph = |run| browser.get(&format!("/runs/{run}?tab=graph"));
        graph(plain).is_page(200).shows("has no flow that this program can read");
        graph(strange)
            .is_page(200)
            .shows("has no flow that this program can read")
            .shows("<span class=\"tag\">flow</span>");
        graph(many).is_page(200).shows("too many steps for a drawing").hides("class=\"flow\"");
        browser.get("/runs/01900000-0000-7000-8000-000000000000?tab=graph").is_page(404);
    })
    .await;
    live.sweep().await;
}

async fn a_form_starts_a_flow_for_its_account(database: Database) {
    let live = Live::new(database).await;
    let asks = parsed("flow: 1\nname: asks\ndo: [ { id: gate, approval: { to: ops } } ]\n");
    let input = serde_json::to_string(&FlowStart::new(asks).actor("root")).unwrap();
    let mut browser = Browser::start(&live, Access::by(async |_| Some(Actor::operator("eve")))).await;
    let page = beside(move || {
        browser.visit();
        browser.submit(&[("action", "start_run"), ("workflow", "flow"), ("input", &input)])
    })
    .await;
    let run = page.header("location").unwrap().rsplit('/').next().unwrap().parse().unwrap();
    let input = live.client.operate().run(run).await.unwrap().input.unwrap().json.unwrap();
    assert!(input.as_str().contains(r#""actor":"eve""#) && !input.as_str().contains("root"), "{}", input.as_str());
    live.sweep().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_form_starts_a_flow_for_its_account_on_sqlite() {
    a_form_starts_a_flow_for_its_account(Database::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_form_starts_a_flow_for_its_account_on_postgres() {
    a_form_starts_a_flow_for_its_account(Database::Postgres).await;
}
