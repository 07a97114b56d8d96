//! Campaigns of faults on real processes, the checker of their results, and the simulation. Not
//! part of the default test graph: `scripts/test` and `scripts/campaign` build this crate.

pub mod audit;
pub mod campaign;
pub mod checker;
pub mod image;
pub mod ledger;
pub mod ledger_worker;
pub mod pooler_process;
pub mod program;
pub mod proxy;
pub mod race_client;
pub mod simulation;
pub mod skew;
pub mod testbed;
pub mod worker_process;
pub mod workflows;
