//! The search grammar: which runs a list, a count or a bulk operation is about.
//!
//! Pure: no clock, no database. Relative times are resolved where a query becomes the conditions of
//! a list (`condition.rs`).

mod duration;
mod error;
mod parse;
#[cfg(test)]
mod tests;
mod time;
mod words;

use std::fmt;

use serde::{Deserialize, Serialize};

use workflow_engine::model::{RunId, RunStatus, WorkerId};

pub use duration::DurationTest;
pub use error::{QueryError, QueryErrorKind};
pub use time::{Moment, TimeTest};
pub use words::Fact;
pub(super) use words::nearest;

/// Says which runs are meant. Every run matches the empty query.
///
/// A query is a line of words, each `NAME:VALUE`, with spaces between them. A run matches if all of
/// these hold:
/// * For each name, it has one of the values: `status:failed status:canceled` finds both. A tag
///   counts as a name of its own: `tag.region:eu tag.region:us tag.tier:gold`. Facts (`is:`) and
///   times are not alternatives: all of them hold.
/// * It has no value of a word that begins with `-`: `-status:succeeded`.
///
/// | Word | Finds runs |
/// |---|---|
/// | `status:failed` | with this [status](RunStatus) |
/// | `workflow:checkout`, `queue:mail`, `version:7`, `gate:acct-42` | of this name |
/// | `key:order-42` | with this idempotency key |
/// | `tag.customer:42` | with this tag |
/// | `schedule:daily-report` | that this schedule started |
/// | `parent:RUN`, `worker:WORKER` | that are children of a run, or that a worker holds |
/// | `started:>-1h`, `started:<2026-11-01` | whose start was committed then, in UTC |
/// | `ended:2026-11-01..2026-11-02` | that ended from the first time on and before the second one |
/// | `is:paused` | of which a [fact](Fact) holds |
/// | `error:"no answer"` | with this text in the message of their error, or of its failure group |
///
/// A `*` at the end of the value of `workflow`, `queue`, `version`, `gate` or `key` stands for any
/// text: `key:order-*`. A time is `now`, an age (`-90s`, `-15m`, `-1h`, `-7d`, `-2w`), a day, or a
/// time of [RFC 3339](https://www.rfc-editor.org/rfc/rfc3339) in UTC; before it stands `>`, `>=`,
/// `<` or `<=`. Names are compared byte by byte.
///
/// A value with spaces or quotes stands in quotes, with `\"` and `\\` in place of `"` and `\`:
/// `tag.note:"a \"b\" c"`. The name of a tag may stand in quotes too: `tag."my tag":1`. A `*` in
/// quotes is a plain character.
///
/// A query is serialized as its text. The text of a query that was read is its usual form, and
/// reading that again gives an equal query.
///
/// ```
/// use workflow_sdk::operate::Query;
///
/// let query: Query = "workflow:checkout status:failed started:>-1h".parse()?;
/// assert_eq!(query.to_string(), "workflow:checkout status:failed started:>-1h");
///
/// let error = "status:faild".parse::<Query>().unwrap_err();
/// assert_eq!((error.byte, error.column), (7, 8));
/// assert!(error.to_string().contains(r#"did you mean "failed"?"#));
/// # Ok::<(), workflow_sdk::operate::QueryError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Query {
    terms: Vec<Term>,
}

/// One word of a query.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Term {
    /// `true` if the test must not hold. Default: `false`.
    pub negated: bool,
    /// The test.
    pub test: Test,
}

/// The test of one word.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Test {
    /// `status:`, the status of the run.
    Status(RunStatus),
    /// `workflow:`, the name of the workflow.
    Workflow(Pattern),
    /// `queue:`, the name of the queue.
    Queue(Pattern),
    /// `version:`, the version of the workflow.
    Version(Pattern),
    /// `gate:`, the gate. A run without a gate has none that could match.
    Gate(Pattern),
    /// `key:`, the idempotency key. A run without a key has none that could match.
    Key(Pattern),
    /// `tag.NAME:`, a tag and its value.
    Tag(String, String),
    /// `schedule:`, the name of the schedule that started the run.
    Schedule(String),
    /// `parent:`, the run that started the run.
    Parent(RunId),
    /// `worker:`, the worker that holds the run.
    Worker(WorkerId),
    /// `started:`, the time at which the start of the run was committed.
    Started(TimeTest),
    /// `ended:`, the time at which the run ended.
    Ended(TimeTest),
    /// `duration:`, the time from the first claim of the run, or of its present generation, to its
    /// end. A run that has not ended, or ended without a claim, has none that could match.
    Duration(DurationTest),
    /// `is:`, a fact.
    Is(Fact),
    /// `error:`, a part of the message of the run's error. A run without an error has none that
    /// could match. An error of more than 8 KiB is not searched.
    Error(String),
}

/// A text, or the beginning of a text.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pattern {
    /// The text.
    pub text: String,
    /// `true` if any text may follow.
    pub is_prefix: bool,
}

impl Query {
    /// The longest query, in bytes.
    pub const MAX_BYTES: usize = 4096;
    /// The largest number of words.
    pub const MAX_WORDS: usize = 64;

    /// Returns the query that every run matches.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the words of the query, in their order.
    #[must_use]
    pub fn terms(&self) -> &[Term] {
        &self.terms
    }

    /// Returns whether the query asks for texts of errors, which not every actor may see.
    #[must_use]
    pub fn reads_errors(&self) -> bool {
        self.terms.iter().any(|term| matches!(term.test, Test::Error(_)))
    }

    /// Returns whether every run matches, because the query has no word.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }
}

impl std::str::FromStr for Query {
    type Err = QueryError;

    fn from_str(text: &str) -> Result<Self, QueryError> {
        parse::query(text).map(|terms| Self { terms })
    }
}

impl TryFrom<String> for Query {
    type Error = QueryError;

    fn try_from(text: String) -> Result<Self, QueryError> {
        text.parse()
    }
}

impl From<Query> for String {
    fn from(query: Query) -> Self {
        query.to_string()
    }
}

/// Writes the usual form of the query.
impl fmt::Display for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, term) in self.terms.iter().enumerate() {
            f.write_str(if index == 0 { "" } else { " " })?;
            term.fmt(f)?;
        }
        Ok(())
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.negated { "-" } else { "" })?;
        match &self.test {
            Test::Status(status) => write!(f, "status:{status}"),
            Test::Workflow(pattern) => write!(f, "workflow:{pattern}"),
            Test::Queue(pattern) => write!(f, "queue:{pattern}"),
            Test::Version(pattern) => write!(f, "version:{pattern}"),
            Test::Gate(pattern) => write!(f, "gate:{pattern}"),
            Test::Key(pattern) => write!(f, "key:{pattern}"),
            Test::Tag(name, value) => write!(f, "tag.{}:{}", Quoted(name), Quoted(value)),
            Test::Schedule(name) => write!(f, "schedule:{}", Quoted(name)),
            Test::Parent(id) => write!(f, "parent:{id}"),
            Test::Worker(id) => write!(f, "worker:{id}"),
            Test::Started(test) => write!(f, "started:{test}"),
            Test::Ended(test) => write!(f, "ended:{test}"),
            Test::Duration(test) => write!(f, "duration:{test}"),
            Test::Is(fact) => write!(f, "is:{fact}"),
            Test::Error(text) => write!(f, "error:{}", Quoted(text)),
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.text.as_str(), self.is_prefix) {
            ("", true) => f.write_str("*"),
            (text, true) => write!(f, "{}*", Quoted(text)),
            (text, false) => Quoted(text).fmt(f),
        }
    }
}

/// Writes a text so that it is read as a plain text, in quotes where it needs them.
struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_plain = |c: char| !c.is_whitespace() && !matches!(c, '"' | ':' | '*' | '\\');
        if !self.0.is_empty() && self.0.chars().all(is_plain) {
            return f.write_str(self.0);
        }
        f.write_str("\"")?;
        for c in self.0.chars() {
            if matches!(c, '"' | '\\') {
                f.write_str("\\")?;
            }
            write!(f, "{c}")?;
        }
        f.write_str("\"")
    }
}
