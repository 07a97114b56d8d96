//! F040 and F041: the channels that tell people are tools, and these take the messages.

use serde_json::{Value, json};

use super::server::{self, Servers};
use super::{Code, schema, tools};
use crate::document::Node;
use crate::lower::outline::{Call, CallKind};
use crate::lower::{Dialect, Lowering};

/// Checks `notify` of approvals and `via` of handoffs.
pub(super) fn check(lowering: &mut Lowering<'_>, servers: &mut Servers) {
    if lowering.dialect != Dialect::Native {
        return;
    }
    for at in 0..lowering.outline.steps.len() {
        let (kind, span) = (lowering.outline.steps[at].kind, lowering.outline.steps[at].span);
        let key = match kind {
            "approval" => "notify",
            "handoff" => "via",
            _ => continue,
        };
        let step = lowering.node_at(&lowering.pointer(span));
        let Some(said) = step.and_then(|step| step.get(kind)) else { continue };
        let Some(channels) = said.get(key) else { continue };
        let message = message(said, kind);
        for channel in lowering.nodes(channels) {
            one(lowering, servers, channel, (&format!("{kind}.{key}"), &message));
        }
    }
}

/// The template of the arguments that the interpreter gives to a channel.
fn message(said: &Node, kind: &str) -> Value {
    let template = Value::from("{{message}}");
    let text = |key: &str| said.get(key).and_then(Node::text).map_or_else(|| template.clone(), Value::from);
    if kind == "handoff" {
        return json!({ "to": text("to"), "text": text("text") });
    }
    let data = json!({ "show": template, "run": template, "key": template, "token": template });
    json!({ "to": text("to"), "title": text("title"), "text": template, "data": data })
}

fn one(lowering: &mut Lowering<'_>, servers: &mut Servers, channel: &Node, (key, message): (&str, &Value)) {
    // Another value than a text is reported already.
    let Some(name) = channel.text() else { return };
    if name.contains("{{") {
        let found = format!("{key} has \"{name}\"; it names tools, without templates");
        lowering.error(Code::F013, channel.span, found).help("name a tool that takes to, title, text and data");
        return;
    }
    let Some(catalog) = lowering.options.catalog else { return };
    let args = Some((channel.span, message.clone()));
    let call = Call { kind: CallKind::Tool, name: name.to_owned(), span: channel.span, args };
    let Some(takes) = catalog.tool(name) else {
        tools::unknown(lowering, catalog, &call, &catalog.tools());
        return;
    };
    check_message(lowering, &call, &takes, message);
    // Only whether the server is there and has the tool: it gets no arguments of the document.
    servers.check(lowering, catalog, &call, (&takes, false));
    server::check_policy(lowering, catalog, &call);
}

fn check_message(lowering: &mut Lowering<'_>, call: &Call, takes: &Value, message: &Value) {
    // A tool whose schema is wrong is no fault of the document.
    let Ok(validator) = schema::compile(takes) else { return };
    let violations = schema::violations(&validator, message, true);
    if violations.is_empty() {
        return;
    }
    let shown = |(pointer, message): &(String, String)| match pointer.as_str() {
        "" => message.clone(),
        pointer => format!("{pointer}: {message}"),
    };
    let shown: Vec<String> = violations.iter().take(5).map(shown).collect();
    let sent: Vec<&str> = message.as_object().into_iter().flatten().map(|(name, _)| name.as_str()).collect();
    let found = format!("\"{}\" does not take a message: {}", call.name, shown.join(", "));
    let help = format!("name a tool that takes {}, such as in-app or mail", sent.join(", "));
    lowering.error(Code::F041, call.span, found).help(help);
}
