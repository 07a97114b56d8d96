//! The decisions of flows on the page of approvals and on that of their run.

use serde_json::{Value, json};
use workflow_dashboard::{Access, Actor};
use workflow_flows::{FlowClient, FlowRuntime, FlowStart, flow};
use workflow_sdk::ApprovalKind;
use workflow_tests::{Database, Live, LocalWorker, until};

use crate::browser::{Browser, beside};
use crate::flow::parsed;

const ASKS: &str = "flow: 1\nname: asks\ndo:\n  \
                    - { id: triage, decision: { prompt: \"Which <way>?\", options: { resolve: close it, escalate: ask more }, to: ops } }\n  \
                    - { id: free, decision: { prompt: What? } }\n\
                    output: { triage: \"{{steps.triage}}\", free: \"{{steps.free.choice}}\" }\n";

/// Waits until this decision, and nothing else, is asked for.
async fn asked(live: &Live, key: &str) {
    until("the decision", async || {
        let page = live.client.operate().approvals(Default::default()).await.ok()?;
        let [wait] = &page.items[..] else { return None };
        (wait.kind == ApprovalKind::Decision && wait.key == key).then_some(())
    })
    .await;
}

async fn a_decision_is_answered_once(database: Database) {
    let live = Live::new(database).await;
    let runtime = || FlowRuntime::builder().build();
    let working = LocalWorker::start(live.worker(runtime()).register(flow));
    let run = live.client.start_definition(FlowStart::new(parsed(ASKS))).await.unwrap();
    asked(&live, "triage").await;
    assert!(live.client.approvals().await.unwrap().is_empty(), "a decision is no approval");
    // Nothing takes an answer before both were given.
    working.stop().await;

    let by = |actor: Actor| Access::by(move |_| std::future::ready(Some(actor.clone())));
    let mut olga = Browser::start(&live, by(Actor::operator("olga"))).await;
    let mut viewer = Browser::start(&live, by(Actor::viewer("vic"))).await;
    let mut blind = Browser::start(&live, by(Actor::operator("eve").without_payloads())).await;
    let id = run.id().to_string();
    let olga = beside(move || {
        let page = olga.get("/approvals");
        page.is_page(200)
            .shows("Which &lt;way&gt;?")
            .shows("<span class=\"tag\">decision</span>")
            .shows("<input type=\"radio\" name=\"choice\" value=\"resolve\" required>")
            .shows("ask more")
            .shows("name=\"step\" value=\"triage:0\"")
            .shows("<td class=\"opt dim\">ops</td>")
            .shows("Approvals<b>1</b>");
        olga.get(&format!("/runs/{id}")).is_page(200).shows("Which &lt;way&gt;?").shows("value=\"choose\"");
        viewer.get("/approvals").is_page(200).shows("Which &lt;way&gt;?").hides("value=\"choose\"");
        blind.get("/approvals").is_page(200).hides("Which").hides("resolve").shows("name=\"choice\"");

        olga.visit();
        viewer.visit();
        blind.visit();
        let answer = |browser: &Browser, choice: (&str, &str)| {
            let fields = [
                ("action", "choose"),
                ("run", id.as_str()),
                ("step", "triage:0"),
                ("note", "busy"),
                ("back", "/approvals"),
                choice,
            ];
            browser.submit(&fields)
        };
        assert_eq!(answer(&viewer, ("choice", "escalate")).status, 403);
        let unknown = answer(&olga, ("choice", "guess"));
        unknown.is_page(400).shows("resolve").shows("escalate");
        let unseen = answer(&blind, ("choice", "guess"));
        unseen.is_page(400).shows("no such option").hides("resolve").hides("escalate");
        answer(&olga, ("choice", "")).is_page(400).shows("choice");
        let other =
            olga.submit(&[("action", "choose"), ("run", id.as_str()), ("step", "triage:1"), ("choice", "resolve")]);
        other.is_page(409);
        assert_eq!(answer(&olga, ("choice", "escalate")).status, 303);
        assert_eq!(answer(&olga, ("choice", "resolve")).status, 303, "the first answer counts");
        olga
    })
    .await;

    let working = LocalWorker::start(live.worker(runtime()).register(flow));
    asked(&live, "free").await;
    let id = run.id().to_string();
    beside(move || {
        olga.get("/approvals").is_page(200).shows("What?").shows("name=\"value\"").hides("type=\"radio\"");
        let answer = |value: &str| {
            olga.submit(&[("action", "choose"), ("run", id.as_str()), ("step", "free"), ("value", value)])
        };
        answer("{").is_page(400).shows("JSON");
        assert_eq!(answer(r#"{"days":3}"#).status, 303);
    })
    .await;
    let result: Value = run.result().await.unwrap();
    let expected = json!({
        "triage": { "choice": "escalate", "by": "olga", "note": "busy" }, "free": { "days": 3 },
    });
    assert_eq!(result, expected);
    working.stop().await;
    live.sweep().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_visit_that_failed_before_it_waited_is_counted() {
    const FAILS_FIRST: &str = "flow: 1\nname: again\ngraph:\n  \
         start: { set: { n: 0 }, next: ask }\n  \
         ask: { decision: { prompt: \"Now {{10 / vars.n}}?\", options: { again: once more, stop: enough } }, \
         max_visits: 5, on_error: { goto: mend }, \
         branch: [ { if: result.choice == \"again\", then: ask } ], else: end }\n  \
         mend: { set: { n: 1 }, max_visits: 5, next: ask }\n  \
         end: { set: { fine: true }, done: true }\n";
    let live = Live::new(Database::Sqlite).await;
    let working = LocalWorker::start(live.worker(FlowRuntime::builder().build()).register(flow));
    let run = live.client.start_definition(FlowStart::new(parsed(FAILS_FIRST))).await.unwrap();
    let mut browser = Browser::start(&live, Access::local()).await;
    browser = beside(move || {
        browser.visit();
        browser
    })
    .await;
    for (wait, visit, choice) in [("ask", "ask:1", "again"), ("ask:1", "ask:2", "stop")] {
        asked(&live, wait).await;
        let id = run.id().to_string();
        browser = beside(move || {
            let page = browser.get("/approvals");
            page.is_page(200).shows("Now 10?").shows(&format!("name=\"step\" value=\"{visit}\""));
            let fields = [("action", "choose"), ("run", id.as_str()), ("step", visit), ("choice", choice)];
            assert_eq!(browser.submit(&fields).status, 303, "{visit}");
            browser
        })
        .await;
    }
    let _: Value = run.result().await.unwrap();
    working.stop().await;
    live.sweep().await;
}

/// The approval of the second item is another wait than that of the first one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_approval_shows_what_it_is_about() {
    const REFUNDS: &str = "flow: 1\nname: refunds\n\
         input: { type: object, properties: { orders: { type: array, items: { type: string } } } }\ndo:\n  \
         - id: each\n    loop: { for: \"{{input.orders}}\", max: 5 }\n    do: [ { id: gate, approval: { to: [ops, finance], \
         title: \"Refund <{{item}}>?\", show: { order: \"{{item}}\", cents: 4200, why: ~ } } } ]\n";
    let live = Live::new(Database::Sqlite).await;
    let working = LocalWorker::start(live.worker(FlowRuntime::builder().build()).register(flow));
    let start = FlowStart::new(parsed(REFUNDS)).input(json!({ "orders": ["o-1", "o-2"] }));
    let run = live.client.start_definition(start).await.unwrap();
    for order in ["o-1", "o-2"] {
        let wait = until("the approval", async || {
            let wait = live.client.approvals().await.ok()?.pop()?;
            (live.client.approvals().await.ok()?.len() == 1).then_some(wait)
        })
        .await;
        let by = |actor: Actor| Access::by(move |_| std::future::ready(Some(actor.clone())));
        let mut olga = Browser::start(&live, by(Actor::operator("olga"))).await;
        let blind = Browser::start(&live, by(Actor::operator("eve").without_payloads())).await;
        let (id, key) = (run.id().to_string(), wait.key.clone());
        beside(move || {
            for path in ["/approvals".to_owned(), format!("/runs/{id}")] {
                let page = olga.get(&path);
                page.is_page(200).shows(&format!("Refund &lt;{order}&gt;?")).shows("ops, finance");
                page.shows(&format!("order</dt><dd dir=\"auto\">{order}</dd>"));
                page.shows("cents</dt><dd dir=\"auto\">4200</dd>").shows("why</dt><dd dir=\"auto\">—</dd>");
                blind.get(&path).is_page(200).hides("Refund &lt;").hides("4200").shows(&key);
            }
            olga.visit();
            let fields = [("action", "approve"), ("run", id.as_str()), ("step", key.as_str()), ("back", "/approvals")];
            assert_eq!(olga.submit(&fields).status, 303);
        })
        .await;
        until("the answer", async || {
            let waits = live.client.approvals().await.ok()?;
            waits.iter().all(|other| other.key != wait.key).then_some(())
        })
        .await;
    }
    let _: Value = run.result().await.unwrap();
    working.stop().await;
    live.sweep().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_question_is_cut() {
    let live = Live::new(Database::Sqlite).await;
    let options: Vec<String> = (0..60).map(|number| format!("o{number}")).collect();
    let source = format!(
        "flow: 1\nname: large\ninput: {{ type: object, properties: {{ text: {{ type: string }} }} }}\n\
         do: [ {{ id: ask, decision: {{ prompt: \"{{{{input.text}}}}\", options: [{}] }} }} ]\n",
        options.join(", ")
    );
    let working = LocalWorker::start(live.worker(FlowRuntime::builder().build()).register(flow));
    let start = FlowStart::new(parsed(&source)).input(json!({ "text": "é".repeat(100_000) }));
    let run = live.client.start_definition(start).await.unwrap();
    asked(&live, "ask").await;
    let olga = Browser::start(&live, Access::local()).await;
    let id = run.id().to_string();
    beside(move || {
        let (list, page) = (olga.get("/approvals"), olga.get(&format!("/runs/{id}")));
        for shown in [&list, &page] {
            shown.is_page(200).shows(&"é".repeat(2_000)).hides(&"é".repeat(2_001));
            shown.shows("10 more: workflow approvals choose");
        }
        list.shows(&format!("title=\"{}…\"", "é".repeat(300)));
    })
    .await;
    working.stop().await;
    live.sweep().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_decision_is_answered_once_on_sqlite() {
    a_decision_is_answered_once(Database::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_decision_is_answered_once_on_postgres() {
    a_decision_is_answered_once(Database::Postgres).await;
}
