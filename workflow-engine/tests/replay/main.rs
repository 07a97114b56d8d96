//! Tests of the replay core without a database and a runtime, on the clock of the test. Most tests
//! run a workflow on a given history and compare the events and the result. The property tests do
//! the same for random programs with a crash after every commit.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod attempt_table;
mod breaker;
mod children;
mod compensations;
mod concurrency;
mod delivery;
mod determinism;
mod divergence;
mod dry_replay;
mod external_events;
mod foreign_awaits;
mod harness;
mod insertion;
mod interruption;
mod parking;
mod patches;
mod program;
mod properties;
mod random_drives;
mod refusals;
mod reports;
mod run_retries;
mod scale;
mod scopes;
mod signals;
mod sleeps;
mod step_retries;
mod streams;
mod transactions;
mod world;
