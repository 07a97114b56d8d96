//! The dialect `cncf`: what fits, and what is refused.

use std::time::Duration;

use workflow_flows::check::{Checked, Code, Dialect, Options, check};
use workflow_flows::graph::{Block, Kind, Next, Step, Wait};

use crate::told;

const HEAD: &str = "document: { dsl: '1.0.3', namespace: n, name: orders, version: '1.0.0' }\ndo:\n";

fn read(tasks: &str) -> Checked {
    check(&format!("{HEAD}{tasks}"), &Options::default())
}

/// The steps of the flow's own graph.
fn steps(checked: &Checked) -> &[Step] {
    match &checked.flow.as_ref().unwrap_or_else(|| panic!("{}", told(checked))).body {
        Block::Graph { steps, .. } => steps,
        other => panic!("{other:?}"),
    }
}

#[test]
fn tasks_become_steps_of_one_graph() {
    let checked = read(
        "  - first: { if: .go, set: { a: \"${ $context.x }\" }, then: last }\n  - second: { wait: { hours: 1 }, then: exit \
         }\n  - last: { call: mail, with: { to: ann }, output: { as: .id } }\n",
    );
    assert_eq!(checked.dialect, Dialect::Cncf);
    let flow = checked.flow.as_ref().unwrap_or_else(|| panic!("{}", told(&checked)));
    assert_eq!(flow.name, "orders");
    let steps = steps(&checked);
    let ids: Vec<&str> = steps.iter().map(|step| step.id.as_str()).collect();
    assert_eq!(ids, ["input", "first-if", "first", "second", "last-args", "last", "last-out", "exit"]);
    assert_eq!(steps[2].next, Some(Next::Goto("last-args".to_owned())), "a target is the first step of its task");
    assert_eq!(steps[3].next, Some(Next::Goto("exit".to_owned())));
    assert!(matches!(&steps[1].next, Some(Next::Branch { otherwise, .. }) if otherwise.as_deref() == Some("second")));
    assert_eq!(
        steps[2].kind,
        Kind::Jq("(.steps.context) as $context | .steps.data0 | ({\"a\": ($context.x\n)}\n)".to_owned())
    );
    assert_eq!((steps[2].aliases.as_slice(), steps[5].aliases.len()), (["data0".to_owned()].as_slice(), 0));
}

#[test]
fn a_call_has_the_breaker_of_its_fixed_host() {
    let call = |endpoint: &str| format!("{{ call: http, with: {{ method: get, endpoint: {endpoint} }} }}");
    for (task, name) in [
        (call("'https://bank.test/{id}'"), Some("http:bank.test")),
        (call("{ uri: 'https://shop.test:8443' }"), Some("http:shop.test:8443")),
        (call("'https://{host}/x'"), None),
        (call("'${ \"https://\" + .host }'"), None),
        ("{ call: fetch, with: { url: 'https://bank.test/x' } }".to_owned(), Some("fetch:bank.test")),
        ("{ call: mail, with: { to: ann } }".to_owned(), Some("mail")),
        ("{ run: { shell: { command: ls } } }".to_owned(), Some("shell.exec")),
    ] {
        let checked = read(&format!("  - a: {task}\n"));
        let step = steps(&checked).iter().find(|step| matches!(step.kind, Kind::Tool(_))).unwrap();
        assert_eq!(step.breaker.as_ref().map(|rule| rule.name.as_str()), name, "{task}");
    }
}

#[test]
fn a_filter_and_an_event_are_those_of_the_language() {
    let checked = read(
        "  - a: { listen: { to: { one: { with: { type: t, subject: s } } } } }\n  - b: { emit: { event: { with: { type: t } \
         } } }\n",
    );
    let steps = steps(&checked);
    let Kind::Wait(Wait::Event { matches, .. }) = &steps[1].kind else { panic!("{steps:?}") };
    assert_eq!(matches.as_deref(), Some("has(event.subject) && event.subject == \"s\""));
    let event = steps.iter().find(|step| step.id == "b-event").unwrap();
    let Kind::Jq(program) = &event.kind else { panic!("{event:?}") };
    assert!(program.starts_with("(.now) as $now | (.idempotency_key) as $_key | "), "{program}");
}

#[test]
fn a_retry_and_a_wait_have_their_times() {
    let checked = read(
        "  - a: { try: [ { b: { wait: { hours: 1 }, timeout: { after: { seconds: 9 } } } } ], catch: { retry: { delay: \
         PT1S, jitter: { from: PT2S, to: { seconds: 4 } } } } }\n",
    );
    let step = &steps(&checked)[1];
    let rule = step.retry.as_ref().unwrap();
    let added = rule.added.map(|added| [added.from.as_secs(), added.to.as_secs()]);
    assert_eq!((added, rule.jitter), (Some([2, 4]), false));
    let flow = checked.flow.as_ref().unwrap();
    let mut waits = Vec::new();
    flow.for_each_step(|step| waits.extend(step.timeout.filter(|_| matches!(step.kind, Kind::Wait(_)))));
    assert_eq!(waits, [Duration::from_secs(9)]);
}

#[test]
fn names_of_tasks_may_stand_in_several_scopes() {
    let checked = read("  - a: { do: [ { a: { set: { x: 1 } } } ] }\n  - data0: { set: { x: 2 } }\n");
    let ids: Vec<&str> = steps(&checked).iter().map(|step| step.id.as_str()).collect();
    assert_eq!(ids, ["input", "a", "data0_2", "exit_2"]);
}

#[test]
fn what_does_not_fit_is_refused_by_its_name() {
    let mut missed = Vec::new();
    for (tasks, code, place, part) in [
        ("  - a: { call: grpc, with: {} }\n", Code::F040, (3, 16), "call: grpc"),
        ("  - a: { call: asyncapi, with: {} }\n", Code::F040, (3, 16), "call: asyncapi"),
        ("  - a: { call: a2a, with: {} }\n", Code::F040, (3, 16), "call: a2a"),
        ("  - a: { call: mcp, with: {} }\n", Code::F040, (3, 16), "call: mcp"),
        ("  - a: { call: openapi, with: {} }\n", Code::F040, (3, 16), "call: openapi"),
        ("  - a: { call: log@global }\n", Code::F040, (3, 16), "catalog"),
        ("  - a: { run: { container: { image: x } } }\n", Code::F040, (3, 28), "run: container"),
        ("  - a: { run: { script: { language: js } } }\n", Code::F040, (3, 25), "run: script"),
        ("  - a: { set: { x: 1 }, output: { schema: {} } }\n", Code::F040, (3, 43), "schema"),
        ("  - a: { do: [ { b: { set: { x: 1 }, then: end } } ] }\n", Code::F040, (3, 44), "\"end\""),
        ("  - a: { listen: { to: { any: [] } } }\n", Code::F040, (3, 31), "any event"),
        (
            "  - a: { listen: { to: { one: { with: { type: t, data: \"${ .x > 1 }\" } } } } }\n",
            Code::F040,
            (3, 56),
            "filter",
        ),
        ("  - a: { set: { x: \"${ $secrets.k }\" } }\n", Code::F035, (3, 20), "$secrets"),
        ("  - a: { set: { x: \"${ .a | }\" } }\n", Code::F033, (3, 28), "expected a value"),
        ("  - a: { set: { x: \"no ${ .a }\" } }\n", Code::F033, (3, 20), "whole text"),
        (
            "  - a: { set: { x: \"${ $input.a | slect(.b) }\" } }\n",
            Code::F033,
            (3, 35),
            "no filter slect with 1 argument",
        ),
        ("  - a: { set: { x: 1 }, then: bb }\n  - b: { set: { x: 1 } }\n", Code::F020, (3, 31), "did you mean \"b\"?"),
        ("  - a: { sett: { x: 1 } }\n", Code::F011, (3, 8), "does not say what it does"),
        ("  - a: { set: { x: 1 }, wait: PT1S }\n", Code::F011, (3, 25), "one thing"),
        ("  - a: { set: { x: 1 }, tehn: end }\n", Code::F010, (3, 25), "did you mean \"then\"?"),
        ("  - a: { set: { x: 1 } }\n  - a: { set: { x: 1 } }\n", Code::F012, (4, 5), "stands twice"),
        ("  - a: { wait: 5 }\n", Code::F013, (3, 16), "wait"),
        ("  - a: { wait: 5s }\n", Code::F013, (3, 16), "PT30S"),
        ("  - a: { raise: { error: none } }\n", Code::F020, (3, 26), "\"use.errors\" has no \"none\""),
        (
            "  - a: { try: [ { b: { wait: PT1S } } ], catch: { retry: { jitter: { from: PT3S, to: PT1S } } } }\n",
            Code::F013,
            (3, 68),
            "retry.jitter.from is longer",
        ),
        (
            "  - a: { try: [ { b: { wait: PT1S } } ], catch: { retry: { jitter: true } } }\n",
            Code::F013,
            (3, 68),
            "retry.jitter",
        ),
        ("  - a: { fork: { branches: [] } }\n", Code::F050, (3, 28), "0 branches"),
    ] {
        let checked = read(tasks);
        let found = checked
            .findings
            .iter()
            .any(|it| it.code == code && (it.line, it.column) == place && it.message.contains(part));
        if !found || checked.is_valid() {
            missed.push(format!("{tasks}: {code:?} at {place:?} with {part:?}; found:\n{}", told(&checked)));
        }
    }
    assert!(missed.is_empty(), "{}", missed.concat());
    let several = read("  - a: { call: grpc, with: {} }\n  - b: { run: { script: {} } }\n  - c: { wait: PT1S }\n");
    assert_eq!(several.findings.len(), 2, "each fault once, and nothing else: {}", told(&several));
    for (document, part) in [
        ("document: { dsl: '0.8', name: a }\ndo: [ { a: { wait: PT1S } } ]\n", "versions 1.0.x"),
        ("document: { dsl: '1.0.0' }\ndo: [ { a: { wait: PT1S } } ]\n", "no \"name\""),
        ("document: { dsl: '1.0.0', name: a }\n", "no \"do\""),
        ("document: { dsl: '1.0.0', name: a }\nschedule: {}\ndo: [ { a: { wait: PT1S } } ]\n", "\"schedule\""),
        ("document: { dsl: '1.0.0', name: a }\nuse: { catalogs: {} }\ndo: [ { a: { wait: PT1S } } ]\n", "catalogs"),
        ("document: { dsl: '1.0.0', name: a }\nevaluate: { language: cel }\ndo: [ { a: { wait: PT1S } } ]\n", "jq"),
    ] {
        let checked = check(document, &Options::default());
        assert!(!checked.is_valid() && told(&checked).contains(part), "{document}: {}", told(&checked));
    }
}

/// One task is one program, which may have a limit of its own.
#[test]
fn a_task_with_too_long_a_program_is_refused() {
    let long: String = (0..300).map(|number| format!("f{number}: \"${{ .a.b.c.d }}\", ")).collect();
    let checked = read(&format!("  - a: {{ set: {{ {long} z: 1 }} }}\n"));
    assert!(!checked.is_valid() && told(&checked).starts_with("3:8: F050"), "{}", told(&checked));
}

/// Documents of the guide and of each part of the language.
#[test]
fn the_parts_of_the_language_are_understood() {
    let page = include_str!("../../../docs/guide/flows.md");
    let fences = page.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next());
    let documents: Vec<&str> = fences.filter(|text| text.contains("dsl:")).collect();
    assert_eq!(documents.len(), 1);
    for source in documents {
        let checked = check(source, &Options::default());
        assert!(checked.is_valid() && checked.findings.is_empty(), "{}", told(&checked));
    }
    for tasks in [
        "  - a: { listen: { to: { all: [ { with: { type: x, source: s } }, { with: { type: y } } ] } } }\n",
        "  - a: { emit: { event: { with: { source: s, type: t, data: { x: \"${ .x }\" } } } } }\n",
        "  - a: { run: { workflow: { namespace: n, name: refund, version: '1', input: { x: \"${ . }\" } } } }\n",
        "  - a: { run: { shell: { command: ls, arguments: [ -l ] }, return: code } }\n",
        "  - a: { fork: { compete: true, branches: [ { b: { wait: PT1S } }, { c: { set: { x: 1 } } } ] } }\n",
        "  - a: { for: { in: .xs }, while: \"$index < 3\", do: [ { b: { set: \"${ . }\" } } ] }\n",
        "  - a: { call: http, with: { method: get, endpoint: { uri: \"http://h/{id}\", authentication: { bearer: { token: \
         \"${ .t }\" } } }, query: { q: 1 }, output: response, redirect: true } }\n",
    ] {
        let checked = read(tasks);
        assert!(checked.is_valid() && checked.findings.is_empty(), "{tasks}: {}", told(&checked));
    }
}
