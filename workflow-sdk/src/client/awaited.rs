use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use workflow_engine::model::{AttemptStatus, EventName, StepAttempt, StepKind, Timestamp, WaitNote, is_own_name};

/// A step that a run waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct Awaited {
    /// The kind of the step.
    pub kind: StepKind,
    /// The key of the step.
    pub key: String,
    /// The attempt that runs or comes next; 1 for waits.
    pub attempt: i64,
    /// When the step began, or when its last attempt failed.
    pub since: Timestamp,
    /// The event, for a wait of kind [`StepKind::Event`].
    pub event: Option<EventName>,
    /// When a wait for an event ends without the event; `None` if it has no timeout.
    pub until: Option<Timestamp>,
    /// The name of the signal, for a wait of kind [`StepKind::Signal`] whose key is not that name:
    /// scopes stand before it, or the number of a repetition behind it. A wait that an older
    /// release has recorded has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
}

impl Awaited {
    /// Returns the name of the signal that this wait takes. `None` if it takes none, or if an older
    /// release has recorded it without the name, which its key does not tell.
    #[must_use]
    pub fn signal_name(&self) -> Option<&str> {
        let own = || (self.kind == StepKind::Signal && is_own_name(&self.key)).then_some(self.key.as_str());
        self.signal.as_deref().or_else(own)
    }
}

/// Returns the steps without an outcome whose last attempt passes the filter.
pub(super) fn awaited(history: &[StepAttempt], is_awaited: impl Fn(&StepAttempt) -> bool) -> Vec<Awaited> {
    let mut last: BTreeMap<&str, &StepAttempt> = BTreeMap::new();
    for row in history.iter().filter(|row| is_call(row.kind)) {
        let kept = last.entry(&row.step_key).or_insert(row);
        if kept.position.is_none() && (row.position.is_some() || row.attempt > kept.attempt) {
            *kept = row;
        }
    }
    let open = last.into_values().filter(|row| row.position.is_none() && is_awaited(row));
    let mut open: Vec<&StepAttempt> = open.collect();
    open.sort_by_key(|row| row.started_at);
    let awaited = open.into_iter().map(|row| {
        let (WaitNote { event, until, .. }, signal) = (event_note(row), signal_of(row));
        Awaited {
            kind: row.kind,
            key: row.step_key.clone(),
            attempt: row.attempt + i64::from(row.status == AttemptStatus::Failed),
            since: row.completed_at.unwrap_or(row.started_at),
            event,
            until,
            signal,
        }
    });
    awaited.collect()
}

/// Returns the name of the signal that stands in the note of a wait.
fn signal_of(row: &StepAttempt) -> Option<String> {
    let note = row.output.as_deref().filter(|_| row.kind == StepKind::Signal)?;
    serde_json::from_str::<WaitNote>(note).ok()?.signal
}

/// Returns the note of a wait for an event; an empty note for another row.
fn event_note(row: &StepAttempt) -> WaitNote {
    let note = row.output.as_deref().filter(|_| row.kind == StepKind::Event);
    note.and_then(|note| serde_json::from_str(note).ok()).unwrap_or_default()
}

fn is_call(kind: StepKind) -> bool {
    !matches!(kind, StepKind::Patch | StepKind::Published | StepKind::Emitted | StepKind::Interruption)
}

pub(super) fn has_body(kind: StepKind) -> bool {
    matches!(kind, StepKind::Step | StepKind::Transaction | StepKind::Compensation)
}

impl fmt::Display for Awaited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if has_body(self.kind) {
            write!(f, "attempt {} of ", self.attempt)?;
        }
        let Some(event) = &self.event else { return write!(f, "{} {:?}", self.kind, self.key) };
        write!(f, "event {:?} with key {:?}, since {}", event.name, event.key, self.since)?;
        self.until.map_or(Ok(()), |until| write!(f, ", until {until}"))
    }
}
