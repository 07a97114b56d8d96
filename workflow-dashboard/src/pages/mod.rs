//! The pages. Each reads what it needs, and then draws it without waiting for anything.

pub(crate) mod approvals;
pub(crate) mod audit;
pub(crate) mod bulk;
pub(crate) mod bulk_preview;
mod decisions;
pub(crate) mod failures;
pub(crate) mod flow;
pub(crate) mod flows;
pub(crate) mod gates;
pub(crate) mod overview;
pub(crate) mod queues;
pub(crate) mod run;
mod run_actions;
mod run_family;
mod run_graph;
mod run_history;
pub(crate) mod run_payload;
mod run_signals;
mod run_timeline;
pub(crate) mod runs;
pub(crate) mod schedules;
pub(crate) mod system;
pub(crate) mod words;
pub(crate) mod workers;
pub(crate) mod workflow;
pub(crate) mod workflows;

#[cfg(test)]
mod tests;
