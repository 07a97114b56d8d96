//! Answers of tools, checked against the `outputSchema` that their server gives.
//!
//! Another party writes the schema and the answer, and a check cannot be stopped. So a check is
//! made only if its time and memory have a bound, which is computed before it begins.

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::Value;
use workflow_flows::{SchemaSize, ToolError};

use crate::arguments::invalid;
use crate::excerpt::excerpt;
use crate::schema::{Schema, compile};

/// The largest schema that answers are checked against, in bytes. A larger one would slow each
/// call.
const LARGEST_SCHEMA: usize = 64 * 1024;
/// The most patterns of a schema. Each may take 1 MiB.
const MOST_PATTERNS: usize = 32;
/// The most patterns of all schemas of one server.
const MOST_PATTERNS_OF_SERVER: usize = 128;
/// The most nodes of the schema times values of the answer, which bound the time of a check.
const MOST_STEPS: usize = 100_000_000;
/// The most nodes of the schema times the [`Size::places`] of the answer if the place of a mistake
/// is looked for: branches of `anyOf` and `oneOf` keep their errors until the last one.
const MOST_FOR_PLACE: usize = 16 * 1024 * 1024;
/// The bytes of a text that count as one further value.
const BYTES_OF_VALUE: usize = 64;

/// The `outputSchema` of a tool.
pub(super) struct OutputSchema {
    written: Value,
    /// `None`: a check has no bound, so none is made.
    compiled: Result<Option<Arc<Compiled>>, ToolError>,
}

struct Compiled {
    schema: Schema,
    /// The names in the schema. An error shows no other names of an answer.
    names: HashSet<String>,
}

impl OutputSchema {
    /// Compiles the schemas of the tools of one server, in their order. Blocks.
    pub(super) fn compile_all(written: Vec<Option<Value>>) -> Vec<Option<Arc<Self>>> {
        let mut patterns = MOST_PATTERNS_OF_SERVER;
        written.into_iter().map(|written| Some(Arc::new(Self::new(written?, &mut patterns)))).collect()
    }

    /// Compiles the schema if it has at most so many `patterns`, and takes its patterns from them.
    fn new(written: Value, patterns: &mut usize) -> Self {
        let is_small = written.to_string().len() <= LARGEST_SCHEMA;
        let size = if is_small { bounded_size(&written) } else { None };
        let compiled = match size.filter(|size| size.patterns <= *patterns) {
            Some(size) => {
                *patterns -= size.patterns;
                compile(&written).map(|schema| {
                    let mut names = HashSet::new();
                    collect_names(&written, &mut names);
                    Some(Arc::new(Compiled { schema, names }))
                })
            }
            None => Ok(None),
        };
        Self { written, compiled }
    }

    /// The schema as the server gave it.
    pub(super) fn written(&self) -> &Value {
        &self.written
    }

    /// Fails if no answer can fit, so that the tool is not called in vain.
    pub(super) fn ready(&self, tool: &str) -> Result<(), ToolError> {
        match &self.compiled {
            Ok(_) => Ok(()),
            Err(error) => Err(invalid(format!(
                "{tool} was not called, because its outputSchema is wrong: {}; mend it on the server",
                error.message
            ))),
        }
    }

    /// Fails if the structured part of an answer does not fit, with the place if finding it has a
    /// bound. The error holds no value of the answer, and none of its names that the schema does
    /// not have. It is of the class `invalid`: the tool has run, and another call would run it
    /// again.
    pub(super) async fn check(&self, tool: &str, structured: &Value, hidden: &[Value]) -> Result<(), ToolError> {
        let Ok(Some(compiled)) = &self.compiled else { return Ok(()) };
        if structured.is_null() {
            return Err(invalid(format!(
                "the answer of {tool} has no structured content, which its outputSchema describes"
            )));
        }
        let schema = compiled.schema.size();
        let mut size = Size { values: 0, places: 0 };
        size.add(structured, 0, 1);
        if schema.nodes.saturating_mul(size.values) > MOST_STEPS {
            return Ok(());
        }
        let has_place = !schema.has_references && schema.nodes.saturating_mul(size.places) <= MOST_FOR_PLACE;
        let (compiled, value) = (Arc::clone(compiled), structured.clone());
        let checked = tokio::task::spawn_blocking(move || {
            if compiled.schema.fits(&value) {
                return Ok(());
            }
            Err(if has_place { compiled.schema.reason(&value, &compiled.names) } else { None })
        });
        let reason = match checked.await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(reason)) => reason,
            Err(_) => Some("the check was broken off".to_owned()),
        };
        let shown = reason.map(|reason| format!(": {}", excerpt(reason.as_bytes(), hidden))).unwrap_or_default();
        Err(invalid(format!("the answer of {tool} does not fit its outputSchema{shown}")))
    }
}

/// The size of an answer.
struct Size {
    /// The values, with long texts counted by their length.
    values: usize,
    /// The sum of the bytes that an error for each value takes: a fixed part, the pointer, and a
    /// copy of the value with all below it.
    places: usize,
}

impl Size {
    /// Adds a value whose pointer has `path` bytes, and which is in `copies` values with itself.
    fn add(&mut self, value: &Value, path: usize, copies: usize) {
        self.values = self.values.saturating_add(1);
        self.places = self.places.saturating_add(path + copies * BYTES_OF_VALUE);
        match value {
            Value::String(text) => self.add_text(text, copies),
            Value::Array(items) => items.iter().for_each(|item| self.add(item, path + 8, copies + 1)),
            Value::Object(fields) => fields.iter().for_each(|(name, field)| {
                self.add_text(name, copies);
                self.add(field, path + name.len() + 1, copies + 1);
            }),
            _ => {}
        }
    }

    fn add_text(&mut self, text: &str, copies: usize) {
        self.values = self.values.saturating_add(text.len() / BYTES_OF_VALUE);
        self.places = self.places.saturating_add(text.len().saturating_mul(copies));
    }
}

/// Returns the size of a schema whose checks have a bound for every answer, and few patterns.
fn bounded_size(schema: &Value) -> Option<SchemaSize> {
    let size = SchemaSize::of(schema).ok()?;
    (size.patterns <= MOST_PATTERNS && !size.is_recursive && !size.has_unevaluated).then_some(size)
}

fn collect_names(value: &Value, names: &mut HashSet<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| collect_names(item, names)),
        Value::Object(fields) => fields.iter().for_each(|(name, field)| {
            names.insert(name.clone());
            collect_names(field, names);
        }),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn schemas_without_a_bound_are_not_compiled() {
        assert!(bounded_size(&json!({ "$ref": "#/$defs/a", "$defs": { "a": true } })).is_some());
        let many: Vec<Value> = (0..=MOST_PATTERNS).map(|n| json!({ "pattern": format!("a{n}") })).collect();
        for hostile in [
            json!({ "$ref": "#/$defs/a", "$defs": { "a": { "items": { "$ref": "#/$defs/a" } } } }),
            json!({ "$ref": "#name" }),
            json!({ "anyOf": [{ "unevaluatedProperties": false }] }),
            json!({ "anyOf": many }),
        ] {
            assert_eq!(bounded_size(&hostile), None, "{hostile}");
        }
    }

    #[test]
    fn copies_count_for_each_value_around_them() {
        let mut size = Size { values: 0, places: 0 };
        size.add(&json!({ "a": ["b".repeat(BYTES_OF_VALUE)] }), 0, 1);
        assert_eq!(size.values, 3 + 1);
        let (fixed, paths, name) = ((1 + 2 + 3) * BYTES_OF_VALUE, 2 + (2 + 8), 1);
        assert_eq!(size.places, fixed + paths + name + 3 * BYTES_OF_VALUE);
    }

    #[test]
    fn the_patterns_of_a_server_are_bounded() {
        let schema = |tool: usize| Some(json!({ "pattern": format!("a{tool}") }));
        let compiled = OutputSchema::compile_all((0..=MOST_PATTERNS_OF_SERVER).map(schema).collect());
        let checked = compiled.iter().flatten().filter(|output| matches!(output.compiled, Ok(Some(_))));
        assert_eq!((compiled.len(), checked.count()), (MOST_PATTERNS_OF_SERVER + 1, MOST_PATTERNS_OF_SERVER));
    }
}
