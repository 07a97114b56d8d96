//! JSON Schemas that stand in documents.

use serde_json::Value;

use super::context::Lowering;
use crate::check::{Code, schema};
use crate::document::{Data, Node};

/// Reads a JSON Schema and checks that it is one.
pub(crate) fn read(lowering: &mut Lowering<'_>, node: &Node, what: &str) -> Option<Value> {
    if !matches!(node.data, Data::Map(_) | Data::Bool(_)) {
        lowering.wrong(node, what, "a JSON Schema: a map, or true");
        return None;
    }
    let value = node.to_json();
    if let Err((pointer, message)) = schema::compile(&value) {
        let base = lowering.pointer(node.span);
        let byte = lowering.byte_at(&format!("{base}{pointer}")).unwrap_or(node.span.start);
        let message = format!("{what} is no JSON Schema: {message}");
        lowering.error_at(Code::F013, byte, format!("{base}{pointer}"), message);
    }
    Some(value)
}
