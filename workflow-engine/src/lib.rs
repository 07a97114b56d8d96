//! The engine of `workflow-sdk`: its data, the pure replay of a run, the contract of a store and the one writer of a process.
//!
//! Internal: exempt from semantic versioning. Authors and applications use `workflow-sdk`; the stores, the worker and the
//! test kit build on this crate. A module uses only modules above it in this list.
//!
//! | Module | Purpose |
//! |---|---|
//! | [`faults`] | failpoints and planted bugs, which compile to nothing in a release |
//! | [`model`] | plain data and the rules that hold for it |
//! | [`replay`] | a run's history and its calls go in, decisions come out; pure |
//! | [`store`] | the contract between the engine and a database, and its writes |
//! | [`observe`] | typed events of what the engine does, for logs, metrics and tests |
//! | [`runtime`] | the place where the calls of a workflow and its worker meet; errors and payloads |
//! | [`executor`] | the single writer of a process |

pub mod executor;
pub mod faults;
pub mod model;
pub mod observe;
pub mod replay;
pub mod runtime;
pub mod store;
