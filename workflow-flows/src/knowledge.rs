use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use workflow_sdk::Tx;

use crate::ToolError;

/// A document that a flow writes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct KbDocument {
    /// The name of the base.
    pub base: String,
    /// A document of this key in this base is replaced.
    pub key: String,
    /// The title.
    pub title: String,
    /// The text.
    pub text: String,
    /// The tags.
    pub tags: Vec<String>,
}

/// Keeps the documents that flows write. The write is part of the step's transaction, so a document
/// is written exactly once.
#[async_trait]
pub trait KnowledgeBase: Send + Sync + 'static {
    /// Writes a document within the transaction of the step. The transaction is the only one that
    /// may write to SQLite meanwhile: keep to one or two statements.
    ///
    /// # Errors
    /// A [`ToolError`] whose class decides whether the step is tried again.
    async fn write(&self, tx: Tx, document: &KbDocument) -> Result<Value, ToolError>;
}
