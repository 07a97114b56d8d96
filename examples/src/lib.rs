//! What the examples share. Read the examples first: they lie beside this directory, `hello.rs` before all.

pub mod audit;
pub mod ledger;
pub mod orders;
