//! Pages as text, from fixed data at a fixed time.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, HashMap};

use serde::de::DeserializeOwned;
use workflow_flows::FlowSummary;
use workflow_sdk::Timestamp;
use workflow_sdk::operate::{
    Action, ApprovalPage, Counts, FailurePage, LimitView, Query, QueueView, RunDetail, RunPage, Timeline, WorkerView,
};

use super::bulk_preview::Which;
use super::decisions::Asked;
use super::run::{Header, Tab};
use super::runs::Content;
use super::{approvals, audit, bulk_preview, flows, overview, queues, run, run_actions, runs, workers, workflow};
use crate::action::Fields;
use crate::chart::Range;
use crate::timeline::Shown;
use crate::visit::Visit;

/// 28.4 s after the start of the run.
const NOW: Timestamp = Timestamp::from_micros(1_795_692_628_400_000);
const RUN: &str = "01a2179e-6563-77f9-814a-e7a8f1ed3d63";

fn of<T: DeserializeOwned>(json: &str) -> T {
    serde_json::from_str(json).unwrap_or_else(|error| unreachable!("{error}: {json}"))
}

fn summary(status: &str, now: &str, more: &str) -> String {
    format!(
        r#"{{"id":"{RUN}","queue":"default","workflow":"checkout","version":"7","status":"{status}","now":{now},
        "key":"order-20931","attempt":1,"generation":0,"crashes":0,"depth":0,"available_at":1795692600000000,
        "created_at":1795692600000000,"started_at":1795692600900000,"tags":{{"customer":"42"}}{more}}}"#
    )
}

/// Returns the page with a line per element, so that a change shows where it is.
fn lines(page: maud::Markup) -> String {
    page.into_string().replace("><", ">\n<")
}

const FAILED: &str = r#","completed_at":1795692610000000,
    "error":{"kind":"step","message":"CardDeclined <b>now</b>\nsecond line","step_key":"charge"}"#;

#[test]
fn the_list_of_runs() {
    let running = summary("running", r#"{"state":"running","lease_until":1895692600000000}"#, "");
    let failed = summary("failed", r#"{"state":"ended","at":1795692610000000}"#, FAILED);
    let waits = summary("parked", r#"{"state":"waits_until","until":1795692728400000}"#, "");
    let page: RunPage = of(&format!(r#"{{"items":[{running},{failed},{waits}],"complete":true,"next":"1abc"}}"#));
    let query: Query = "workflow:check* status:failed".parse().unwrap();
    let content = Content { query: &query, page: &page, is_first: true, counts: None, workflows: Vec::new() };
    insta::assert_snapshot!(lines(runs::draw(&Visit::of_test(NOW, "/runs"), &content)));
}

const TIMELINE: &str = r#"{"run":"01a2179e-6563-77f9-814a-e7a8f1ed3d63","status":"parked","from":1795692600000000,"to":1795692628400000,
    "spans":[{"state":"queued","from":1795692600000000,"to":1795692600900000},
        {"state":"ran","from":1795692600900000,"to":1795692607400000},
        {"state":"lost","from":1795692607400000,"to":1795692608900000},
        {"state":"ran","from":1795692608900000,"to":1795692611000000},
        {"state":"parked","from":1795692611000000}],
    "rows":[
        {"step":"reserve","kind":"step","bars":[{"state":"succeeded","attempt":1,"from":1795692600900000,"to":1795692602100000}]},
        {"step":"charge","kind":"step","error":"BankTimeout","bars":[
            {"state":"failed","attempt":1,"from":1795692602100000,"to":1795692604000000},
            {"state":"back_off","attempt":2,"from":1795692604000000,"to":1795692606000000},
            {"state":"succeeded","attempt":2,"from":1795692606000000,"to":1795692611000000,"repeated":true}]},
        {"step":"picked_up","kind":"signal","bars":[{"state":"waiting","attempt":1,"from":1795692611000000,"to":1795699999000000}]}],
    "marks":[{"at":1795692607400000,"kind":"crashed"},{"at":1795692608900000,"kind":"resumed"}],"left_out":0,"complete":true}"#;

#[test]
fn a_run_with_a_crash_a_retry_and_a_wait() {
    let run = summary("parked", r#"{"state":"waits_until","until":1795699999000000}"#, "");
    let inner = run.strip_suffix('}').unwrap();
    let detail: RunDetail = of(&format!(
        r#"{inner},"input":{{"bytes":20,"json":{{"order":9223372036854775807}}}},
        "explanation":{{"state":"waiting","until":null,"on":[]}},"why":"waits until 2026-11-26T13:33:19.000Z"}}"#
    ));
    let timeline: Timeline = of(TIMELINE);
    let header = Header { detail: &detail, timeline: &timeline, approvals: Vec::new() };
    let tab = Tab::Timeline { children: Vec::new(), step: None, shown: Shown::All, window: None };
    insta::assert_snapshot!(lines(run::draw(&Visit::of_test(NOW, "/runs/1"), &header, &tab)));
}

#[test]
fn an_approval_with_both_answers() {
    let page: ApprovalPage = of(&format!(
        r#"{{"items":[{{"run_id":"{RUN}","lane":{{"queue":"default","workflow":"refund","version":"1"}},
        "key":"refund over 500 EUR","to":"finance","since":1795692600000000,"until":null}}],"complete":true}}"#
    ));
    let visit = Visit::of_test(NOW, "/approvals");
    let asked: Vec<Asked> = page.items.into_iter().map(|wait| Asked { wait, question: None }).collect();
    insta::assert_snapshot!(lines(approvals::draw(&visit, &asked, None)));
}

#[test]
fn a_decision_whose_question_is_hidden_takes_a_word() {
    let page: ApprovalPage = of(&format!(
        r#"{{"items":[{{"run_id":"{RUN}","lane":{{"queue":"default","workflow":"flow","version":"1"}},
        "tags":{{"flow":"sorting","flow_version":"v3"}},"kind":"decision","key":"triage","since":1795692600000000}}],"complete":true}}"#
    ));
    let visit = Visit::of_test(NOW, "/approvals");
    let asked: Vec<Asked> = page.items.into_iter().map(|wait| Asked { wait, question: None }).collect();
    let text = approvals::draw(&visit, &asked, None).into_string();
    assert!(text.contains(r#"name="action" value="choose""#) && text.contains(r#"name="choice""#), "{text}");
    assert!(!text.contains("radio") && !text.contains("Reject"), "{text}");
    // Nothing else is read to name the flow.
    assert!(text.contains(r#"sorting <span class="tag">flow v3</span>"#), "{text}");
}

fn flow_summary(version: &str) -> FlowSummary {
    of(&format!(
        r#"{{"name":"a <b>","version":"{version}","number":2,"digest":"0123456789abcdef","description":"Sorts & sends",
        "triggers":["cron","webhook"],"created_at":1795692000000000,"created_by":"ann"}}"#
    ))
}

#[test]
fn flows_with_their_newest_versions() {
    let visit = Visit::of_test(NOW, "/flows");
    let counts = BTreeMap::from([("a <b>".to_owned(), 12_u64)]);
    let text = flows::draw(&visit, &[flow_summary("v2")], &counts).into_string();
    for part in ["a &lt;b&gt;", "v2", ">12<", "cron", "webhook", "Sorts &amp; sends", "ann", "start_flow"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(text.contains(r#"href="/workflows/flows/a%20%3Cb%3E""#), "{text}");
    let none = flows::draw(&visit, &[], &BTreeMap::new()).into_string();
    assert!(none.contains("No flow is deployed") && none.contains("workflow flow deploy"), "{none}");
}

fn chosen() -> Which {
    let pending = summary("pending", r#"{"state":"due","since":1795692600000000}"#, r#","priority":"normal""#);
    Which::Chosen { query: "is:open".parse().unwrap(), runs: vec![of(&pending)] }
}

fn all(query: &str) -> Which {
    let preview = of(r#"{"runs":{"runs":3,"at_least":false},"examples":[]}"#);
    Which::All { query: query.parse().unwrap(), preview }
}

#[test]
fn many_runs_with_what_can_be_done_with_them() {
    let visit = Visit::of_test(NOW, "/bulk/new");
    insta::assert_snapshot!(lines(bulk_preview::draw(&visit, &chosen(), Some("move_to"))));
}

#[test]
fn the_command_of_a_change_of_many_runs_is_one_of_the_command_line() {
    let query = "workflow:check* is:open";
    for (action, to_all, to_chosen) in [
        (None, "runs retry --where 'workflow:check* is:open'", "runs retry "),
        (Some("cancel_run"), "runs cancel --where 'workflow:check* is:open'", "runs cancel "),
        (
            Some("set_priority"),
            "runs set-priority PRIORITY --where 'workflow:check* is:open'",
            "runs set-priority PRIORITY ",
        ),
        (Some("move_to"), "runs move-to QUEUE --where 'workflow:check* is:open'", "runs move-to QUEUE "),
        (
            Some("fork_run"),
            "runs list --all -o ids 'workflow:check* is:open' | xargs -n 1 workflow runs fork",
            "runs fork ",
        ),
    ] {
        assert_eq!(bulk_preview::command(&all(query), action), format!("workflow {to_all}"));
        assert_eq!(bulk_preview::command(&chosen(), action), format!("workflow {to_chosen}{RUN}"));
    }
    // A search may begin with a hyphen, and the command line refuses an empty one.
    for (query, action, command) in [
        ("-status:failed", None, "runs retry --where='-status:failed'"),
        (
            "-status:failed",
            Some("fork_run"),
            "runs list --all -o ids -- '-status:failed' | xargs -n 1 workflow runs fork",
        ),
        ("", Some("cancel_run"), "runs cancel --where 'workflow:*'"),
    ] {
        assert_eq!(bulk_preview::command(&all(query), action), format!("workflow {command}"));
    }
}

#[test]
fn the_commands_of_pages_have_their_filters() {
    let audit = |which: &str| audit::command(&of(which));
    assert_eq!(audit("{}"), "workflow audit");
    assert_eq!(
        audit(r#"{"verb":"run. ","target":"queue:mail","actor":"-ada"}"#),
        "workflow audit --verb 'run.' --target 'queue:mail' --by='-ada'"
    );
    let failures = |which: &str| super::failures::command(&of(which));
    assert_eq!(failures("{}"), "workflow failures");
    assert_eq!(
        failures(r#"{"range":"24h","workflow":"checkout"}"#),
        "workflow failures --since 24h --workflow 'checkout'"
    );
}

#[test]
fn a_run_whose_deadline_has_passed_is_retried_with_a_new_one() {
    let actions = |deadline: &str| {
        let failed = summary("failed", r#"{"state":"ended","at":1795692610000000}"#, &format!("{FAILED}{deadline}"));
        run_actions::draw(&Visit::of_test(NOW, "/runs/1"), &of(&failed)).into_string()
    };
    let needs = "Its deadline has passed, so it needs a new one.";
    let passed = actions(r#","deadline_at":1795692610000000"#);
    assert!(passed.contains(needs) && passed.contains(r#"min="1" name="deadline" required>"#), "{passed}");
    for deadline in ["", r#","deadline_at":1795692699000000"#] {
        let open = actions(deadline);
        assert!(!open.contains(needs) && open.contains(r#"name="deadline" placeholder="as it is">"#), "{open}");
    }
}

const ZERO: &str = r#"{"runs":0,"at_least":false}"#;

fn counts() -> Counts {
    let many = r#"{"runs":10000,"at_least":true}"#;
    of(&format!(
        r#"{{"pending":{many},"due":{ZERO},"delayed":{ZERO},"running":{ZERO},"parked":{many},"paused":{ZERO},
        "stuck":{ZERO},"failed":{ZERO},"canceled":{ZERO}}}"#
    ))
}

fn all_queues() -> Vec<QueueView> {
    of(&format!(
        r#"[{{"name":"mail","limits":{{"concurrency":4}},"overridden":{{"concurrency":4}},"has_gates":true,
        "pause":{{"since":1795692600000000,"reason":"bounces"}},"running":{{"runs":3,"at_least":false}},
        "waiting":{ZERO},"workers":1}}]"#
    ))
}

fn all_workers() -> Vec<WorkerView> {
    of(&format!(
        r#"[{{"id":"{RUN}","started_at":1795692600000000,"live":true,
        "lanes":[{{"queue":"mail","workflow":"send_digest","version":"2"}}],"retention":null,"runs":{ZERO}}}]"#
    ))
}

/// An hour in which 90 runs succeeded and 10 failed, in two minutes, for one group.
fn stats(group: &str) -> String {
    let counts = |begun: u64, failed: u64| {
        format!(
            r#""started":{begun},"begun":{begun},"succeeded":{},"failed":{failed},"canceled":0,"retries":0,
            "start_rate":0.0,"end_rate":0.0,"mean_wait_us":1200,"p50_us":5900000,"p95_us":9000000,"p99_us":41000000"#,
            begun - failed
        )
    };
    format!(
        r#"{{"since":1795689000000000,"until":1795692628400000,"step":"minute","groups":[{{{group}
        "total":{{{}}},"steps":[{{"begins_at":1795691400000000,"seconds":60,{}}},
        {{"begins_at":1795692000000000,"seconds":60,{}}}]}}],"complete":true}}"#,
        counts(100, 10),
        counts(60, 0),
        counts(40, 10)
    )
}

fn failures() -> FailurePage {
    of(&format!(
        r#"{{"items":[{{"workflow":"checkout","kind":"step","step":"charge","message":"CardDeclined <b>","count":1012,
        "first_at":1795692000000000,"last_at":1795692628000000,"first_version":"7","last_run":"{RUN}"}}],
        "complete":true}}"#
    ))
}

#[test]
fn failures_with_their_numbers() {
    let visit = Visit::of_test(NOW, "/failures");
    let which = super::failures::Which::default();
    insta::assert_snapshot!(lines(super::failures::draw(&visit, &which, &failures())));
}

#[test]
fn a_workflow_with_its_numbers() {
    let workflow = of(
        r#"{"name":"checkout","versions":[{"queue":"mail","version":"7","workers":[],"due":true,"unserved":true}]}"#,
    );
    let content = workflow::Content {
        workflow,
        range: Range::Hour,
        all: of(&stats("")),
        lanes: of(&stats(r#""queue":"mail","workflow":"checkout","version":"7","#)),
        failures: failures().items,
    };
    insta::assert_snapshot!(lines(workflow::draw(&Visit::of_test(NOW, "/workflows/checkout"), &content)));
}

#[test]
fn the_overview() {
    let content = overview::Content {
        counts: counts(),
        queues: all_queues(),
        workers: all_workers(),
        workflows: Vec::new(),
        schedules: Vec::new(),
        numbers: std::sync::Arc::new(overview::Numbers {
            range: Range::Hour,
            all: of(&stats("")),
            workflows: of(&stats(r#""workflow":"checkout","#)),
            lanes: of(&stats(r#""queue":"mail","workflow":"checkout","version":"7","#)),
            failures: failures().items,
        }),
    };
    insta::assert_snapshot!(lines(overview::draw(&Visit::of_test(NOW, "/"), &content)));
}

#[test]
fn queues_and_workers() {
    let visit = Visit::of_test(NOW, "/queues");
    insta::assert_snapshot!("queues", lines(queues::draw(&visit, &all_queues(), &[])));
    insta::assert_snapshot!("workers", lines(workers::draw(&visit, &all_workers(), &[])));
}

#[test]
fn the_pause_of_a_queue_says_that_runs_under_way_go_on() {
    let mut queues = all_queues();
    queues[0].pause = None;
    let page = queues::draw(&Visit::of_test(NOW, "/queues"), &queues, &[]).into_string();
    let sentence = "No run of mail is claimed until it is resumed. Runs under way go on until they end or wait";
    assert!(page.contains(sentence), "{page}");
}

#[test]
fn the_runs_of_a_dead_worker_wait_for_a_living_one() {
    let mut all = [all_workers(), all_workers()].concat();
    let visit = Visit::of_test(NOW, "/workers");
    all[1].live = false;
    assert!(workers::draw(&visit, &all, &[]).into_string().contains("its runs are taken over"));
    all[0].live = false;
    assert!(workers::draw(&visit, &all, &[]).into_string().contains("its runs wait for another worker"));
}

/// Returns the fields of the form with this action, as a browser sends them.
fn fields_of(page: &str, action: &str) -> HashMap<String, String> {
    let value_of = |tag: &str, name: &str| {
        let (_, rest) = tag.split_once(&format!(" {name}=\""))?;
        rest.split_once('"').map(|(value, _)| value.to_owned())
    };
    let form = page.split("<form").find(|form| form.contains(&format!("value=\"{action}\""))).unwrap();
    let (mut fields, mut select) = (HashMap::new(), String::new());
    for tag in form.split_once("</form>").unwrap().0.split('<') {
        let value = value_of(tag, "value").unwrap_or_default();
        match (tag.split(' ').next(), value_of(tag, "name")) {
            (Some("input"), Some(name)) => drop(fields.insert(name, value)),
            (Some("select"), Some(name)) => select = name,
            (Some("option"), _) if tag.contains(" selected") => drop(fields.insert(select.clone(), value)),
            _ => {}
        }
    }
    fields
}

#[test]
fn a_form_of_limits_keeps_what_it_does_not_change() {
    let visit = Visit::of_test(NOW, "/queues");
    let rate = |runs, seconds: u64, burst| format!(r#"{{"runs":{runs},"period":{seconds}000000,"burst":{burst}}}"#);
    let of_queue = |concurrency| {
        format!(
            r#"{{"concurrency":{concurrency},"rate":{},"max_waiting":100,
            "per_gate":{{"concurrency":2,"rate":{},"max_waiting":0}}}}"#,
            rate(600, 60, 20),
            rate(7, 90, 1)
        )
    };
    let queues: Vec<QueueView> = of(&format!(
        r#"[{{"name":" mail ","limits":{},"has_gates":true,"running":{ZERO},"waiting":{ZERO},"workers":1}}]"#,
        of_queue(4)
    ));
    let rules: Vec<LimitView> = of(&format!(
        r#"[{{"name":"llm","rule":{{"concurrency":3,"rate":{}}},"held":{ZERO},"waiting":{ZERO}}}]"#,
        rate(5, 3600, 2)
    ));
    let page = queues::draw(&visit, &queues, &rules).into_string();

    let mut fields = fields_of(&page, "set_queue_limits");
    fields.insert("concurrency".to_owned(), "9".to_owned());
    let limits = of(&of_queue(9));
    assert_eq!(Fields(fields).action().unwrap(), Action::SetQueueLimits { queue: " mail ".to_owned(), limits });
    let mut fields = fields_of(&page, "set_limit");
    fields.insert("concurrency".to_owned(), String::new());
    let rule = of(&format!(r#"{{"rate":{}}}"#, rate(5, 3600, 2)));
    assert_eq!(Fields(fields.clone()).action().unwrap(), Action::SetLimit { limit: "llm".to_owned(), rule });
    // A field that is emptied takes its limit away.
    fields.insert("rate".to_owned(), String::new());
    let rule = of("{}");
    assert_eq!(Fields(fields).action().unwrap(), Action::SetLimit { limit: "llm".to_owned(), rule });
}
