use std::fmt;

use super::{AttemptStatus, BulkId, RunId, StepAttempt, StepKind};

/// Converts every payload to its stored form and back: encryption or compression.
///
/// A client connected with a codec (`Connect::codec`) and every worker of that client encode each
/// payload before it is written and decode it before it is used. Payloads are inputs, outputs,
/// values and errors of steps, signals, decisions, published values and items of streams. Workflow
/// code and replays see exactly the bytes that were passed to [`encode`](PayloadCodec::encode).
/// Names, keys, tags and times are not payloads and stay readable.
///
/// A codec runs on the threads that talk to the database. It must not block, so fetch keys that are
/// stored elsewhere beforehand. If a codec panics, the one payload it was called with has an error.
///
/// ```
/// use workflow_sdk::{CodecError, CodedPayload, PayloadCodec, PayloadContext, PayloadPlace};
///
/// /// Hides nothing: it shows the form of a codec.
/// #[derive(Debug)]
/// struct Reversed;
///
/// impl PayloadCodec for Reversed {
///     fn encode(&self, _: &PayloadContext<'_>, plain: &[u8]) -> Result<CodedPayload, CodecError> {
///         Ok(CodedPayload::new("reversed", plain.iter().rev().copied().collect::<Vec<u8>>()))
///     }
///
///     fn decode(
///         &self,
///         _: &PayloadContext<'_>,
///         coded: &CodedPayload,
///     ) -> Result<Vec<u8>, CodecError> {
///         match coded.key_id.as_str() {
///             "reversed" => Ok(coded.bytes.iter().rev().copied().collect()),
///             _ => Err(CodecError::UnknownKey),
///         }
///     }
/// }
///
/// // Client::connect(url).codec(Reversed)
/// # let run = "018f0000-0000-7000-8000-000000000001".parse()?;
/// let context = PayloadContext::new(run, PayloadPlace::Input);
/// let coded = Reversed.encode(&context, b"42")?;
/// assert_eq!(Reversed.decode(&context, &coded)?, b"42");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait PayloadCodec: fmt::Debug + Send + Sync + 'static {
    /// Returns the stored form of a payload, which is JSON text.
    ///
    /// # Errors
    /// [`CodecError`]: the payload is not written. A step whose outcome cannot be encoded is
    /// attempted again later.
    fn encode(&self, context: &PayloadContext<'_>, plain: &[u8]) -> Result<CodedPayload, CodecError>;

    /// Returns the bytes that were passed to [`encode`](PayloadCodec::encode) with an equal
    /// context.
    ///
    /// # Errors
    /// [`CodecError`]: the reader of the payload gets an
    /// [`UnreadablePayload`](crate::model::UnreadablePayload). A run that needs the payload waits
    /// for a worker that can decode it.
    fn decode(&self, context: &PayloadContext<'_>, coded: &CodedPayload) -> Result<Vec<u8>, CodecError>;

    /// Returns whether payloads that were never encoded, because they are older than the codec, may
    /// be read. Default: yes.
    fn reads_plain(&self) -> bool {
        true
    }
}

/// A payload in the form that a codec produced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodedPayload {
    /// The id of the key, or the version of the codec, that decodes the payload. It is stored
    /// beside the bytes and is readable. Range: 1 to 64 of `a-z`, `A-Z`, `0-9`, `.`, `_`, `-`.
    pub key_id: String,
    /// The encoded bytes. They are stored as base64, which is a third larger.
    pub bytes: Vec<u8>,
}

impl CodedPayload {
    /// Creates an encoded payload from its bytes and the id of its key.
    #[must_use]
    pub fn new(key_id: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        Self { key_id: key_id.into(), bytes: bytes.into() }
    }

    /// Returns whether `id` is a valid key id.
    #[must_use]
    pub fn is_key_id(id: &str) -> bool {
        (1..=64).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_alphanumeric() || b".-_".contains(&b))
    }
}

/// The reason why a codec failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CodecError {
    /// The codec has no key with this id.
    #[error("the codec has no key of this id")]
    UnknownKey,
    /// The payload is not the one that was encoded under this context.
    #[error("the payload is not what was encoded at this place with this key")]
    NotAuthentic,
    /// Any other reason. The text is logged and stored, so it must not contain any part of the
    /// payload.
    #[error("the codec failed: {0}")]
    Failed(String),
}

/// The place of a payload. A codec that authenticates binds the payload to it, so that a row copied
/// to another place is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PayloadContext<'a> {
    /// The run that the payload belongs to.
    pub run_id: RunId,
    /// The payload's place in the run.
    pub place: PayloadPlace<'a>,
    /// Kind and status of the row, if the payload belongs to a row of the history. A codec that
    /// authenticates them refuses a failure that was turned into a success.
    pub row: Option<(StepKind, AttemptStatus)>,
}

/// The place of a payload in its run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PayloadPlace<'a> {
    /// The run's input. After a continue-as-new: the input of its present generation.
    Input,
    /// The run's output.
    Output,
    /// The reason why a run that has not ended could not continue, or failed before.
    Error,
    /// The error of a failed run.
    FinalError,
    /// The output of a step, the condition of a wait, or a published value.
    StepOutput {
        /// The step's key.
        key: &'a str,
    },
    /// The error of an attempt of a step.
    StepError {
        /// The step's key.
        key: &'a str,
    },
    /// An item of a stream.
    Item {
        /// The stream's step key.
        key: &'a str,
        /// The item's number.
        number: i64,
    },
    /// A signal in the run's inbox. A decision is a signal whose name begins with a control
    /// character.
    Signal {
        /// The signal's name.
        name: &'a str,
    },
    /// An event. It is encoded once for all runs that it reaches, so it belongs to no run, and the
    /// context's `run_id` is nil.
    Event {
        /// The event's name.
        name: &'a str,
        /// The event's key.
        key: &'a str,
    },
    /// The input of a schedule. It belongs to no run, and the context's `run_id` is nil. The input
    /// of each of its runs has [`PayloadPlace::Input`].
    Schedule {
        /// The schedule's name.
        name: &'a str,
    },
    /// The payload of a bulk operation. It belongs to no run, and the context's `run_id` is nil.
    /// The signal that each run gets has [`PayloadPlace::Signal`].
    Bulk {
        /// The id of the operation.
        id: BulkId,
    },
    /// The value of a secret of flows. It belongs to no run, and the context's `run_id` is nil.
    Secret {
        /// The account that the secret is for. Empty: every account.
        actor: &'a str,
        /// The secret's name.
        name: &'a str,
    },
}

impl<'a> PayloadContext<'a> {
    /// Creates the context of this payload of this run.
    #[must_use]
    pub const fn new(run_id: RunId, place: PayloadPlace<'a>) -> Self {
        Self { run_id, place, row: None }
    }

    /// Creates the context of an event's payload.
    #[must_use]
    pub fn of_event(name: &'a str, key: &'a str) -> Self {
        Self::new(RunId::from(uuid::Uuid::nil()), PayloadPlace::Event { name, key })
    }

    /// Creates the context of a schedule's input.
    #[must_use]
    pub fn of_schedule(name: &'a str) -> Self {
        Self::new(RunId::from(uuid::Uuid::nil()), PayloadPlace::Schedule { name })
    }

    /// Creates the context of the payload of a bulk operation.
    #[must_use]
    pub fn of_bulk(id: BulkId) -> Self {
        Self::new(RunId::from(uuid::Uuid::nil()), PayloadPlace::Bulk { id })
    }

    /// Creates the context of the value of a secret of flows. Neither text may contain a control
    /// character.
    #[must_use]
    pub fn of_secret(actor: &'a str, name: &'a str) -> Self {
        Self::new(RunId::from(uuid::Uuid::nil()), PayloadPlace::Secret { actor, name })
    }

    /// Returns the context for a row of the history with this kind and status.
    #[must_use]
    pub const fn of_row(self, kind: StepKind, status: AttemptStatus) -> Self {
        Self { row: Some((kind, status)), ..self }
    }

    /// Creates the context of the output of a row of the history.
    #[must_use]
    pub fn of_output(run_id: RunId, row: &'a StepAttempt) -> Self {
        let key = row.step_key.as_str();
        let place = match row.kind {
            StepKind::Emitted => PayloadPlace::Item { key, number: row.attempt },
            _ => PayloadPlace::StepOutput { key },
        };
        Self::new(run_id, place).of_row(row.kind, row.status)
    }

    /// Creates the context of the error of a row of the history.
    #[must_use]
    pub fn of_error(run_id: RunId, row: &'a StepAttempt) -> Self {
        Self::new(run_id, PayloadPlace::StepError { key: &row.step_key }).of_row(row.kind, row.status)
    }

    /// Returns the key of the step that the payload belongs to, if any.
    #[must_use]
    pub const fn step_key(&self) -> Option<&'a str> {
        match self.place {
            PayloadPlace::StepOutput { key } | PayloadPlace::StepError { key } | PayloadPlace::Item { key, .. } => {
                Some(key)
            }
            PayloadPlace::Input
            | PayloadPlace::Output
            | PayloadPlace::Error
            | PayloadPlace::FinalError
            | PayloadPlace::Signal { .. }
            | PayloadPlace::Event { .. }
            | PayloadPlace::Schedule { .. }
            | PayloadPlace::Bulk { .. }
            | PayloadPlace::Secret { .. } => None,
        }
    }

    /// Returns the context as bytes, for a codec to authenticate with the payload. Different
    /// contexts have different bytes, and the bytes of a context are identical in every release.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let (event, bulk, secret);
        let (tag, text, number): (u8, &str, i64) = match self.place {
            PayloadPlace::Input => (1, "", 0),
            PayloadPlace::Output => (2, "", 0),
            PayloadPlace::Error => (3, "", 0),
            PayloadPlace::StepOutput { key } => (4, key, 0),
            PayloadPlace::StepError { key } => (5, key, 0),
            PayloadPlace::Item { key, number } => (6, key, number),
            PayloadPlace::Signal { name } => (7, name, 0),
            PayloadPlace::FinalError => (8, "", 0),
            // No name contains a control character.
            PayloadPlace::Event { name, key } => {
                event = format!("{name}\u{1}{key}");
                (9, &event, 0)
            }
            PayloadPlace::Schedule { name } => (10, name, 0),
            PayloadPlace::Bulk { id } => {
                bulk = id.to_string();
                (11, &bulk, 0)
            }
            PayloadPlace::Secret { actor, name } => {
                secret = format!("{actor}\u{1}{name}");
                (12, &secret, 0)
            }
        };
        let (kind, status) = self.row.map_or(("", ""), |(kind, status)| (kind.as_str(), status.as_str()));
        // No kind and no status has a NUL byte, and the other part of variable length is last.
        let mut bytes = vec![1, tag];
        bytes.extend_from_slice(self.run_id.as_uuid().as_bytes());
        bytes.extend_from_slice(&number.to_be_bytes());
        for part in [kind, "\0", status, "\0", text] {
            bytes.extend_from_slice(part.as_bytes());
        }
        bytes
    }
}

impl fmt::Display for PayloadContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            PayloadPlace::Input => write!(f, "the input of run {}", self.run_id),
            PayloadPlace::Output => write!(f, "the output of run {}", self.run_id),
            PayloadPlace::Error | PayloadPlace::FinalError => write!(f, "the error of run {}", self.run_id),
            PayloadPlace::StepOutput { key } => write!(f, "the output of step {key:?} of run {}", self.run_id),
            PayloadPlace::StepError { key } => write!(f, "the error of step {key:?} of run {}", self.run_id),
            PayloadPlace::Item { key, number } => write!(f, "item {number} of step {key:?} of run {}", self.run_id),
            PayloadPlace::Signal { name } => write!(f, "a signal {name:?} to run {}", self.run_id),
            PayloadPlace::Event { name, key } => write!(f, "an event {name:?} with key {key:?}"),
            PayloadPlace::Schedule { name } => write!(f, "the input of schedule {name:?}"),
            PayloadPlace::Bulk { id } => write!(f, "the payload of bulk operation {id}"),
            PayloadPlace::Secret { name, .. } => write!(f, "the secret {name:?} of flows"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn different_contexts_have_different_bytes() {
        let runs = [RunId::generate(), RunId::generate()];
        let mut places = vec![PayloadPlace::Input, PayloadPlace::Output, PayloadPlace::Error];
        for key in ["a", "ab", "", "a:1"] {
            places.extend([PayloadPlace::StepOutput { key }, PayloadPlace::StepError { key }]);
            places.push(PayloadPlace::Signal { name: key });
            places.extend([PayloadPlace::Schedule { name: key }, PayloadPlace::Bulk { id: BulkId::generate() }]);
            places.extend(["a", ""].map(|name| PayloadPlace::Event { name, key }));
            places.extend(["a", ""].map(|actor| PayloadPlace::Secret { actor, name: key }));
            places.extend([1, 2, 97].map(|number| PayloadPlace::Item { key, number }));
        }
        places.push(PayloadPlace::FinalError);
        let plain = runs.iter().flat_map(|run| places.iter().map(|place| PayloadContext::new(*run, *place)));
        let mut contexts: Vec<_> = plain.clone().map(|context| context.to_bytes()).collect();
        for kind in [StepKind::Step, StepKind::Sleep] {
            for status in AttemptStatus::ALL {
                contexts.extend(plain.clone().map(|context| context.of_row(kind, status).to_bytes()));
            }
        }
        assert_eq!(contexts.iter().collect::<HashSet<_>>().len(), contexts.len());
    }
}
