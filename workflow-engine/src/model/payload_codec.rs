use std::fmt;

use super::{RunId, StepKind};

/// What stands between a program and the stored form of every payload: encryption, or compression.
///
/// A client with a codec ([`Connect::codec`](crate::Connect::codec)), and every worker of that client, hands it each payload
/// before it is written, and what is stored before it is used: inputs, outputs, values and errors of steps, signals, decisions,
/// published values, items of streams. Workflow code, and a replay, see exactly the bytes that were handed to
/// [`encode`](PayloadCodec::encode). Names, keys, tags and times are no payloads and stay as they are.
///
/// It is called on the threads that talk to the database: it must not block, and keys that lie elsewhere are fetched before. A panic
/// in it is an error of that one payload.
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
///     fn decode(&self, _: &PayloadContext<'_>, coded: &CodedPayload) -> Result<Vec<u8>, CodecError> {
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
    /// The stored form of a payload, JSON text.
    ///
    /// # Errors
    /// [`CodecError`]: what was to be written is not written. A step whose outcome cannot be encoded is done again later.
    fn encode(&self, context: &PayloadContext<'_>, plain: &[u8]) -> Result<CodedPayload, CodecError>;

    /// What was handed to [`encode`](PayloadCodec::encode), under an equal context.
    ///
    /// # Errors
    /// [`CodecError`]: whoever asks gets an [`UnreadablePayload`](crate::model::UnreadablePayload); a run that needs the payload to go on
    /// waits for a worker that can decode it.
    fn decode(&self, context: &PayloadContext<'_>, coded: &CodedPayload) -> Result<Vec<u8>, CodecError>;

    /// Whether payloads that no codec has encoded are read: those that were written before there was one. Default: yes.
    fn reads_plain(&self) -> bool {
        true
    }
}

/// A payload as a codec has made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodedPayload {
    /// Which key, or which version of the codec, decodes it; it is stored beside the bytes, readable. Range: 1 to 64 of `a-z`,
    /// `A-Z`, `0-9`, `.`, `_`, `-`.
    pub key_id: String,
    /// The bytes. Stored as base64: a third larger.
    pub bytes: Vec<u8>,
}

impl CodedPayload {
    /// These bytes under this key.
    #[must_use]
    pub fn new(key_id: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        Self { key_id: key_id.into(), bytes: bytes.into() }
    }

    /// Whether a key may have this id.
    #[must_use]
    pub fn is_key_id(id: &str) -> bool {
        (1..=64).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_alphanumeric() || b".-_".contains(&b))
    }
}

/// Why a codec could not do its work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CodecError {
    /// It has no key of this id.
    #[error("the codec has no key of this id")]
    UnknownKey,
    /// The payload is not what was encoded under this context.
    #[error("the payload is not what was encoded at this place with this key")]
    NotAuthentic,
    /// Anything else; without any of the payload in the text, which is logged and stored.
    #[error("the codec failed: {0}")]
    Failed(String),
}

/// Where a payload stands: a codec that authenticates binds the payload to it, so that a row that was copied elsewhere is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PayloadContext<'a> {
    /// The run.
    pub run_id: RunId,
    /// Which of its payloads.
    pub place: PayloadPlace<'a>,
}

/// Which payload of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PayloadPlace<'a> {
    /// The run's input; after a continue-as-new that of its present generation.
    Input,
    /// The run's output.
    Output,
    /// The run's error.
    Error,
    /// What a step gave; of a wait, what it waits for; a published value.
    StepOutput {
        /// The step's key.
        key: &'a str,
    },
    /// Why an attempt of a step failed.
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
    /// A signal that lies in the run's inbox. A decision is one, under a name that begins with a control character.
    Signal {
        /// The signal's name.
        name: &'a str,
    },
}

impl<'a> PayloadContext<'a> {
    /// This payload of this run.
    #[must_use]
    pub const fn new(run_id: RunId, place: PayloadPlace<'a>) -> Self {
        Self { run_id, place }
    }

    /// The output of a row of the history.
    pub fn of_output(run_id: RunId, kind: StepKind, key: &'a str, attempt: i64) -> Self {
        let place = match kind {
            StepKind::Emitted => PayloadPlace::Item { key, number: attempt },
            _ => PayloadPlace::StepOutput { key },
        };
        Self { run_id, place }
    }

    /// The step, where it is one's.
    #[must_use]
    pub const fn step_key(&self) -> Option<&'a str> {
        match self.place {
            PayloadPlace::StepOutput { key } | PayloadPlace::StepError { key } | PayloadPlace::Item { key, .. } => {
                Some(key)
            }
            PayloadPlace::Input | PayloadPlace::Output | PayloadPlace::Error | PayloadPlace::Signal { .. } => None,
        }
    }

    /// The context as bytes, different for different contexts and the same in every release: what a codec authenticates with
    /// the payload.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let (tag, text, number): (u8, &str, i64) = match self.place {
            PayloadPlace::Input => (1, "", 0),
            PayloadPlace::Output => (2, "", 0),
            PayloadPlace::Error => (3, "", 0),
            PayloadPlace::StepOutput { key } => (4, key, 0),
            PayloadPlace::StepError { key } => (5, key, 0),
            PayloadPlace::Item { key, number } => (6, key, number),
            PayloadPlace::Signal { name } => (7, name, 0),
        };
        // The only part of unknown length stands last.
        let mut bytes = vec![1, tag];
        bytes.extend_from_slice(self.run_id.as_uuid().as_bytes());
        bytes.extend_from_slice(&number.to_be_bytes());
        bytes.extend_from_slice(text.as_bytes());
        bytes
    }
}

impl fmt::Display for PayloadContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            PayloadPlace::Input => write!(f, "the input of run {}", self.run_id),
            PayloadPlace::Output => write!(f, "the output of run {}", self.run_id),
            PayloadPlace::Error => write!(f, "the error of run {}", self.run_id),
            PayloadPlace::StepOutput { key } => write!(f, "the output of step {key:?} of run {}", self.run_id),
            PayloadPlace::StepError { key } => write!(f, "the error of step {key:?} of run {}", self.run_id),
            PayloadPlace::Item { key, number } => write!(f, "item {number} of step {key:?} of run {}", self.run_id),
            PayloadPlace::Signal { name } => write!(f, "a signal {name:?} to run {}", self.run_id),
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
            places.extend([1, 2, 97].map(|number| PayloadPlace::Item { key, number }));
        }
        let contexts: Vec<_> = runs
            .iter()
            .flat_map(|run| places.iter().map(|place| PayloadContext::new(*run, *place).to_bytes()))
            .collect();
        assert_eq!(contexts.iter().collect::<HashSet<_>>().len(), contexts.len());
    }
}
