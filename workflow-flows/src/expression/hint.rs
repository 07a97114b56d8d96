use serde_json::Value;

/// Returns the name that is nearest to a misspelled one, or `None` if none is near.
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
    let allowed = (wrong.chars().count() / 3).max(1);
    names
        .into_iter()
        .filter(|name| name.len() <= MOST_NAME_BYTES)
        .take(MOST_NAMES)
        .map(|name| (strsim::damerau_levenshtein(wrong, name), name))
        .filter(|(distance, _)| *distance <= allowed)
        .min()
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
