//! F034: a condition whose value is known not to be a boolean.

use super::expressions::{each, is_of_trigger, replace};
use super::{Code, Fix};
use crate::expression::ResultKind;
use crate::lower::Lowering;
use crate::lower::outline::Use;

pub(super) fn check(lowering: &mut Lowering<'_>) {
    each(lowering, |lowering, it| {
        if !it.role.is_condition() {
            return;
        }
        let Some(kind) = it.kind.or_else(|| input_kind(lowering, it)) else { return };
        if kind == ResultKind::Boolean || lowering.leaves_out() {
            return;
        }
        let fix = fix(lowering, it, kind);
        let path = lowering.pointer(it.span);
        let message = format!("{} is {}; compare it", it.key, kind.name());
        lowering.error_at(Code::F034, it.start, path, message).fix = fix;
    });
}

/// Returns the kind that the schema of the input gives to a condition that is one path.
fn input_kind(lowering: &Lowering<'_>, it: &Use) -> Option<ResultKind> {
    let [read] = it.reads.as_slice() else { return None };
    if is_of_trigger(it) || read.path.root() != "input" || read.range != (0..it.original.len()) {
        return None;
    }
    let mut node = lowering.root.get("input")?;
    for index in 0..read.path.segments().len() {
        node = node.get("properties")?.get(read.name(index)?)?;
    }
    Some(match node.get("type")?.text()? {
        "string" => ResultKind::Text,
        "integer" | "number" => ResultKind::Number,
        "array" => ResultKind::List,
        "object" => ResultKind::Object,
        _ => return None,
    })
}

/// Returns the comparison that is probably meant, if the condition is a path, a call or a text.
fn fix(lowering: &Lowering<'_>, it: &Use, kind: ResultKind) -> Option<Fix> {
    let end = it.original.len();
    let is_path = matches!(it.reads.as_slice(), [read] if read.range == (0..end));
    let compare = |with: &str| Some(replace(lowering, it, end..end, with, format!("write {with}")));
    match (kind, it.original.as_str()) {
        (ResultKind::Text, text @ ("'true'" | "\"true\"" | "'false'" | "\"false\"")) => {
            let inner = text.trim_matches(['"', '\'']);
            Some(replace(lowering, it, 0..end, inner, format!("write {inner}")))
        }
        (ResultKind::Text, _) if is_path => compare(" != ''"),
        (ResultKind::Number, text) if is_path || (text.starts_with("size(") && text.ends_with(')')) => compare(" > 0"),
        _ => None,
    }
}
