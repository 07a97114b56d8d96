use serde::{Deserialize, Serialize};

use super::{PayloadContext, RunId, StoredError};

/// A stored payload that this program cannot decode. Nothing was changed; the run is not failed by it, but waits for a worker that
/// can decode it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{what} cannot be decoded: {}", reason.explain(key_id.as_deref()))]
#[non_exhaustive]
pub struct UnreadablePayload {
    /// What it is, with its run and step.
    pub what: String,
    /// The run.
    pub run_id: RunId,
    /// The step, where it is one's.
    pub step_key: Option<String>,
    /// The key with which it was encoded; `None` for a plain payload, or one whose envelope is not understood.
    pub key_id: Option<String>,
    /// Why.
    pub reason: UnreadableReason,
}

/// Why a payload cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum UnreadableReason {
    /// This program has no codec.
    NoCodec,
    /// Its codec does not have the key.
    UnknownKey,
    /// It is not what was encoded at this place with this key.
    NotAuthentic,
    /// It was not encoded, and the codec refuses such payloads.
    Plain,
    /// Its envelope, or what came out of it, is not understood.
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
            Self::Plain => "it is stored in plain, and the codec refuses that; let the codec read plain payloads until those \
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

/// How a text begins that stands in the place of a payload which cannot be decoded. No JSON text does.
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

    /// What stands in the place of the payload.
    pub fn to_text(&self) -> String {
        // Plain data with text keys cannot fail to be written.
        format!("{MARK}{}", serde_json::to_string(self).unwrap_or_default())
    }

    /// What this text says if it stands in the place of a payload that could not be decoded, as in
    /// [`Run::input`](crate::Run::input) and [`Run::output`](crate::Run::output). `None` for every payload.
    #[must_use]
    pub fn in_place_of(payload: &str) -> Option<Self> {
        serde_json::from_str(payload.strip_prefix(MARK)?).ok()
    }

    /// The same of an error, as in [`Run::error`](crate::Run::error).
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
    fn it_is_found_again_in_its_text_and_in_no_payload() {
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
