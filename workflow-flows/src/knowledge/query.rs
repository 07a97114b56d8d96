//! The language of searches.

use super::KbError;
use super::words::words;

/// The longest query, in bytes.
const LONGEST: usize = 1_024;

/// The most words of a query.
const MOST_WORDS: usize = 32;

/// The shortest word before a `*`, in characters. A shorter one is the beginning of too many words.
const SHORTEST_PREFIX: usize = 2;

/// The words that a document must have, and those that it must not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Query {
    pub(super) wanted: Vec<Term>,
    pub(super) excluded: Vec<Term>,
    /// Whether one of the wanted terms is enough.
    pub(super) any: bool,
}

/// Words that follow one another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Term {
    /// At least one.
    pub(super) words: Vec<String>,
    /// Whether the last word may be the beginning of a longer one.
    pub(super) is_prefix: bool,
}

impl Query {
    pub(super) fn parse(text: &str) -> Result<Self, KbError> {
        if text.len() > LONGEST {
            return Err(refused(format!("it has {} bytes, at most {LONGEST} are allowed", text.len())));
        }
        let mut query = Self { wanted: Vec::new(), excluded: Vec::new(), any: false };
        let mut rest = text.trim_start();
        while !rest.is_empty() {
            let (part, after) = next_part(rest);
            if let Some(term) = Term::parse(part.source, part.is_prefix)? {
                let list = if part.is_excluded { &mut query.excluded } else { &mut query.wanted };
                list.push(term);
            }
            rest = after.trim_start();
        }
        let count: usize = query.terms().map(|term| term.words.len()).sum();
        if count > MOST_WORDS {
            return Err(refused(format!("it has {count} words, at most {MOST_WORDS} are allowed")));
        }
        if query.wanted.is_empty() {
            return Err(refused("it names no word to look for".to_owned()));
        }
        Ok(query)
    }

    fn terms(&self) -> impl Iterator<Item = &Term> {
        self.wanted.iter().chain(&self.excluded)
    }
}

impl Term {
    /// Returns `None` for a text without words.
    fn parse(source: &str, is_prefix: bool) -> Result<Option<Self>, KbError> {
        let words: Vec<String> = words(source).map(|word| word.text).collect();
        let Some(last) = words.last() else { return Ok(None) };
        if is_prefix && last.chars().count() < SHORTEST_PREFIX {
            return Err(refused(format!("a word before * has {SHORTEST_PREFIX} characters or more")));
        }
        Ok(Some(Self { words, is_prefix }))
    }
}

/// A word, or a phrase in quotes.
struct Part<'q> {
    source: &'q str,
    is_excluded: bool,
    is_prefix: bool,
}

/// Takes the first part of a text that is not empty. A quote that is not closed ends with the text.
fn next_part(text: &str) -> (Part<'_>, &str) {
    let without_sign = text.strip_prefix('-').filter(|rest| !rest.starts_with(char::is_whitespace));
    let (text, is_excluded) = (without_sign.unwrap_or(text), without_sign.is_some());
    let Some(inner) = text.strip_prefix('"') else {
        let (source, after) = text.split_at(text.find(char::is_whitespace).unwrap_or(text.len()));
        return (Part { source, is_excluded, is_prefix: source.ends_with('*') }, after);
    };
    let (source, after) = inner.split_once('"').unwrap_or((inner, ""));
    let after_star = after.strip_prefix('*');
    (Part { source, is_excluded, is_prefix: after_star.is_some() }, after_star.unwrap_or(after))
}

fn refused(reason: String) -> KbError {
    KbError::Query { reason }
}

#[cfg(test)]
mod tests {
    use super::{KbError, LONGEST, MOST_WORDS, Query, Term};

    fn term(words: &[&str], is_prefix: bool) -> Term {
        Term { words: words.iter().map(|&word| word.to_owned()).collect(), is_prefix }
    }

    #[test]
    fn queries_have_words_phrases_beginnings_and_exclusions() {
        let query = Query::parse(r#" Printer "out of paper" e-mail tone* "lost conn"* -ink -"no power" - x"#).unwrap();
        let wanted = [
            term(&["printer"], false),
            term(&["out", "of", "paper"], false),
            term(&["e", "mail"], false),
            term(&["tone"], true),
            term(&["lost", "conn"], true),
            term(&["x"], false),
        ];
        assert_eq!(query.wanted, wanted);
        assert_eq!(query.excluded, [term(&["ink"], false), term(&["no", "power"], false)]);
        assert_eq!(Query::parse(r#"a "b c"#).unwrap().wanted, [term(&["a"], false), term(&["b", "c"], false)]);
    }

    #[test]
    fn queries_without_words_or_bounds_are_refused() {
        let long = "a".repeat(LONGEST + 1);
        let many = "a ".repeat(MOST_WORDS + 1);
        for (query, reason) in [
            ("", "no word"),
            ("\"", "no word"),
            ("-", "no word"),
            ("-ink", "no word"),
            ("** \0 ' ; ()", "no word"),
            ("a*", "2 characters"),
            (long.as_str(), "1024"),
            (many.as_str(), "33 words"),
        ] {
            let KbError::Query { reason: found } = Query::parse(query).unwrap_err() else { panic!("{query:?}") };
            assert!(found.contains(reason), "{query:?}: {found}");
        }
        assert!(Query::parse(&"a ".repeat(MOST_WORDS)).is_ok());
    }
}
