//! JSON Schema, without anything that is fetched.

use std::collections::HashMap;

use jsonschema::error::ValidationErrorKind;
use jsonschema::{PatternOptions, ValidationError, Validator};
use serde_json::Value;

/// A place in a value and what is wrong there.
pub(crate) type Violation = (String, String);

/// The largest schema with the target in place of each reference, in values. References to
/// references double it each time.
const MOST_NODES: usize = 10_000;
/// The deepest such schema, because a check calls itself at each level.
const DEEPEST: usize = 128;
/// The most patterns of a schema, each of which may take [`LARGEST_PATTERN`] once compiled.
const MOST_PATTERNS: usize = 64;
/// The largest compiled pattern, in bytes.
const LARGEST_PATTERN: usize = 1024 * 1024;
/// The most nodes of the schema times values of the input, which bound the time of a check.
const MOST_STEPS: usize = 100_000_000;
/// As [`MOST_STEPS`], if all mistakes are looked for: all are kept in memory.
const MOST_STEPS_FOR_ALL: usize = 1_000_000;

/// A compiled schema, and the size on which the time of a check depends.
pub(crate) struct Schema {
    validator: Validator,
    nodes: usize,
}

/// Compiles a schema.
///
/// The error has the JSON Pointer in the schema. Patterns are those of a linear matcher, and
/// references lead into the schema itself only. A schema whose checks have no bound is refused.
pub(crate) fn compile(schema: &Value) -> Result<Schema, Violation> {
    if let Some(pointer) = endless(schema) {
        return Err((pointer, "the reference leads back to itself without a step into the value".to_owned()));
    }
    let mut unfolding = Unfolding { root: schema, targets: HashMap::new(), patterns: 0, refused: None };
    let nodes = unfolding.size(schema, 0);
    if let Some(refused) = unfolding.refused {
        return Err((String::new(), refused.to_owned()));
    }
    if nodes > MOST_NODES {
        let message = format!("the schema with its references in place is larger than {MOST_NODES} values");
        return Err((String::new(), message));
    }
    if unfolding.patterns > MOST_PATTERNS {
        return Err((String::new(), format!("the schema has more than {MOST_PATTERNS} patterns")));
    }
    let validator = jsonschema::draft202012::options()
        .with_pattern_options(PatternOptions::regex().size_limit(LARGEST_PATTERN))
        .build(schema)
        .map_err(|error| (error.instance_path().to_string(), short(&error.to_string())))?;
    Ok(Schema { validator, nodes })
}

/// Counts the values of a schema with the target in place of each reference. A target that contains
/// a reference to itself counts once: a check steps into the value before it comes back.
struct Unfolding<'a> {
    root: &'a Value,
    /// The sizes of targets by their references. `None`: the target is being counted.
    targets: HashMap<&'a str, Option<usize>>,
    /// The patterns, each where it is written.
    patterns: usize,
    /// Why the size is not known.
    refused: Option<&'static str>,
}

impl<'a> Unfolding<'a> {
    fn size(&mut self, value: &'a Value, depth: usize) -> usize {
        if depth > DEEPEST {
            return usize::MAX;
        }
        match value {
            Value::Array(items) => {
                items.iter().fold(1, |sum: usize, item| sum.saturating_add(self.size(item, depth + 1)))
            }
            Value::Object(map) => map.iter().fold(1, |sum: usize, (key, value)| {
                match (key.as_str(), value) {
                    ("pattern", Value::String(_)) => self.patterns += 1,
                    ("patternProperties", Value::Object(patterns)) => self.patterns += patterns.len(),
                    _ => {}
                }
                let size = match (key.as_str(), value) {
                    // Data, not schemas.
                    ("const" | "enum" | "default" | "examples", _) => values(value),
                    ("$ref" | "$dynamicRef" | "$recursiveRef", Value::String(reference)) => {
                        self.target(reference, depth + 1)
                    }
                    ("$id", Value::String(_)) if depth > 0 => {
                        self.refused = Some("only the whole schema may have an $id");
                        1
                    }
                    _ => self.size(value, depth + 1),
                };
                sum.saturating_add(size)
            }),
            _ => 1,
        }
    }

    fn target(&mut self, reference: &'a str, depth: usize) -> usize {
        if let Some(known) = self.targets.get(reference) {
            return known.unwrap_or(1);
        }
        if reference != "#" && !reference.starts_with("#/") {
            self.refused = Some("a reference is a JSON Pointer into the schema, such as #/$defs/name");
            return 1;
        }
        let root = self.root;
        let Some(target) = reference.strip_prefix('#').and_then(|pointer| root.pointer(pointer)) else { return 1 };
        self.targets.insert(reference, None);
        let patterns = self.patterns;
        let size = self.size(target, depth);
        // They are counted where they are written.
        self.patterns = patterns;
        self.targets.insert(reference, Some(size));
        size
    }
}

/// Returns the number of values in a value, with long texts counted by their length.
fn values(value: &Value) -> usize {
    const BYTES_OF_VALUE: usize = 64;
    match value {
        Value::String(text) => 1 + text.len() / BYTES_OF_VALUE,
        Value::Array(items) => 1 + items.iter().map(values).sum::<usize>(),
        Value::Object(map) => 1 + map.values().map(values).sum::<usize>() + map.len(),
        _ => 1,
    }
}

/// Keys whose schemas apply to the same value as the schema around them.
const SAME_VALUE: [&str; 9] = ["allOf", "anyOf", "oneOf", "not", "if", "then", "else", "$ref", "dependentSchemas"];

/// Finds a chain of references that never steps into the value, on which a validator would not end.
fn endless(schema: &Value) -> Option<String> {
    let mut open = vec![(String::new(), schema)];
    while let Some((pointer, value)) = open.pop() {
        match value {
            Value::Object(map) => {
                if map.contains_key("$ref") && comes_back(schema, value) {
                    return Some(format!("{pointer}/$ref"));
                }
                open.extend(map.iter().map(|(key, value)| (format!("{pointer}/{}", escape(key)), value)));
            }
            Value::Array(items) => {
                open.extend(items.iter().enumerate().map(|(at, value)| (format!("{pointer}/{at}"), value)));
            }
            _ => {}
        }
    }
    None
}

fn escape(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

fn comes_back(root: &Value, start: &Value) -> bool {
    let mut seen: Vec<*const Value> = Vec::new();
    let mut open = vec![start];
    while let Some(value) = open.pop() {
        let Value::Object(map) = value else { continue };
        if seen.iter().any(|it| std::ptr::eq(*it, value)) {
            if std::ptr::eq(value, start) {
                return true;
            }
            continue;
        }
        seen.push(value);
        for key in SAME_VALUE {
            match map.get(key) {
                Some(Value::String(reference)) if key == "$ref" => {
                    open.extend(reference.strip_prefix('#').and_then(|pointer| root.pointer(pointer)));
                }
                Some(Value::Array(items)) => open.extend(items),
                Some(Value::Object(inner)) if key == "dependentSchemas" => open.extend(inner.values()),
                Some(inner @ Value::Object(_)) => open.push(inner),
                _ => {}
            }
        }
    }
    false
}

/// Returns what is wrong with a value, whose templates fit everything if `has_templates`.
pub(crate) fn violations(schema: &Schema, value: &Value, has_templates: bool) -> Vec<Violation> {
    let steps = schema.nodes.saturating_mul(values(value));
    if steps > MOST_STEPS {
        return vec![(String::new(), "it is too large to be checked against this schema".to_owned())];
    }
    let mut found = Vec::new();
    let errors: Box<dyn Iterator<Item = ValidationError<'_>>> = if steps > MOST_STEPS_FOR_ALL {
        Box::new(schema.validator.validate(value).err().into_iter())
    } else {
        Box::new(schema.validator.iter_errors(value).take(100))
    };
    for error in errors {
        let pointer = error.instance_path().to_string();
        if has_templates && depends_on_a_template(&error) {
            continue;
        }
        for message in messages(&error) {
            found.push((pointer.clone(), message));
        }
    }
    found
}

fn messages(error: &ValidationError<'_>) -> Vec<String> {
    match error.kind() {
        ValidationErrorKind::AdditionalProperties { unexpected } => {
            unexpected.iter().map(|name| format!("\"{name}\" is not a property")).collect()
        }
        ValidationErrorKind::Required { property } => {
            vec![format!("\"{}\" is missing", property.as_str().unwrap_or_default())]
        }
        _ => vec![short(&error.to_string())],
    }
}

fn short(message: &str) -> String {
    if message.chars().count() <= 200 {
        return message.to_owned();
    }
    let begin: String = message.chars().take(200).collect();
    format!("{begin} ..")
}

fn depends_on_a_template(error: &ValidationError<'_>) -> bool {
    match error.kind() {
        ValidationErrorKind::AdditionalProperties { .. } | ValidationErrorKind::Required { .. } => false,
        _ => has_template(error.instance()),
    }
}

fn has_template(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains("{{"),
        Value::Array(items) => items.iter().any(has_template),
        Value::Object(map) => map.values().any(has_template),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Each definition has the one before it twice.
    fn doubled(times: usize) -> Value {
        let mut definitions = json!({ "d0": { "type": "string" } });
        for at in 1..=times {
            let before = json!({ "$ref": format!("#/$defs/d{}", at - 1) });
            definitions[format!("d{at}")] = json!({ "allOf": [before, before] });
        }
        json!({ "$ref": format!("#/$defs/d{times}"), "$defs": definitions })
    }

    #[test]
    fn a_schema_whose_check_has_no_bound_is_refused() {
        let many: Vec<Value> = (0..=MOST_PATTERNS).map(|at| json!({ "pattern": format!("a{at}") })).collect();
        let mut nested = json!({});
        for _ in 0..=DEEPEST {
            nested = json!({ "not": nested });
        }
        for hostile in [
            doubled(30),
            json!({ "anyOf": many }),
            nested,
            json!({ "pattern": r"\w{500}{500}" }),
            json!({ "$ref": "#name", "$defs": { "a": { "$anchor": "name" } } }),
            json!({ "$id": "https://a.test/s", "$ref": "https://a.test/s#/$defs/a", "$defs": { "a": true } }),
            json!({ "items": { "$id": "https://a.test/s", "$ref": "#/$defs/a" }, "$defs": { "a": true } }),
        ] {
            assert!(compile(&hostile).is_err(), "{hostile}");
        }
    }

    #[test]
    fn usual_schemas_are_checked() {
        let tree = json!({
            "type": "object", "required": ["name"],
            "properties": { "name": { "type": "string" }, "children": { "type": "array", "items": { "$ref": "#" } } },
        });
        let tree = compile(&tree).unwrap();
        assert!(violations(&tree, &json!({ "name": "a", "children": [{ "name": "b" }] }), false).is_empty());
        let found = violations(&tree, &json!({ "name": "a", "children": [{}, {}] }), false);
        assert_eq!(found.iter().map(|(place, _)| place.as_str()).collect::<Vec<_>>(), ["/children/0", "/children/1"]);
        assert!(violations(&compile(&doubled(5)).unwrap(), &json!("text"), false).is_empty());
        assert!(compile(&json!({ "enum": [{ "$ref": "a" }], "properties": { "$id": true } })).is_ok());
    }

    #[test]
    fn a_large_value_shows_one_mistake_and_a_huge_one_is_refused() {
        let numbers = compile(&json!({ "items": { "type": "number" } })).unwrap();
        let texts = |count: usize| Value::Array(vec![json!("x"); count]);
        assert_eq!(violations(&numbers, &texts(10), false).len(), 10);
        assert_eq!(violations(&numbers, &texts(MOST_STEPS_FOR_ALL), false).len(), 1);
        let many = compile(&doubled(8)).unwrap();
        assert!(violations(&many, &texts(MOST_STEPS / 1000), false)[0].1.contains("too large"));
    }
}
