//! Documents of other engines are understood as they stand.

use serde_json::json;
use workflow_flows::check::{Checked, Code, Dialect, Options, Severity, check};
use workflow_flows::graph::{AtMax, Backoff, Block, Flow, Kind, MissingPath, Next, OnError, Step, Until};

use crate::{file, files, told};

#[track_caller]
fn read(source: &str, dialect: Dialect) -> Flow {
    let checked = check(source, &Options { name: Some("sample"), ..Options::default() });
    assert_eq!(checked.dialect, dialect);
    assert!(checked.is_valid(), "{}", told(&checked));
    checked.flow.unwrap()
}

fn steps(block: &Block) -> &[Step] {
    match block {
        Block::Do(steps) | Block::Dag { steps, .. } | Block::Graph { steps, .. } => steps,
    }
}

#[track_caller]
fn step<'f>(flow: &'f Flow, id: &str) -> &'f Step {
    steps(&flow.body).iter().find(|step| step.id == id).unwrap()
}

#[test]
fn the_flows_of_the_two_tables_are_understood() {
    let research = read(&file("two_table/research.json"), Dialect::TwoTable);
    assert_eq!(research.missing_path, MissingPath::Empty);
    let Block::Graph { start, steps } = &research.body else { panic!("{:?}", research.body) };
    assert_eq!((start.as_str(), steps.len()), ("start", 3));
    assert_eq!(steps[0].aliases, ["search"]);
    assert_eq!(steps[0].next, Some(Next::Goto("summarize".to_owned())));
    let Kind::Tool(tool) = &steps[0].kind else { panic!("{:?}", steps[0].kind) };
    assert_eq!(tool.args, json!({ "query": "{{input.topic}}" }));
    let retry = steps[0].retry.as_ref().unwrap();
    assert_eq!(retry.attempts, 3);
    assert!(matches!(&retry.backoff, Backoff::Delays(waits) if waits.iter().map(|it| it.as_secs()).eq([30, 120])));
    assert_eq!(steps[0].timeout.unwrap().as_secs(), 120);

    let branching = read(&file("two_table/branching.json"), Dialect::TwoTable);
    let Some(Next::Branch { cases, otherwise: None }) = &step(&branching, "start").next else { panic!() };
    assert_eq!(cases[0], ("result == true || result == 'true'".to_owned(), "admin_action".to_owned()));

    let gate = read(&file("two_table/gate.json"), Dialect::TwoTable);
    let Kind::Approval(approval) = &step(&gate, "start").kind else { panic!() };
    assert_eq!(approval.to, ["{{run.actor}}"]);
}

#[test]
fn the_two_tables_know_six_conditions_and_one_template() {
    let source = r#"{ "start": { "tool": "t", "args": { "a": "{{input.a b}}", "b": "x {{input.c}}", "d": "{{{{" },
        "branch": [ { "if": "result == nil", "then": "a" }, { "if": "result != nil", "then": "a" },
                    { "if": "result == it's", "then": "a" }, { "if": "result != no", "then": "start" },
                    { "if": "result > 5", "then": "a" } ] },
        "a": { "tool": null, "args": {}, "parallel": ["b", "c"] },
        "b": { "tool": "t", "args": {}, "join": "d" }, "c": { "tool": "t", "args": {}, "join": "d" },
        "d": { "tool": "t", "args": {} } }"#;
    let checked = check(source, &Options::default());
    assert_eq!(checked.findings.len(), 1, "{}", told(&checked));
    assert_eq!((checked.findings[0].code, checked.findings[0].severity), (Code::F033, Severity::Warning));
    let flow = checked.flow.unwrap();
    let Some(Next::Branch { cases, .. }) = &step(&flow, "start").next else { panic!() };
    let conditions: Vec<&str> = cases.iter().map(|(condition, _)| condition.as_str()).collect();
    assert_eq!(conditions[2..], ["result == 'it\\'s'", "result != 'no'", "false"]);
    let Kind::Tool(tool) = &step(&flow, "start").kind else { panic!() };
    assert_eq!(tool.args, json!({ "a": "{{input['a b']}}", "b": "x {{{{input.c}}", "d": "{{{{{{{{" }));
    assert_eq!(step(&flow, "a").kind, Kind::Nothing);
    assert!(matches!(&step(&flow, "a").next, Some(Next::Parallel { join: Some(join), .. }) if join == "d"));
}

#[test]
fn a_join_of_the_two_tables_goes_on_where_nothing_is_pending() {
    let source = |start: &str| {
        format!(
            r#"{{ "start": {start}, "fan": {{ "tool": null, "parallel": ["b", "c"] }}, "b": {{ "tool": "t", "join": "d" }},
            "c": {{ "tool": "t", "join": "d" }}, "d": {{ "tool": "t", "done": true }} }}"#
        )
    };
    let goto = |id: &str| Some(Next::Goto(id.to_owned()));
    let flow = read(&source(r#"{ "tool": "t", "join": "fan" }"#), Dialect::TwoTable);
    assert_eq!((&step(&flow, "start").next, &step(&flow, "b").next), (&goto("fan"), &Some(Next::Join)));
    // One way to "b" has a branch that joins beside it, and the other has none.
    let both = r#"{ "tool": "t", "branch": [ { "if": "result == true", "then": "fan" }, { "if": "result == false", "then": "b" } ] }"#;
    let checked = check(&source(both), &Options::default());
    let told: Vec<_> = checked.findings.iter().map(|it| (it.code, it.path.as_str())).collect();
    assert_eq!(told, [(Code::F027, "/b/join")], "{}", crate::told(&checked));
}

#[test]
fn the_examples_of_the_dag_engine_are_understood() {
    let mut wrong = Vec::new();
    let names: Vec<String> = files("opcode").into_iter().filter(|name| name.ends_with(".json")).collect();
    for name in &names {
        let checked: Checked = check(&file(&format!("opcode/{name}")), &Options::default());
        if checked.dialect != Dialect::Opcode || !checked.is_valid() {
            wrong.push(format!("{name}:\n{}", told(&checked)));
        }
    }
    assert!(wrong.is_empty() && names.len() == 45, "{} of {}:\n{}", wrong.len(), names.len(), wrong.join("\n"));
}

#[test]
fn each_construct_of_the_dag_engine_has_its_place_in_the_graph() {
    let source = r#"{ "timeout": "5m", "on_timeout": "suspend", "inputs": {}, "metadata": {}, "steps": [
        { "id": "primary", "action": "http.get", "params": { "url": "${{inputs.url}}/x" },
          "retry": { "max": 2, "backoff": "linear", "delay": "500ms" },
          "on_error": { "strategy": "fallback_step", "fallback_step": "backup" } },
        { "id": "backup", "action": "http.get", "params": { "url": "${{inputs.backup}}" } },
        { "id": "check", "type": "condition", "depends_on": ["primary", "backup"], "config": {
            "expression": "steps['primary'].status_code == 200",
            "branches": { "true": [ { "id": "log", "action": "workflow.log", "params": { "message": "a {{b}} ${{steps.primary.output.body}}" } } ],
                          "false": [ { "id": "log", "action": "workflow.fail", "params": { "reason": "no" } } ] } } },
        { "id": "each", "type": "loop", "depends_on": ["check"], "config": { "mode": "for_each", "over": "inputs.xs", "max_iter": 5,
            "body": [ { "id": "hash", "action": "crypto.hash", "params": { "data": "${{loop.item.name}}" }, "condition": "iter.index < 3" } ] } },
        { "id": "both", "type": "parallel", "config": { "mode": "race", "branches": [
            [ { "id": "l", "type": "wait", "config": { "duration": "5s" } } ],
            [ { "id": "r", "type": "wait", "config": { "signal": "go" } } ] ] } },
        { "id": "gate", "type": "reasoning", "depends_on": ["each"], "config": { "prompt_context": "Go?", "timeout": "1h", "fallback": "no",
            "data_inject": { "a": "steps.primary.output.body", "b": "plain" }, "target_agent": "",
            "options": [ { "id": "yes", "description": "Go" }, { "id": "no" } ] } },
        { "id": "sub", "action": "workflow.run", "params": { "template_name": "t", "params": { "x": "${{workflow.run_id}}" } },
          "condition": "steps['check'].output == null && steps['check.true.log'].logged", "depends_on": ["check"], "on_error": { "strategy": "ignore" } }
      ], "on_error": { "id": "cleanup", "action": "workflow.log", "params": { "message": "${{steps.primary.output.body}}" } } }"#;
    let flow = read(source, Dialect::Opcode);
    assert_eq!(flow.name, "sample");
    let ids: Vec<&str> = steps(&flow.body).iter().map(|step| step.id.as_str()).collect();
    assert_eq!(ids, ["primary", "check", "each", "both", "gate", "sub"], "a fallback runs in its place only");
    let primary = step(&flow, "primary");
    assert_eq!(primary.retry.as_ref().unwrap().attempts, 3);
    assert!(matches!(&primary.on_error, OnError::Do(block) if steps(block)[0].id == "backup"));
    assert_eq!(step(&flow, "check").needs, ["primary", "primary"]);
    let Kind::Switch(switch) = &step(&flow, "check").kind else { panic!() };
    assert_eq!(switch.value, json!("{{steps['primary'].status_code == 200}}"));
    let nested: Vec<&Step> = switch.cases.values().flat_map(steps).collect();
    assert_eq!(
        nested.iter().map(|it| it.aliases[0].as_str()).collect::<Vec<_>>(),
        ["check.false.log", "check.true.log"]
    );
    assert_ne!(nested[0].id, nested[1].id);
    let Kind::Tool(log) = &nested[1].kind else { panic!() };
    assert_eq!(log.args, json!({ "message": "a {{{{b}} {{steps.primary.body}}" }));
    let Kind::Loop(each) = &step(&flow, "each").kind else { panic!() };
    assert_eq!((each.max, each.at_max), (5, AtMax::Stop));
    assert_eq!(each.until, Until::For(json!("{{input.xs}}")));
    assert_eq!(steps(&each.body)[0].when.as_deref(), Some("index < 3"));
    assert_eq!(steps(&each.body)[0].aliases, ["each.iter_{index}.hash"]);
    let Kind::Decision(gate) = &step(&flow, "gate").kind else { panic!() };
    assert_eq!(gate.show["a"], json!("{{steps.primary.body ?? 'steps.primary.output.body'}}"));
    assert_eq!((gate.to.as_deref(), gate.fallback.as_deref(), gate.options.len()), (None, Some("no"), 2));
    let Kind::Flow(sub) = &step(&flow, "sub").kind else { panic!() };
    assert_eq!(sub.args, json!({ "x": "{{run.id}}" }));
    assert_eq!(
        step(&flow, "sub").when.as_deref(),
        Some("steps['check'].output == null && steps['check.true.log'].logged")
    );
    assert!(flow.on_error.is_some());
}

#[test]
fn the_actions_of_the_run_become_steps_of_the_flow() {
    let source = r#"{ "steps": [
        { "id": "emit", "action": "workflow.emit", "params": { "event_type": "paid", "payload": { "n": "${{inputs.n}}" } } },
        { "id": "old", "action": "workflow.emit", "params": { "event": "paid", "data": 1 } },
        { "id": "note", "action": "workflow.context", "params": { "action": "update", "workflow_id": "${{workflow.run_id}}",
          "data": { "seen": "${{inputs.n}}" }, "agent_notes": "n" } },
        { "id": "look", "action": "workflow.context", "params": { "action": "read", "workflow_id": "${{workflow.run_id}}" } },
        { "id": "count", "action": "expr.eval", "params": { "expression": "len(filter(data, {.ok})) + inputs.n",
          "data": "${{steps.a-b.output.items}}" }, "depends_on": ["a-b"] },
        { "id": "a-b", "action": "http.get", "params": { "url": "http://a.test", "query": { "x": 1 } } },
        { "id": "log", "action": "workflow.log", "params": { "message": "m", "path": "p" } },
        { "id": "tell", "action": "workflow.notify", "params": { "message": "m" } },
        { "id": "poll", "type": "loop", "config": { "mode": "until", "condition": "steps.ask.uuid != ''", "max_iter": 9,
          "body": [ { "id": "ask", "action": "crypto.uuid" } ] } },
        { "id": "again", "action": "crypto.uuid", "retry": { "max": 1, "delay": "3s" } }
      ] }"#;
    let checked = check(source, &Options::default());
    let warned: Vec<&str> = checked.findings.iter().map(|finding| finding.message.as_str()).collect();
    assert_eq!(warned, ["http.get has no parameter \"query\", so it has no effect"], "{}", told(&checked));
    let flow = checked.flow.unwrap();
    let Kind::Emit(emission) = &step(&flow, "emit").kind else { panic!() };
    assert_eq!((emission.event.as_str(), emission.key.as_deref()), ("paid", Some("{{run.id}}")));
    assert_eq!(emission.data, json!({ "n": "{{input.n}}" }));
    assert_eq!(step(&flow, "emit").output, Some(json!({ "emitted": true })));
    assert!(matches!(&step(&flow, "old").kind, Kind::Emit(emission) if emission.data == json!(1)));
    let Kind::Set(values) = &step(&flow, "note").kind else { panic!() };
    assert_eq!((&values["seen"], &values["agent_notes"]), (&json!("{{input.n}}"), &json!("n")));
    assert_eq!(step(&flow, "look").output.as_ref().unwrap()["accumulated_data"], json!("{{vars}}"));
    let evaluated = "{{ cel.bind(data, steps['a-b'].items, _expr.eval((size(data.filter(_v1, _v1.ok)) + input.n))) }}";
    assert_eq!(step(&flow, "count").output, Some(json!({ "result": evaluated })));
    let Kind::Tool(get) = &step(&flow, "a-b").kind else { panic!() };
    assert_eq!((&get.args, get.texts), (&json!({ "url": "http://a.test" }), true));
    let Kind::Tool(log) = &step(&flow, "log").kind else { panic!() };
    assert_eq!(log.args, json!({ "message": "m", "data": { "path": "p" } }));
    let Kind::Loop(poll) = &step(&flow, "poll").kind else { panic!() };
    assert!(poll.collects && poll.at_max == AtMax::Stop);
    let Some(Backoff::Constant { delay }) = step(&flow, "again").retry.as_ref().map(|retry| &retry.backoff) else {
        panic!()
    };
    assert_eq!(delay.as_secs(), 3);
}

#[test]
fn fallbacks_of_inner_steps_and_of_fallbacks_run_in_their_places() {
    let call = |id: &str, to: &str| {
        let handler = json!({ "strategy": "fallback_step", "fallback_step": to });
        let mut step = json!({ "id": id, "action": "http.get", "params": { "url": "http://a.test" } });
        if !to.is_empty() {
            step["on_error"] = handler;
        }
        step
    };
    let both = json!({ "id": "both", "type": "parallel", "config": { "branches": [[call("inner", "second")]] } });
    let steps_of = |last: &str| json!({ "steps": [both, call("second", "third"), call("third", last)] }).to_string();
    let flow = read(&steps_of(""), Dialect::Opcode);
    assert_eq!(steps(&flow.body).iter().map(|step| step.id.as_str()).collect::<Vec<_>>(), ["both"]);
    let Kind::Parallel(parallel) = &step(&flow, "both").kind else { panic!() };
    let OnError::Do(second) = &steps(&parallel.branches[0].1)[0].on_error else { panic!() };
    let OnError::Do(third) = &steps(second)[0].on_error else { panic!() };
    assert_eq!((steps(second)[0].id.as_str(), steps(third)[0].id.as_str()), ("second", "third"));

    let circle = check(&steps_of("second"), &Options::default());
    assert_eq!(circle.findings[0].code, Code::F021, "{}", told(&circle));
    // Each fallback has two inner steps with the next one as their fallback.
    let level = |number: u32| {
        let inner = |letter: &str| call(&format!("{letter}{number}"), &format!("s{}", number + 1));
        json!({ "id": format!("s{number}"), "type": "parallel", "config": { "branches": [[inner("a")], [inner("b")]] } })
    };
    let mut levels: Vec<_> = (0..30).map(level).collect();
    levels.push(call("s30", ""));
    let wide = check(&json!({ "steps": levels }).to_string(), &Options::default());
    assert!(wide.findings.iter().any(|finding| finding.code == Code::F050), "{}", told(&wide));
}

#[test]
fn an_action_that_nothing_has_is_refused() {
    let source = |action: &str, expression: &str| {
        let params = json!({ "expression": expression });
        json!({ "steps": [{ "id": "a", "action": action, "params": params }] }).to_string()
    };
    for (action, expression, code, message) in [
        ("http.gett", "", Code::F040, "no action \"http.gett\" in the format; did you mean \"http.get\"?"),
        ("workflow.sleep", "", Code::F040, "no action \"workflow.sleep\" in the format"),
        (
            "expr.eval",
            "groupBy(inputs.xs, .a)",
            Code::F040,
            "in expression: the function \"groupBy\" of Expr has no counterpart here",
        ),
        ("workflow.run", "", Code::F013, "params of workflow.run has no \"template_name\""),
        ("expr.eval", "1 +", Code::F033, "in expression: expected a value, found the end"),
    ] {
        let checked = check(&source(action, expression), &Options::default());
        let finding = &checked.findings[0];
        assert_eq!((finding.code, finding.message.as_str()), (code, message), "{}", told(&checked));
    }
    assert!(check(&source("github.create_issue", ""), &Options::default()).is_valid(), "a plugin may have it");
    let checked = check(&source("expr.eval", "len(steps.b.items)"), &Options::default());
    assert_eq!((checked.findings[0].code, checked.findings[0].fix.is_none()), (Code::F030, true), "{}", told(&checked));
    let placed = check(
        "{ \"steps\": [\n { \"id\": \"a\", \"action\": \"expr.eval\", \"params\": { \"expression\": \"1 + now()\" } } ] }",
        &Options::default(),
    );
    assert_eq!((placed.findings[0].line, placed.findings[0].column), (2, 69), "{}", told(&placed));
}

/// A check must cost little, whatever the document is: a program is not translated, and a fallback
/// is not lowered once per step that names it, beyond the limits.
#[test]
fn long_programs_and_many_fallbacks_are_refused_before_they_cost() {
    let long = json!({ "expression": vec!["1"; 3_000].join("+") });
    let long = json!({ "steps": [{ "id": "a", "action": "expr.eval", "params": long }] }).to_string();
    let checked = check(&long, &Options::default());
    let finding = &checked.findings[0];
    assert_eq!(
        (finding.code, finding.message.as_str()),
        (Code::F050, "the expression has 5999 bytes; 4096 is the limit"),
        "{}",
        told(&checked)
    );
    let steps = (0..100).map(|number| {
        let on_error = json!({ "strategy": "fallback_step", "fallback_step": "f" });
        json!({ "id": format!("s{number}"), "action": "workflow.log", "params": { "message": "x" }, "on_error": on_error })
    });
    let large = json!({ "id": "f", "action": "workflow.log", "params": { "message": "y".repeat(4_000) } });
    let source = json!({ "steps": steps.chain([large]).collect::<Vec<_>>() }).to_string();
    let checked = check(&source, &Options::default());
    let of_limit = checked.findings.iter().filter(|it| it.code == Code::F050);
    let message = "the fallbacks of all steps together have more than 262144 bytes, the limit";
    assert_eq!(of_limit.map(|it| it.message.as_str()).collect::<Vec<_>>(), [message], "{}", told(&checked));
}

#[test]
fn faults_of_other_dialects_are_told_at_their_places() {
    let source = "{ \"steps\": [\n  { \"id\": \"a\", \"action\": \"x\", \"depends_on\": [\"b\"] },\n  { \"id\": \"c\", \"actoin\": \"x\" } ] }";
    let checked = check(source, &Options::default());
    let told: Vec<String> =
        checked.findings.iter().map(|it| format!("{} {}:{} {}", it.code, it.line, it.column, it.path)).collect();
    assert_eq!(told, ["F020 2:46 /steps/0/depends_on/0", "F010 3:16 /steps/1/actoin"]);
}
