//! The pages. Each reads what it needs, and then draws it without waiting for anything.

pub(crate) mod approvals;
pub(crate) mod audit;
pub(crate) mod gates;
pub(crate) mod overview;
pub(crate) mod queues;
pub(crate) mod run;
mod run_actions;
mod run_history;
pub(crate) mod run_payload;
pub(crate) mod runs;
pub(crate) mod schedules;
pub(crate) mod system;
pub(crate) mod workers;
pub(crate) mod workflows;

#[cfg(test)]
mod tests;
