//! The tools `assert.equals`, `assert.contains`, `assert.matches` and `assert.schema`.
//!
//! Each returns `{"pass": true}` or fails with the class `invalid`, which is not tried again. No
//! error holds a value; the author's `message` may say what is meant.
//!
//! ```
//! use serde_json::json;
//! use workflow_flows::ToolCall;
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! let tools = workflow_tools::assert::tools();
//! let equals = tools.iter().find(|tool| tool.name() == "assert.equals").unwrap();
//! let args = json!({ "expected": 1, "actual": 1.0 });
//! assert_eq!(equals.call(ToolCall::new(args, "ann", "key")).await.unwrap(), json!({ "pass": true
//! }));
//! # }
//! ```

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};
use workflow_flows::{Tool, ToolCall, ToolError};

use crate::arguments::{invalid, parse};
use crate::function::Function;
use crate::schema;

/// Returns the tools.
#[must_use]
pub fn tools() -> Vec<Arc<dyn Tool>> {
    let schema = |required: [&str; 2]| {
        let [first, second] = required;
        json!({
            "type": "object", "required": required, "additionalProperties": false,
            "properties": { first: {}, second: {}, "message": { "type": "string" } },
        })
    };
    vec![
        Function::new("assert.equals", "Fails unless two values are equal.", schema(["expected", "actual"]), equals)
            .shared(),
        Function::new(
            "assert.contains",
            "Fails unless a text or a list contains a value.",
            schema(["haystack", "needle"]),
            contains,
        )
        .shared(),
        Function::new(
            "assert.matches",
            "Fails unless a text matches a regular expression.",
            schema(["value", "pattern"]),
            matches,
        )
        .blocking()
        .shared(),
        Function::new("assert.schema", "Fails unless a value fits a JSON Schema.", schema(["data", "schema"]), fits)
            .blocking()
            .shared(),
    ]
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Equals {
    expected: Value,
    actual: Value,
    message: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Contains {
    haystack: Value,
    needle: Value,
    message: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Matches {
    value: String,
    pattern: String,
    message: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fits {
    data: Value,
    schema: Value,
    message: Option<String>,
}

fn equals(call: &ToolCall) -> Result<Value, ToolError> {
    let Equals { expected, actual, message } = parse("assert.equals", &call.args)?;
    let kinds =
        || format!("the actual value ({}) does not equal the expected one ({})", kind(&actual), kind(&expected));
    verdict(is_equal(&expected, &actual), "assert.equals", message, kinds)
}

fn contains(call: &ToolCall) -> Result<Value, ToolError> {
    let Contains { haystack, needle, message } = parse("assert.contains", &call.args)?;
    let found = match (&haystack, &needle) {
        (Value::String(text), Value::String(part)) => text.contains(part.as_str()),
        (Value::Array(items), needle) => items.iter().any(|item| is_equal(item, needle)),
        (Value::String(_), _) => return Err(invalid("assert.contains: needle is not a text, as haystack is")),
        _ => return Err(invalid("assert.contains: haystack is neither a text nor a list")),
    };
    verdict(found, "assert.contains", message, || "haystack does not contain needle".to_owned())
}

fn matches(call: &ToolCall) -> Result<Value, ToolError> {
    let Matches { value, pattern, message } = parse("assert.matches", &call.args)?;
    let pattern = regex::RegexBuilder::new(&pattern).size_limit(1024 * 1024).build();
    let pattern = pattern.map_err(|_| invalid("assert.matches: pattern is not a regular expression, or too large"))?;
    let found = pattern.find(&value).map(|found| found.as_str().to_owned());
    verdict(found.is_some(), "assert.matches", message, || "value does not match pattern".to_owned())?;
    Ok(json!({ "pass": true, "matches": found }))
}

fn fits(call: &ToolCall) -> Result<Value, ToolError> {
    let Fits { data, schema, message } = parse("assert.schema", &call.args)?;
    let schema = schema::compile(&schema)?;
    let places = schema.places(&data);
    let why = || format!("data does not fit the schema at {}", places.join(", "));
    verdict(places.is_empty(), "assert.schema", message, why)
}

fn verdict(pass: bool, tool: &str, message: Option<String>, why: impl Fn() -> String) -> Result<Value, ToolError> {
    if pass {
        return Ok(json!({ "pass": true }));
    }
    Err(invalid(match message {
        Some(message) => format!("{tool}: {message}: {}", why()),
        None => format!("{tool}: {}", why()),
    }))
}

/// Whether two values are equal, numbers by their value: 1 equals 1.0.
fn is_equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || ((a.is_f64() || b.is_f64()) && a.as_f64() == b.as_f64()),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_equal(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(name, a)| b.get(name).is_some_and(|b| is_equal(a, b)))
        }
        _ => a == b,
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(body: fn(&ToolCall) -> Result<Value, ToolError>, args: Value) -> Result<Value, ToolError> {
        body(&ToolCall::new(args, "", ""))
    }

    #[test]
    fn equality_is_deep_and_of_numbers() {
        let same = |a: Value, b: Value| run(equals, json!({ "expected": a, "actual": b })).is_ok();
        assert!(same(json!({ "a": [1, { "b": 2.0 }] }), json!({ "a": [1.0, { "b": 2 }] })));
        assert!(
            !same(json!([1, 2]), json!([2, 1])) && !same(json!(1), json!("1")) && !same(json!({}), json!({ "a": 1 }))
        );
        assert!(!same(json!(9007199254740993_i64), json!(9007199254740992_i64)), "no float between integers");
        assert!(!same(json!(i64::MAX), json!(i64::MAX as u64 + 1)), "nor between large ones");
    }

    #[test]
    fn a_failure_holds_the_message_and_no_value() {
        let error = run(equals, json!({ "expected": "hunter2", "actual": 1, "message": "total" })).unwrap_err();
        assert_eq!(
            error.message,
            "assert.equals: total: the actual value (a number) does not equal the expected one (a text)"
        );
        let error =
            run(fits, json!({ "data": { "k": "hunter2" }, "schema": { "properties": { "k": { "type": "null" } } } }));
        assert_eq!(error.unwrap_err().message, "assert.schema: data does not fit the schema at /k");
    }

    #[test]
    fn texts_and_lists_contain_and_match() {
        assert!(run(contains, json!({ "haystack": "abc", "needle": "b" })).is_ok());
        assert!(run(contains, json!({ "haystack": [1, [2]], "needle": [2.0] })).is_ok());
        assert!(run(contains, json!({ "haystack": "abc", "needle": 1 })).is_err());
        let matched = run(matches, json!({ "value": "id-42", "pattern": "[0-9]+" })).unwrap();
        assert_eq!(matched, json!({ "pass": true, "matches": "42" }));
        assert!(run(matches, json!({ "value": "", "pattern": "(((a{100}){100}){100})" })).is_err(), "too large");
        let long = "a".repeat(100_000) + "b";
        assert!(run(matches, json!({ "value": long, "pattern": "^(a+)+$" })).is_err(), "in linear time");
    }
}
