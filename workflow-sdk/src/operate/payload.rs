use std::fmt;

use serde::de::{Deserialize, Deserializer};
use serde::ser::{Error as _, Serialize, Serializer};
use serde_json::value::RawValue;

use workflow_engine::model::UnreadablePayload;

/// The largest payload that stands in an answer, in bytes. Of a larger one the answer has the size,
/// and [`OperateRuns::payload`](super::OperateRuns::payload) reads it.
pub const SHOWN_BYTES: u32 = 64 * 1024;

/// A payload in an answer.
///
/// ```
/// use workflow_sdk::operate::StoredPayload;
///
/// let text = r#"{"bytes":22,"json":[12345678901234567890]}"#;
/// let payload: StoredPayload = serde_json::from_str(text)?;
/// assert_eq!(payload.json.as_ref().unwrap().as_str(), "[12345678901234567890]");
/// assert_eq!(serde_json::to_string(&payload)?, text);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct StoredPayload {
    /// The size in bytes. Of an encoded payload that is not shown, it is the size of its stored
    /// form.
    pub bytes: u64,
    /// The payload. `None`: it has more than [`SHOWN_BYTES`], or cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "some_text")]
    pub json: Option<PayloadText>,
    /// Why the payload cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreadable: Option<String>,
}

impl StoredPayload {
    /// Returns a payload of at most `most` bytes with its text, a larger one without.
    pub(super) fn of(text: String, most: u64) -> Self {
        let bytes = u64::try_from(text.len()).unwrap_or(u64::MAX);
        let unreadable = |why: String| Self { bytes, json: None, unreadable: Some(why) };
        if let Some(why) = UnreadablePayload::in_place_of(&text) {
            return unreadable(why.to_string());
        }
        if bytes > most {
            return Self { bytes, json: None, unreadable: None };
        }
        match PayloadText::new(text) {
            Some(json) => Self { bytes, json: Some(json), unreadable: None },
            None => unreadable("the stored text is not JSON".into()),
        }
    }

    /// Returns a payload that was left out because of its size.
    pub(super) fn left_out(bytes: u64) -> Self {
        Self { bytes, json: None, unreadable: None }
    }
}

/// `null` is a payload, and differs from no payload.
fn some_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<PayloadText>, D::Error> {
    PayloadText::deserialize(deserializer).map(Some)
}

/// The JSON text of a payload, as it is stored. It is serialized as the JSON that it is, and
/// numbers keep all their digits. Only `serde_json` can read and write it. Its `Debug` output shows
/// the size alone, because it is logged.
#[derive(Clone, PartialEq, Eq)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(value_type = serde_json::Value))]
pub struct PayloadText(String);

impl PayloadText {
    /// Returns the text if it is JSON.
    #[must_use]
    pub fn new(json: String) -> Option<Self> {
        serde_json::from_str::<&RawValue>(&json).is_ok().then_some(Self(json))
    }

    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for PayloadText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PayloadText({} bytes)", self.0.len())
    }
}

impl Serialize for PayloadText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serde_json::from_str::<&RawValue>(&self.0).map_err(S::Error::custom)?.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for PayloadText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(Box::<RawValue>::deserialize(deserializer)?.get().to_owned()))
    }
}

/// Which payload of a run is meant.
#[derive(Clone, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(tag = "of", rename_all = "snake_case")]
#[non_exhaustive]
pub enum PayloadOf {
    /// The input of the run.
    Input,
    /// The output of the run.
    Output,
    /// The output of an attempt of a step.
    Step {
        /// The key of the step.
        step: String,
        /// The number of the attempt.
        attempt: i64,
    },
}

impl fmt::Display for PayloadOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Input => f.write_str("input"),
            Self::Output => f.write_str("output"),
            Self::Step { step, attempt } => write!(f, "output of attempt {attempt} of step {step:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_payload_is_serialized_as_the_json_that_it_is() {
        for text in ["null", "1e400", "[12345678901234567890, 0.1]", r#"{"b":1,"a":"é"}"#] {
            let payload = StoredPayload::of(text.into(), 1000);
            let json = serde_json::to_string(&payload).unwrap();
            assert_eq!(json, format!(r#"{{"bytes":{},"json":{text}}}"#, text.len()));
            assert_eq!(serde_json::from_str::<StoredPayload>(&json).unwrap(), payload);
        }
    }

    #[test]
    fn a_large_payload_and_one_that_is_not_json_have_no_text() {
        let large = StoredPayload::of("[1, 2]".into(), 5);
        assert_eq!(serde_json::to_string(&large).unwrap(), r#"{"bytes":6}"#);
        assert_eq!(serde_json::from_str::<StoredPayload>(r#"{"bytes":6}"#).unwrap(), large);
        let damaged = StoredPayload::of("[1, ".into(), 5);
        assert!(damaged.json.is_none() && damaged.unreadable.is_some());
        assert_eq!(format!("{:?}", PayloadText::new("\"secret\"".into())), "Some(PayloadText(8 bytes))");
    }
}
