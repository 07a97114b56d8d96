use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// A value of an author's own error type, stored beside the error's text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct TypedPayload {
    /// The name of the type: the name under which the value is stored, not the type's Rust path.
    pub type_name: String,
    /// The value as JSON text.
    pub json: String,
}

impl TypedPayload {
    /// The largest value: 64 KiB of JSON text. An error is read in every replay of its run and
    /// shown in every listing, so a larger document belongs elsewhere.
    pub const MAX_BYTES: usize = 64 * 1024;

    /// Creates a payload of the type with this name.
    #[must_use]
    pub fn new(type_name: impl Into<String>, json: impl Into<String>) -> Self {
        Self { type_name: type_name.into(), json: json.into() }
    }

    /// Returns the value if `type_name` is the name of its type and the value decodes as `T`.
    #[must_use]
    pub fn decode<T: DeserializeOwned>(&self, type_name: &str) -> Option<T> {
        if self.type_name != type_name {
            return None;
        }
        serde_json::from_str(&self.json).ok()
    }
}
