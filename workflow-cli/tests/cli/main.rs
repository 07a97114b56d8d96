//! The command line, as its users call it: each file asks about one group of its commands.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod commands;
mod common;
mod completions;
mod dashboard;
mod doctor;
mod flow_servers;
mod flow_worker;
mod flows;
mod kit;
mod knowledge;
mod mcp;
mod migrate;
mod restore;
mod shapes;
mod standby;
mod starts;
mod template;
mod terminal;
#[cfg(feature = "otlp")]
mod traces;
mod transfer;
mod watch;
