//! Names and keys: what the engine or a store refuses when the flow runs is refused before.

use workflow_sdk::NameSubject;
use workflow_sdk::internal::check_name;

use super::context::Lowering;
use super::outline::Role;
use crate::check::Code;
use crate::document::Node;

/// Reads the name of something of the engine.
pub(crate) fn name(lowering: &mut Lowering<'_>, node: &Node, what: &str, subject: NameSubject) -> Option<String> {
    let text = lowering.text(node, what)?;
    refuse_name(lowering, node, what, (subject, &text));
    Some(text)
}

/// Reads a template that gives the key of something of the engine. A template with expressions is
/// known only when it is rendered.
pub(crate) fn key(lowering: &mut Lowering<'_>, node: &Node, what: &str, subject: NameSubject) -> Option<String> {
    let text = lowering.template_text(node, what, Role::Plain)?;
    if !text.contains("{{") {
        refuse_name(lowering, node, what, (subject, &text));
    }
    Some(text)
}

/// Reads a text that may not be empty.
pub(crate) fn filled(lowering: &mut Lowering<'_>, node: &Node, what: &str) -> Option<String> {
    let text = lowering.text(node, what)?;
    refuse_empty(lowering, node, what, text)
}

/// Reads a template that may not give an empty text.
pub(crate) fn filled_template(lowering: &mut Lowering<'_>, node: &Node, what: &str, role: Role) -> Option<String> {
    let text = lowering.template_text(node, what, role)?;
    refuse_empty(lowering, node, what, text)
}

fn refuse_name(lowering: &mut Lowering<'_>, node: &Node, what: &str, (subject, text): (NameSubject, &str)) {
    if let Err(refused) = check_name(subject, text) {
        lowering.error(Code::F013, node.span, format!("{what}: {refused}"));
    }
}

fn refuse_empty(lowering: &mut Lowering<'_>, node: &Node, what: &str, text: String) -> Option<String> {
    if text.is_empty() {
        lowering.error(Code::F013, node.span, format!("{what} is empty"));
        return None;
    }
    Some(text)
}
