use std::fmt;

use serde::{Deserialize, Serialize};

use super::Fix;

/// The kind of a [`Finding`]. The guide explains each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Code {
    /// The syntax.
    F001,
    /// An unknown key.
    F010,
    /// A step does not have exactly one kind.
    F011,
    /// An id stands twice.
    F012,
    /// A wrong type, a value out of range, or a key that is missing.
    F013,
    /// A step that does not exist is named as a target.
    F020,
    /// Steps need each other.
    F021,
    /// A step that nothing leads to. A warning.
    F022,
    /// The branches of a `parallel` join at different steps.
    F023,
    /// A branch of a `parallel` ends the flow.
    F024,
    /// A cycle that has no `max_visits`.
    F025,
    /// A branch of a `parallel` goes back to this `parallel`.
    F026,
    /// A `join` outside of a `parallel`.
    F027,
    /// An expression reads something unknown.
    F030,
    /// An expression reads the result of a step that has not run. A warning if it may have run.
    F031,
    /// The input's schema has no such field.
    F032,
    /// An expression has a fault of its syntax.
    F033,
    /// A condition is not a boolean.
    F034,
    /// A secret where it would be recorded.
    F035,
    /// An unknown tool, recipe, flow or workflow.
    F040,
    /// Arguments do not fit the schema of the tool or the flow, or a channel takes no messages.
    F041,
    /// A limit.
    F050,
    /// The input does not fit its schema.
    F060,
    /// The server of a tool cannot be reached.
    F070,
    /// The server of a tool does not have the tool any more, or has it with other arguments.
    F071,
    /// The account may not call the tool.
    F072,
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// How bad a [`Finding`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// The flow cannot start.
    Error,
    /// The flow can start, and may not do what its author wants.
    Warning,
}

/// One fault of a document, with its place and, where it is known, its repair.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// The kind of fault.
    pub code: Code,
    /// How bad it is.
    pub severity: Severity,
    /// The JSON Pointer of the key or value.
    pub path: String,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// Says what is wrong.
    pub message: String,
    /// Says what would be right. Empty if the message says it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub help: String,
    /// Edits that repair it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fix: Option<Fix>,
}

impl Finding {
    /// Adds what would be right.
    pub(crate) fn help(&mut self, help: impl Into<String>) -> &mut Self {
        self.help = help.into();
        self
    }

    /// Adds the edits that repair it.
    pub(crate) fn fix(&mut self, fix: Fix) -> &mut Self {
        self.fix = Some(fix);
        self
    }

    /// Makes it a warning.
    pub(crate) fn warning(&mut self) -> &mut Self {
        self.severity = Severity::Warning;
        self
    }
}

impl fmt::Display for Finding {
    /// Writes `12:7: F001: message (help)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}: {}", self.line, self.column, self.code, self.message)?;
        if self.help.is_empty() { Ok(()) } else { write!(f, " ({})", self.help) }
    }
}
