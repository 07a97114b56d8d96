use std::panic::Location;

use crate::model::{ErrorKind, StepKind, StoredError, without_values};

use super::{CurrentCall, RecordedCall};

/// The code asks for something else than the run's history holds: the code was changed, or it is not deterministic.
///
/// Display writes a report in the manner of a compiler: what is recorded, what the code does now and on which line, the first
/// thing in which they differ, and the way out. It shows no payloads, only names, kinds, types and sizes; and the first line of
/// the error with which the function ended, if it did.
#[derive(Clone, Debug, PartialEq)]
pub struct Divergence(pub(super) Box<Parts>);

/// In a box, for a divergence travels in results that are mostly something else.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Parts {
    pub(super) recorded: Vec<RecordedCall>,
    pub(super) current: Vec<CurrentCall>,
    pub(super) difference: Difference,
    pub(super) before: Option<RecordedCall>,
    /// How many there were before the lists were cut.
    pub(super) recorded_count: usize,
    pub(super) current_count: usize,
}

/// More calls than these are not kept: a history may hold a hundred thousand outcomes that nobody asks for, and a preflight
/// keeps the divergences of many runs.
const MAX_KEPT: usize = 20;

/// The first thing in which history and code differ.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Difference {
    /// The call has another kind.
    Kind,
    /// The recorded value is none of this type.
    Output { type_name: String, reason: String },
    /// The function ended without asking for recorded outcomes; with an error, where it says so.
    Unasked { error: Option<String> },
    /// The code goes another way, on which it cannot come to the recorded outcomes.
    Passed,
    /// The code takes a patch as taken by every run, and this one is older.
    Patch { name: String },
    /// The run has ended, and the function ends otherwise.
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

    /// A step is recorded under a key that the code now uses for another kind.
    pub(super) fn kind(recorded: RecordedCall, current: CurrentCall, before: Option<RecordedCall>) -> Self {
        Self::of(vec![recorded], vec![current], Difference::Kind, before)
    }

    /// The recorded output is no value of the type that the code now expects.
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

    /// The function ended without asking for these; it has made these calls, which are not recorded.
    pub(super) fn unasked(
        recorded: Vec<RecordedCall>,
        current: Vec<CurrentCall>,
        before: Option<RecordedCall>,
    ) -> Self {
        Self::of(recorded, current, Difference::Unasked { error: None }, before)
    }

    /// The same, where it lies past these calls, which are not recorded and have not run.
    pub fn past(self, current: Vec<CurrentCall>, before: Option<RecordedCall>) -> Self {
        match self.0.difference {
            Difference::Unasked { .. } => {
                let recorded_count = self.0.recorded_count;
                let mut past = Self::of(self.0.recorded, current, Difference::Passed, before);
                past.0.recorded_count = recorded_count;
                past
            }
            _ => self,
        }
    }

    /// The run has ended so, and the function ends otherwise, in this.
    pub fn end(recorded: String, current: String, what: String, before: Option<RecordedCall>) -> Self {
        let difference = Difference::End { recorded, current, what };
        Self::of(Vec::new(), Vec::new(), difference, before)
    }

    /// The same, where the function has ended with this error: often the reason why it asked for nothing more.
    #[must_use]
    pub fn with_error(mut self, error: &StoredError) -> Self {
        if let Difference::Unasked { error: shown } = &mut self.0.difference {
            *shown = Some(format!("{} ({})", first_line(&error.to_string()), error.kind));
        }
        self
    }

    /// Whether the function has ended with an error.
    pub fn has_error(&self) -> bool {
        matches!(self.0.difference, Difference::Unasked { error: Some(_) })
    }

    /// What is recorded where history and code part: one call, or the outcomes that the code does not ask for, up to 20
    /// of them. Empty where they differ in how the run ends.
    #[must_use]
    pub fn recorded(&self) -> &[RecordedCall] {
        &self.0.recorded
    }

    /// What the code calls there: one call, or the calls that it makes and that are not recorded, up to 20 of them.
    #[must_use]
    pub fn current(&self) -> &[CurrentCall] {
        &self.0.current
    }

    /// The last recorded outcome on which both agree.
    #[must_use]
    pub fn before(&self) -> Option<&RecordedCall> {
        self.0.before.as_ref()
    }

    /// The code has only the way of a patch that the run did not take.
    pub(super) fn patch(name: &str, location: &'static Location<'static>) -> Self {
        let current = CurrentCall { key: name.into(), kind: StepKind::Patch, location };
        Self::of(Vec::new(), vec![current], Difference::Patch { name: name.into() }, None)
    }

    /// As an error that can be stored.
    #[must_use]
    pub fn to_stored(&self) -> StoredError {
        StoredError::new(ErrorKind::Divergence, self.to_string())
    }

    /// The recorded call that is missed, and the new call that stands in its place, where there is one.
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

/// Why a new call is taken for the successor of a recorded one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Likeness {
    /// Their names are alike.
    Name,
    /// It comes where the recorded one came.
    Place,
}

/// How many characters two names have in common at their beginnings and ends.
fn likeness(one: &str, other: &str) -> usize {
    let shorter = one.chars().count().min(other.chars().count());
    let front = one.chars().zip(other.chars()).take_while(|(a, b)| a == b).count();
    let back = one.chars().rev().zip(other.chars().rev()).take_while(|(a, b)| a == b).count();
    (front + back).min(shorter)
}

/// A name without the number of its repeat.
fn base(key: &str) -> &str {
    match key.rsplit_once(':') {
        Some((name, repeat)) if repeat.chars().all(|c| c.is_ascii_digit()) => name,
        _ => key,
    }
}

/// Whether more than half of the longer name, or all of the shorter, is in both. Repeats of one name are not alike.
pub(super) fn is_like(one: &str, other: &str) -> bool {
    if base(one) == base(other) {
        return false;
    }
    let (one_length, other_length) = (one.chars().count(), other.chars().count());
    let shared = likeness(one, other);
    shared * 2 > one_length.max(other_length) || (shared >= 3 && shared == one_length.min(other_length))
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
    fn names_are_alike_if_most_of_them_is_the_same() {
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
