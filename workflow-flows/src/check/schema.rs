//! JSON Schema, without anything that is fetched.

use jsonschema::error::ValidationErrorKind;
use jsonschema::{PatternOptions, ValidationError, Validator};
use serde_json::Value;

/// A place in a value and what is wrong there.
pub(crate) type Violation = (String, String);

/// Compiles a schema.
///
/// The error has the JSON Pointer in the schema. Patterns are those of a linear matcher, and
/// references lead into the schema itself only.
pub(crate) fn compile(schema: &Value) -> Result<Validator, Violation> {
    if let Some(pointer) = endless(schema) {
        return Err((pointer, "the reference leads back to itself without a step into the value".to_owned()));
    }
    jsonschema::draft202012::options()
        .with_pattern_options(PatternOptions::regex())
        .build(schema)
        .map_err(|error| (error.instance_path().to_string(), short(&error.to_string())))
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
pub(crate) fn violations(schema: &Validator, value: &Value, has_templates: bool) -> Vec<Violation> {
    let mut found = Vec::new();
    for error in schema.iter_errors(value).take(100) {
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
