use std::sync::Arc;

use serde_json::Value;
use workflow_sdk::Result;

use super::frame::Frame;
use super::mentions::Mentions;
use super::tool::{Caller, Failed, Place, call_tool};
use crate::expression::Scope;
use crate::failure::Again;
use crate::graph::{MissingPath, Step, ToolUse};
use crate::{ErrorClass, FlowRuntime};

/// Arms the undo of a step. It runs when the run fails or is canceled, the last armed one first.
pub(super) fn arm(frame: &Frame<'_>, step: &Step, tool: &ToolUse, result: &Arc<Value>) -> Result<()> {
    let number = frame.run.count_armed();
    let undo = Undo {
        step: step.id.clone(),
        key: format!("{}/{}{}~{number}", frame.ctx.run_id(), frame.path, step.id),
        actor: frame.run.start.actor.clone(),
        missing: frame.run.flow().missing_path,
        scope: frame.scope(&Mentions::of([&tool.args])).with("result", Arc::clone(result)),
        tool: tool.clone(),
    };
    let undo = Arc::new(undo);
    let name = format!("{}~", step.id);
    let _armed = frame.ctx.compensate(&name, undo, |runtime, undo| async move { undo.run(&runtime).await })?;
    Ok(())
}

/// An armed undo. It outlives the block of its step, so it owns what it needs.
struct Undo {
    step: String,
    key: String,
    actor: String,
    missing: MissingPath,
    scope: Scope,
    tool: ToolUse,
}

impl Undo {
    async fn run(&self, runtime: &FlowRuntime) -> Result<Value> {
        let caller = Caller { runtime, actor: &self.actor, missing: self.missing };
        let place = Place { step: &self.step, key: &self.key, timeout: None, token: None };
        call_tool(&caller, &place, &self.tool, &self.scope).await.map_err(|failure| match failure {
            Failed::Step(error) => error,
            Failed::Tool(error, _) if error.class == ErrorClass::Invalid => error.into(),
            Failed::Tool(error, asked) => error.again(asked.map_or(Again::ByPolicy, Again::After)).into(),
        })
    }
}
