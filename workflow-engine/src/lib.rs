//! The engine of `workflow-sdk`: its data model, the pure replay of a run, the contract of a store
//! and the single writer of a process.
//!
//! This crate is internal and exempt from semantic versioning. Authors and applications use
//! `workflow-sdk`; the stores, the worker and the test kit build on this crate. A module uses only
//! modules above it in this list.
//!
//! | Module | Purpose |
//! |---|---|
//! | [`faults`] | failpoints and planted bugs, which compile to nothing in a release |
//! | [`model`] | plain data and the rules that hold for it |
//! | [`schedule`] | takes a declaration and the time, returns occurrences and decisions; pure |
//! | [`replay`] | takes the history and the calls of a run, returns decisions; pure |
//! | [`store`] | the contract between the engine and a database, and its writes |
//! | [`observe`] | typed events of what the engine does, for logs, metrics and tests |
//! | [`runtime`] | connects the calls of a workflow with its worker; errors and payloads |
//! | [`executor`] | the single writer of a process |

#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod executor;
pub mod faults;
pub mod model;
pub mod observe;
pub mod replay;
pub mod runtime;
pub mod schedule;
pub mod store;
