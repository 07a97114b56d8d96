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
    #[cfg(test)]
    CALLS.set(CALLS.get() + 1);
    if wrong.len() > MOST_NAME_BYTES {
        return None;
    }
    let wrong = wrong.to_lowercase();
    let mut compared = 0;
    names
        .into_iter()
        .filter(|name| name.len() <= MOST_NAME_BYTES)
        .take(MOST_NAMES)
        .take_while(|name| {
            compared += wrong.len() * name.len();
            compared <= MOST_COMPARED
        })
        .map(|name| (strsim::damerau_levenshtein(&wrong, &name.to_lowercase()), name))
        .filter(|(distance, name)| *distance <= wrong.len().max(name.len()).div_ceil(3).clamp(1, 3))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// Longer names are not compared: the comparison is quadratic.
const MOST_NAME_BYTES: usize = 128;
/// Names that are compared.
const MOST_NAMES: usize = 1000;
/// Pairs of bytes that are compared, so that many long names take no longer than many short ones.
const MOST_COMPARED: usize = 1_000_000;

#[cfg(test)]
thread_local! {
    /// The calls of [`nearest`] on this thread.
    pub(crate) static CALLS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_not_all_compared() {
        let looked_at = |length: usize| {
            let names = vec!["b".repeat(length); MOST_NAMES];
            let mut count = 0;
            assert_eq!(nearest(&"a".repeat(length), names.iter().map(String::as_str).inspect(|_| count += 1)), None);
            count
        };
        assert_eq!((looked_at(30), looked_at(MOST_NAME_BYTES)), (MOST_NAMES, 62));
    }
}
