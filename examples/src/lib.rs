//! Code that the examples share. The examples are in the parent directory; read `hello.rs` first.

pub mod audit;
pub mod ledger;
pub mod orders;
