use serde_json::Value;

/// Returns the name that is nearest to a misspelled one, or `None` if none is near.
///
/// Upper and lower case do not matter.
///
/// ```
/// use workflow_flows::expression::nearest;
///
/// assert_eq!(nearest("fetcg", ["fetch", "store"]), Some("fetch"));
/// assert_eq!(nearest("nothing-like-it", ["fetch", "store"]), None);
/// ```
#[must_use]
pub fn nearest<'a>(wrong: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if wrong.len() > MOST_NAME_BYTES {
        return None;
    }
    let wrong = wrong.to_lowercase();
    names
        .into_iter()
        .filter(|name| name.len() <= MOST_NAME_BYTES)
        .take(MOST_NAMES)
        .map(|name| (strsim::damerau_levenshtein(&wrong, &name.to_lowercase()), name))
        .filter(|(distance, name)| *distance <= wrong.len().max(name.len()).div_ceil(3).clamp(1, 3))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// Longer names are not compared: the comparison is quadratic.
const MOST_NAME_BYTES: usize = 128;
/// Names that are compared.
const MOST_NAMES: usize = 1000;

/// Returns the name of a JSON value's type, with its article, for errors that must not show values.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
