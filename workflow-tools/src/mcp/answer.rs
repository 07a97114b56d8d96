//! Answers of tools, checked against the `outputSchema` that their server gives.
//!
//! Another party writes the schema and the answer, and a check cannot be stopped. So a check is
//! made only if its time and memory have a bound, which is computed before it begins.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde_json::Value;
use workflow_flows::ToolError;

use crate::arguments::invalid;
use crate::excerpt::excerpt;
use crate::schema::{Schema, compile};

/// The largest schema that answers are checked against, in bytes. A larger one would slow each
/// call.
const LARGEST_SCHEMA: usize = 64 * 1024;
/// The largest unfolded schema: its values, with the target in place of each reference.
const MOST_NODES: usize = 10_000;
/// The deepest unfolded schema, because a check calls itself at each level.
const DEEPEST: usize = 128;
/// The most patterns of an unfolded schema. Each may take 1 MiB.
const MOST_PATTERNS: usize = 32;
/// The most patterns of all schemas of one server.
const MOST_PATTERNS_OF_SERVER: usize = 128;
/// The longest pattern, in bytes.
const LONGEST_PATTERN: usize = 1024;
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
    nodes: usize,
    has_references: bool,
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
        let unfolded = if is_small { Unfolded::of(&written) } else { None };
        let compiled = match unfolded.filter(|unfolded| unfolded.patterns <= *patterns) {
            Some(unfolded) => {
                *patterns -= unfolded.patterns;
                compile(&written).map(|schema| {
                    let mut names = HashSet::new();
                    collect_names(&written, &mut names);
                    let Unfolded { nodes, has_references, .. } = unfolded;
                    Some(Arc::new(Compiled { schema, names, nodes, has_references }))
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
        let mut size = Size { values: 0, places: 0 };
        size.add(structured, 0, 1);
        if compiled.nodes.saturating_mul(size.values) > MOST_STEPS {
            return Ok(());
        }
        let has_place = !compiled.has_references && compiled.nodes.saturating_mul(size.places) <= MOST_FOR_PLACE;
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

/// The size of a schema with the target in place of each reference.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Unfolded {
    nodes: usize,
    patterns: usize,
    height: usize,
    has_references: bool,
}

impl Unfolded {
    /// Returns the size, or `None` if the schema is too large or a check has no bound: it refers
    /// to itself, its references are not pointers into it, or it asks for unevaluated parts.
    fn of(schema: &Value) -> Option<Self> {
        let mut unfolding = Unfolding { schema, targets: HashMap::new(), has_base: false };
        let unfolded = unfolding.size(schema, 0)?;
        // A reference below another base leads elsewhere.
        (!unfolded.has_references || !unfolding.has_base).then_some(unfolded)
    }

    fn add(&mut self, part: Self) {
        self.nodes = self.nodes.saturating_add(part.nodes);
        self.patterns = self.patterns.saturating_add(part.patterns);
        self.height = self.height.max(part.height + 1);
        self.has_references |= part.has_references;
    }

    fn add_pattern(&mut self, pattern: &str) -> Option<()> {
        self.patterns = self.patterns.saturating_add(1);
        (pattern.len() <= LONGEST_PATTERN).then_some(())
    }

    fn within_bounds(self) -> Option<Self> {
        let is_small = self.nodes <= MOST_NODES && self.patterns <= MOST_PATTERNS && self.height <= DEEPEST;
        is_small.then_some(self)
    }
}

struct Unfolding<'a> {
    schema: &'a Value,
    /// The sizes of targets by their references. `None`: the target is being unfolded.
    targets: HashMap<&'a str, Option<Unfolded>>,
    /// Whether a part of the schema may have an address of its own.
    has_base: bool,
}

impl<'a> Unfolding<'a> {
    fn size(&mut self, value: &'a Value, depth: usize) -> Option<Unfolded> {
        if depth > DEEPEST {
            return None;
        }
        let mut all = Unfolded { nodes: 1, ..Unfolded::default() };
        match value {
            Value::String(text) => all.nodes += text.len() / BYTES_OF_VALUE,
            Value::Array(items) => {
                for item in items {
                    all.add(self.size(item, depth + 1)?);
                }
            }
            Value::Object(fields) => {
                for (name, field) in fields {
                    all.nodes += name.len() / BYTES_OF_VALUE;
                    match (name.as_str(), field) {
                        ("$ref", Value::String(reference)) => {
                            all.add(self.target(reference, depth + 1)?);
                            all.has_references = true;
                        }
                        ("$dynamicRef" | "$recursiveRef", _) => return None,
                        // Each level of them checks the levels below it twice.
                        ("unevaluatedItems" | "unevaluatedProperties", _) => return None,
                        ("$id" | "id", Value::String(_)) if depth > 0 => self.has_base = true,
                        ("pattern", Value::String(pattern)) => all.add_pattern(pattern)?,
                        ("patternProperties", Value::Object(patterns)) => {
                            for pattern in patterns.keys() {
                                all.add_pattern(pattern)?;
                            }
                        }
                        _ => {}
                    }
                    all.add(self.size(field, depth + 1)?);
                }
            }
            _ => {}
        }
        all.within_bounds()
    }

    fn target(&mut self, reference: &'a str, depth: usize) -> Option<Unfolded> {
        if let Some(known) = self.targets.get(reference) {
            return *known;
        }
        // Escapes of addresses are not followed.
        let pointer = reference.strip_prefix('#').filter(|pointer| !pointer.contains('%'))?;
        let schema = self.schema;
        let target = schema.pointer(pointer)?;
        self.targets.insert(reference, None);
        let unfolded = self.size(target, depth)?;
        self.targets.insert(reference, Some(unfolded));
        Some(unfolded)
    }
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
    use serde_json::{Map, json};

    use super::*;

    /// A chain of definitions, each of which refers to the next one twice.
    fn doubled(levels: usize) -> Value {
        let mut definitions = Map::from_iter([("d0".to_owned(), json!(false))]);
        for level in 1..=levels {
            let below = json!({ "$ref": format!("#/$defs/d{}", level - 1) });
            definitions.insert(format!("d{level}"), json!({ "anyOf": [below, below] }));
        }
        json!({ "$ref": format!("#/$defs/d{levels}"), "$defs": definitions })
    }

    #[test]
    fn schemas_without_a_bound_are_not_compiled() {
        assert!(Unfolded::of(&doubled(3)).is_some_and(|unfolded| unfolded.has_references));
        assert!(Unfolded::of(&json!({ "properties": { "$ref": { "type": "integer" } } })).is_some());
        let long = "a".repeat(LONGEST_PATTERN + 1);
        let nested = (0..DEEPEST).fold(json!({}), |below, _| json!({ "not": below }));
        let many: Vec<Value> = (0..=MOST_PATTERNS).map(|n| json!({ "pattern": format!("a{n}") })).collect();
        for hostile in [
            doubled(40),
            json!({ "$ref": "#" }),
            json!({ "$ref": "#/$defs/a", "$defs": { "a": { "items": { "$ref": "#/$defs/a" } } } }),
            json!({ "$ref": "#name" }),
            json!({ "$dynamicRef": "#/$defs/a" }),
            json!({ "anyOf": [{ "unevaluatedProperties": false }] }),
            json!({ "items": { "$id": "https://a.test/", "$ref": "#/$defs/a" }, "$defs": { "a": true } }),
            json!({ "pattern": long.clone() }),
            json!({ "patternProperties": { long: true } }),
            json!({ "anyOf": many }),
            json!({ "not": nested }),
        ] {
            assert_eq!(Unfolded::of(&hostile), None, "{hostile}");
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
