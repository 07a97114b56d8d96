//! The graph that documents give: defaults, synonyms, positions, digests.

use std::time::Duration;

use serde_json::json;
use workflow_flows::check::{Checked, Options, check, check_input, format};
use workflow_flows::graph::{Backoff, Block, Flow, Kind, Next, Step};

use crate::{checked, told};

#[track_caller]
fn valid(source: &str) -> Flow {
    let checked = checked(source);
    assert!(checked.findings.is_empty(), "{}", told(&checked));
    checked.flow.unwrap()
}

fn first(flow: &Flow) -> &Step {
    match &flow.body {
        Block::Do(steps) | Block::Dag { steps, .. } | Block::Graph { steps, .. } => &steps[0],
    }
}

#[test]
fn defaults_stand_in_each_step() {
    let flow = valid(
        "flow: 1\nname: a\ndefaults: { timeout: 60s, retry: { attempts: 4, delay: 1s } }\ndo:\n  - { id: a, tool: http, args: { url: \"https://bank.test/x/{{input.y}}\" }, retry: { backoff: constant } }\n",
    );
    let step = first(&flow);
    let retry = step.retry.as_ref().unwrap();
    assert_eq!((retry.attempts, retry.jitter), (4, true));
    assert_eq!(retry.backoff, Backoff::Constant { delay: Duration::from_secs(1) });
    assert_eq!(step.timeout, Some(Duration::from_secs(60)));
    assert_eq!(step.breaker.as_ref().unwrap().name, "http:bank.test");
    assert_eq!(flow.timeout, Duration::from_secs(24 * 60 * 60));
    let flow = valid("flow: 1\nname: a\ndo:\n  - { id: a, tool: log, breaker: false, retry: { attempts: 1 } }\n");
    assert_eq!((&first(&flow).breaker, &first(&flow).retry, first(&flow).timeout), (&None, &None, None));
}

#[test]
fn a_default_breaker_is_that_of_a_fixed_host() {
    let breaker = |keys: &str| {
        let flow = valid(&format!("flow: 1\nname: a\ndo:\n  - {{ id: a, {keys} }}\n"));
        first(&flow).breaker.as_ref().map(|rule| rule.name.clone())
    };
    for (url, name) in [
        ("https://bank.test", Some("http:bank.test")),
        ("https://Bank.test:8443?x={{input.x}}", Some("http:bank.test:8443")),
        ("https://ann:x@bank.test/{{input.x}}@y", Some("http:bank.test")),
        ("https://{{input.host}}/x", None),
        ("https://ann@{{input.host}}/x", None),
        ("https://bank{{input.x}}.test/x", None),
        ("{{input.base}}/x", None),
        ("{{input.url ?? 'https://bank.test/x'}}", None),
        ("/x", Some("http")),
        ("bank.test/x", Some("http")),
        ("/x/{{input.x}}", None),
    ] {
        assert_eq!(breaker(&format!("tool: http, args: {{ url: \"{url}\" }}")).as_deref(), name, "{url}");
    }
    assert_eq!(breaker("tool: http, args: \"{{input.request}}\""), None);
    let named = "tool: http, args: { url: \"{{input.url}}\" }, breaker: { name: bank }";
    assert_eq!((breaker(named).as_deref(), breaker("tool: log").as_deref()), (Some("bank"), Some("log")));
}

#[test]
fn an_attempt_follows_each_delay() {
    let attempts = |defaults: &str, retry: &str| {
        let flow = valid(&format!(
            "flow: 1\nname: a\ndefaults: {{ retry: {{ {defaults} }} }}\ndo: [ {{ id: a, tool: log, retry: {{ {retry} }} }} ]\n"
        ));
        first(&flow).retry.as_ref().unwrap().attempts
    };
    for (defaults, retry, expected) in [
        ("attempts: 3", "delays: [1s, 2s, 3s, 4s, 5s]", 6),
        ("attempts: 3", "delays: [1s], attempts: 4", 4),
        ("delays: [1s, 2s, 3s, 4s, 5s]", "jitter: false", 6),
        ("delays: [1s, 2s, 3s, 4s, 5s]", "attempts: 2", 2),
        ("attempts: 4", "delays: []", 4),
    ] {
        assert_eq!(attempts(defaults, retry), expected, "{defaults} {retry}");
    }
}

#[test]
fn more_delays_than_attempts_may_be_are_refused_without_a_fix() {
    let delays = vec!["1s"; 1_000].join(", ");
    let source =
        format!("flow: 1\nname: a\ndo: [ {{ id: a, tool: log, retry: {{ attempts: 1000, delays: [{delays}] }} }} ]\n");
    let checked = checked(&source);
    let found: Vec<_> = checked.findings.iter().map(|it| (it.message.as_str(), &it.fix)).collect();
    assert_eq!(found, [("retry.attempts is 1000, and retry has 1000 delays", &None)]);
}

#[test]
fn a_limit_without_a_name_is_that_of_its_key_or_of_its_flow() {
    for (key, name) in [("bank:{{input.x}}", "bank"), ("{{input.x}}:bank", "flow:pay"), ("{{input.x}}", "flow:pay")] {
        let flow = valid(&format!(
            "flow: 1\nname: pay\ndo: [ {{ id: a, tool: log, limit: {{ key: \"{key}\", max: 2 }} }} ]\n"
        ));
        assert_eq!(first(&flow).limit.as_ref().unwrap().name, name, "{key}");
    }
}

#[test]
fn synonyms_are_written_in_one_way() {
    let source = "flow: 1\nname: a\ndo:\n  - { id: a, tool: log, when: \"{{inputs.x}}\", args: { x: \"{{ workflow_input.y }} {{{{ z\" } }\n";
    let flow = valid(source);
    assert_eq!(first(&flow).when.as_deref(), Some("input.x"));
    let Kind::Tool(tool) = &first(&flow).kind else { panic!() };
    assert_eq!(tool.args, json!({ "x": "{{ input.y }} {{{{ z" }));
    let formatted = format(source, &Options::default()).unwrap();
    assert!(formatted.contains("{{input.x}}") && formatted.contains("{{ input.y }} {{{{ z"), "{formatted}");
    assert_eq!(format(&formatted, &Options::default()).unwrap(), formatted);
}

#[test]
fn digests_tell_graphs_apart_and_nothing_else() {
    let digest = |source: &str| check(source, &Options::default()).digest.unwrap();
    let one = digest("flow: 1\nname: a\ndo: [ { id: a, tool: log, args: { x: \"{{inputs.x}}\" } } ]\n");
    let same = digest("# a comment\nname: a\nflow: 1\ndo:\n  - tool: log\n    args: { x: '{{input.x}}' }\n    id: a\n");
    let other = digest("flow: 1\nname: a\ndo: [ { id: a, tool: log, args: { x: \"{{input.y}}\" } } ]\n");
    assert_eq!(one, same);
    assert_ne!(one, other);
    assert_eq!(one.len(), 64);
}

#[test]
fn answers_and_graphs_survive_json() {
    let checked = checked("flow: 1\nname: a\ndo: [ { id: a, tool: log, colr: 1 }, { id: b, wait: { for: 5m } } ]\n");
    let text = serde_json::to_string(&checked).unwrap();
    assert_eq!(serde_json::from_str::<Checked>(&text).unwrap(), checked);
    let flow = valid(
        "flow: 1\nname: a\ndo: [ { id: b, wait: { for: 5m } } ]\ntriggers: [ { cron: \"0 8 * * *\", zone: Europe/Oslo } ]\n",
    );
    let text = serde_json::to_string(&flow).unwrap();
    assert_eq!(serde_json::from_str::<Flow>(&text).unwrap(), flow);
}

#[test]
fn the_graph_of_the_two_tables_can_be_written_natively() {
    let flow = valid(
        "flow: 1\nname: g\ngraph:\n  start: { tool: log, args: {}, branch: [ { if: result == true, then: fan } ], else: user }\n  fan: { parallel: [a, b] }\n  a: { tool: log, join: merge }\n  b: { tool: log, next: b2 }\n  b2: { tool: log, join: merge }\n  merge: { tool: null, next: gate }\n  gate: { approval: { to: ops }, next: user }\n  user: { tool: log, done: true }\n",
    );
    let Block::Graph { start, steps } = &flow.body else { panic!() };
    assert_eq!(start, "start");
    let join = |step: &Step| matches!(&step.next, Some(Next::Parallel { join: Some(join), .. }) if join == "merge");
    assert!(join(&steps[1]));
    assert_eq!(steps[5].kind, Kind::Nothing);
}

#[test]
fn inputs_are_checked_against_their_schema() {
    let flow = valid(
        "flow: 1\nname: a\ninput: { required: [order], properties: { order: { properties: { total: { type: number } } } } }\ndo: [ { id: a, tool: log } ]\n",
    );
    let found = check_input(&flow, &json!({ "order": { "total": "12" } }));
    assert_eq!(found[0].message, "input: /order/total: \"12\" is not of type \"number\"");
    assert_eq!(check_input(&flow, &json!({}))[0].message, "input: \"order\" is missing");
}

#[test]
fn positions_count_characters_and_follow_escapes() {
    let at = |source: &str| {
        let checked = checked(source);
        checked.findings.iter().map(|it| (it.line, it.column)).collect::<Vec<_>>()
    };
    let head = "flow: 1\nname: a\ndo:\n  - { id: a, tool: log, args: { x: ";
    assert_eq!(at(&format!("{head}\"\u{e9}\u{1f600} {{{{steps.b}}}}\" }} }}\n")), [(4, 48)]);
    assert_eq!(at(&format!("{head}\"\\u00e9 {{{{steps.b}}}}\" }} }}\n")), [(4, 52)]);
    let folded =
        "flow: 1\nname: a\ndo:\n  - id: a\n    tool: log\n    args:\n      x: |\n        one\n        {{steps.b}}\n";
    assert_eq!(at(folded), [(9, 17)]);
    let line_break = "flow: 1\nname: a\ndo:\n  - { id: a, jq: \"1 |\\n  slect(.b)\" }\n  - { id: b, tool: log }\n";
    assert_eq!(at(line_break), [(4, 19)]);
    let json = "{\"flow\": 1, \"name\": \"a\",\n\t\"do\": [{\"id\": \"a\", \"tool\": \"log\", \"when\": \"steps.b == \\\"x\\\"\"}]}";
    assert_eq!(at(json), [(2, 51)]);
    assert_eq!(at("\u{feff}flow: 1\r\nname: a\r\ndo:\r\n  - { id: a, tol: log }\r\n"), [(4, 14)]);
}

#[test]
fn a_flow_of_200_steps_is_checked_in_a_moment() {
    let steps: String = (0..200)
        .map(|n| format!("  - {{ id: s{n}, tool: log, when: input.x > {n}, args: {{ x: \"{{{{input.y}}}}\" }} }}\n"))
        .collect();
    valid(&format!("flow: 1\nname: a\ndo:\n{steps}"));
}
