use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Timestamp, TypedPayload, unquoted};

/// The cause of an error, as far as a program may want to tell causes apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ErrorKind {
    /// The author's code returned an error.
    Application,
    /// The author's code panicked.
    Panic,
    /// An attempt of a step took longer than its timeout.
    Timeout,
    /// The run had not ended at its deadline.
    Deadline,
    /// The run was canceled while the call was pending.
    Canceled,
    /// The run was canceled, and not all of its compensations succeeded.
    Compensation,
    /// The run's worker died too often while it drove the run.
    CrashLoop,
    /// The code asks for other steps than the run's history contains.
    Divergence,
    /// A child was canceled.
    ChildCanceled,
    /// The row of a child is not in the database any more, so its end is unknown.
    ChildMissing,
    /// The engine refused what the code gave it: a name, a value, or a call at the wrong place.
    Refused,
    /// The run's history reached the limit of its worker.
    HistoryLimit,
    /// The error was recorded with a kind that this release does not know, or its stored text is
    /// not understood. The message then says so, or is the recorded one. A run that depends on such
    /// an error waits for a worker that understands it.
    #[serde(other)]
    Unknown,
}

impl ErrorKind {
    /// Returns the word that is stored in the database and shown in messages.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Application => "application",
            Self::Panic => "panic",
            Self::Timeout => "timeout",
            Self::Deadline => "deadline",
            Self::Canceled => "canceled",
            Self::Compensation => "compensation",
            Self::CrashLoop => "crash_loop",
            Self::Divergence => "divergence",
            Self::ChildCanceled => "child_canceled",
            Self::ChildMissing => "child_missing",
            Self::Refused => "refused",
            Self::HistoryLimit => "history_limit",
            Self::Unknown => "unknown",
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An error in its stored form. A replay sees the stored form, so the first run sees it too.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct StoredError {
    /// The cause of the error.
    pub kind: ErrorKind,
    /// The error's own text.
    pub message: String,
    /// The texts of the error's sources, nearest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<String>,
    /// Whether the error ended the retries.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fatal: bool,
    /// The delay before the next attempt that the author asked for, in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_us: Option<u64>,
    /// The key of the step that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_key: Option<String>,
    /// The error as a value, if its type derives `StepError`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Box<TypedPayload>>,
    /// How many attempts can still follow this failed attempt. `None` in a final error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts_left: Option<u32>,
    /// The time for which the attempt after this failed one was planned. `None` in a final error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_attempt_at: Option<Timestamp>,
    /// The whole error as the [codec](crate::model::PayloadCodec) encoded it, if this program
    /// cannot decode it. Its message, causes and value are then missing from the other fields. See
    /// [`in_place_of_error`](crate::model::UnreadablePayload::in_place_of_error).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coded: Option<Box<str>>,
    /// The stored text of an error that this program does not understand. It is kept, so that a
    /// program of the release that wrote it reads the error as it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_understood: Option<Box<str>>,
}

/// The longest text that is stored; longer texts are cut. The errors of some drivers quote whole
/// documents, and every error must be storable.
const MAX_TEXT_BYTES: usize = 16 * 1024;

/// The largest number of causes that are stored. A longer chain is a cycle or noise.
const MAX_CAUSES: usize = 16;

impl StoredError {
    /// Returns what stands in a list in place of an error that is too long for it.
    #[doc(hidden)]
    #[must_use]
    pub fn too_long_for_a_list() -> Self {
        Self::new(ErrorKind::Unknown, "the error is too long for a list: read the run")
    }

    /// Creates an error without causes.
    #[must_use]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: cut(message.into()),
            causes: Vec::new(),
            fatal: false,
            retry_after_us: None,
            step_key: None,
            payload: None,
            attempts_left: None,
            next_attempt_at: None,
            coded: None,
            not_understood: None,
        }
    }

    /// Returns the error of a run that had not ended at its deadline.
    #[must_use]
    pub fn deadline() -> Self {
        Self::new(ErrorKind::Deadline, "the run had not ended at its deadline")
    }

    /// Reads the stored form of an error. If this program does not understand it, the result has
    /// the kind [`ErrorKind::Unknown`] and [keeps](StoredError::not_understood) the text.
    #[must_use]
    pub fn from_stored(text: &str) -> Self {
        let error = Self::read(text);
        // The run was parked because of this text, which may be understood here.
        match error.not_understood.as_deref().map(Self::read) {
            Some(kept) if kept.not_understood.is_none() => kept,
            _ => error,
        }
    }

    fn read(text: &str) -> Self {
        match serde_json::from_str::<Self>(text) {
            Ok(error) if error.kind != ErrorKind::Unknown => error,
            Ok(error) => Self { not_understood: Some(text.into()), ..error },
            Err(why) => {
                let message = format!("the stored error is not understood: {}", unquoted(why));
                Self { not_understood: Some(text.into()), ..Self::new(ErrorKind::Unknown, message) }
            }
        }
    }

    /// Returns why this program does not understand the stored error; `None` if it understands it.
    #[must_use]
    pub fn why_not_understood(&self) -> Option<String> {
        #[derive(Deserialize)]
        struct Kind {
            kind: String,
        }
        let text = self.not_understood.as_deref()?;
        Some(match serde_json::from_str::<Self>(text).and_then(|_| serde_json::from_str::<Kind>(text)) {
            Ok(Kind { kind }) => format!("this release does not know the kind of error {kind:?}"),
            Err(why) => unquoted(why).to_string(),
        })
    }

    /// Creates a stored error from an error and the texts of its sources.
    #[must_use]
    pub fn from_error(kind: ErrorKind, error: &(dyn std::error::Error + 'static)) -> Self {
        let sources = std::iter::successors(error.source(), |source| source.source());
        let causes = sources.take(MAX_CAUSES).map(|source| cut(source.to_string())).collect();
        Self { causes, ..Self::new(kind, error.to_string()) }
    }

    /// Marks the error as final: no attempt follows it.
    #[must_use]
    pub fn fatal(self) -> Self {
        Self { fatal: true, ..self }
    }

    /// Marks the error as the failure of this step.
    #[must_use]
    pub fn of_step(self, step_key: &str) -> Self {
        Self { step_key: Some(step_key.to_owned()), ..self }
    }

    /// Records how many attempts remain and when the next one starts.
    #[must_use]
    pub fn followed(self, attempts_left: u32, next_attempt_at: Timestamp) -> Self {
        Self { attempts_left: Some(attempts_left), next_attempt_at: Some(next_attempt_at), ..self }
    }

    /// Sets the delay before the next attempt.
    #[must_use]
    pub fn after(self, delay: Duration) -> Self {
        Self { retry_after_us: Some(u64::try_from(delay.as_micros()).unwrap_or(u64::MAX)), ..self }
    }

    /// Appends a cause that says why the error is stored without its value.
    #[must_use]
    pub fn without_payload(mut self, type_name: &str, why: &str) -> Self {
        self.causes.push(cut(format!("its value as {type_name:?} is not kept: {why}")));
        self
    }

    /// Adds the error's value.
    #[must_use]
    pub fn with_payload(self, payload: TypedPayload) -> Self {
        Self { payload: Some(Box::new(payload)), ..self }
    }

    /// Returns the parts of the error that are readable without the codec, with `message` and
    /// `coded` in place of the other parts.
    #[must_use]
    pub fn without_payloads(&self, message: String, coded: String) -> Self {
        let Self { kind, fatal, retry_after_us, attempts_left, next_attempt_at, .. } = *self;
        let (step_key, coded) = (self.step_key.clone(), Some(coded.into()));
        Self { fatal, retry_after_us, step_key, attempts_left, next_attempt_at, coded, ..Self::new(kind, message) }
    }

    /// Returns the delay before the next attempt that the author asked for.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after_us.map(Duration::from_micros)
    }
}

fn cut(mut text: String) -> String {
    if text.len() > MAX_TEXT_BYTES {
        text.truncate(text.floor_char_boundary(MAX_TEXT_BYTES));
        text.push_str(" [cut]");
    }
    text
}

impl fmt::Display for StoredError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(step_key) = &self.step_key {
            let step = format!("step {step_key:?}: ");
            // The error of a flow names its step itself.
            if !self.message.contains(&step) {
                f.write_str(&step)?;
            }
        }
        f.write_str(&self.message)?;
        for cause in &self.causes {
            write!(f, ": {cause}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATER: &str = r#"{"kind":"quota","message":"none is left","retry_after_us":7}"#;

    #[test]
    fn an_error_of_an_unknown_kind_keeps_its_message_and_its_text() {
        let error = StoredError::from_stored(LATER);
        assert_eq!((error.kind, error.message.as_str()), (ErrorKind::Unknown, "none is left"));
        assert_eq!(error.not_understood.as_deref(), Some(LATER));
        let why = error.why_not_understood().unwrap_or_default();
        assert_eq!(why, "this release does not know the kind of error \"quota\"");
    }

    #[test]
    fn an_error_names_its_step_once() {
        for (message, told) in [
            ("no card", r#"step "pay": no card"#),
            (r#"F251: step "pay": no card"#, r#"F251: step "pay": no card"#),
            (r#"F251: step "ship": no card"#, r#"step "pay": F251: step "ship": no card"#),
        ] {
            let error =
                StoredError { step_key: Some("pay".into()), ..StoredError::new(ErrorKind::Application, message) };
            assert_eq!(error.to_string(), told);
        }
    }

    #[test]
    fn a_text_that_is_no_error_is_kept() {
        for text in ["no JSON", "{}", "7", ""] {
            let error = StoredError::from_stored(text);
            assert_eq!((error.kind, error.not_understood.as_deref()), (ErrorKind::Unknown, Some(text)));
            assert!(error.why_not_understood().is_some());
        }
    }

    #[test]
    fn a_kept_text_is_read_where_it_is_understood() {
        let park = |text: &str| StoredError {
            not_understood: Some(text.into()),
            ..StoredError::new(ErrorKind::Divergence, "this worker does not understand the run's error")
        };
        let stored = |error: &StoredError| serde_json::to_string(error).unwrap_or_default();
        let known = StoredError::new(ErrorKind::Timeout, "too slow");
        assert_eq!(StoredError::from_stored(&stored(&park(&stored(&known)))), known);
        assert_eq!(StoredError::from_stored(&stored(&park(LATER))), park(LATER));
        assert_eq!(StoredError::from_stored(&stored(&known)), known);
    }
}
