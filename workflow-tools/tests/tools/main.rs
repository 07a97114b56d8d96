//! The tools against real counterparts: sockets of this machine, programs, and servers of others.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[cfg(all(feature = "actions", feature = "http"))]
mod guide;
#[cfg(feature = "http")]
mod http;
#[cfg(all(feature = "knowledge", feature = "notify"))]
mod knowledge;
#[cfg(all(feature = "mail", feature = "http"))]
mod mail;
#[cfg(all(unix, feature = "mcp"))]
mod mcp;
#[cfg(feature = "model")]
mod model;
#[cfg(feature = "notify")]
mod notify;
#[cfg(feature = "http")]
mod stub;

use std::path::PathBuf;

use serde_json::Value;
use workflow_flows::{Tool, ToolCall, ToolError};

/// Calls a tool as a step does.
async fn call(tool: &dyn Tool, args: Value) -> Result<Value, ToolError> {
    tool.call(ToolCall::new(args, "ann", "run-1/charge")).await
}

/// The servers that scripts/mcp installs.
fn servers() -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/servers/node_modules");
    assert!(folder.is_dir(), "the servers are not installed: run scripts/mcp");
    folder
}

/// The program Node, which runs them.
fn node() -> PathBuf {
    program("node")
}

/// A program that scripts/mcp installs.
fn program(name: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join(name)).find(|program| program.is_file());
    found.unwrap_or_else(|| panic!("{name} is not installed: run scripts/mcp"))
}
