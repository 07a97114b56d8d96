//! Splits texts into the words by which documents are found. The words of documents and of queries
//! are made here, so all databases find equal documents.

use std::iter::Peekable;
use std::str::CharIndices;

/// A longer run of letters is cut into several words, in characters.
const LONGEST: usize = 64;

/// Returns the words of a text, each with the place at which it begins.
pub(super) fn words(text: &str) -> Words<'_> {
    Words(text.char_indices().peekable())
}

/// The words of a text: runs of letters and digits, in lower case. Writing without spaces gives one
/// word per character.
pub(super) struct Words<'t>(Peekable<CharIndices<'t>>);

/// A word, and where it begins in its text, in bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Word {
    pub(super) at: usize,
    pub(super) text: String,
}

impl Iterator for Words<'_> {
    type Item = Word;

    fn next(&mut self) -> Option<Word> {
        while self.0.next_if(|(_, c)| !c.is_alphanumeric()).is_some() {}
        let (at, first) = self.0.next()?;
        let mut text: String = lower(first).collect();
        if !has_no_spaces(first) {
            let is_inside = |(_, c): &(usize, char)| c.is_alphanumeric() && !has_no_spaces(*c);
            for _ in 1..LONGEST {
                let Some((_, c)) = self.0.next_if(is_inside) else { break };
                text.extend(lower(c));
            }
        }
        Some(Word { at, text })
    }
}

/// Returns a character in lower case. Sigma has one form, wherever it stands in its word.
fn lower(c: char) -> impl Iterator<Item = char> {
    c.to_lowercase().map(|c| if c == 'ς' { 'σ' } else { c })
}

/// Returns whether a character belongs to a writing without spaces: Chinese or Japanese.
fn has_no_spaces(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3134f}')
}

#[cfg(test)]
mod tests {
    use super::{LONGEST, words};

    fn of(text: &str) -> Vec<String> {
        words(text).map(|word| word.text).collect()
    }

    #[test]
    fn words_are_runs_of_letters_and_digits() {
        assert_eq!(of("The e-mail (v2.0) isn't HERE"), ["the", "e", "mail", "v2", "0", "isn", "t", "here"]);
        assert_eq!(of("Zürich ΣΑΣ σας"), ["zürich", "σασ", "σασ"]);
        assert_eq!(of("日本語 text"), ["日", "本", "語", "text"]);
        assert_eq!(of("x日y"), ["x", "日", "y"]);
        assert_eq!(of(" \u{0}'\";--%* \u{202e}"), Vec::<String>::new());
        assert_eq!(of(&"a".repeat(LONGEST + 1)), ["a".repeat(LONGEST), "a".to_owned()]);
        assert_eq!(words("- ü b").map(|word| word.at).collect::<Vec<_>>(), [2, 5]);
    }
}
