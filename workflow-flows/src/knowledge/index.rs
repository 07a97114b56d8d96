//! Writes documents and queries in the forms of the full-text indexes, and compares them in memory.
//! All words are letters and digits, so nothing in them has a meaning for a database.

use super::query::{Query, Term};
use super::words::words;

/// The most words of a document that are found: positions of PostgreSQL end at 16,383.
const MOST_WORDS: usize = 16_000;

/// The most positions of one word, as on PostgreSQL.
#[cfg(feature = "postgres")]
const MOST_POSITIONS: usize = 255;

/// How much more a word in the title counts than one in the text.
const TITLE_WEIGHT: usize = 10;

/// The words of a document.
pub(super) struct Indexed {
    pub(super) title: Vec<String>,
    pub(super) text: Vec<String>,
}

impl Indexed {
    pub(super) fn new(title: &str, text: &str) -> Self {
        let title: Vec<String> = words(title).map(|word| word.text).take(MOST_WORDS).collect();
        let text = words(text).map(|word| word.text).take(MOST_WORDS - title.len()).collect();
        Self { title, text }
    }

    /// Returns how well a query fits, or `None` if it does not.
    pub(super) fn score(&self, query: &Query) -> Option<usize> {
        let count = |term: &Term| count(&self.title, term) * TITLE_WEIGHT + count(&self.text, term);
        if query.excluded.iter().any(|term| count(term) > 0) {
            return None;
        }
        let counts: Vec<usize> = query.wanted.iter().map(count).collect();
        let fits = |found: &usize| *found > 0;
        let is_found = if query.any { counts.iter().any(fits) } else { counts.iter().all(fits) };
        is_found.then(|| counts.iter().sum())
    }

    /// Returns the words as a `tsvector`. Those of the title weigh more, and no phrase reaches from
    /// the title into the text.
    #[cfg(feature = "postgres")]
    pub(super) fn tsvector(&self) -> String {
        let mut positions = std::collections::BTreeMap::<&str, Vec<String>>::new();
        let mut add = |word, position: String| {
            let of_word: &mut Vec<String> = positions.entry(word).or_default();
            if of_word.len() < MOST_POSITIONS {
                of_word.push(position);
            }
        };
        for (word, position) in self.title.iter().zip(1..) {
            add(word, format!("{position}A"));
        }
        for (word, position) in self.text.iter().zip(self.title.len() + 2..) {
            add(word, position.to_string());
        }
        let lexemes = positions.into_iter().map(|(word, positions)| format!("'{word}':{}", positions.join(",")));
        lexemes.collect::<Vec<_>>().join(" ")
    }
}

/// Returns how often the words of a term follow one another.
fn count(words: &[String], term: &Term) -> usize {
    words.windows(term.words.len()).filter(|found| is_same(found, term)).count()
}

fn is_same(found: &[String], term: &Term) -> bool {
    let last = term.words.len() - 1;
    found.iter().zip(&term.words).enumerate().all(|(at, (found, wanted))| {
        if term.is_prefix && at == last { found.starts_with(wanted.as_str()) } else { found == wanted }
    })
}

/// Returns a query in the language of FTS5.
#[cfg(feature = "sqlite")]
pub(super) fn fts5(query: &Query) -> String {
    let one = |term: &Term| format!("\"{}\"{}", term.words.join(" "), if term.is_prefix { " *" } else { "" });
    let group =
        |terms: &[Term], between: &str| format!("({})", terms.iter().map(one).collect::<Vec<_>>().join(between));
    let wanted = group(&query.wanted, if query.any { " OR " } else { " AND " });
    if query.excluded.is_empty() { wanted } else { format!("{wanted} NOT {}", group(&query.excluded, " OR ")) }
}

/// Returns a query as a `tsquery`.
#[cfg(feature = "postgres")]
pub(super) fn tsquery(query: &Query) -> String {
    let one = |term: &Term| {
        let words: Vec<String> = term.words.iter().map(|word| format!("'{word}'")).collect();
        format!("({}{})", words.join(" <-> "), if term.is_prefix { ":*" } else { "" })
    };
    let group =
        |terms: &[Term], between: &str| format!("({})", terms.iter().map(one).collect::<Vec<_>>().join(between));
    let wanted = group(&query.wanted, if query.any { " | " } else { " & " });
    if query.excluded.is_empty() { wanted } else { format!("{wanted} & !{}", group(&query.excluded, " | ")) }
}

/// The longest excerpt, in characters.
pub(super) const EXCERPT: usize = 400;

/// The characters of an excerpt before the first word that was found.
const LEAD: usize = 80;

/// Returns the part of a text around the first word that a query looks for.
pub(super) fn excerpt(text: &str, query: &Query) -> String {
    let begins = |found: &str, term: &Term| {
        let first = &term.words[0];
        found == first || (term.is_prefix && term.words.len() == 1 && found.starts_with(first.as_str()))
    };
    let hit = words(text).find(|word| query.wanted.iter().any(|term| begins(&word.text, term)));
    let hit = hit.map_or(0, |word| word.at);
    let begin = text[..hit].char_indices().rev().nth(LEAD - 1).map_or(0, |(at, _)| at);
    let shown = beginning(&text[begin..]);
    if begin > 0 { format!("…{shown}") } else { shown }
}

/// Returns the beginning of a text.
pub(super) fn beginning(text: &str) -> String {
    match text.char_indices().nth(EXCERPT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Indexed, excerpt};
    use crate::knowledge::query::Query;

    #[test]
    fn documents_fit_queries() {
        let document = Indexed::new("Printer jam", "The paper is out of the tray. E-mail works.");
        let fits = |query: &str, any: bool| document.score(&Query { any, ..Query::parse(query).unwrap() });
        for query in ["printer", "PAPER printer", "\"out of\"", "e-mail", "work*", "\"is ou\"*", "paper -ink"] {
            assert!(fits(query, false).is_some(), "{query}");
        }
        for query in ["print", "paper ink", "\"of out\"", "\"jam the\"", "paper -printer", "wrk*"] {
            assert_eq!(fits(query, false), None, "{query}");
        }
        assert!(fits("ink paper", true).is_some() && fits("ink paper -tray", true).is_none());
        assert!(fits("jam", false) > fits("paper", false), "a word of the title counts more");
    }

    #[test]
    #[cfg(all(feature = "sqlite", feature = "postgres"))]
    fn the_forms_of_the_indexes_hold_words_alone() {
        let query = Query::parse("a\" OR 'b\\ \"c:* de\"* -'); -\"x | y\"").unwrap();
        assert_eq!(super::fts5(&query), r#"("a" AND "or" AND "b" AND "c de" *) NOT ("x y")"#);
        assert_eq!(super::tsquery(&query), "(('a') & ('or') & ('b') & ('c' <-> 'de':*)) & !(('x' <-> 'y'))");
        let document = Indexed::new("A b", "b' c\\");
        assert_eq!(document.tsvector(), "'a':1A 'b':2A,4 'c':5");
    }

    #[test]
    fn an_excerpt_shows_the_first_word_that_was_found() {
        let text = format!("{} Needle {}", "häy ".repeat(100), "stack ".repeat(200));
        let shown = excerpt(&text, &Query::parse("need*").unwrap());
        assert!(shown.contains("Needle") && shown.starts_with('…') && shown.ends_with('…'), "{shown}");
        assert_eq!(shown.chars().count(), 402);
        assert_eq!(excerpt("short", &Query::parse("none").unwrap()), "short");
    }
}
