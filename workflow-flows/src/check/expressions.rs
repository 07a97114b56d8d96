//! F033: the syntax of expressions. A jq program is compiled only by a worker's helper process.

use std::ops::Range;

use serde_json::Value;

use super::{Code, Edit, Fix};
use crate::expression::operator_repair;
use crate::lower::Lowering;
use crate::lower::outline::{Role, Syntax, Use};
use crate::lower::reference::Read;

/// Calls `visit` with each expression of the document.
pub(super) fn each(lowering: &mut Lowering<'_>, mut visit: impl FnMut(&mut Lowering<'_>, &Use)) {
    let uses = std::mem::take(&mut lowering.outline.uses);
    for it in &uses {
        let told = lowering.findings.len();
        visit(lowering, it);
        if it.syntax == Syntax::Expr {
            lowering.findings.iter_mut().skip(told).for_each(|finding| finding.fix = None);
        }
    }
    lowering.outline.uses = uses;
}

/// Returns whether an expression belongs to a trigger, which is evaluated before there is a run.
pub(super) fn is_of_trigger(it: &Use) -> bool {
    it.role == Role::Trigger || (it.role == Role::Match && it.step.is_none())
}

pub(super) fn check(lowering: &mut Lowering<'_>) {
    each(lowering, |lowering, it| {
        let Some((at, message)) = &it.fault else { return };
        let rest = it.original.get(*at..).unwrap_or_default();
        let repair = if it.syntax == Syntax::Cel { operator_repair(rest) } else { None };
        let fix = repair.map(|(length, operator)| {
            replace(lowering, it, *at..at + length, operator, format!("write \"{operator}\""))
        });
        let path = lowering.pointer(it.span);
        let column = it.original.get(..*at).map_or(1, |before| before.chars().count() + 1);
        let message = format!("in {}: {message} (column {column} of the expression)", it.key);
        let byte = place(lowering, it, *at);
        lowering.error_at(Code::F033, byte, path, message).fix = fix;
    });
}

/// Returns a path of an expression as messages show it.
pub(super) fn shown(it: &Use, read: &Read) -> String {
    let text = it.original.get(read.range.clone()).unwrap_or(&it.original);
    match it.syntax {
        Syntax::Jq => format!(".{text}"),
        Syntax::Expr => text.to_owned(),
        Syntax::Cel if it.is_bare => text.to_owned(),
        Syntax::Cel => format!("{{{{{text}}}}}"),
    }
}

/// Returns the fix that writes another name. `None` if the place of the name is not known.
pub(super) fn rename(lowering: &Lowering<'_>, it: &Use, range: Range<usize>, name: &str) -> Option<Fix> {
    (!range.is_empty()).then(|| replace(lowering, it, range, name, format!("write \"{name}\"")))
}

/// Returns the byte in the source of a byte of an expression.
pub(super) fn place(lowering: &Lowering<'_>, it: &Use, at: usize) -> usize {
    // With escapes before the byte, the place of the expression has to do.
    let before = it.original.get(..at).unwrap_or(&it.original);
    let is_there = lowering.source.get(it.start..).is_some_and(|rest| rest.starts_with(before));
    if is_there { it.start + at } else { it.start }
}

/// Returns the fix that replaces a part of an expression.
pub(super) fn replace(lowering: &Lowering<'_>, it: &Use, range: Range<usize>, text: &str, title: String) -> Fix {
    let mut scalar = it.scalar.to_string();
    let range = it.offset + range.start..it.offset + range.end;
    if scalar.get(range.clone()).is_some() {
        scalar.replace_range(range, text);
    }
    Fix::new(title, Edit::Replace { path: lowering.pointer(it.span), value: Value::String(scalar) })
}
