//! F033: the syntax of expressions.

use std::ops::Range;

use serde_json::Value;

use super::{Code, Edit, Fix};
use crate::expression::{filter_repair, jq_faults, operator_repair};
use crate::lower::outline::{Role, Syntax, Use};
use crate::lower::reference::Read;
use crate::lower::{Dialect, Lowering};

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
    compile_jq(lowering);
    each(lowering, |lowering, it| {
        let Some((at, message)) = it.fault.as_ref().filter(|_| !lowering.leaves_out()) else { return };
        let rest = it.original.get(*at..).unwrap_or_default();
        let repair = match it.syntax {
            Syntax::Cel => operator_repair(rest),
            Syntax::Jq if message.starts_with("there is no filter") => repair_of_filter(lowering, it, *at),
            Syntax::Jq | Syntax::Expr => None,
        };
        let fix =
            repair.map(|(length, word)| replace(lowering, it, *at..at + length, word, format!("write \"{word}\"")));
        let path = lowering.pointer(it.span);
        let column = it.original.get(..*at).map_or(1, |before| before.chars().count() + 1);
        let message = format!("in {}: {message} (column {column} of the expression)", it.key);
        let byte = place(lowering, it, *at);
        lowering.error_at(Code::F033, byte, path, message).fix = fix;
    });
}

/// Compiles the jq programs whose brackets are closed, and notes their faults.
fn compile_jq(lowering: &mut Lowering<'_>) {
    let most = lowering.options.limits.expression;
    let dialect = lowering.dialect;
    let is_left = |it: &&mut Use| it.syntax == Syntax::Jq && it.fault.is_none() && it.original.len() <= most;
    let mut uses: Vec<&mut Use> = lowering.outline.uses.iter_mut().filter(is_left).collect();
    let programs: Vec<(&str, Vec<&str>)> = uses.iter().map(|it| program(dialect, &it.original)).collect();
    let faults = jq_faults(&programs);
    for (it, fault) in uses.iter_mut().zip(faults) {
        it.fault = fault;
    }
}

/// Returns the repair of a misspelled filter, if the program compiles with it past this byte.
fn repair_of_filter(lowering: &Lowering<'_>, it: &Use, at: usize) -> Option<(usize, &'static str)> {
    let (before, rest) = it.original.split_at_checked(at)?;
    let (length, word) = filter_repair(rest)?;
    let repaired = format!("{before}{word}{}", rest.get(length..)?);
    let fault = jq_faults(&[program(lowering.dialect, &repaired)]).pop()?;
    fault.is_none_or(|(byte, _)| byte > at).then_some((length, word))
}

/// Returns a jq program with the variables that are bound around it.
fn program(dialect: Dialect, text: &str) -> (&str, Vec<&str>) {
    // The graph of this dialect binds its variables around each program.
    (text, if dialect == Dialect::Cncf { variables(text) } else { Vec::new() })
}

/// Returns the names of variables in a jq program, each with its `$`.
fn variables(program: &str) -> Vec<&str> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let rests = program.match_indices('$').map(|(at, _)| &program[at..]);
    rests.map(|rest| &rest[..rest[1..].find(|c| !is_name(c)).map_or(rest.len(), |end| end + 1)]).collect()
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
    let (before, after) = it.original.split_at_checked(at).unwrap_or((it.original.as_str(), ""));
    let rest = lowering.source.get(it.start..).unwrap_or_default();
    // The characters that stand in the source as they are.
    let next = after.split(|c: char| !c.is_ascii_graphic() || "\"'\\".contains(c)).next().unwrap_or_default();
    let is_there = |place: &usize| rest.get(*place..).is_some_and(|rest| rest.starts_with(next));
    let is_known = !next.is_empty() || !before.ends_with(char::is_whitespace);
    let direct = rest.starts_with(before).then_some(at).filter(is_there);
    let there = direct.or_else(|| place_in_line(rest, before).filter(|place| is_known && is_there(place)));
    // With escapes before the byte, the place of the expression has to do.
    it.start + there.unwrap_or(0)
}

/// Returns the byte in a source of the end of a text that stands there in several lines, each of
/// which may have an indentation before it.
fn place_in_line(source: &str, text: &str) -> Option<usize> {
    let (lines, last) = text.rsplit_once('\n')?;
    let (begin, _) = source.match_indices('\n').nth(lines.matches('\n').count())?;
    let line = &source[begin + 1..];
    let (own, there) = (last.trim_start_matches(' '), line.trim_start_matches(' '));
    there.starts_with(own).then(|| begin + 1 + line.len() - there.len() + own.len())
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
