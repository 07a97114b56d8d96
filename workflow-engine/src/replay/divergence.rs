use std::fmt;
use std::panic::Location;

use crate::model::{ErrorKind, StepKind, StoredError, without_values};

/// A conflict between the run's history and the code: the code was changed, or it is not
/// deterministic.
///
/// Display writes a report like a compiler's: the recorded calls, the present calls with their
/// source lines, the first difference, and ways to solve it. The report shows names, kinds, types
/// and sizes, but no payloads. If the function ended with an error, it shows the first line of the
/// error's text.
#[derive(Clone, Debug, PartialEq)]
pub struct Divergence(pub(super) Box<Parts>);

/// A call in the history. It shows how the call ended and the size of its payload, but no values,
/// because the text of a divergence is stored and logged.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RecordedCall {
    /// The step key.
    pub key: String,
    /// The kind.
    pub kind: StepKind,
    /// The position of the outcome; `None` if the call has no outcome.
    pub position: Option<i64>,
    /// How the call ended, such as `succeeded, 11 bytes`.
    pub ending: String,
}

impl fmt::Display for RecordedCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.position {
            Some(position) => write!(f, "#{position} {} {:?} ({})", self.kind, self.key, self.ending),
            None => write!(f, "{} {:?} ({})", self.kind, self.key, self.ending),
        }
    }
}

/// A call that the code makes now.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct CurrentCall {
    /// The step key.
    pub key: String,
    /// The kind.
    pub kind: StepKind,
    /// The location of the call in the source.
    pub location: &'static Location<'static>,
}

impl fmt::Display for CurrentCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.kind, self.key)
    }
}

/// Boxed, because most results that can hold a divergence hold none.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Parts {
    pub(super) recorded: Vec<RecordedCall>,
    pub(super) current: Vec<CurrentCall>,
    pub(super) difference: Difference,
    pub(super) before: Option<RecordedCall>,
    /// The number of calls before the lists were cut.
    pub(super) recorded_count: usize,
    pub(super) current_count: usize,
}

/// The largest number of calls that are kept. A history may hold a hundred thousand outcomes that
/// no call asks for, and a preflight keeps the divergences of many runs.
const MAX_KEPT: usize = 20;

/// The first difference between history and code.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Difference {
    /// The call has another kind.
    Kind,
    /// The recorded value does not decode as this type.
    Output { type_name: String, reason: String },
    /// The function ended without asking for recorded outcomes. Holds its error if the report shows
    /// one.
    Unasked { error: Option<String> },
    /// The code makes calls that are not recorded before it has asked for recorded outcomes.
    Passed,
    /// The code assumes that every run has taken a patch, and this run is older than the patch.
    Patch { name: String },
    /// The run has ended, and the function ends differently.
    End { recorded: String, current: String, what: String },
}

impl Divergence {
    fn of(
        mut recorded: Vec<RecordedCall>,
        mut current: Vec<CurrentCall>,
        difference: Difference,
        before: Option<RecordedCall>,
    ) -> Self {
        let (recorded_count, current_count) = (recorded.len(), current.len());
        recorded.truncate(MAX_KEPT);
        recorded.shrink_to_fit();
        current.truncate(MAX_KEPT);
        current.shrink_to_fit();
        Self(Box::new(Parts { recorded, current, difference, before, recorded_count, current_count }))
    }

    /// Creates the divergence of a step whose key the code now uses for another kind of call.
    pub(super) fn kind(recorded: RecordedCall, current: CurrentCall, before: Option<RecordedCall>) -> Self {
        Self::of(vec![recorded], vec![current], Difference::Kind, before)
    }

    /// Creates the divergence of a recorded output that does not decode as the type that the code
    /// expects.
    pub(super) fn output(
        recorded: RecordedCall,
        current: CurrentCall,
        type_name: &str,
        reason: &str,
        before: Option<RecordedCall>,
    ) -> Self {
        let difference = Difference::Output { type_name: type_name.into(), reason: without_values(reason) };
        Self::of(vec![recorded], vec![current], difference, before)
    }

    /// Creates the divergence of a function that has ended without asking for the recorded calls.
    /// `current` are the calls that it made and that are not recorded.
    pub(super) fn unasked(
        recorded: Vec<RecordedCall>,
        current: Vec<CurrentCall>,
        before: Option<RecordedCall>,
    ) -> Self {
        Self::of(recorded, current, Difference::Unasked { error: None }, before)
    }

    /// Creates the divergence of code that makes the calls `current`, which are not recorded and
    /// have not begun, before it has asked for the recorded ones.
    pub(super) fn passed(recorded: Vec<RecordedCall>, current: Vec<CurrentCall>, before: Option<RecordedCall>) -> Self {
        Self::of(recorded, current, Difference::Passed, before)
    }

    /// Creates the divergence of a run that has ended while the function now ends differently.
    pub fn end(recorded: String, current: String, what: String, before: Option<RecordedCall>) -> Self {
        let difference = Difference::End { recorded, current, what };
        Self::of(Vec::new(), Vec::new(), difference, before)
    }

    /// Adds the error with which the function has ended, which is often the reason why it asked for
    /// nothing more.
    #[must_use]
    pub fn with_error(mut self, error: &StoredError) -> Self {
        if let Difference::Unasked { error: shown } = &mut self.0.difference {
            *shown = Some(format!("{} ({})", first_line(&error.to_string()), error.kind));
        }
        self
    }

    /// Returns the recorded side of the divergence: one call, or at most 20 outcomes that the code
    /// does not ask for. Empty if the difference is how the run ends.
    #[must_use]
    pub fn recorded(&self) -> &[RecordedCall] {
        &self.0.recorded
    }

    /// Returns the code's side of the divergence: one call, or at most 20 calls that the code makes
    /// and that are not recorded.
    #[must_use]
    pub fn current(&self) -> &[CurrentCall] {
        &self.0.current
    }

    /// Returns the last recorded outcome on which history and code agree.
    #[must_use]
    pub fn before(&self) -> Option<&RecordedCall> {
        self.0.before.as_ref()
    }

    /// Creates the divergence of a run that did not take a patch which the code requires.
    pub(super) fn patch(name: &str, location: &'static Location<'static>) -> Self {
        let current = CurrentCall { key: name.into(), kind: StepKind::Patch, location };
        Self::of(Vec::new(), vec![current], Difference::Patch { name: name.into() }, None)
    }

    /// Returns the divergence as an error that can be stored.
    #[must_use]
    pub fn to_stored(&self) -> StoredError {
        StoredError::new(ErrorKind::Divergence, self.to_string())
    }

    /// Returns the missed recorded call, and the new call that replaces it, if any.
    pub(super) fn pair(&self) -> Option<(&RecordedCall, Option<(&CurrentCall, Likeness)>)> {
        let recorded = self.0.recorded.first()?;
        let same_kind = || self.0.current.iter().filter(|current| current.kind == recorded.kind);
        let like = same_kind()
            .max_by_key(|current| (likeness(&recorded.key, &current.key), std::cmp::Reverse(self.place(current))));
        let pair = match like {
            Some(like) if is_like(&recorded.key, &like.key) => Some((like, Likeness::Name)),
            _ => same_kind().next().or(self.0.current.first()).map(|current| (current, Likeness::Place)),
        };
        Some((recorded, pair))
    }

    fn place(&self, call: &CurrentCall) -> usize {
        self.0.current.iter().position(|other| other == call).unwrap_or_default()
    }
}

/// The reason why a new call is regarded as the successor of a recorded one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Likeness {
    /// Their names are similar.
    Name,
    /// The new call has the place of the recorded one.
    Place,
}

/// Returns how many characters two names have in common at their beginnings and ends.
fn likeness(one: &str, other: &str) -> usize {
    let shorter = one.chars().count().min(other.chars().count());
    let front = one.chars().zip(other.chars()).take_while(|(a, b)| a == b).count();
    let back = one.chars().rev().zip(other.chars().rev()).take_while(|(a, b)| a == b).count();
    (front + back).min(shorter)
}

/// Returns a name without the number of its repeat.
fn base(key: &str) -> &str {
    match key.rsplit_once(':') {
        Some((name, repeat)) if repeat.chars().all(|c| c.is_ascii_digit()) => name,
        _ => key,
    }
}

/// Returns whether the names share more than half of the longer one, or the whole shorter one.
/// Repeats of one name are not similar.
fn is_like(one: &str, other: &str) -> bool {
    if base(one) == base(other) {
        return false;
    }
    let (one_length, other_length) = (one.chars().count(), other.chars().count());
    let shared = likeness(one, other);
    shared * 2 > one_length.max(other_length) || (shared >= 3 && shared == one_length.min(other_length))
}

/// Returns the size of a payload as text.
pub fn bytes(payload: &str) -> String {
    match payload.len() {
        1 => "1 byte".into(),
        length => format!("{length} bytes"),
    }
}

fn first_line(text: &str) -> String {
    const MAX: usize = 120;
    let line = text.lines().next().unwrap_or_default();
    let cut: String = line.chars().take(MAX).collect();
    if cut.len() < line.len() { format!("{cut} ..") } else { cut }
}

#[cfg(test)]
mod tests {
    use super::is_like;

    #[test]
    fn names_are_similar_if_they_share_most_characters() {
        for (one, other) in
            [("charge", "charge-card"), ("charge", "charge_2"), ("sendMail", "send_mail"), ("mail", "email")]
        {
            assert!(is_like(one, other) && is_like(other, one), "{one} {other}");
        }
        for (one, other) in [
            ("charge", "refund"),
            ("page", "page:1"),
            ("page:2", "page:1"),
            ("a", "b"),
            ("reserve", "receive mail"),
            ("a", "ab"),
        ] {
            assert!(!is_like(one, other) && !is_like(other, one), "{one} {other}");
        }
    }
}
