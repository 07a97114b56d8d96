use crate::model::{RunId, RunStatus, StoredError, UnreadablePayload};

/// How a run ended.
#[derive(Clone, Debug, PartialEq)]
pub struct EndedRun {
    /// The run.
    pub id: RunId,
    /// A terminal status.
    pub status: RunStatus,
    /// The output as JSON text, if it succeeded.
    pub output: Option<String>,
    /// Why it failed, if it failed.
    pub error: Option<StoredError>,
}

impl EndedRun {
    /// Returns the payload that cannot be decoded, if there is one.
    #[must_use]
    pub fn unreadable(&self) -> Option<UnreadablePayload> {
        let output = self.output.as_deref().and_then(UnreadablePayload::in_place_of);
        output.or_else(|| UnreadablePayload::in_place_of_error(self.error.as_ref()?))
    }
}
