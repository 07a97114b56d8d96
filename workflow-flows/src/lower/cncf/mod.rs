//! The dialect `cncf`: documents of the Serverless Workflow language 1.0, as far as they fit.
//!
//! A scope of tasks becomes a graph. The data that flow through it are the result of its last
//! task, under one name of the scope. Each runtime expression is a jq step, so its value is
//! recorded. What the graph has no form for is refused by its name.

mod call;
mod composite;
mod definitions;
mod event;
mod failure;
mod program;
mod scope;
mod task;

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;

use self::definitions::Definitions;
use self::program::{Sight, result_of};
use self::scope::{Scope, Task};
use self::task::CONTEXT;
use super::context::Lowering;
use super::fields::Fields;
use super::native::{DAY, is_name, repaired_name};
use super::schema;
use super::step::{is_id, repaired_id};
use crate::check::Code;
use crate::document::{Data, Node, Span};
use crate::graph::{Block, Flow, Kind, MissingPath, OnTimeout, Step};

/// The name under `steps` of the data of the workflow's own scope.
const DATA: &str = "data0";

const DOCUMENT: &[&str] = &["document", "input", "use", "do", "timeout", "output", "schedule", "evaluate"];
const NAMING: &[&str] = &["dsl", "namespace", "name", "version", "title", "summary", "tags", "metadata"];

/// The state of the lowering of one document.
pub(super) struct Cncf<'n> {
    definitions: Definitions<'n>,
    /// The ids of steps and the names of results.
    used: BTreeSet<String>,
    /// The steps and the JSON Pointers of their tasks, for errors.
    places: Vec<(String, String)>,
    scopes: usize,
}

pub(crate) fn lower(lowering: &mut Lowering<'_>, root: &Node) -> Option<Flow> {
    let mut fields = Fields::read(lowering, root, "the document")?;
    let document =
        fields.require(lowering, "document", "{ dsl: '1.0.3', namespace: default, name: order, version: 1.0.0 }");
    let (name, description) = naming(lowering, document?);
    let used = [DATA, CONTEXT].map(str::to_owned).into();
    let definitions = Definitions::read(lowering, fields.take("use"));
    let mut cncf = Cncf { definitions, used, places: Vec::new(), scopes: 0 };
    let (input, from) = fields.take("input").map(|node| read_input(lowering, node)).unwrap_or_default();
    let timeout = fields.take("timeout").and_then(|node| cncf.timeout(lowering, node));
    if let Some(node) = fields.take("schedule") {
        let help = "start it by a schedule of the engine: workflow schedules";
        lowering.error(Code::F040, node.span, "\"schedule\" does not start workflows here").help(help);
    }
    if let Some(node) = fields.take("evaluate") {
        evaluate(lowering, node);
    }
    let output = fields.take("output").and_then(|node| read_output(lowering, node));
    let tasks = fields.require(lowering, "do", "[ .. ]");
    fields.finish(lowering, DOCUMENT);
    let scope = cncf.main_scope();
    let body = scope::lower(&mut cncf, lowering, tasks?, &scope, None, vec![cncf_input(from.as_deref())])?;
    let (body, output) = with_output(&mut cncf, body, &scope, output.as_deref());
    let flow = Flow {
        language: 1,
        name,
        description,
        input: input.unwrap_or(Value::Bool(true)),
        timeout: timeout.unwrap_or(DAY * 365),
        on_timeout: OnTimeout::Fail,
        missing_path: MissingPath::Error,
        body,
        output,
        on_error: None,
        on_complete: None,
        triggers: Vec::new(),
    };
    check_programs(&cncf, lowering, &flow);
    Some(flow)
}

/// Reports programs that are longer than an evaluator takes. One program holds all expressions of a
/// value.
fn check_programs(cncf: &Cncf<'_>, lowering: &mut Lowering<'_>, flow: &Flow) {
    let limit = lowering.options.limits.expression;
    flow.for_each_step(|step| {
        let Kind::Jq(program) = &step.kind else { return };
        if program.len() > limit {
            let place = cncf.place_of(&step.id);
            let span = lowering.node_at(&place).map_or(lowering.root.span, |node| node.span);
            let message =
                format!("the expressions of this task have {} bytes together; {limit} is the limit", program.len());
            lowering.error(Code::F050, span, message).help("let a tool compute a part of it, or use more tasks");
        }
    });
}

/// Reads the version of the language, the name and the description.
fn naming(lowering: &mut Lowering<'_>, node: &Node) -> (String, String) {
    let Some(mut fields) = Fields::read(lowering, node, "document") else { return Default::default() };
    if let Some(node) = fields.require(lowering, "dsl", "'1.0.3'")
        && let Some(version) = lowering.text(node, "dsl")
        && !version.starts_with("1.0.")
    {
        let message = format!("the language version is {version}; versions 1.0.x run here");
        lowering.error(Code::F013, node.span, message);
    }
    let mut text = |lowering: &mut Lowering<'_>, key: &str| {
        fields.take(key).and_then(|node| lowering.text(node, key)).unwrap_or_default()
    };
    let name = text(lowering, "name");
    let (title, summary) = (text(lowering, "title"), text(lowering, "summary"));
    if name.is_empty() {
        lowering.error(Code::F013, node.span, "document has no \"name\"").help("add name: order-pet");
    }
    for key in ["namespace", "version", "tags", "metadata"] {
        fields.take(key);
    }
    fields.finish(lowering, NAMING);
    let name = if is_name(&name) { name } else { repaired_name(&name) };
    (name, if summary.is_empty() { title } else { summary })
}

/// Reads the schema of the input and its transformation.
fn read_input(lowering: &mut Lowering<'_>, node: &Node) -> (Option<Value>, Option<String>) {
    let Some(mut fields) = Fields::read(lowering, node, "input") else { return (None, None) };
    let schema = fields.take("schema").and_then(|node| {
        let mut fields = Fields::read(lowering, node, "input.schema")?;
        fields.take("format");
        let document = fields.require(lowering, "document", "{ type: object }");
        fields.finish(lowering, &["format", "document"]);
        schema::read(lowering, document?, "input.schema.document")
    });
    let from = fields.take("from").and_then(|node| program::transformation(lowering, node, "input.from"));
    fields.finish(lowering, &["schema", "from"]);
    (schema, from)
}

fn read_output(lowering: &mut Lowering<'_>, node: &Node) -> Option<String> {
    let mut fields = Fields::read(lowering, node, "output")?;
    if let Some(node) = fields.take("schema") {
        lowering.error(Code::F040, node.span, "the schema of the output is not checked here");
    }
    let output = fields.take("as").and_then(|node| program::transformation(lowering, node, "output.as"));
    fields.finish(lowering, &["as", "schema"]);
    output
}

fn evaluate(lowering: &mut Lowering<'_>, node: &Node) {
    let Some(mut fields) = Fields::read(lowering, node, "evaluate") else { return };
    if let Some(node) = fields.take("language")
        && lowering.text(node, "evaluate.language").is_some_and(|language| language != "jq")
    {
        lowering.error(Code::F040, node.span, "expressions are in jq here, and in no other language");
    }
    fields.take("mode");
    fields.finish(lowering, &["language", "mode"]);
}

/// Creates the step that gives the first data and the first context.
fn cncf_input(from: Option<&str>) -> Step {
    let sight = Sight { data: ".input".to_owned(), variables: vec![("workflow".to_owned(), WORKFLOW.to_owned())] };
    let mut step = Step::new("input", Kind::Jq(from.map_or_else(|| ".input".to_owned(), |from| sight.program(from))));
    step.aliases = vec![DATA.to_owned(), CONTEXT.to_owned()];
    step
}

/// The value of `$workflow`.
const WORKFLOW: &str = "{id: .run.id, input: .input, startedAt: {iso8601: .run.started_at}}";

/// Returns the body with the transformation of the output behind it, and the output of the flow.
fn with_output(cncf: &mut Cncf<'_>, body: Block, scope: &Scope, output: Option<&str>) -> (Block, Option<Value>) {
    let Some(output) = output else { return (body, Some(format!("{{{{steps.{DATA}}}}}").into())) };
    let tasks = group(cncf.fresh("tasks"), body);
    let last = Step::new(cncf.fresh("output"), Kind::Jq(scope.sight.program(output)));
    (Block::Do(vec![tasks, last]), None)
}

impl Cncf<'_> {
    /// Returns an id that no step has, as near to this name as possible.
    fn fresh(&mut self, name: &str) -> String {
        let id = if is_id(name) { name.to_owned() } else { repaired_id(name) };
        let numbered = (2..10_000).map(|number| {
            let number = format!("_{number}");
            format!("{}{number}", id.get(..id.len().min(64 - number.len())).unwrap_or_default())
        });
        let free = std::iter::once(id.clone()).chain(numbered).find(|id| !self.used.contains(id)).unwrap_or(id);
        self.used.insert(free.clone());
        free
    }

    /// Returns an id for a step beside a task.
    fn fresh_beside(&mut self, task: &Task<'_>, suffix: &str) -> String {
        self.fresh(&format!("{}-{suffix}", task.name))
    }

    /// Returns a name for the data of a new scope.
    fn fresh_data(&mut self) -> String {
        self.scopes += 1;
        self.fresh(&format!("data{}", self.scopes))
    }

    fn main_scope(&mut self) -> Scope {
        self.used.insert("input".to_owned());
        let variables = vec![
            ("context".to_owned(), result_of(CONTEXT)),
            ("workflow".to_owned(), WORKFLOW.to_owned()),
            ("runtime".to_owned(), "{name: \"workflow-flows\", version: \"1\"}".to_owned()),
        ];
        let sight = Sight { data: result_of(DATA), variables };
        Scope { data: DATA.to_owned(), sight, is_main: true, gives_data: false }
    }

    /// Returns what the expressions of a task can read.
    fn sight_of(&self, task: &Task<'_>, scope: &Scope) -> Sight {
        let name = program::literal(task.name);
        let place = program::literal(&self.place_of(&task.id));
        let described = format!("{{name: {name}, reference: {place}}}");
        scope.sight.with("input", scope.sight.data.clone()).with("task", described)
    }

    /// Returns the JSON Pointer of the task of a step.
    fn place_of(&self, step: &str) -> String {
        self.places.iter().find(|(id, _)| id == step).map(|(_, place)| place.clone()).unwrap_or_default()
    }

    /// Reads a timeout: `after`, or the name of one.
    fn timeout(&self, lowering: &mut Lowering<'_>, node: &Node) -> Option<Duration> {
        let node = self.definitions.timeout(lowering, node)?;
        let after = read_one(lowering, node, "timeout", "after", "{ minutes: 5 }")?;
        duration(lowering, after, "timeout.after")
    }
}

/// Creates a step that runs a block.
fn group(id: String, body: Block) -> Step {
    Step::new(id, Kind::If { condition: "true".to_owned(), then: body, otherwise: None })
}

/// Reads a map that has one key. Returns the value of the key.
fn read_one<'n>(
    lowering: &mut Lowering<'_>,
    node: &'n Node,
    owner: &str,
    key: &str,
    example: &str,
) -> Option<&'n Node> {
    let mut fields = Fields::read(lowering, node, owner)?;
    let value = fields.require(lowering, key, example);
    fields.finish(lowering, &[key]);
    value
}

/// Reads a duration: ISO 8601, or a map of units.
fn duration(lowering: &mut Lowering<'_>, node: &Node, what: &str) -> Option<Duration> {
    if let Data::Text(text) = &node.data {
        return match super::duration::parse(text) {
            Ok(duration) if text.starts_with('P') => Some(duration),
            _ => {
                let message = format!("{what} is \"{text}\"; a duration is as PT30S, or as {{ seconds: 30 }}");
                lowering.error(Code::F013, node.span, message);
                None
            }
        };
    }
    let mut fields = Fields::read(lowering, node, what)?;
    let units =
        [("days", 86_400_000), ("hours", 3_600_000), ("minutes", 60_000), ("seconds", 1000), ("milliseconds", 1)];
    let mut total = 0_u64;
    for (unit, millis) in units {
        let number = fields.take(unit).and_then(|node| lowering.number(node, unit, 0, 1_000_000_000, ""));
        total = total.saturating_add(number.unwrap_or_default().saturating_mul(millis));
    }
    fields.finish(lowering, &units.map(|(unit, _)| unit));
    Some(Duration::from_millis(total))
}

/// Takes a key that does not run here, and reports it. Returns whether the map has the key.
fn refuse_key(lowering: &mut Lowering<'_>, fields: &mut Fields<'_>, key: &str, what: &str) -> bool {
    let found = fields.take(key);
    if let Some(node) = found {
        refuse(lowering, node.span, what);
    }
    found.is_some()
}

/// Reports something that does not run here.
fn refuse(lowering: &mut Lowering<'_>, span: Span, what: &str) {
    let message = format!("{what} does not run here");
    lowering.error(Code::F040, span, message).help("the guide lists what runs here, under Serverless Workflow");
}
