//! `workflow flow test`: the cases that stand beside flows.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use workflow_flows::check::{check, check_input};
use workflow_flows::graph::Flow;
use workflow_flows::{ErrorClass, FlowCode, FlowError, parse_duration};

use crate::arguments::TestFlows;
use crate::clock::exact;
use crate::difference::difference;
use crate::dry_run::{Call, DryRun, Ended, Fault, Stubs};
use crate::flows::{DryRunReport, name_of, options, read, read_values, tell};
use crate::kit::block_on;
use crate::output::{Output, Rows};
use crate::{Exit, Failure};

/// The endings of a document of cases, after the name of its flow.
const ENDINGS: [&str; 3] = [".test.yaml", ".test.yml", ".test.json"];

/// A document of cases.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Cases {
    /// The flow, beside this document. Default: the flow of the document's own name.
    document: Option<PathBuf>,
    cases: Vec<Case>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    #[serde(default)]
    input: Value,
    #[serde(default)]
    actor: String,
    #[serde(default)]
    stubs: Stubs,
    expect: Expected,
}

/// The expected end of a run. Only the keys that are given are compared.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Expected {
    #[serde(default, deserialize_with = "given")]
    output: Option<Value>,
    error: Option<ExpectedError>,
    calls: Option<Vec<ExpectedCall>>,
    took: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpectedError {
    code: Option<FlowCode>,
    class: Option<ErrorClass>,
    step: Option<String>,
    /// A part of the message.
    message: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpectedCall {
    tool: String,
    step: Option<String>,
    #[serde(default, deserialize_with = "given")]
    args: Option<Value>,
}

/// Reads a value that may be null, which is not the same as none.
fn given<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// The outcome of one case.
#[derive(Serialize)]
struct Tested {
    file: String,
    case: String,
    passed: bool,
    /// The differences to what was expected.
    differences: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<DryRunReport>,
}

pub(crate) fn run(arguments: &TestFlows, output: &Output) -> Result<Exit, Failure> {
    let mut tested = Vec::new();
    let mut is_broken = false;
    for file in &arguments.files {
        let file = cases_file(file)?;
        let cases = read_cases(&file)?;
        let Some(flow) = read_flow(&file, &cases, output)? else {
            is_broken = true;
            continue;
        };
        let only = arguments.only.as_deref().unwrap_or_default();
        for case in cases.cases.into_iter().filter(|case| case.name.contains(only)) {
            tested.push(test(&file, &flow, case)?);
        }
    }
    if tested.is_empty() && !is_broken {
        let named = arguments.only.as_deref().map_or_else(String::new, |only| format!(" whose name contains {only:?}"));
        return Err(Failure::usage(format!("there is no case{named}"), "a test without a case shows nothing"));
    }
    let failed = tested.iter().filter(|case| !case.passed).count();
    if output.is_for_people() {
        print(&tested, output)?;
    } else {
        output.list(&tested, &tested, |case| case.case.clone(), |_| Rows::new(&[]))?;
    }
    Ok(if failed == 0 && !is_broken { Exit::Ok } else { Exit::Error })
}

/// Returns the document of cases: this file, or the one beside this flow.
fn cases_file(file: &Path) -> Result<PathBuf, Failure> {
    let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    if ENDINGS.iter().any(|ending| name.ends_with(ending)) {
        return Ok(file.to_owned());
    }
    let beside = ENDINGS.map(|ending| file.with_file_name(format!("{}{ending}", name_of(file))));
    let found = beside.iter().find(|path| path.exists()).cloned();
    found.ok_or_else(|| {
        let message = format!("{} has no cases beside it", file.display());
        Failure::usage(message, format!("write them into {}", beside[0].display()))
    })
}

fn read_cases(file: &Path) -> Result<Cases, Failure> {
    let refuse = |error: String| {
        let help = "as cases: [ { name: .., input: .., stubs: { tools: .. }, expect: { output: .. } } ]";
        Failure::usage(format!("{}: {error}", file.display()), help)
    };
    let mut values = read_values(file)?;
    // Each case is read by itself, so that a message can name it.
    let list = values.get_mut("cases").map(Value::take);
    let Some(Value::Array(list)) = list else { return Err(refuse("it has no list \"cases\"".to_owned())) };
    values["cases"] = Value::Array(Vec::new());
    let mut cases: Cases = serde_json::from_value(values).map_err(|error| refuse(error.to_string()))?;
    for (value, number) in list.into_iter().zip(1..) {
        let name = value["name"].as_str().unwrap_or_default().to_owned();
        let case: Case =
            serde_json::from_value(value).map_err(|error| refuse(format!("case {number} {name:?}: {error}")))?;
        if let Some(Err(error)) = case.expect.took.as_deref().map(parse_duration) {
            return Err(refuse(format!("case {number} {name:?}: took: {error}")));
        }
        if cases.cases.iter().any(|other| other.name == case.name) {
            return Err(refuse(format!("case {number}: the name {name:?} stands twice")));
        }
        cases.cases.push(case);
    }
    Ok(cases)
}

/// Reads and checks the flow of the cases. Tells its findings if it is not valid.
fn read_flow(file: &Path, cases: &Cases, output: &Output) -> Result<Option<Flow>, Failure> {
    let document = match &cases.document {
        Some(document) => file.with_file_name(document),
        None => {
            let beside = ["yaml", "yml", "json"].map(|it| file.with_file_name(format!("{}.{it}", name_of(file))));
            let found = beside.iter().find(|path| path.exists()).cloned();
            found.ok_or_else(|| {
                let message = format!("{} has no flow beside it", file.display());
                Failure::usage(message, "name it as document: order.yaml")
            })?
        }
    };
    let name = name_of(&document);
    let checked = check(&read(&document)?, &options(None, &name));
    if !checked.is_valid() {
        tell(&document.display().to_string(), &checked, output)?;
    }
    Ok(checked.flow)
}

fn test(file: &Path, flow: &Flow, case: Case) -> Result<Tested, Failure> {
    let Case { name, input, actor, stubs, expect } = case;
    let refused = check_input(flow, &input);
    let (differences, run) = if refused.is_empty() {
        let run = DryRun { flow: flow.clone(), input, actor, stubs, is_strict: true };
        let ended = block_on(async { Ok(run.run().await?) })?;
        (compare(&expect, &ended), Some(DryRunReport::new(&flow.name, &ended)))
    } else {
        (refused.into_iter().map(|finding| format!("{:?}: {}", finding.code, finding.message)).collect(), None)
    };
    let file = file.display().to_string();
    Ok(Tested { file, case: name, passed: differences.is_empty(), differences, run })
}

/// Returns the differences between the expected and the actual end of a run.
fn compare(expect: &Expected, ended: &Ended) -> Vec<String> {
    let mut found = Vec::new();
    match (&ended.outcome, &expect.error) {
        (Ok(output), Some(_)) => found.push(format!("expected an error, found the output {output}")),
        (Err(Fault::Failed(error)), Some(expected)) => found.extend(compare_error(expected, error)),
        (Err(other), Some(_)) => found.push(format!("expected an error of a step, found: {other}")),
        (Err(fault), None) => found.push(format!("no output: {fault}")),
        (Ok(_), None) => {}
    }
    if let (Ok(output), Some(expected)) = (&ended.outcome, &expect.output) {
        found.extend(difference(expected, output).into_iter().map(|it| format!("output{it}")));
    }
    if let Some(expected) = &expect.calls {
        found.extend(compare_calls(expected, &ended.calls));
    }
    let took = expect.took.as_deref().map(parse_duration).and_then(Result::ok);
    if let Some(took) = took.filter(|took| *took != rounded(ended.took)) {
        found.push(format!("took: expected {}, found {}", exact(took), exact(ended.took)));
    }
    found
}

fn rounded(duration: Duration) -> Duration {
    Duration::from_millis(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}

fn compare_error(expected: &ExpectedError, found: &FlowError) -> Vec<String> {
    let ExpectedError { code, class, step, message } = expected;
    let mut differences = Vec::new();
    let mut differs = |part: &str, expected: String, is_equal: bool| {
        if !is_equal {
            differences.push(format!("error.{part}: expected {expected}, found: {found} ({:?})", found.class));
        }
    };
    if let Some(code) = code {
        differs("code", code.as_str().to_owned(), *code == found.code);
    }
    if let Some(class) = class {
        differs("class", format!("{class:?}"), *class == found.class);
    }
    if let Some(step) = step {
        differs("step", format!("{step:?}"), *step == found.step);
    }
    if let Some(message) = message {
        differs("message", format!("{message:?} in it"), found.message.contains(message.as_str()));
    }
    differences
}

fn compare_calls(expected: &[ExpectedCall], found: &[Call]) -> Vec<String> {
    let mut differences = Vec::new();
    for (number, (expected, call)) in expected.iter().zip(found).enumerate() {
        let is_step = expected.step.as_ref().is_none_or(|step| *step == call.step);
        if expected.tool != call.tool || !is_step {
            let step = expected.step.as_deref().map(|step| format!(" in {step:?}")).unwrap_or_default();
            let found = format!("{:?} in {:?}", call.tool, call.step);
            differences.push(format!("calls[{number}]: expected {:?}{step}, found {found}", expected.tool));
        } else if let Some(args) = &expected.args {
            let found = difference(args, &call.args);
            differences.extend(found.into_iter().map(|it| format!("calls[{number}] {:?} args{it}", call.tool)));
        }
    }
    for (number, missing) in expected.iter().enumerate().skip(found.len()) {
        differences.push(format!("calls[{number}]: expected {:?}, found no further call", missing.tool));
    }
    for (number, call) in found.iter().enumerate().skip(expected.len()) {
        differences.push(format!("calls[{number}]: not expected: {:?} in {:?}", call.tool, call.step));
    }
    differences
}

fn print(tested: &[Tested], output: &Output) -> Result<(), Failure> {
    let mut file = "";
    for case in tested {
        if case.file != file {
            output.line(&case.file)?;
            file = &case.file;
        }
        output.line(format!("  {}  {}", if case.passed { "ok  " } else { "FAIL" }, case.case))?;
        for difference in &case.differences {
            output.line(format!("        {difference}"))?;
        }
    }
    let failed = tested.iter().filter(|case| !case.passed).count();
    output.line(format!("{} cases, {failed} failed", tested.len()))
}
