//! F033: the syntax of expressions: first what their words show, with a repair, then the compiler.

use serde_json::Value;

use super::{Code, Edit, Fix};
use crate::expression::{Expression, ExpressionError};
use crate::lower::Lowering;
use crate::lower::outline::{Syntax, Use};
use crate::lower::reference::{Scan, scan, scan_jq};
use crate::lower::token::{SyntaxFault, jq_fault};

pub(super) fn check(lowering: &mut Lowering<'_>) {
    for index in 0..lowering.outline.uses.len() {
        let it = lowering.outline.uses[index].clone();
        // A long expression is reported as such, and not read.
        let is_long = it.text.len() > lowering.options.limits.expression;
        let scanned = match it.syntax {
            _ if is_long => Ok(Scan::default()),
            Syntax::Cel => scan(&it.original),
            Syntax::Jq => jq_fault(&it.original)
                .map_or_else(|| Ok(Scan { references: scan_jq(&it.original), tokens: Vec::new() }), Err),
        };
        match scanned {
            Ok(scan) => {
                lowering.scans.push(scan);
                if !is_long {
                    compile(lowering, &it);
                }
            }
            Err(fault) => {
                lowering.scans.push(Scan::default());
                report(lowering, &it, &fault);
            }
        }
    }
}

fn report(lowering: &mut Lowering<'_>, it: &Use, fault: &SyntaxFault) {
    let fix =
        fault.repair.map(|repair| replace(lowering, it, fault.at..fault.end, repair, format!("write \"{repair}\"")));
    let path = lowering.pointer(it.span);
    let column = it.original.get(..fault.at).map_or(1, |before| before.chars().count() + 1);
    let message = format!("in {}: {} (column {column} of the expression)", it.key, fault.message);
    let byte = place(lowering, it, fault.at);
    lowering.error_at(Code::F033, byte, path, message).fix = fix;
}

/// Returns the byte in the source of a byte of an expression.
pub(super) fn place(lowering: &Lowering<'_>, it: &Use, at: usize) -> usize {
    // With escapes before the byte, the place of the expression has to do.
    let before = it.original.get(..at).unwrap_or(&it.original);
    let is_there = lowering.source.get(it.start..).is_some_and(|rest| rest.starts_with(before));
    if is_there { it.start + at } else { it.start }
}

/// Returns the fix that replaces a part of an expression.
pub(super) fn replace(
    lowering: &Lowering<'_>,
    it: &Use,
    range: std::ops::Range<usize>,
    text: &str,
    title: String,
) -> Fix {
    let mut scalar = it.scalar.to_string();
    let range = it.offset + range.start..it.offset + range.end;
    if scalar.get(range.clone()).is_some() {
        scalar.replace_range(range, text);
    }
    Fix::new(title, Edit::Replace { path: lowering.pointer(it.span), value: Value::String(scalar) })
}

/// Compiles CEL. A jq program is compiled by the helper process of a worker only.
fn compile(lowering: &mut Lowering<'_>, it: &Use) {
    if it.syntax == Syntax::Jq {
        return;
    }
    let compiled = Expression::compile(&it.text);
    let Err(error) = compiled else { return };
    let (message, column) = match &error {
        ExpressionError::Syntax { message, column } => (message.clone(), *column),
        other => (other.to_string(), 1),
    };
    let at = it.original.char_indices().nth(column.saturating_sub(1)).map_or(it.original.len(), |(at, _)| at);
    let byte = if it.text == it.original { place(lowering, it, at) } else { it.start };
    let path = lowering.pointer(it.span);
    let message = format!("in {}: {message} (column {column} of the expression)", it.key);
    lowering.error_at(Code::F033, byte, path, message);
}
