//! Each document of `tests/broken` has one fault (or several, if it says so). Its first lines say
//! which findings it gives, and nothing else may be found. The fix of a finding makes it valid. If
//! no fix can be known, a document beside it shows the repair.

use workflow_flows::check::{Checked, Severity};

use crate::{checked, file, files, found, told};

/// The findings that a document announces.
fn expected(source: &str, severity: &str) -> Vec<String> {
    let prefix = format!("# {severity} ");
    source.lines().filter_map(|line| line.strip_prefix(&prefix)).map(str::to_owned).collect()
}

/// Applies fixes, one finding at a time, until no finding is left.
fn repaired(source: &str, checked_first: &Checked) -> Result<(), String> {
    let mut text = source.to_owned();
    let mut now = checked_first.clone();
    for _ in 0..8 {
        let Some(finding) = now.findings.first() else {
            return if now.is_valid() { Ok(()) } else { Err("no finding, and not valid".to_owned()) };
        };
        let fix = finding.fix.as_ref().ok_or_else(|| format!("no fix for {finding}"))?;
        text = fix.apply(&text).map_err(|error| format!("{finding}: {error}"))?;
        now = checked(&text);
    }
    Err(format!("still not valid:\n{text}\n{}", told(&now)))
}

#[test]
fn each_broken_document_is_refused_at_its_place() {
    let mut wrong = Vec::new();
    for name in files("broken").iter().filter(|name| !name.contains(".fixed.")) {
        let source = file(&format!("broken/{name}"));
        let checked = checked(&source);
        let errors = expected(&source, "error");
        let warnings = expected(&source, "warning");
        let is_right = found(&checked, Severity::Error) == errors && found(&checked, Severity::Warning) == warnings;
        if !is_right || (errors.len() + warnings.len()) == 0 || checked.is_valid() != errors.is_empty() {
            wrong.push(format!("{name}: expected {errors:?} {warnings:?}, found:\n{}", told(&checked)));
        }
    }
    assert!(wrong.is_empty(), "{} documents:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn each_fix_makes_its_document_valid() {
    let all = files("broken");
    let documents: Vec<&String> = all.iter().filter(|name| !name.contains(".fixed.")).collect();
    let mut wrong = Vec::new();
    let mut by_fix = 0;
    for name in &documents {
        let repair = name.replace(".yaml", ".fixed.yaml");
        let source = file(&format!("broken/{name}"));
        if all.contains(&repair) {
            let shown = checked(&file(&format!("broken/{repair}")));
            if !shown.findings.is_empty() || !shown.is_valid() {
                wrong.push(format!("{repair}:\n{}", told(&shown)));
            }
            continue;
        }
        by_fix += 1;
        if let Err(why) = repaired(&source, &checked(&source)) {
            wrong.push(format!("{name}: {why}"));
        }
    }
    assert!(wrong.is_empty(), "{} documents:\n{}", wrong.len(), wrong.join("\n"));
    assert!(documents.len() >= 60 && by_fix >= 55, "{} documents, {by_fix} with a fix", documents.len());
}

#[test]
fn a_misspelled_filter_has_a_fix_if_the_program_compiles_with_it() {
    for (program, title) in [
        (".input.x | slect(.y)", Some("write \"select\"")),
        (".input.x | mapp(.y)", Some("write \"map\"")),
        // `map` needs an argument.
        (".input.x | mapp", None),
        // `group_by` is more than one slip away.
        (".input.x | group(.y)", None),
    ] {
        let checked = checked(&format!("flow: 1\nname: a\ndo: [ {{ id: a, jq: \"{program}\" }} ]\n"));
        let fix = checked.findings[0].fix.as_ref();
        assert_eq!(fix.map(|fix| fix.title.as_str()), title, "{program}");
    }
}

#[test]
fn every_code_has_a_broken_document() {
    let all: String = files("broken").iter().map(|name| file(&format!("broken/{name}"))).collect();
    for code in [
        "F001", "F010", "F011", "F012", "F013", "F020", "F021", "F022", "F023", "F024", "F025", "F026", "F027", "F030",
        "F031", "F032", "F033", "F034", "F035", "F040", "F041", "F050", "F060", "F070", "F071", "F072",
    ] {
        assert!(all.contains(&format!("error {code} at")) || all.contains(&format!("warning {code} at")), "{code}");
    }
}

#[test]
fn the_messages_say_what_is_meant() {
    for (name, message) in [
        ("key_step", "step \"charge\" has no key \"retires\"; did you mean \"retry\"?"),
        ("key_arguments", "step \"a\" has no key \"arguments\"; did you mean \"args\"?"),
        ("kind_two", "step \"x\" has the kinds \"tool\" and \"wait\"; a step has one"),
        ("id_twice", "id \"pay\" stands already in line 5"),
        ("type_attempts", "retry.attempts is 0; it counts the first try, so 1 or more"),
        ("limit_numbers", "limit.max is 5; the limit \"llm\" has 10 in line 5"),
        ("limit_name", "limit name \"\" is empty; use 1 to 255 bytes without control characters"),
        ("name_empty", "tool is empty"),
        ("time_zero", "timeout is 0; it has to be longer"),
        (
            "type_retry_on",
            "retry.on is \"invalid\"; it is one of: rate_limited, unavailable, timeout, connection, failed",
        ),
        ("retry_delays", "retry.attempts is 3, and retry has 5 delays"),
        ("loop_variable", "loop.concurrency is 5, and the items of \"each\" share vars.sum, which they set"),
        ("target_next", "step \"check\" goes to \"refnd\", which does not exist; did you mean \"refund\"?"),
        ("needs_cycle", "the steps need each other: a -> c -> b -> a"),
        ("unreachable", "nothing leads to step \"old\""),
        ("joins_differ", "the branches of \"fan\" join at \"m1\" (a) and at \"m2\" (b); one join is needed"),
        ("done_in_branch", "step \"b\" ends the flow inside of \"fan\"; write join: \"merge\""),
        ("back_in_branch", "step \"a\" goes back to \"fan\" from a branch of \"fan\""),
        ("back_in_inner_branch", "step \"b\" goes back to \"outer\" from a branch of \"outer\""),
        ("emit_answer", "emit.event is \"decision:gate\", which answers a step of another run"),
        ("join_outside", "step \"a\" joins at \"b\" outside of a parallel"),
        ("cycle", "\"poll\" -> \"check\" -> \"poll\" has no max_visits"),
        ("reference_step", "{{steps.fetcg.body}}: no step \"fetcg\"; did you mean \"fetch\"?"),
        ("undo_result", "{{result.hodl}}: the output of the step has no \"hodl\"; did you mean \"hold\"?"),
        ("order_later", "step \"b\" reads steps.c, which runs after it"),
        ("input_field", "{{input.oder.id}}: the input has no \"oder\"; it has: order, urls"),
        ("cel_end", "in when: expected a value after \"&&\" (column 25 of the expression)"),
        ("jq_filter", "in jq: there is no filter slect with 1 argument (column 15 of the expression)"),
        ("condition_number", "when is a number; compare it"),
        ("secret", "set.x: secrets may stand in args of a tool only; here they would be recorded"),
        ("tool_name", "no tool \"http.pots\" in this worker; did you mean \"http.post\"?"),
        ("args_property", "args of \"fetch\": \"metod\" is not a property; did you mean \"method\"?"),
        ("server_away", "tool \"away/search\": it did not answer"),
        ("server_gone", "the server \"moved\" has no tool \"moved/serch\" now; did you mean \"moved/search\"?"),
        (
            "server_changed",
            "args of \"changed/search\", because its server has changed it: \"qery\" is not a property; \
             did you mean \"query\"?",
        ),
        ("policy_tool", "\"ann\" may not call \"shell\""),
        ("args_missing", "args of \"fetch\": \"url\" is missing"),
        ("args_flow", "args of \"ship\": \"fast\" is not a property"),
        ("channel_name", "no tool \"lgo\" in this worker; did you mean \"log\"?"),
        (
            "channel_message",
            "\"fetch\" does not take a message: \"data\" is not a property, \"text\" is not a property, \
             \"title\" is not a property, \"to\" is not a property, \"url\" is missing",
        ),
        ("channel_template", "approval.notify has \"{{input.channel}}\"; it names tools, without templates"),
        ("trigger_input", "input of the trigger: /topic: 5 is not of type \"string\""),
        ("trigger_root", "{{input.id}}: \"input\" is not there in webhook.key, which reads body"),
    ] {
        let checked = checked(&file(&format!("broken/{name}.yaml")));
        assert_eq!(checked.findings[0].message, message, "{name}");
    }
}
