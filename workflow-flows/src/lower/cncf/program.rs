//! jq programs of the graph, from the runtime expressions of a document.
//!
//! An expression of a document reads the data of its task. A jq step of the graph reads the whole
//! scope of the run. So the program of a step goes to the data first, and binds the variables that
//! the expression names.

use std::fmt::Write;

use serde_json::Value;

use crate::check::Code;
use crate::document::{Data, Node};
use crate::lower::context::Lowering;

/// The jq text of a step's result.
pub(super) fn result_of(step: &str) -> String {
    if step.contains('-') { format!(".steps[\"{step}\"]") } else { format!(".steps.{step}") }
}

/// The values that an expression can read.
#[derive(Debug, Clone)]
pub(super) struct Sight {
    /// The place of the data that is `.` to the expression.
    pub(super) data: String,
    /// Variables without their `$`, and the places of their values.
    pub(super) variables: Vec<(String, String)>,
}

impl Sight {
    /// Returns this sight with another place of the data.
    pub(super) fn at(&self, data: impl Into<String>) -> Self {
        Self { data: data.into(), ..self.clone() }
    }

    /// Returns this sight with one more variable.
    pub(super) fn with(&self, name: &str, place: impl Into<String>) -> Self {
        let mut sight = self.clone();
        sight.variables.retain(|(other, _)| other != name);
        sight.variables.push((name.to_owned(), place.into()));
        sight
    }

    /// Returns the program of a step that gives the value of an expression.
    pub(super) fn program(&self, expression: &str) -> String {
        let mut program = String::new();
        for (name, place) in self.variables.iter().filter(|(name, _)| reads(expression, name)) {
            let _ = write!(program, "({place}) as ${name} | ");
        }
        // A comment at the end of the expression must not hide the bracket.
        let _ = write!(program, "{} | ({expression}\n)", self.data);
        program
    }
}

/// Returns whether an expression names a variable.
fn reads(expression: &str, name: &str) -> bool {
    let mut rest = expression;
    while let Some(at) = rest.find('$') {
        rest = &rest[at + 1..];
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        if &rest[..end] == name {
            return true;
        }
    }
    false
}

/// Returns the part between `${` and `}` if that is the whole text.
pub(super) fn inner(text: &str) -> Option<&str> {
    text.trim().strip_prefix("${")?.strip_suffix('}').map(str::trim)
}

/// Reads an expression where one has to stand, with or without `${ }`.
pub(super) fn expression(lowering: &mut Lowering<'_>, node: &Node, key: &str) -> Option<String> {
    let text = lowering.text(node, key)?;
    let part = inner(&text).unwrap_or(text.trim());
    note(lowering, node, &text, part, key);
    Some(part.to_owned())
}

/// Reads an expression, or a value whose texts may be expressions.
pub(super) fn transformation(lowering: &mut Lowering<'_>, node: &Node, key: &str) -> Option<String> {
    match node.data {
        Data::Text(_) => expression(lowering, node, key),
        _ => Some(value(lowering, node, key)),
    }
}

/// Returns the jq text of `true` or `false`: whether a condition holds.
pub(super) fn truth(condition: &str) -> String {
    format!("if ({condition}\n) then true else false end")
}

/// Returns the jq text of a value whose texts may be expressions `${ }`.
pub(super) fn value(lowering: &mut Lowering<'_>, node: &Node, key: &str) -> String {
    match &node.data {
        Data::Text(text) => match inner(text) {
            Some(part) => {
                note(lowering, node, text, part, key);
                format!("({part}\n)")
            }
            None => {
                if text.contains("${") {
                    let message = format!("{key}: an expression has to be the whole text");
                    let help = "write ${ \"text \\(.field) text\" }";
                    lowering.error(Code::F033, node.span, message).help(help);
                }
                literal(text)
            }
        },
        Data::List(items) => {
            let items: Vec<String> = items.iter().map(|item| value(lowering, item, key)).collect();
            format!("[{}]", items.join(", "))
        }
        Data::Map(entries) => {
            let entry = |entry: &crate::document::Entry| {
                format!("{}: {}", literal(&entry.key), value(lowering, &entry.value, key))
            };
            let entries: Vec<String> = entries.iter().map(entry).collect();
            format!("{{{}}}", entries.join(", "))
        }
        _ => node.to_json().to_string(),
    }
}

/// Returns a text as a jq literal. JSON escapes each backslash, so nothing in it is interpolated.
pub(super) fn literal(text: &str) -> String {
    Value::String(text.to_owned()).to_string()
}

/// Notes an expression for the checks, and refuses what it cannot read here.
fn note(lowering: &mut Lowering<'_>, node: &Node, text: &str, part: &str, key: &str) {
    let offset = part.as_ptr() as usize - text.as_ptr() as usize;
    lowering.data_program(node, text, offset..offset + part.len(), key);
    if reads(part, "secrets") {
        let help = "each value is recorded: give the tool its credentials in the worker";
        lowering.error(Code::F035, node.span, format!("{key} reads $secrets")).help(help);
    }
    if reads(part, "authorization") {
        lowering.error(Code::F040, node.span, format!("{key} reads $authorization, which is not there"));
    }
}

/// Returns the jq text of a URL in which `{name}` stands for a field of the data.
pub(super) fn uri(text: &str) -> String {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        let Some((name, behind)) = after.split_once('}').filter(|(name, _)| is_field(name)) else { break };
        parts.push(literal(before));
        parts.push(format!("(.{name} | tostring | @uri)"));
        rest = behind;
    }
    parts.push(literal(rest));
    format!("({})", parts.join(" + "))
}

fn is_field(name: &str) -> bool {
    let is_name = |part: &str| part.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    name.chars().all(is_plain) && name.split('.').all(is_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_binds_the_variables_that_it_names() {
        let sight =
            Sight { data: ".steps.data0".to_owned(), variables: Vec::new() }.with("input", ".steps.a").with("in", ".x");
        assert_eq!(sight.program(".a"), ".steps.data0 | (.a\n)");
        assert_eq!(sight.program("$input.b"), "(.steps.a) as $input | .steps.data0 | ($input.b\n)");
        assert_eq!(sight.at(".y").program("$in"), "(.x) as $in | .y | ($in\n)");
    }

    #[test]
    fn fields_of_a_url_are_encoded() {
        assert_eq!(
            uri("http://h/{a.b}?c={d}"),
            r#"("http://h/" + (.a.b | tostring | @uri) + "?c=" + (.d | tostring | @uri) + "")"#
        );
        assert_eq!(uri("http://h/{a b}"), r#"("http://h/{a b}")"#);
        assert_eq!(literal(r#"\(.a)"#), r#""\\(.a)""#);
    }
}
