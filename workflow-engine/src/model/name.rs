//! Checks names. They come from authors and applications, are written to both databases and to log
//! lines, and are compared byte by byte.

use std::collections::BTreeMap;
use std::fmt;

/// The kind of thing that a refused name was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NameSubject {
    /// A workflow.
    Workflow,
    /// A version of a workflow.
    Version,
    /// A step.
    Step,
    /// A signal.
    Signal,
    /// A scope of steps.
    Scope,
    /// A queue.
    Queue,
    /// An idempotency key of a start or a signal.
    Key,
    /// The name or the value of a tag.
    Tag,
    /// A patch of a workflow's code.
    Patch,
    /// A value that a run publishes.
    Published,
    /// A stream that a run emits to.
    Stream,
    /// A circuit breaker.
    Breaker,
    /// The reason for a pause or another order.
    Reason,
    /// The actor of an order.
    Actor,
    /// An event.
    Event,
    /// The key of an event.
    EventKey,
    /// A schedule.
    Schedule,
    /// A gate of a queue.
    Gate,
    /// A key of single, debounced or throttled starts.
    SingleKey,
    /// A limit for steps.
    Limit,
    /// The key of a limit for steps.
    LimitKey,
}

impl fmt::Display for NameSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Workflow => "workflow name",
            Self::Version => "workflow version",
            Self::Step => "step name",
            Self::Signal => "signal name",
            Self::Scope => "scope name",
            Self::Queue => "queue name",
            Self::Key => "idempotency key",
            Self::Tag => "tag",
            Self::Patch => "patch name",
            Self::Published => "name of a published value",
            Self::Stream => "stream name",
            Self::Breaker => "breaker name",
            Self::Reason => "reason",
            Self::Actor => "actor",
            Self::Event => "event name",
            Self::EventKey => "event key",
            Self::Schedule => "schedule name",
            Self::Gate => "gate",
            Self::SingleKey => "key of a single, debounced or throttled start",
            Self::Limit => "limit name",
            Self::LimitKey => "limit key",
        })
    }
}

/// A name that is refused, because it could not be stored or could not be told from another name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{subject} {shown:?} {reason}; use 1 to {MAX_NAME_BYTES} bytes without control characters")]
pub struct InvalidName {
    /// The kind of thing that the name was for.
    pub subject: NameSubject,
    /// The name, cut after 80 characters.
    pub shown: String,
    reason: String,
}

/// A gate that the attribute of a workflow computes from an input, and that is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the attribute of workflow {workflow:?} computes a gate that is refused: {reason}; change its option `gate`")]
pub struct InvalidGate {
    /// The workflow.
    pub workflow: String,
    /// The reason, with the gate.
    pub reason: InvalidName,
}

/// Checks a gate that the attribute of this workflow computes from an input.
///
/// # Errors
/// [`InvalidGate`] with the workflow, the gate and the reason.
pub fn check_gate_of(workflow: &str, gate: &str) -> Result<(), InvalidGate> {
    check_name(NameSubject::Gate, gate).map_err(|reason| InvalidGate { workflow: workflow.to_owned(), reason })
}

/// The longest name. It keeps index entries small in both databases.
const MAX_NAME_BYTES: usize = 255;

fn shown(name: &str) -> String {
    name.chars().take(80).collect()
}

/// Checks a name. Range: 1 to 255 bytes without control characters, which include line breaks and
/// controls of the writing direction.
///
/// # Errors
/// [`InvalidName`] with the reason.
pub fn check_name(subject: NameSubject, name: &str) -> Result<(), InvalidName> {
    let refuse = |reason: String| Err(InvalidName { subject, shown: shown(name), reason });
    if name.is_empty() {
        return refuse("is empty".into());
    }
    if name.len() > MAX_NAME_BYTES {
        return refuse(format!("is {} bytes long", name.len()));
    }
    match name.char_indices().find(|(_, c)| is_control(*c)) {
        Some((at, c)) => refuse(format!("has the control character {c:?} at byte {at}")),
        None => Ok(()),
    }
}

/// Returns whether a character changes how the text around it is shown: a control, a line break, or
/// a control of the writing direction. With one of these a name could look like another one, or
/// like a line of a log.
#[doc(hidden)]
#[must_use]
pub fn is_control(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Checks the name of a scope as [`check_name`] does, and refuses a `/`. A slash separates the
/// names of nested scopes, so with it two scopes could have one path.
///
/// # Errors
/// [`InvalidName`] with the reason.
pub fn check_scope(name: &str) -> Result<(), InvalidName> {
    check_name(NameSubject::Scope, name)?;
    if !name.contains('/') {
        return Ok(());
    }
    let reason = "has a `/`, which stands between the names of nested scopes".to_owned();
    Err(InvalidName { subject: NameSubject::Scope, shown: shown(name), reason })
}

/// Checks the name of a queue as [`check_name`] does.
///
/// # Errors
/// [`InvalidName`] with the reason.
pub fn check_queue(name: &str) -> Result<(), InvalidName> {
    check_name(NameSubject::Queue, name)
}

/// The largest number of tags of a run. Each is a row of its own beside the run.
pub const MAX_TAGS: usize = 64;

/// The largest size of the names and values of all tags of a run, in bytes.
pub const MAX_TAG_BYTES: usize = 16 * 1024;

/// The reason why the tags of a run are refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidTags {
    /// The name or the value of a tag is not allowed.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// There are too many tags, or they are too long.
    #[error(
        "{count} tags of {bytes} bytes are refused; a run has at most {MAX_TAGS} tags of {MAX_TAG_BYTES} bytes \
         together: keep other data in its input"
    )]
    TooMany {
        /// The number of tags.
        count: usize,
        /// The size of their names and values.
        bytes: usize,
    },
}

/// Checks the tags of a run, and returns their size in bytes.
///
/// # Errors
/// [`InvalidTags`] with the reason.
pub fn check_tags(tags: &BTreeMap<String, String>) -> Result<usize, InvalidTags> {
    let bytes = tags.iter().map(|(name, value)| name.len() + value.len()).sum();
    if tags.len() > MAX_TAGS || bytes > MAX_TAG_BYTES {
        return Err(InvalidTags::TooMany { count: tags.len(), bytes });
    }
    for (name, value) in tags {
        check_tag(name, value)?;
    }
    Ok(bytes)
}

/// Checks the name and the value of a tag as [`check_name`] does. The value may also be empty.
///
/// # Errors
/// [`InvalidName`] with the reason.
fn check_tag(name: &str, value: &str) -> Result<(), InvalidName> {
    check_name(NameSubject::Tag, name)?;
    if value.is_empty() { Ok(()) } else { check_name(NameSubject::Tag, value) }
}
