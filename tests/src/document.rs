//! Checks answers of the HTTP interface against its OpenAPI document.

use std::sync::LazyLock;

use serde_json::{Map, Value};

/// The committed document.
static DOCUMENT: LazyLock<Value> = LazyLock::new(|| {
    let text = include_str!("../../workflow-http/openapi.json");
    serde_json::from_str(text).unwrap_or_else(|error| panic!("openapi.json: {error}"))
});

/// Says nothing about which values fit.
const REMARKS: [&str; 5] = ["description", "format", "examples", "default", "title"];

/// Checks that an answer is one that the document describes for this method and path. `path` begins
/// behind `/api/v1`.
///
/// # Panics
/// If it is not.
pub fn check_answer(method: &str, path: &str, status: u16, body: &str) {
    let place = format!("{method} {path}: {status}");
    let operation = operation(method, path).unwrap_or_else(|| panic!("{place}: the document has no such operation"));
    let answers = &operation["responses"];
    let exact = answers.get(status.to_string());
    let answer = exact.or((status >= 400).then(|| &answers["default"]));
    let content = answer.and_then(|answer| answer["content"].as_object()).and_then(|kinds| kinds.values().next());
    let content = content.unwrap_or_else(|| panic!("{place}: the document has no such answer"));
    let value = serde_json::from_str(body).unwrap_or_else(|error| panic!("{place}: {error}: {body}"));
    if let Err(why) = fits(&value, &content["schema"]) {
        panic!("{place}: {why}\n{body}");
    }
}

/// Checks that a value is one of a schema of the document.
///
/// # Panics
/// If it is not.
pub fn check_schema(schema: &str, json: &str) {
    let value = serde_json::from_str(json).unwrap_or_else(|error| panic!("{schema}: {error}: {json}"));
    let known = DOCUMENT.pointer(&format!("/components/schemas/{schema}"));
    let result = fits(&value, known.unwrap_or_else(|| panic!("the document has no schema {schema}")));
    assert!(result.is_ok(), "{schema}: {result:?}\n{json}");
}

/// Finds the operation of a path. A path without placeholders goes before one with them.
fn operation<'d>(method: &str, path: &str) -> Option<&'d Value> {
    let path = path.split('?').next()?;
    let parts: Vec<&str> = path.split('/').collect();
    let paths = DOCUMENT["paths"].as_object()?;
    let matches = |template: &str| {
        let wanted: Vec<&str> = template.split('/').collect();
        wanted.len() == parts.len() && wanted.iter().zip(&parts).all(|(w, p)| w.starts_with('{') || w == p)
    };
    let mut found: Vec<_> = paths.iter().filter(|(template, _)| matches(template)).collect();
    found.sort_by_key(|(template, _)| template.matches('{').count());
    found.into_iter().find_map(|(_, methods)| methods.get(method.to_lowercase()))
}

/// Returns why a value does not fit a schema. A keyword that is not checked here is an error, too.
fn fits(value: &Value, schema: &Value) -> Result<(), String> {
    let Some(keywords) = schema.as_object() else { return Err(format!("{schema} is no schema")) };
    for (keyword, of) in keywords {
        check(keyword, of, keywords, value).map_err(|why| format!("{why} ({keyword})"))?;
    }
    Ok(())
}

fn check(keyword: &str, of: &Value, schema: &Map<String, Value>, value: &Value) -> Result<(), String> {
    let ensure = |holds: bool| if holds { Ok(()) } else { Err(format!("{value} does not fit {of}")) };
    let each = |of: &Value| of.as_array().cloned().unwrap_or_default();
    match keyword {
        _ if REMARKS.contains(&keyword) => Ok(()),
        "$ref" => {
            let target = of.as_str().and_then(|target| DOCUMENT.pointer(target.trim_start_matches('#')));
            fits(value, target.ok_or_else(|| format!("{of} leads nowhere"))?)
        }
        "type" if of.is_array() => ensure(each(of).iter().any(|of| is_of(value, of))),
        "type" => ensure(is_of(value, of)),
        "enum" => ensure(each(of).contains(value)),
        "pattern" => {
            let pattern = of.as_str().and_then(|pattern| regex::Regex::new(pattern).ok());
            ensure(pattern.zip(value.as_str()).is_some_and(|(pattern, text)| pattern.is_match(text)))
        }
        "minimum" => ensure(value.as_f64() >= of.as_f64()),
        "maximum" => ensure(value.as_f64() <= of.as_f64()),
        "allOf" => each(of).iter().try_for_each(|schema| fits(value, schema)),
        "anyOf" => ensure(each(of).iter().any(|schema| fits(value, schema).is_ok())),
        "oneOf" => {
            let failed: Vec<String> = each(of).iter().filter_map(|schema| fits(value, schema).err()).collect();
            let fitting = each(of).len() - failed.len();
            if fitting == 1 { Ok(()) } else { Err(format!("{value} fits {fitting}: {failed:?}")) }
        }
        "items" => value.as_array().into_iter().flatten().try_for_each(|item| fits(item, of)),
        "required" => ensure(each(of).iter().all(|name| value.get(name.as_str().unwrap_or_default()).is_some())),
        "properties" => of.as_object().into_iter().flatten().try_for_each(|(name, schema)| {
            value.get(name).map_or(Ok(()), |value| fits(value, schema).map_err(|why| format!("{name}: {why}")))
        }),
        "propertyNames" => Ok(()),
        "additionalProperties" => {
            let known = schema.get("properties");
            let is_other = |name: &str| known.and_then(|known| known.get(name)).is_none();
            let others = value.as_object().into_iter().flatten().filter(|(name, _)| is_other(name));
            let mut others = others.map(|(_, value)| value);
            if *of == Value::Bool(false) {
                ensure(others.next().is_none())
            } else {
                others.try_for_each(|v| fits(v, of))
            }
        }
        _ => Err(format!("the keyword {keyword} is not checked by these tests")),
    }
}

fn is_of(value: &Value, kind: &Value) -> bool {
    match kind.as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("number") => value.is_number(),
        Some("boolean") => value.is_boolean(),
        Some("null") => value.is_null(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_a_schema_does_not_describe_is_found() {
        let count = serde_json::json!({ "runs": 1, "at_least": false });
        let schema = &DOCUMENT["components"]["schemas"]["Count"];
        assert_eq!(fits(&count, schema), Ok(()));
        for wrong in [r#"{"runs":1}"#, r#"{"runs":-1,"at_least":false}"#, r#"{"runs":"1","at_least":false}"#, "[]"] {
            assert!(fits(&serde_json::from_str(wrong).unwrap_or_default(), schema).is_err(), "{wrong}");
        }
        assert!(fits(&count, &serde_json::json!({ "not": {} })).is_err(), "an unknown keyword is no success");
    }
}
