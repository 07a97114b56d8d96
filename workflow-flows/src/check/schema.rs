//! JSON Schema, without anything that is fetched.

use jsonschema::error::ValidationErrorKind;
use jsonschema::{PatternOptions, ValidationError, Validator};
use serde_json::Value;

use crate::schema_size::SchemaSize;

/// A place in a value and what is wrong there.
pub(crate) type Violation = (String, String);

/// The largest compiled pattern, in bytes.
const LARGEST_PATTERN: usize = 1024 * 1024;

/// A compiled schema.
pub(crate) struct Schema {
    validator: Validator,
    size: SchemaSize,
}

/// Compiles a schema.
///
/// The error has the JSON Pointer in the schema. Patterns are those of a linear matcher, and
/// references lead into the schema itself only. A schema whose checks have no bound is refused.
pub(crate) fn compile(schema: &Value) -> Result<Schema, Violation> {
    let size = SchemaSize::of(schema)?;
    let validator = jsonschema::draft202012::options()
        .with_pattern_options(PatternOptions::regex().size_limit(LARGEST_PATTERN))
        .build(schema)
        .map_err(|error| (error.instance_path().to_string(), short(&error.to_string())))?;
    Ok(Schema { validator, size })
}

/// Returns what is wrong with a value, whose templates fit everything if `has_templates`.
pub(crate) fn violations(schema: &Schema, value: &Value, has_templates: bool) -> Vec<Violation> {
    let Some(errors) = schema.size.mistakes(&schema.validator, value, 100) else {
        return vec![(String::new(), "it is too large to be checked against this schema".to_owned())];
    };
    let mut found = Vec::new();
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

    #[test]
    fn a_pattern_that_is_large_once_compiled_is_refused() {
        assert!(compile(&json!({ "pattern": r"\w{500}{500}" })).is_err());
    }

    /// The check takes a step for each way to a value, which doubles with each level.
    #[test]
    fn a_deep_value_is_not_checked_by_a_schema_that_repeats() {
        let again = json!({ "$ref": "#" });
        let twice = json!({ "allOf": [again, again] });
        let doubling = compile(&json!({ "type": "array", "items": twice })).unwrap();
        let unevaluated = compile(&json!({ "type": "array", "items": again, "unevaluatedItems": false })).unwrap();
        let pair = json!({ "properties": { "left": again, "right": again } });
        let pairs = compile(&pair).unwrap();
        let deep = |levels: usize| (0..levels).fold(json!([]), |inner, _| json!([inner]));
        for schema in [&doubling, &unevaluated] {
            assert!(violations(schema, &deep(8), false).is_empty());
            let found = violations(schema, &deep(100), false);
            assert!(found.iter().all(|(_, message)| message.contains("too large")) && found.len() == 1, "{found:?}");
        }
        assert!(violations(&pairs, &deep(100), false).is_empty());
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
        assert!(compile(&json!({ "properties": { "$id": true, "$ref": true } })).is_ok());
    }
}
