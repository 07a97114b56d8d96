//! Checks values against JSON Schemas of flows.

use jsonschema::{PatternOptions, Validator};
use serde_json::Value;
use workflow_flows::{SchemaSize, ToolError};

use crate::arguments::invalid;

/// A compiled schema. References lead into the schema alone, and patterns take linear time.
pub(crate) struct Schema {
    validator: Validator,
    size: SchemaSize,
}

/// The most problems that are reported.
#[cfg(any(feature = "assert", feature = "model", test))]
const PROBLEMS: usize = 20;
#[cfg(any(feature = "assert", feature = "model", test))]
const TOO_LARGE: &str = "the value is too large to be checked against the schema";
/// The longest text of one problem, in characters.
const PROBLEM: usize = 300;

/// Compiles a schema. One whose checks have no bound is refused.
pub(crate) fn compile(schema: &Value) -> Result<Schema, ToolError> {
    let size = SchemaSize::of(schema)
        .map_err(|(pointer, message)| invalid(format!("the schema is not valid at {pointer:?}: {}", cut(&message))))?;
    let options = jsonschema::options().with_pattern_options(PatternOptions::regex().size_limit(1024 * 1024));
    let validator = options.build(schema).map_err(|error| {
        invalid(format!("the schema is not valid at {:?}: {}", error.instance_path().as_str(), cut(&error.to_string())))
    })?;
    Ok(Schema { validator, size })
}

impl Schema {
    /// Returns the size of the schema.
    #[cfg(all(unix, feature = "mcp"))]
    pub(crate) fn size(&self) -> SchemaSize {
        self.size
    }

    /// Returns where the value does not fit: the place and the reason. Empty: it fits.
    #[cfg(any(feature = "model", test))]
    pub(crate) fn problems(&self, value: &Value) -> Vec<String> {
        let found = self.size.mistakes(&self.validator, value, PROBLEMS);
        let Some(found) = found else { return vec![TOO_LARGE.to_owned()] };
        found.iter().map(|error| cut(&format!("{}: {error}", place(error.instance_path().as_str())))).collect()
    }

    /// Whether the value fits.
    #[cfg(all(unix, feature = "mcp"))]
    pub(crate) fn fits(&self, value: &Value) -> bool {
        self.validator.is_valid(value)
    }

    /// Returns the places where the value does not fit, without the values there.
    #[cfg(feature = "assert")]
    pub(crate) fn places(&self, value: &Value) -> Vec<String> {
        let found = self.size.mistakes(&self.validator, value, PROBLEMS);
        let Some(found) = found else { return vec![TOO_LARGE.to_owned()] };
        found.iter().map(|error| place(error.instance_path().as_str()).to_owned()).collect()
    }

    /// Returns the first place where the value does not fit and why, without the values there.
    /// Properties of the value that are not among `names` are shown as `*`.
    #[cfg(all(unix, feature = "mcp"))]
    pub(crate) fn reason(&self, value: &Value, names: &std::collections::HashSet<String>) -> Option<String> {
        use jsonschema::error::ValidationErrorKind as Kind;

        // The errors of all places at once would take memory by the size of the answer.
        let error = self.validator.validate(value).err()?;
        let reason = match error.kind() {
            Kind::AdditionalProperties { .. } | Kind::UnevaluatedProperties { .. } => {
                "it has properties that the schema does not allow".to_owned()
            }
            Kind::PropertyNames { .. } => "the schema does not allow the name of one of its properties".to_owned(),
            _ => error.masked().to_string(),
        };
        let pointer = masked_pointer(error.instance_path().as_str(), value, names);
        Some(cut(&format!("{}: {reason}", place(&pointer))))
    }

    /// Reads an answer of a model: the value, and where it does not fit. Models like to write a
    /// fence around JSON, which is taken off.
    #[cfg(feature = "model")]
    pub(crate) fn read(&self, text: &str) -> (Value, Vec<String>) {
        let bare = text.trim();
        let bare = match bare.strip_prefix("```").and_then(|rest| rest.strip_suffix("```")) {
            Some(fenced) => fenced.strip_prefix("json").unwrap_or(fenced).trim(),
            None => bare,
        };
        match serde_json::from_str::<Value>(bare) {
            Ok(value) => {
                let problems = self.problems(&value);
                (value, problems)
            }
            Err(error) => (Value::String(text.to_owned()), vec![format!("the answer is not JSON: {error}")]),
        }
    }
}

fn place(pointer: &str) -> &str {
    if pointer.is_empty() { "the value" } else { pointer }
}

/// Returns the pointer into the value with `*` for properties that are not among `names`.
#[cfg(all(unix, feature = "mcp"))]
fn masked_pointer(pointer: &str, value: &Value, names: &std::collections::HashSet<String>) -> String {
    let mut shown = String::new();
    let mut at = Some(value);
    for segment in pointer.split('/').skip(1) {
        let name = segment.replace("~1", "/").replace("~0", "~");
        let (is_known, below) = match at {
            Some(Value::Array(items)) => (true, name.parse::<usize>().ok().and_then(|index| items.get(index))),
            Some(Value::Object(fields)) => (names.contains(&name), fields.get(&name)),
            _ => (false, None),
        };
        shown.push('/');
        shown.push_str(if is_known { segment } else { "*" });
        at = below;
    }
    shown
}

fn cut(text: &str) -> String {
    text.chars().take(PROBLEM).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn problems_name_their_place() {
        let schema =
            compile(&json!({ "type": "object", "required": ["a"], "properties": { "n": { "type": "integer" } } }));
        let problems = schema.unwrap().problems(&json!({ "n": "x" }));
        assert_eq!(problems.len(), 2, "{problems:?}");
        assert!(problems.iter().any(|problem| problem.starts_with("/n: ")), "{problems:?}");
        assert!(problems.iter().any(|problem| problem.starts_with("the value: ")), "{problems:?}");
    }

    #[test]
    fn hostile_schemas_are_refused_or_bounded() {
        assert!(compile(&json!({ "type": "nothing" })).is_err());
        assert!(compile(&json!({ "$ref": "https://example.test/schema.json" })).is_err(), "nothing is fetched");
        assert!(compile(&json!({ "$ref": "file:///etc/passwd" })).is_err(), "nothing is read");
        let slow = compile(&json!({ "pattern": "^(a+)+$" })).unwrap();
        assert_eq!(slow.problems(&Value::String("a".repeat(50_000) + "b")).len(), 1);
    }
}
