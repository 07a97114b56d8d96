//! Completes the last word of a search: with words of the grammar, and with names that exist.

use workflow_sdk::RunStatus;
use workflow_sdk::operate::Fact;

use crate::facets::{tag, word};

/// The most completions that are offered.
const MOST: usize = 15;

/// Each name of the grammar with its meaning and an example.
pub(crate) const NAMES: [(&str, &str, &str); 15] = [
    ("status", "where the run is in its life", "status:failed"),
    ("workflow", "the name of the workflow", "workflow:check*"),
    ("queue", "the name of the queue", "queue:mail"),
    ("version", "the version of the workflow", "version:7"),
    ("gate", "the gate of the queue", "gate:acct-42"),
    ("key", "the idempotency key", "key:order-*"),
    ("tag.", "a tag and its value", "tag.customer:42"),
    ("schedule", "the schedule that started the run", "schedule:daily-report"),
    ("parent", "the run that started the run", "parent:019ac2f0-…"),
    ("worker", "the worker that holds the run", "worker:019ac2f0-…"),
    ("started", "when the run was started", "started:>-1h"),
    ("ended", "when the run ended", "ended:2026-11-01..2026-11-02"),
    ("duration", "from the first claim to the end", "duration:>5m"),
    ("is", "a fact about the run", "is:paused"),
    ("error", "a part of the message of its error", "error:timeout"),
];

/// The times that are offered.
const TIMES: [(&str, &str); 5] = [
    (">-15m", "in the last 15 minutes"),
    (">-1h", "in the last hour"),
    (">-1d", "in the last 24 hours"),
    (">-7d", "in the last 7 days"),
    ("<-7d", "more than 7 days ago"),
];

/// Searches that are often needed: the name and the query of each.
pub(crate) const VIEWS: [(&str, &str); 6] = [
    ("Failed today", "status:failed ended:>-1d"),
    ("Not ended", "is:open"),
    ("Due for a minute", "is:late"),
    ("Worker died", "is:crashed"),
    ("Stuck", "is:stuck"),
    ("Started in the last hour", "started:>-1h"),
];

/// The names that exist.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    pub(crate) workflows: Vec<String>,
    pub(crate) queues: Vec<String>,
    pub(crate) versions: Vec<String>,
    pub(crate) schedules: Vec<String>,
    pub(crate) tags: Vec<(String, String)>,
}

/// One way to go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Completion {
    /// The whole text with the completed word.
    pub(crate) text: String,
    /// The word alone.
    pub(crate) word: String,
    pub(crate) meaning: String,
}

/// Returns the place at which the last word of a text begins. A space in quotes ends no word.
fn last_word(text: &str) -> usize {
    let (mut begin, mut is_quoted, mut is_escaped) = (0, false, false);
    for (at, c) in text.char_indices() {
        match c {
            '\\' if is_quoted && !is_escaped => {
                is_escaped = true;
                continue;
            }
            '"' if !is_escaped => is_quoted = !is_quoted,
            c if c.is_whitespace() && !is_quoted => begin = at + c.len_utf8(),
            _ => {}
        }
        is_escaped = false;
    }
    begin
}

/// Returns how the last word of a text may go on, the likeliest first.
pub(crate) fn complete(text: &str, names: &Names) -> Vec<Completion> {
    let (before, last) = text.split_at(last_word(text));
    let (minus, begun) = last.strip_prefix('-').map_or(("", last), |rest| ("-", rest));
    let begun = begun.replace('"', "").to_lowercase();
    let words = words(names);
    let begins = words.iter().filter(|(word, _)| fits(word, &begun));
    // A word without a name may be a value: `fail` is `status:failed`.
    let values = words.iter().filter(|(word, _)| {
        let value = word.split_once(':').map(|(_, value)| value.to_lowercase());
        begun.len() > 1 && !begun.contains(':') && value.is_some_and(|value| value.starts_with(&begun))
    });
    let mut found: Vec<Completion> = Vec::new();
    for (word, meaning) in begins.chain(values) {
        let word = format!("{minus}{word}");
        let is_new = word != last && found.iter().all(|other| other.word != word);
        if is_new && found.len() < MOST {
            found.push(Completion { text: format!("{before}{word}"), word, meaning: meaning.clone() });
        }
    }
    found
}

/// Returns `true` if a word goes on where `begun` ends. The names come without values as long as
/// no colon is written.
fn fits(word: &str, begun: &str) -> bool {
    let word = word.replace('"', "").to_lowercase();
    let is_name = word.ends_with([':', '.']);
    word.starts_with(begun) && (is_name || begun.contains([':', '.']))
}

/// Returns all words that can be offered, each with its meaning.
fn words(names: &Names) -> Vec<(String, String)> {
    let mut words: Vec<(String, String)> = Vec::new();
    for (name, meaning, example) in NAMES {
        let colon = if name.ends_with('.') { "" } else { ":" };
        words.push((format!("{name}{colon}"), format!("{meaning}, as {example}")));
    }
    let mut add = |word: String, meaning: &str| words.push((word, meaning.to_owned()));
    for status in RunStatus::ALL {
        add(format!("status:{status}"), "");
    }
    for fact in Fact::ALL {
        add(format!("is:{fact}"), "");
    }
    for (name, values) in [
        ("workflow", &names.workflows),
        ("queue", &names.queues),
        ("version", &names.versions),
        ("schedule", &names.schedules),
    ] {
        for value in values {
            add(word(name, value), "");
        }
    }
    for (name, value) in &names.tags {
        add(tag(name, value), "");
    }
    for name in ["started", "ended"] {
        for (time, meaning) in TIMES {
            add(format!("{name}:{time}"), meaning);
        }
    }
    words
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn names() -> Names {
        Names {
            workflows: vec!["checkout".into(), "a b".into()],
            queues: vec!["mail".into()],
            versions: vec!["7".into()],
            schedules: Vec::new(),
            tags: vec![("customer".into(), "42".into())],
        }
    }

    fn texts(text: &str) -> Vec<String> {
        complete(text, &names()).into_iter().map(|completion| completion.text).collect()
    }

    #[test]
    fn the_last_word_goes_on() {
        assert_eq!(texts("sta"), ["status:", "started:"]);
        assert_eq!(texts("status:f"), ["status:failed"]);
        assert_eq!(texts("queue:mail -status:s"), ["queue:mail -status:succeeded"]);
        assert_eq!(texts("workflow:"), ["workflow:checkout", "workflow:\"a b\""]);
        assert_eq!(texts("workflow:a"), ["workflow:\"a b\""]);
        assert_eq!(texts("tag."), ["tag.customer:42"]);
        assert_eq!(texts("fail"), ["status:failed"]);
        assert_eq!(texts("check"), ["workflow:checkout"]);
        assert_eq!(texts("nothing"), [""; 0]);
    }

    #[test]
    fn an_empty_word_offers_the_names() {
        for text in ["", "queue:mail "] {
            let words = complete(text, &names());
            assert_eq!(words.len(), NAMES.len(), "{text:?}: {words:?}");
            assert!(words.iter().all(|word| word.text.starts_with(text)), "{words:?}");
        }
    }

    #[test]
    fn a_space_in_quotes_ends_no_word() {
        for (text, begin) in [("", 0), ("a b", 2), ("a \"b c", 2), ("a \"b\\\" c\" d", 10), ("é ", 3)] {
            assert_eq!(last_word(text), begin, "{text}");
        }
    }

    #[test]
    fn every_view_and_example_can_be_read() {
        for (_, query) in VIEWS {
            query.parse::<workflow_sdk::operate::Query>().unwrap();
        }
        for (.., example) in NAMES.into_iter().filter(|(.., example)| !example.contains('…')) {
            example.parse::<workflow_sdk::operate::Query>().unwrap();
        }
    }
}
