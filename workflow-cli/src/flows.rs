//! `workflow flow`: documents of flows. `versions` has the verbs that need a database or a server:
//! those about deployed flows, and checks that ask tools.

use std::fs;
use std::io::{self, Read};
use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use workflow_flows::check::{Checked, Dialect, Finding, Options, Severity, check, check_input, format};
use workflow_flows::document::{Bounds, Lines, parse};
use workflow_flows::graph::Flow;
use workflow_flows::{FlowDocument, FlowStart, SCHEMA, levels, mermaid};

use crate::arguments::{
    CheckFlows, DrawFlow, FlowDialect, FlowFiles, FlowVerb, FormatFlows, RunFlow, RunsVerb, StartOptions, StartRun,
    Verb,
};
use crate::dry_run::{DryRun, Ended, Row, Stubs, lines, rows};
use crate::kit::block_on;
use crate::output::Output;
use crate::verbs::{order, payload};
use crate::{Exit, Failure, flow_test};

/// The answer of `flow check` for one document.
#[derive(Serialize)]
struct Report<'r> {
    file: String,
    #[serde(flatten)]
    checked: &'r Checked,
}

/// The end of a verb, or the verb by which it goes on.
pub(crate) enum Done {
    Ended(Exit),
    Goes(Verb),
}

/// Runs a verb that needs no database, or turns it into the one that does.
pub(crate) fn run(verb: FlowVerb, output: &Output) -> Result<Done, Failure> {
    let exit = match verb {
        FlowVerb::Run(arguments) if !is_deployed(&arguments.file) => return start(*arguments, output),
        FlowVerb::Run(_) | FlowVerb::Deploy(_) | FlowVerb::List(_) => return Ok(Done::Goes(Verb::Flow(verb))),
        FlowVerb::Check(ref arguments) if arguments.connection.connect => return Ok(Done::Goes(Verb::Flow(verb))),
        FlowVerb::Test(arguments) => flow_test::run(&arguments, output)?,
        FlowVerb::Check(arguments) => tell_all(&arguments, &check_all(&checked_documents(&arguments)?), output)?,
        FlowVerb::Fmt(arguments) => format_files(&arguments, output)?,
        FlowVerb::Diagram(arguments) => draw(&arguments, output)?,
        FlowVerb::Schema => {
            output.line(SCHEMA.trim_end())?;
            Exit::Ok
        }
    };
    Ok(Done::Ended(exit))
}

/// A document of a flow, and the name of its file.
pub(crate) type Named = (String, FlowDocument);

/// Reads the documents of a check, each with the input of a run if one is given.
pub(crate) fn checked_documents(arguments: &CheckFlows) -> Result<Vec<Named>, Failure> {
    let input: Option<Value> = match &arguments.input {
        None => None,
        Some(text) => Some(serde_json::from_str(text).map_err(|error| {
            Failure::usage(format!("--input is no JSON: {error}"), "as --input '{\"order\": {\"id\": \"o-1\"}}'")
        })?),
    };
    let mut documents = read_documents(&arguments.files, None)?;
    for (_, document) in &mut documents {
        document.input.clone_from(&input);
    }
    Ok(documents)
}

/// Reads documents. The name is that of a flow whose dialect has no place for one; default: that of
/// the file.
pub(crate) fn read_documents(files: &FlowFiles, name: Option<&str>) -> Result<Vec<Named>, Failure> {
    files.files.iter().map(|file| read_document(file, files.dialect, name)).collect()
}

fn read_document(file: &Path, dialect: Option<FlowDialect>, name: Option<&str>) -> Result<Named, Failure> {
    let mut document = FlowDocument::new(read(file)?);
    document.dialect = dialect.map(Dialect::from);
    document.name = Some(name.map_or_else(|| name_of(file), str::to_owned)).filter(|name| !name.is_empty());
    Ok((file.display().to_string(), document))
}

/// Checks each document by itself.
pub(crate) fn check_all(documents: &[Named]) -> Vec<(String, Checked)> {
    documents.iter().map(|(file, document)| (file.clone(), document.check())).collect()
}

/// Tells the findings of a check. Returns whether there are errors.
pub(crate) fn tell_all(
    arguments: &CheckFlows,
    answers: &[(String, Checked)],
    output: &Output,
) -> Result<Exit, Failure> {
    let counts = |finding: &Finding| arguments.strict || finding.severity == Severity::Error;
    let is_refused = |checked: &Checked| checked.untold > 0 || checked.findings.iter().any(counts);
    let exit = if answers.iter().any(|(_, checked)| is_refused(checked)) { Exit::Error } else { Exit::Ok };
    if !output.is_for_people() {
        report(answers, output)?;
        return Ok(exit);
    }
    for (file, checked) in answers {
        tell(file, checked, output)?;
        if let Some(flow) = checked.flow.as_ref().filter(|_| arguments.plan) {
            output.line(level_lines(flow))?;
            output.line(mermaid(flow).trim_end())?;
        }
    }
    Ok(exit)
}

/// Prints what was found in each document, for programs.
pub(crate) fn report(answers: &[(String, Checked)], output: &Output) -> Result<(), Failure> {
    let reports: Vec<Report<'_>> =
        answers.iter().map(|(file, checked)| Report { file: file.clone(), checked }).collect();
    output.list(&reports, &reports, |report| report.file.clone(), |_| crate::output::Rows::new(&[]))
}

/// Tells the findings as compilers do: `FILE:LINE:COLUMN: CODE: MESSAGE`.
pub(crate) fn tell(file: &str, checked: &Checked, output: &Output) -> Result<(), Failure> {
    for finding in &checked.findings {
        let kind = if finding.severity == Severity::Error { "error" } else { "warning" };
        let Finding { line, column, code, message, .. } = finding;
        output.line(format!("{file}:{line}:{column}: {kind} {code}: {message}"))?;
        if !finding.help.is_empty() {
            output.line(format!("  help: {}", finding.help))?;
        }
        if let Some(fix) = &finding.fix {
            output.line(format!("  fix: {}", fix.title))?;
        }
    }
    if checked.untold > 0 {
        output.line(format!("{file}: {} further findings are not shown", checked.untold))?;
    }
    if let (Some(flow), Some(digest)) = (&checked.flow, &checked.digest) {
        let digest = digest.get(..12).unwrap_or(digest);
        output.line(format!("{file}: the flow \"{}\" is valid ({}, {digest})", flow.name, checked.dialect))?;
    }
    Ok(())
}

/// Checks a document and its input. Returns the start of its run.
fn start(arguments: RunFlow, output: &Output) -> Result<Done, Failure> {
    if arguments.version.is_some() {
        let message = format!("{} is a document, and --version is for deployed flows", arguments.file.display());
        return Err(Failure::usage(message, "leave --version out, or give the name of a deployed flow"));
    }
    let input = read_input(&arguments.options)?;
    let source = read(&arguments.file)?;
    let name = name_of(&arguments.file);
    let mut checked = check(&source, &options(arguments.dialect, &name));
    if let Some(flow) = &checked.flow {
        let found = check_input(flow, &input);
        checked.findings.extend(found);
    }
    let has_errors = checked.findings.iter().any(|finding| finding.severity == Severity::Error);
    let Some(flow) = checked.flow.take().filter(|_| !has_errors) else {
        tell(&arguments.file.display().to_string(), &checked, output)?;
        return Ok(Done::Ended(Exit::Error));
    };
    if arguments.dry_run {
        return block_on(dry_run(flow, input, &arguments, output)).map(Done::Ended);
    }
    let start = FlowStart::new(flow).input(input).actor(order::actor(&arguments.options.author).unwrap_or_default());
    Ok(Done::Goes(Verb::Runs(RunsVerb::Start(Box::new(run_of(start, arguments.options)?)))))
}

/// Reads the input of a run.
pub(crate) fn read_input(options: &StartOptions) -> Result<Value, Failure> {
    serde_json::from_str(payload::read(&options.input)?.as_str()).map_err(no_json)
}

/// Returns the start of a run of the workflow that runs flows.
fn run_of(start: FlowStart, mut options: StartOptions) -> Result<StartRun, Failure> {
    let run = start.into_run(options.key.as_deref())?;
    options.tags.extend(run.tags.iter().map(|(name, value)| format!("{name}={value}")));
    (options.key, options.input) = (run.key, run.input.as_str().to_owned());
    Ok(StartRun {
        workflow: run.workflow,
        options,
        gate: None,
        version: None,
        priority: None,
        deadline: run.deadline_ms.map(Duration::from_millis),
        at: None,
        single: None,
        follow: false,
        limits: run.limits,
    })
}

/// Returns whether this is the name of a deployed flow, and not a document.
fn is_deployed(file: &Path) -> bool {
    let is_document =
        file.extension().is_some_and(|ending| ["yaml", "yml", "json"].iter().any(|known| ending == *known));
    !is_standard_input(file) && !is_document && file.components().count() == 1 && !file.exists()
}

fn read_stubs(file: &Path) -> Result<Stubs, Failure> {
    serde_json::from_value(read_values(file)?).map_err(|error| {
        Failure::usage(format!("{}: {error}", file.display()), "a stub is as tools: { http: { result: 1 } }")
    })
}

/// Reads a document of values, in YAML or JSON, with the bounds of flows.
pub(crate) fn read_values(file: &Path) -> Result<Value, Failure> {
    let source = read(file)?;
    let parsed = parse(&source, Bounds::default());
    if let Some(fault) = parsed.faults.first() {
        let place = Lines::new(&source).place(fault.span.start);
        let place = format!("{}:{}:{}", file.display(), place.line, place.column);
        return Err(Failure::new(Exit::Usage, format!("{place}: {}", fault.message)));
    }
    Ok(parsed.root.map_or(Value::Null, |root| root.to_json()))
}

/// Runs a flow with stubs, and prints what each step does.
pub(crate) async fn dry_run(flow: Flow, input: Value, arguments: &RunFlow, output: &Output) -> Result<Exit, Failure> {
    let stubs = arguments.stub.as_deref().map(read_stubs).transpose()?.unwrap_or_default();
    let actor = order::actor(&arguments.options.author).unwrap_or_default();
    let name = flow.name.clone();
    let ended = DryRun { flow, input, actor, stubs, is_strict: false }.run().await?;
    let report = DryRunReport::new(&name, &ended);
    output.one(&report, || name.clone(), |_| lines(&ended).join("\n"))?;
    Ok(if ended.outcome.is_ok() { Exit::Ok } else { Exit::Error })
}

/// The answer of a dry run, for programs.
#[derive(Serialize)]
pub(crate) struct DryRunReport {
    flow: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// The virtual time that passed.
    took_ms: u64,
    steps: Vec<Row>,
}

impl DryRunReport {
    pub(crate) fn new(flow: &str, ended: &Ended) -> Self {
        Self {
            flow: flow.to_owned(),
            output: ended.outcome.as_ref().ok().cloned(),
            error: ended.outcome.as_ref().err().map(ToString::to_string),
            took_ms: u64::try_from(ended.took.as_millis()).unwrap_or(u64::MAX),
            steps: rows(ended),
        }
    }
}

fn no_json(error: serde_json::Error) -> Failure {
    Failure::usage(format!("this is no JSON: {error}"), "check --input")
}

fn format_files(arguments: &FormatFlows, output: &Output) -> Result<Exit, Failure> {
    let mut exit = Exit::Ok;
    for file in &arguments.files.files {
        let source = read(file)?;
        let name = name_of(file);
        let formatted = match format(&source, &options(arguments.files.dialect, &name)) {
            Ok(formatted) => formatted,
            Err(checked) => {
                tell(&file.display().to_string(), &checked, output)?;
                exit = Exit::Error;
                continue;
            }
        };
        if is_standard_input(file) {
            output.line(formatted.trim_end())?;
        } else if formatted != source && arguments.check {
            output.line(format!("{}: would change", file.display()))?;
            exit = Exit::Error;
        } else if formatted != source {
            fs::write(file, formatted).map_err(|error| unusable("write", file, &error))?;
            output.line(format!("{}: changed", file.display()))?;
        }
    }
    Ok(exit)
}

fn draw(arguments: &DrawFlow, output: &Output) -> Result<Exit, Failure> {
    let source = read(&arguments.file)?;
    let name = name_of(&arguments.file);
    let checked = check(&source, &options(arguments.dialect, &name));
    let Some(flow) = &checked.flow else {
        tell(&arguments.file.display().to_string(), &checked, output)?;
        return Ok(Exit::Error);
    };
    output.line(if arguments.levels { level_lines(flow) } else { mermaid(flow).trim_end().to_owned() })?;
    Ok(Exit::Ok)
}

fn level_lines(flow: &Flow) -> String {
    let levels = levels(&flow.body);
    let lines = levels.iter().enumerate().map(|(number, ids)| format!("{}: {}", number + 1, ids.join(", ")));
    lines.collect::<Vec<_>>().join("\n")
}

impl From<FlowDialect> for Dialect {
    fn from(dialect: FlowDialect) -> Self {
        match dialect {
            FlowDialect::Native => Self::Native,
            FlowDialect::TwoTable => Self::TwoTable,
            FlowDialect::Opcode => Self::Opcode,
            FlowDialect::Cncf => Self::Cncf,
        }
    }
}

pub(crate) fn options(dialect: Option<FlowDialect>, name: &str) -> Options<'_> {
    let dialect = dialect.map(Dialect::from);
    // The name of the file is the name of a flow only in dialects that have no place for one.
    Options {
        dialect,
        name: (dialect != Some(Dialect::Native) && !name.is_empty()).then_some(name),
        ..Options::default()
    }
}

/// Returns the name of a file without what follows its first dot.
pub(crate) fn name_of(file: &Path) -> String {
    let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    name.split('.').next().unwrap_or_default().to_owned()
}

fn is_standard_input(file: &Path) -> bool {
    file.as_os_str() == "-"
}

pub(crate) fn read(file: &Path) -> Result<String, Failure> {
    let bytes = if is_standard_input(file) {
        let mut bytes = Vec::new();
        io::stdin().read_to_end(&mut bytes).map(|_| bytes)
    } else {
        fs::read(file)
    };
    let bytes = bytes.map_err(|error| unusable("read", file, &error))?;
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Failure::usage(format!("{} is not UTF-8 at byte {at}", file.display()), "save it as UTF-8")
    })
}

fn unusable(verb: &str, file: &Path, error: &io::Error) -> Failure {
    Failure::new(Exit::Usage, format!("cannot {verb} {}: {error}", file.display()))
}
