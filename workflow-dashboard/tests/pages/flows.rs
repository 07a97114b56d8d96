//! The pages of deployed flows.

use workflow_dashboard::{Access, Actor, router_with_flows};
use workflow_flows::{FlowStore, Flows};
use workflow_sdk::operate::RunId;
use workflow_tests::{Database, Live};

use crate::browser::{Browser, beside};
use crate::flow::parsed;

const TRIAGE: &str = "flow: 1\nname: triage\ndescription: Sorts <tickets>\n\
                      input: { type: object, properties: { text: { type: string } }, required: [text] }\n\
                      triggers: [ { cron: \"0 7 * * *\", input: { text: daily } } ]\n\
                      do: [ { id: gate, approval: { to: ops } } ]\n";

async fn serve(live: &Live, access: Access) -> (Browser, FlowStore) {
    let store = FlowStore::connect(&live.url_of_tables()).await.unwrap();
    let flows = Flows::new(live.client.clone(), store.clone());
    (Browser::serve(router_with_flows(live.client.clone(), access, flows)).await, store)
}

async fn deployed_flows_are_listed_drawn_and_started(database: Database) {
    let live = Live::new(database).await;
    let access = Access::by(async |parts| {
        let name = parts.headers.get("x-user").and_then(|name| name.to_str().ok()).unwrap_or("olga");
        Some(match name {
            "vic" => Actor::viewer("vic"),
            "eve" => Actor::viewer("eve").without_payloads(),
            _ => Actor::operator("olga"),
        })
    });
    let (mut browser, store) = serve(&live, access).await;
    let browser = beside(move || {
        browser.get("/flows").is_page(200).shows("No flow is deployed").shows("workflow flow deploy");
        browser.get("/flows/triage").is_page(404).shows("triage");
        browser.visit();
        browser
    })
    .await;

    let first = parsed(&TRIAGE.replace("gate", "first_gate"));
    store.deploy(&first, "ann", None).await.unwrap();
    store.deploy(&parsed(TRIAGE), "bob", Some("v2")).await.unwrap();
    let place = beside(move || {
        let list = browser.get("/flows");
        list.is_page(200)
            .shows("<strong dir=\"auto\">triage</strong>")
            .shows("Sorts &lt;tickets&gt;")
            .shows("<td class=\"mono cut-off\">v2</td>")
            .shows("<td class=\"r opt num\">2</td>")
            .shows("<span class=\"tag\">cron</span>")
            .shows("bob")
            .shows("href=\"/workflows/runs?q=tag.flow:triage\"")
            .shows("value=\"start_flow\"")
            .shows("workflow flow list");
        let page = browser.get("/flows/triage");
        page.is_page(200).shows("class=\"flow\"").shows(">gate<").shows("ann").shows("bob").hides("first_gate");
        let old = browser.get("/flows/triage?version=1");
        old.is_page(200).shows(">first_gate<").shows("Version 1");
        browser.get("/flows/triage?version=7").is_page(404);
        browser.get("/flows/%3Cb%3E").is_page(404).hides("<b>");
        let by = |user: &str, path: &str| browser.send("GET", path, &[("X-User", user)], "");
        by("vic", "/flows").is_page(200).shows("triage").hides("start_flow");
        by("eve", "/flows/triage").is_page(200).shows("hidden from you").hides("class=\"flow\"").hides(">gate<");

        let start = |input: &str, version: &str| {
            let fields = [("action", "start_flow"), ("flow", "triage"), ("version", version), ("input", input)];
            browser.submit(&[&fields[..], &[("key", "t-1")]].concat())
        };
        start("{", "v2").is_page(400).shows("JSON");
        start("{}", "v2").is_page(400).shows("F060");
        start(r#"{"text":"a"}"#, "7").is_page(404);
        let started = start(r#"{"text":"a"}"#, "1");
        assert_eq!(started.status, 303, "{}", started.text);
        let place = started.header("location").unwrap().to_owned();
        assert_eq!(start(r#"{"text":"a"}"#, "1").header("location"), Some(place.as_str()), "the key finds the run");
        place
    })
    .await;
    let run: RunId = place.rsplit('/').next().unwrap().parse().unwrap();
    let detail = live.client.operate().run(run).await.unwrap();
    let tag = |name: &str| detail.summary.tags[name].as_str();
    assert_eq!((tag("flow"), tag("flow_version")), ("triage", "1"));
    let input = detail.input.unwrap().json.unwrap();
    assert!(input.as_str().contains(r#""actor":"olga""#), "{}", input.as_str());
    live.sweep().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deployed_flows_are_listed_drawn_and_started_on_sqlite() {
    deployed_flows_are_listed_drawn_and_started(Database::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deployed_flows_are_listed_drawn_and_started_on_postgres() {
    deployed_flows_are_listed_drawn_and_started(Database::Postgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dashboard_without_flows_says_so_and_a_viewer_starts_none() {
    let live = Live::new(Database::Sqlite).await;
    let mut without = Browser::start(&live, Access::local()).await;
    let (mut viewer, store) = serve(&live, Access::by(async |_| Some(Actor::viewer("vic")))).await;
    store
        .deploy(&parsed("flow: 1\nname: plain\ndo: [ { id: gate, approval: { to: ops } } ]\n"), "ann", None)
        .await
        .unwrap();
    beside(move || {
        without.get("/flows").is_page(200).shows("Flows are not served here").shows("workflow flow list");
        without.get("/flows/plain").is_page(404).shows("workflow flow list");
        without.visit();
        viewer.visit();
        for browser in [&without, &viewer] {
            let started = browser.submit(&[("action", "start_flow"), ("flow", "plain"), ("input", "{}")]);
            assert!([403, 404].contains(&started.status), "{}", started.text);
        }
    })
    .await;
    assert!(live.client.operate().runs(Default::default()).await.unwrap().items.is_empty());
    live.sweep().await;
}
