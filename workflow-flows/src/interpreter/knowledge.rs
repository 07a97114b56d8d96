//! Documents that a flow writes into the knowledge base.

use std::sync::Arc;

use serde_json::{Value, json};
use workflow_sdk::{Error, Retry, Tx};

use super::evaluation::{as_text, as_texts, prepared_key};
use super::frame::Frame;
use crate::graph::{KbWrite, Step};
use crate::policy::KB_WRITE;
use crate::{ErrorClass, FlowError, KbDocument, ToolError};

/// Writes a document in the transaction of the step's record. The templates are rendered by a step
/// before it, because the transaction is the only writer of SQLite meanwhile.
pub(super) async fn run_write(frame: &Frame<'_>, step: &Step, write: &KbWrite) -> workflow_sdk::Result<Value> {
    let template = json!({ "title": write.title, "text": write.text, "key": write.key, "tags": write.tags });
    let rendered = frame.render_step(&prepared_key(&step.id), &step.id, "kb", &template).await?;
    let own_key = || format!("{}/{}{}", frame.ctx.run_id(), frame.path, step.id);
    let document = &KbDocument {
        base: write.base.clone(),
        key: if write.key.is_some() { as_text(&rendered["key"]) } else { own_key() },
        title: as_text(&rendered["title"]),
        text: as_text(&rendered["text"]),
        tags: as_texts(&rendered["tags"]),
        run: Some(frame.ctx.run_id()),
        written_at: frame.ctx.now().into(),
    };
    let Some(base) = frame.runtime().knowledge_base() else {
        let message = "this worker has no knowledge base; give it one with FlowRuntimeBuilder::knowledge_base";
        // This is a transaction too, so that a replay finds the transaction that a worker with a
        // base has recorded.
        let lacks = |_tx: Tx| async { Err(failed(&step.id, &ToolError::new(ErrorClass::Unavailable, message))) };
        return frame.ctx.transaction(&step.id, lacks).retry(Retry::none()).await;
    };
    let body = |tx: Tx| {
        let base = Arc::clone(base);
        async move {
            may_write(frame, document).map_err(|error| failed(&step.id, &error))?;
            base.write(tx, document).await.map_err(|error| failed(&step.id, &error))
        }
    };
    // The step around it makes further attempts, and limits their time.
    frame.ctx.transaction(&step.id, body).retry(Retry::none()).await
}

/// Asks the policy, as before a call of a tool.
fn may_write(frame: &Frame<'_>, document: &KbDocument) -> Result<(), ToolError> {
    let actor = &frame.run.start.actor;
    let args = json!({ "base": document.base, "key": document.key, "tags": document.tags });
    if frame.runtime().policy().may(actor, KB_WRITE, &args) {
        return Ok(());
    }
    let message = format!(
        "{actor:?} may not write to the base {:?}; ask for the permission of {KB_WRITE:?}, or start as another account",
        document.base
    );
    Err(ToolError::new(ErrorClass::Invalid, message))
}

fn failed(step: &str, error: &ToolError) -> Error {
    FlowError::of_tool(step, error).into()
}
