//! The replay core, driven by hand: no database, no runtime, no clock but the test's own. Each table test is a history and a
//! piece of code, and the verdict that must come of them; the properties do the same with random programs and a crash after
//! every commit.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod breaker;
mod children;
mod compensations;
mod concurrency;
mod determinism;
mod divergence;
mod dry;
mod foreign;
mod harness;
mod insertion;
mod interruption;
mod live;
mod lives;
mod outside;
mod parking;
mod patches;
mod program;
mod properties;
mod refusals;
mod reports;
mod rerun;
mod retries;
mod rows;
mod scale;
mod scopes;
mod signals;
mod sleeps;
mod table;
mod transactions;
mod world;
