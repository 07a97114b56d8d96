//! Failures that are alike, as an operator counts them.

use super::{ErrorKind, RunId, StoredError, Timestamp};

/// The longest message of a group, in bytes. The message is a part of the key of a table.
const MAX_MESSAGE_BYTES: usize = 200;

/// The common part of failed runs: the workflow, the kind of the error, the step, and the message
/// without what differs from run to run.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FailureGroup {
    /// The name of the workflow.
    pub workflow: String,
    /// The kind of the error, as it is stored.
    pub kind: String,
    /// The key of the step that failed, with its digits replaced; empty if no step failed.
    pub step: String,
    /// The message: at most 200 bytes of it, with words that have digits, addresses and quoted text
    /// replaced.
    pub message: String,
}

impl FailureGroup {
    /// Stands for a message that must not be readable in the database.
    const ENCODED: &'static str = "(encoded)";

    /// Returns the group of an error.
    #[must_use]
    pub fn of(workflow: &str, error: &StoredError) -> Self {
        Self {
            workflow: workflow.to_owned(),
            kind: error.kind.as_str().to_owned(),
            step: error.step_key.as_deref().map(common_part).unwrap_or_default(),
            message: common_part(&error.message),
        }
    }

    /// Returns the group of errors whose messages a codec encodes: a message would show a part of
    /// the payload. The message of a passed deadline comes from the engine, and stays.
    #[must_use]
    pub fn without_message(&self) -> Self {
        if self.error_kind() == ErrorKind::Deadline {
            return self.clone();
        }
        Self { message: Self::ENCODED.to_owned(), ..self.clone() }
    }

    /// Returns the kind of the error. A kind of another release is [`ErrorKind::Unknown`].
    #[must_use]
    pub fn error_kind(&self) -> ErrorKind {
        let kind = serde_json::from_value(self.kind.as_str().into());
        kind.unwrap_or(ErrorKind::Unknown)
    }
}

/// The failures of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailureRow {
    /// The group.
    pub group: FailureGroup,
    /// How many runs have failed.
    pub count: u64,
    /// When the first one failed.
    pub first_at: Timestamp,
    /// When the last one failed.
    pub last_at: Timestamp,
    /// The version of the first one.
    pub first_version: String,
    /// The last one.
    pub last_run: RunId,
}

impl FailureRow {
    /// Adds failures of this group.
    pub fn add(&mut self, other: &Self) {
        self.count = self.count.saturating_add(other.count);
        if other.first_at < self.first_at {
            (self.first_at, self.first_version) = (other.first_at, other.first_version.clone());
        }
        if other.last_at >= self.last_at {
            (self.last_at, self.last_run) = (other.last_at, other.last_run);
        }
    }
}

/// Returns the part of a message that alike failures share. Words with digits become `#`, so that
/// ids, amounts and times do not tell failures apart; so do addresses with an `@`. Quoted text
/// becomes `"*"`.
fn common_part(message: &str) -> String {
    let mut common = String::new();
    let mut rest = message.trim_start();
    while let Some(first) = rest.chars().next().filter(|_| common.len() < MAX_MESSAGE_BYTES) {
        let after = &rest[first.len_utf8()..];
        if matches!(first, '"' | '\'' | '`')
            && let Some(end) = end_of_quote(after, first)
        {
            common.push_str("\"*\"");
            rest = &after[end..];
        } else if is_of_word(first) {
            let (word, later) = rest.split_at(rest.find(|c: char| !is_of_word(c)).unwrap_or(rest.len()));
            common.push_str(if is_variable(word) { "#" } else { word });
            rest = later;
        } else if first.is_whitespace() || first.is_control() {
            rest = after.trim_start();
            common.push_str(if rest.is_empty() { "" } else { " " });
        } else {
            common.push(first);
            rest = after;
        }
    }
    common.truncate(common.floor_char_boundary(MAX_MESSAGE_BYTES));
    common
}

/// Returns where the text after an opening quote goes on behind the closing one. An apostrophe
/// within a word closes nothing.
fn end_of_quote(after: &str, quote: char) -> Option<usize> {
    let is_closing = |at: usize| {
        let next = after[at + quote.len_utf8()..].chars().next();
        quote != '\'' || next.is_none_or(|next| !next.is_alphanumeric())
    };
    let end = after.match_indices(quote).map(|(at, _)| at).find(|at| is_closing(*at));
    end.map(|at| at + quote.len_utf8())
}

/// An apostrophe between letters is a part of its word.
fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '@' | '.' | '/' | '+' | '%' | '’')
}

fn is_variable(word: &str) -> bool {
    word.contains('@') || word.chars().any(char::is_numeric)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alike_messages_have_one_common_part() {
        for (message, common) in [
            ("card declined", "card declined"),
            ("order 4711 was not found", "order # was not found"),
            ("order a-4711: 30.5s", "order #: #"),
            ("run 018f0000-0000-7000-8000-000000000001 is gone", "run # is gone"),
            ("mail to ada@example.org bounced", "mail to # bounced"),
            ("no such file \"/tmp/x y\" (os error 2)", "no such file \"*\" (os error #)"),
            ("column 'total' of `orders`", "column \"*\" of \"*\""),
            ("it's \"late\"\n\tand  dark ", "it's \"*\" and dark"),
            ("an open \"quote", "an open \"quote"),
            ("timeout", "timeout"),
            ("", ""),
            ("  ", ""),
        ] {
            assert_eq!(common_part(message), common, "{message:?}");
        }
    }

    #[test]
    fn a_long_message_is_cut_between_two_characters() {
        let common = common_part(&"ü ".repeat(500));
        assert!((MAX_MESSAGE_BYTES - 1..=MAX_MESSAGE_BYTES).contains(&common.len()), "{}", common.len());
        assert!(common_part(&"word".repeat(500)).len() <= MAX_MESSAGE_BYTES);
    }

    #[test]
    fn a_group_has_the_kind_of_its_error() {
        let error = StoredError::new(ErrorKind::HistoryLimit, "7 rows").of_step("charge:2");
        let group = FailureGroup::of("checkout", &error);
        assert_eq!(
            (group.error_kind(), group.step.as_str(), group.message.as_str()),
            (error.kind, "charge:#", "# rows")
        );
        assert_eq!(FailureGroup { kind: "quota".into(), ..group.clone() }.error_kind(), ErrorKind::Unknown);
        assert!(!group.without_message().message.contains("rows"));
    }
}
