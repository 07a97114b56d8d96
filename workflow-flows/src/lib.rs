//! Declarative flows: workflows as documents in YAML or JSON.
//!
//! A person or a program writes a document. It is checked strictly, lowered to one [`graph`], and
//! run by an interpreter that is an ordinary workflow: every value and every decision is a recorded
//! step, so a flow survives the death of its worker as any workflow does. A run carries its whole
//! graph in its input, so a new version of a flow changes no run that has started.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod catalog;
pub mod check;
mod client;
mod database;
mod diagram;
pub mod document;
mod evaluate;
pub mod expression;
mod failure;
mod flow_name;
mod flows;
pub mod graph;
mod inbox;
mod instant;
mod interpreter;
mod knowledge;
mod lower;
mod model;
mod policy;
mod record_key;
mod runtime;
mod schema_size;
mod secret_store;
mod secrets;
pub mod signature;
mod store;
pub mod token;
mod tool;

pub use client::{FLOW_TAG, FLOW_VERSION_TAG, FlowClient};
pub use diagram::{Diagram, DiagramEdge, DiagramNode, Shape, levels, mermaid};
pub use evaluate::Evaluate;
pub use failure::{FlowCode, FlowError};
pub use flow_name::{FlowName, is_flow};
pub use flows::{
    Answer, CheckedFlow, DeployedFlow, FlowDiagram, FlowDocument, FlowSummary, Flows, Hook, HookRequest, OpenQuestion,
    Report, ReportedError, StepVisit, Triggered, answer_step, check_event, flow_key, read_question, read_visits,
    refusal_for, report_step,
};
pub use inbox::{InboxEntry, InboxError, InboxMessage, InboxStore};
pub use interpreter::{FlowStart, FlowWorkflow, flow};
pub use knowledge::{KbDocument, KbEntry, KbError, KbSearch, KbStore, KbSummary, KnowledgeBase};
pub use lower::duration::parse as parse_duration;
pub use model::{Model, ModelAnswer, ModelCall, ScriptedModel};
pub use policy::{AllowAll, Policy};
pub use record_key::{RecordPart, RecordedSteps};
pub use runtime::{FlowRuntime, FlowRuntimeBuilder};
/// For the crates of this project.
#[doc(hidden)]
pub use schema_size::SchemaSize;
pub use secret_store::{SecretEntry, SecretStore, SecretStoreError};
pub use secrets::{FixedSecrets, Secrets};
pub use store::{Deployed, FlowStore, FlowStoreError, FlowVersion};
pub use tool::{ErrorClass, Tool, ToolCall, ToolError, ToolServer};

/// The JSON Schema of documents in the native dialect, for editors and agents.
pub const SCHEMA: &str = include_str!("flow-1.schema.json");

/// Compiles and runs the code on this page of the guide.
#[cfg(all(doctest, feature = "sqlite"))]
#[doc = include_str!("../../docs/guide/flows-running.md")]
struct RunningPage;

/// Compiles the code on this page of the guide.
#[cfg(doctest)]
#[doc = include_str!("../../docs/guide/flow-expressions.md")]
struct FlowExpressions;

/// Compiles the code on this page of the guide.
#[cfg(doctest)]
#[doc = include_str!("../../docs/guide/flows.md")]
struct FlowsPage;
