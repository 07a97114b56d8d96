//! Reads the arguments of a call into a type, and values out of them.

use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use workflow_flows::{ErrorClass, ToolError, parse_duration};

/// Reads arguments. The error names fields and types, never a value, which may be a secret.
pub(crate) fn parse<T: DeserializeOwned>(tool: &str, args: &Value) -> Result<T, ToolError> {
    T::deserialize(args).map_err(|error| invalid(format!("the arguments of {tool} do not fit: {}", nameless(&error))))
}

/// Returns the message of an error of serde without the value that it quotes.
fn nameless(error: &serde_json::Error) -> String {
    let message = error.to_string();
    let kinds = ["invalid type", "invalid value", "invalid length", "unknown variant"];
    let kind = kinds.into_iter().find(|kind| message.starts_with(kind));
    match (kind, message.rsplit_once(", expected ")) {
        (Some(kind), Some((_, expected))) => format!("{kind}, expected {expected}"),
        _ => message,
    }
}

/// An error that no further attempt can mend.
pub(crate) fn invalid(message: impl Into<String>) -> ToolError {
    ToolError::new(ErrorClass::Invalid, message)
}

/// An error of the class `failed`.
pub(crate) fn failed(message: impl Into<String>) -> ToolError {
    ToolError::new(ErrorClass::Failed, message)
}

/// A duration in arguments: as flows write it, or a number of seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span(pub(crate) Duration);

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let found = match &value {
            Value::Number(seconds) => seconds.as_f64().and_then(|s| Duration::try_from_secs_f64(s).ok()),
            Value::String(text) => parse_duration(text).ok(),
            _ => None,
        };
        let wrong =
            || serde::de::Error::custom("a duration is written as 500ms, 30s, 5m, PT30S or a number of seconds");
        found.map(Self).ok_or_else(wrong)
    }
}

/// Returns the limit, or the shortest of the times that were asked for if it is shorter.
pub(crate) fn shortest<const N: usize>(limit: Duration, asked: [Option<Duration>; N]) -> Duration {
    asked.into_iter().flatten().fold(limit, Duration::min)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Example {
        #[allow(dead_code)]
        count: u32,
        #[allow(dead_code)]
        kind: Option<Kind>,
    }

    #[derive(Debug, Deserialize)]
    enum Kind {
        A,
        B,
    }

    #[test]
    fn errors_of_arguments_hold_no_value() {
        let error = parse::<Example>("x", &json!({ "count": "hunter2, expected" })).unwrap_err();
        assert_eq!(error.message, "the arguments of x do not fit: invalid type, expected u32");
        let error = parse::<Example>("x", &json!({ "count": 1, "kind": "hunter2" })).unwrap_err();
        assert_eq!(error.message, "the arguments of x do not fit: unknown variant, expected `A` or `B`");
        let error = parse::<Example>("x", &json!({ "coumt": 1 })).unwrap_err();
        assert!(error.message.contains("`coumt`"), "{error}");
        assert_eq!(error.class, ErrorClass::Invalid);
    }

    #[test]
    fn times_have_units_or_are_seconds() {
        for (given, millis) in
            [(json!("500ms"), 500), (json!("1m30s"), 90_000), (json!(1.5), 1_500), (json!("PT1H"), 3_600_000)]
        {
            assert_eq!(serde_json::from_value::<Span>(given).unwrap().0, Duration::from_millis(millis));
        }
        for wrong in [json!("5"), json!("s"), json!(-1), json!("5 s"), json!("99999999999999999999s"), json!(null)] {
            assert!(serde_json::from_value::<Span>(wrong.clone()).is_err(), "{wrong}");
        }
    }
}
