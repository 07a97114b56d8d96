use serde::{Deserialize, Serialize};

use super::{PayloadContext, RunId, StoredError};

/// A stored payload that this program cannot decode. Nothing was changed. The run does not fail: it
/// waits for a worker that can decode the payload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{what} cannot be decoded: {}", reason.explain(key_id.as_deref()))]
#[non_exhaustive]
pub struct UnreadablePayload {
    /// A description of the payload that names its run and its step.
    pub what: String,
    /// The run that the payload belongs to.
    pub run_id: RunId,
    /// The key of the step, if the payload belongs to a step.
    pub step_key: Option<String>,
    /// The id of the key that encoded the payload. `None` if the payload is not encoded, or if its
    /// envelope is not understood.
    pub key_id: Option<String>,
    /// The reason why it cannot be decoded.
    pub reason: UnreadableReason,
}

/// The reason why a payload cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum UnreadableReason {
    /// This program has no codec.
    NoCodec,
    /// This program's codec does not have the key.
    UnknownKey,
    /// The payload is not the one that was encoded at this place with this key.
    NotAuthentic,
    /// The payload is not encoded, and the codec refuses such payloads.
    Plain,
    /// The envelope, or the decoded text, is not understood.
    Malformed,
    /// The codec failed.
    Failed(String),
}

impl UnreadableReason {
    fn explain(&self, key_id: Option<&str>) -> String {
        let key = key_id.unwrap_or("?");
        match self {
            Self::NoCodec => format!(
                "it was encoded with key {key:?}, and this program has no codec; connect with the codec of the program that wrote it"
            ),
            Self::UnknownKey => format!(
                "it was encoded with key {key:?}, which this program does not have; give its codec that key too"
            ),
            Self::NotAuthentic => format!(
                "it is not what was encoded at this place with key {key:?}; either another key has that id here, or the row was \
                 changed or moved: compare the keys, else restore the row from a backup or terminate the run"
            ),
            Self::Plain => "it is stored in plain, and the codec refuses that; let the codec read plain payloads until the runs \
                            that are older than it have ended"
                .into(),
            Self::Malformed => {
                "its envelope is not understood; it was written by a later release, or damaged: read it with that release, or \
                 restore it from a backup"
                    .into()
            }
            Self::Failed(why) => format!("the codec failed with key {key:?}: {why}"),
        }
    }
}

/// The prefix of a text that stands in the place of a payload that cannot be decoded. No JSON text
/// begins with it.
const MARK: &str = "unreadable:";

impl UnreadablePayload {
    /// Describes the payload of this context, which cannot be decoded.
    pub fn new(context: &PayloadContext<'_>, key_id: Option<&str>, reason: UnreadableReason) -> Self {
        Self {
            what: context.to_string(),
            run_id: context.run_id,
            step_key: context.step_key().map(str::to_owned),
            key_id: key_id.map(str::to_owned),
            reason,
        }
    }

    /// Returns the text that stands in the place of the payload.
    pub fn to_text(&self) -> String {
        // Plain data with text keys always serializes.
        format!("{MARK}{}", serde_json::to_string(self).unwrap_or_default())
    }

    /// Returns the description if this text stands in the place of a payload that cannot be
    /// decoded, as in [`Run::input`](crate::model::Run::input) and
    /// [`Run::output`](crate::model::Run::output). Returns `None` for every payload.
    #[must_use]
    pub fn in_place_of(payload: &str) -> Option<Self> {
        serde_json::from_str(payload.strip_prefix(MARK)?).ok()
    }

    /// Returns the description if the text and value of this error cannot be decoded, as in
    /// [`Run::error`](crate::model::Run::error). Returns `None` for every other error.
    #[must_use]
    pub fn in_place_of_error(error: &StoredError) -> Option<Self> {
        Self::in_place_of(error.coded.as_deref()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::PayloadPlace;

    #[test]
    fn an_unreadable_payload_is_read_back_from_its_text_and_from_no_payload() {
        let context = PayloadContext::new(RunId::generate(), PayloadPlace::StepOutput { key: "charge" });
        let unreadable = UnreadablePayload::new(&context, Some("k1"), UnreadableReason::UnknownKey);
        assert_eq!(UnreadablePayload::in_place_of(&unreadable.to_text()), Some(unreadable.clone()));
        let payload = serde_json::to_string(&unreadable.to_text()).unwrap_or_default();
        assert_eq!(UnreadablePayload::in_place_of(&payload), None);
        let text = unreadable.to_string();
        assert!(
            text.contains("\"charge\"") && text.contains("\"k1\"") && text.contains("give its codec that key"),
            "{text}"
        );
    }
}
