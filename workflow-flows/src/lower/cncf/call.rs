//! Tasks that call something: `call` and `run`.

use serde_json::{Value, json};

use super::failure::{COMMUNICATION, error_type, raise_step};
use super::program::{inner, literal, result_of, uri, value};
use super::scope::{Scope, Task};
use super::task::{Body, Output, beside};
use super::{Cncf, refuse, refuse_key};
use crate::check::Code;
use crate::document::{Data, Node};
use crate::graph::{FlowCall, Kind, Next, Step, ToolUse};
use crate::lower::attempts::default_breaker;
use crate::lower::context::Lowering;
use crate::lower::fields::Fields;
use crate::lower::outline::{Call, CallKind};

/// The calls of the language that have no tool here.
const REFUSED: [&str; 5] = ["a2a", "asyncapi", "grpc", "mcp", "openapi"];

/// The tool that runs programs, by the name that flows of other dialects use too.
const SHELL: &str = "shell.exec";

/// How the output of a call is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Content,
    Raw,
    Response,
}

pub(super) fn lower(
    cncf: &mut Cncf<'_>,
    lowering: &mut Lowering<'_>,
    task: &Task<'_>,
    scope: &Scope,
    node: &Node,
    with: Option<&Node>,
) -> Option<Body> {
    let name = lowering.text(node, "call")?;
    if REFUSED.contains(&name.as_str()) {
        refuse(lowering, node.span, &format!("call: {name}"));
        return None;
    }
    if name == "http" {
        let Some(with) = with else {
            lowering.error(Code::F013, task.span, "call: http has no \"with\"");
            return None;
        };
        return http(cncf, lowering, task, scope, node, with);
    }
    if let Some(function) = cncf.definitions.function(&name) {
        return named_function(cncf, lowering, task, scope, (node, function, with));
    }
    if name.contains('@') {
        refuse(lowering, node.span, "a function of a catalog");
        return None;
    }
    let args = with.map_or_else(|| "{}".to_owned(), |with| value(lowering, with, "with"));
    let given = with.map(Node::to_json).unwrap_or_default();
    Some(tool(cncf, lowering, task, scope, (node, &name), &args, &given))
}

/// Lowers the call of a function of the document as the call that the function is.
fn named_function(
    cncf: &mut Cncf<'_>,
    lowering: &mut Lowering<'_>,
    task: &Task<'_>,
    scope: &Scope,
    (node, function, with): (&Node, &Node, Option<&Node>),
) -> Option<Body> {
    let call = function.get("call").filter(|call| call.text() != node.text());
    let (Some(call), None) = (call, with) else {
        refuse(lowering, node.span, "a function that is no call, or that takes arguments of its own");
        return None;
    };
    lower(cncf, lowering, task, scope, call, function.get("with"))
}

/// Returns the steps that make arguments and call a tool with them. `args` is the jq text of the
/// arguments, and `given` says what is known of them without a run.
fn tool(
    cncf: &mut Cncf<'_>,
    lowering: &mut Lowering<'_>,
    task: &Task<'_>,
    scope: &Scope,
    (node, name): (&Node, &str),
    args: &str,
    given: &Value,
) -> Body {
    let args = beside(cncf, task, "args", scope.sight.program(args));
    let call = Call { kind: CallKind::Tool, name: name.to_owned(), span: node.span, args: None };
    lowering.outline.calls.push(call);
    let mut step = Step::new(task.id.clone(), Kind::Nothing);
    let read = json!(format!("{{{{steps['{}']}}}}", args.id));
    step.breaker = default_breaker(name, given);
    step.kind = Kind::Tool(ToolUse { tool: name.to_owned(), args: read, external: false, texts: false });
    Body::new(vec![args, step], Output::Last)
}

fn http(
    cncf: &mut Cncf<'_>,
    lowering: &mut Lowering<'_>,
    task: &Task<'_>,
    scope: &Scope,
    call: &Node,
    with: &Node,
) -> Option<Body> {
    let mut fields = Fields::read(lowering, with, "with")?;
    let method = fields.require(lowering, "method", "get").and_then(|node| lowering.text(node, "method"));
    let endpoint = fields.require(lowering, "endpoint", "https://example.com/{id}");
    let (url, authorization) = endpoint.and_then(|node| read_endpoint(cncf, lowering, node))?;
    let headers = take_value(lowering, &mut fields, "headers", "{}");
    let query = take_value(lowering, &mut fields, "query", "{}");
    let body = fields.take("body").map(|node| value(lowering, node, "body"));
    let forms = [("content", Form::Content), ("raw", Form::Raw), ("response", Form::Response)];
    let form = fields.take("output").map_or(Some(Form::Content), |node| lowering.choice(node, "output", &forms))?;
    let redirect = fields.take("redirect").and_then(|node| lowering.flag(node, "redirect")).unwrap_or_default();
    fields.finish(lowering, &["method", "endpoint", "headers", "query", "body", "output", "redirect"]);
    let method = literal(&method?.to_uppercase());
    let authorization = authorization.map(|text| format!(" + {{\"Authorization\": {text}}}")).unwrap_or_default();
    let body = body.map(|body| format!(", json: {body}")).unwrap_or_default();
    let args = format!(
        "{{method: {method}, url: {url}, headers: ({headers}{authorization}), query: {query}{body}, \
         accept: [\"300-599\"], redirects: {redirect}}}"
    );
    let address = endpoint.map(|node| node.get("uri").unwrap_or(node));
    let given = json!({ "url": address.and_then(Node::text) });
    let Body { mut steps, .. } = tool(cncf, lowering, task, scope, (call, "http"), &args, &given);
    let answer = result_of(&task.id);
    let content = beside(cncf, task, "content", output_of(form, &answer, &result_of(&steps.first()?.id)));
    let [error, raise] = unexpected(cncf, task, &answer);
    let most = if redirect { 400 } else { 300 };
    let is_good = format!("steps['{}'].status_code < {most}", task.id);
    steps.last_mut()?.next =
        Some(Next::Branch { cases: vec![(is_good, content.id.clone())], otherwise: Some(error.id.clone()) });
    steps.extend([error, raise, content]);
    Some(Body::new(steps, Output::Last))
}

/// Returns the steps that raise an error for an answer whose status is not a success.
fn unexpected(cncf: &mut Cncf<'_>, task: &Task<'_>, answer: &str) -> [Step; 2] {
    let kind = literal(&error_type(COMMUNICATION));
    let place = literal(&cncf.place_of(&task.id));
    let error = format!(
        "{answer} | {{type: {kind}, status: .status_code, title: \"The server answered with an error\", \
         detail: (\"status \" + (.status_code | tostring)), instance: {place}}}"
    );
    let error = beside(cncf, task, "error", error);
    let raise = raise_step(cncf.fresh_beside(task, "raise"), &format!("steps['{}']", error.id));
    [error, raise]
}

fn output_of(form: Form, answer: &str, args: &str) -> String {
    // A body that is not text is already in Base64.
    let body = "(if has(\"body\") then .body else .body_base64 end)";
    match form {
        Form::Content => format!("{answer} | {body}"),
        Form::Raw => {
            format!("{answer} | .body_base64 // (.body | if type == \"string\" then . else tojson end | @base64)")
        }
        Form::Response => format!(
            "{args} as $request | {answer} | {{request: {{method: $request.method, uri: $request.url, \
             headers: ($request.headers | del(.Authorization))}}, statusCode: .status_code, headers: .headers, \
             content: {body}}}"
        ),
    }
}

/// Takes a value as jq text. A key that is not there gives the text `empty`.
fn take_value(lowering: &mut Lowering<'_>, fields: &mut Fields<'_>, key: &str, empty: &str) -> String {
    fields.take(key).map_or_else(|| empty.to_owned(), |node| value(lowering, node, key))
}

/// Returns the jq texts of the URL and of the header Authorization.
fn read_endpoint(cncf: &Cncf<'_>, lowering: &mut Lowering<'_>, node: &Node) -> Option<(String, Option<String>)> {
    if let Data::Text(text) = &node.data {
        return Some((url(lowering, node, text), None));
    }
    let mut fields = Fields::read(lowering, node, "endpoint")?;
    let address = fields.require(lowering, "uri", "https://example.com/{id}");
    let authentication = fields.take("authentication");
    fields.finish(lowering, &["uri", "authentication"]);
    let address = address?;
    let text = lowering.text(address, "uri")?;
    let url = url(lowering, address, &text);
    let authorization = match authentication {
        Some(node) => Some(authorization(cncf, lowering, node)?),
        None => None,
    };
    Some((url, authorization))
}

fn url(lowering: &mut Lowering<'_>, node: &Node, text: &str) -> String {
    if inner(text).is_some() { value(lowering, node, "endpoint") } else { uri(text) }
}

/// Returns the jq text of the header Authorization.
fn authorization(cncf: &Cncf<'_>, lowering: &mut Lowering<'_>, node: &Node) -> Option<String> {
    let node = cncf.definitions.authentication(lowering, node)?;
    let mut fields = Fields::read(lowering, node, "authentication")?;
    let (basic, bearer) = (fields.take("basic"), fields.take("bearer"));
    let refused = fields.rest().next().map(|entry| (entry.key.clone(), entry.key_span));
    if let Some((key, span)) = refused {
        refuse(lowering, span, &format!("the authentication \"{key}\""));
        return None;
    }
    match (basic, bearer) {
        (Some(node), _) => {
            let [Some(name), Some(password)] = parts(lowering, node, ["username", "password"])? else {
                lowering.error(Code::F013, node.span, "basic has \"username\" and \"password\"");
                return None;
            };
            Some(format!("(\"Basic \" + ({name} + \":\" + {password} | @base64))"))
        }
        (None, Some(node)) => {
            let [Some(token)] = parts(lowering, node, ["token"])? else {
                lowering.error(Code::F013, node.span, "bearer has a \"token\"");
                return None;
            };
            Some(format!("(\"Bearer \" + {token})"))
        }
        (None, None) => {
            lowering.error(Code::F013, node.span, "an authentication has one of basic and bearer");
            None
        }
    }
}

/// Reads the parts of an authentication. A part that is missing gives `None`.
fn parts<const N: usize>(lowering: &mut Lowering<'_>, scheme: &Node, names: [&str; N]) -> Option<[Option<String>; N]> {
    let mut fields = Fields::read(lowering, scheme, "authentication")?;
    let texts = names.map(|name| fields.take(name).map(|node| value(lowering, node, name)));
    fields.finish(lowering, &names);
    Some(texts)
}

/// Lowers `run`: a program by a tool, or another workflow as a child.
pub(super) fn run(
    cncf: &mut Cncf<'_>,
    lowering: &mut Lowering<'_>,
    task: &Task<'_>,
    scope: &Scope,
    node: &Node,
) -> Option<Body> {
    let mut fields = Fields::read(lowering, node, "run")?;
    for kind in ["container", "script"] {
        if refuse_key(lowering, &mut fields, kind, &format!("run: {kind}")) {
            return None;
        }
    }
    let awaits = fields.take("await").and_then(|node| lowering.flag(node, "await")).unwrap_or(true);
    let forms = ["stdout", "stderr", "code", "all", "none"].map(|form| (form, form));
    let form = fields.take("return").map_or(Some("stdout"), |node| lowering.choice(node, "return", &forms));
    let (shell, workflow) = (fields.take("shell"), fields.take("workflow"));
    fields.finish(lowering, &["shell", "workflow", "await", "return"]);
    match (shell, workflow) {
        (Some(node), None) if awaits => run_shell(cncf, lowering, task, scope, node, form?),
        (Some(node), None) => {
            refuse(lowering, node.span, "run: shell that is not awaited");
            None
        }
        (None, Some(node)) => run_workflow(cncf, lowering, task, scope, node, awaits),
        _ => {
            lowering.error(Code::F011, node.span, "run has one of shell and workflow");
            None
        }
    }
}

fn run_shell(
    cncf: &mut Cncf<'_>,
    lowering: &mut Lowering<'_>,
    task: &Task<'_>,
    scope: &Scope,
    node: &Node,
    form: &str,
) -> Option<Body> {
    let mut fields = Fields::read(lowering, node, "run.shell")?;
    let command = fields.require(lowering, "command", "echo").map(|node| value(lowering, node, "command"));
    let arguments = take_value(lowering, &mut fields, "arguments", "[]");
    let environment = take_value(lowering, &mut fields, "environment", "{}");
    fields.finish(lowering, &["command", "arguments", "environment"]);
    let args = format!("{{command: {}, args: {arguments}, env: {environment}}}", command?);
    let Body { mut steps, .. } = tool(cncf, lowering, task, scope, (node, SHELL), &args, &Value::Null);
    let result = result_of(&task.id);
    let output = match form {
        "all" => format!("{result} | {{code: .exit_code, stdout, stderr}}"),
        "none" => return Some(Body::new(steps, Output::Data)),
        "code" => format!("{result}.exit_code"),
        stream => format!("{result}.{stream}"),
    };
    steps.push(beside(cncf, task, "return", output));
    Some(Body::new(steps, Output::Last))
}

fn run_workflow(
    cncf: &mut Cncf<'_>,
    lowering: &mut Lowering<'_>,
    task: &Task<'_>,
    scope: &Scope,
    node: &Node,
    awaits: bool,
) -> Option<Body> {
    let mut fields = Fields::read(lowering, node, "run.workflow")?;
    let name = fields.require(lowering, "name", "refund");
    let version = fields.take("version").and_then(|node| lowering.text(node, "version"));
    let version = version.filter(|version| version != "latest");
    let input = take_value(lowering, &mut fields, "input", "{}");
    fields.take("namespace");
    fields.finish(lowering, &["namespace", "name", "version", "input"]);
    let name_node = name?;
    let name = lowering.text(name_node, "name")?;
    let args = beside(cncf, task, "args", scope.sight.program(&input));
    let call = Call { kind: CallKind::Flow, name: name.clone(), span: name_node.span, args: None };
    lowering.outline.calls.push(call);
    let call = FlowCall {
        name,
        version,
        is_workflow: false,
        args: json!(format!("{{{{steps['{}']}}}}", args.id)),
        detach: !awaits,
        queue: None,
    };
    let output = if awaits { Output::Last } else { Output::Data };
    Some(Body::new(vec![args, Step::new(task.id.clone(), Kind::Flow(call))], output))
}
