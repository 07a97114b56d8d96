use sha2::{Digest, Sha256};

use super::Flow;

impl Flow {
    /// Returns the SHA-256 of the flow's canonical JSON, as 64 hexadecimal digits. Comments, the
    /// order of keys and synonyms of a document do not change it.
    #[must_use]
    pub fn digest(&self) -> String {
        // A value sorts its keys. A graph has texts as keys only, so this does not fail.
        let canonical = serde_json::to_value(self).unwrap_or_default().to_string();
        Sha256::digest(canonical.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
    }
}
