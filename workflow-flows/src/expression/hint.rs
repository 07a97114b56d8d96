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

/// Operators of other languages, each with that of CEL.
const FOREIGN: [(&str, &str); 11] = [
    ("===", "=="),
    ("!==", "!="),
    ("=", "=="),
    ("&", "&&"),
    ("|", "||"),
    ("and", "&&"),
    ("AND", "&&"),
    ("or", "||"),
    ("OR", "||"),
    ("not", "!"),
    ("NOT", "!"),
];

/// Returns the message for an operator of another language. `None` if the word is not one.
pub(super) fn foreign_operator(word: &str) -> Option<String> {
    let (_, usual) = FOREIGN.iter().find(|(foreign, _)| *foreign == word)?;
    let pipe = if word == "|" { ", or use a jq step" } else { "" };
    Some(format!("`{word}` is not an operator; write `{usual}`{pipe}"))
}

/// Returns the length of the operator of another language with which a text begins, and the
/// operator of CEL.
pub(crate) fn operator_repair(text: &str) -> Option<(usize, &'static str)> {
    let first = text.chars().next()?;
    let is_part = |next: char| if first.is_ascii_alphabetic() { is_word(next) } else { "=&|".contains(next) };
    let rest = text.get(first.len_utf8()..)?;
    let length = text.len() - rest.trim_start_matches(is_part).len();
    let (_, usual) = FOREIGN.iter().find(|(foreign, _)| Some(*foreign) == text.get(..length))?;
    Some((length, usual))
}

fn is_word(next: char) -> bool {
    next.is_ascii_alphanumeric() || next == '_'
}
