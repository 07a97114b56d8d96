use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The value of an author's own error type, kept beside its text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TypedPayload {
    /// Which type: the name under which it is kept, not its Rust path of today.
    pub type_name: String,
    /// The value as JSON text.
    pub json: String,
}

impl TypedPayload {
    /// Largest value, in bytes of JSON text: 64 KiB. An error is read with every replay of its run and shown in every
    /// listing, and what is larger is a document, which belongs elsewhere.
    pub const MAX_BYTES: usize = 64 * 1024;

    /// A value of the type of this name.
    #[must_use]
    pub fn new(type_name: impl Into<String>, json: impl Into<String>) -> Self {
        Self { type_name: type_name.into(), json: json.into() }
    }

    /// The value, if it is one of the type of this name and decodes.
    #[must_use]
    pub fn decode<T: DeserializeOwned>(&self, type_name: &str) -> Option<T> {
        if self.type_name != type_name {
            return None;
        }
        serde_json::from_str(&self.json).ok()
    }
}
