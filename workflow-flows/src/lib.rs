//! Declarative flows: workflows as documents in YAML or JSON.
//!
//! A person or a program writes a document. It is checked strictly, lowered to one [`graph`], and
//! run by an interpreter that is an ordinary workflow: every value and every decision is a recorded
//! step, so a flow survives the death of its worker as any workflow does. A run carries its whole
//! graph in its input, so a new version of a flow changes no run that has started.

pub mod check;
mod diagram;
mod digest;
pub mod document;
pub mod expression;
pub mod graph;
mod lower;
mod tool;

pub use diagram::{levels, mermaid};
pub use digest::digest;
pub use tool::{ErrorClass, Tool, ToolCall, ToolError};

/// The JSON Schema of documents in the native dialect, for editors and agents.
pub const SCHEMA: &str = include_str!("flow-1.schema.json");

/// Compiles the code on this page of the guide.
#[cfg(doctest)]
#[doc = include_str!("../../docs/guide/flows.md")]
struct FlowsPage;
