//! Declarative flows: workflows as documents in YAML or JSON.
//!
//! A person or a program writes a document. It is checked strictly, lowered to one [`graph`], and
//! run by an interpreter that is an ordinary workflow: every value and every decision is a recorded
//! step, so a flow survives the death of its worker as any workflow does. A run carries its whole
//! graph in its input, so a new version of a flow changes no run that has started.

pub mod expression;
pub mod graph;
mod model;
pub mod signature;
pub mod token;
mod tool;

pub use model::{Model, ModelAnswer, ModelCall, ScriptedModel};
pub use tool::{ErrorClass, Tool, ToolCall, ToolError};
