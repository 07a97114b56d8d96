//! Tools for the flows of workflow-sdk.
//!
//! Each tool stands behind a feature, and none is on by default. A tool that can do harm does
//! nothing until the operator names what it may do: which networks, which servers, which
//! directory, which programs. `docs/guide/tools.md` has an example of each.
//!
//! An error has a class ([`ErrorClass`](workflow_flows::ErrorClass)), which decides whether the
//! step is tried again. An error may name a path, a header, a receiver or a target. It holds no
//! other value of the arguments.

#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "actions")]
pub mod actions;
mod arguments;
#[cfg(feature = "assert")]
pub mod assert;
#[cfg(feature = "crypto")]
pub mod crypto;
#[cfg(any(feature = "http", all(target_os = "linux", feature = "shell")))]
mod excerpt;
#[cfg(all(target_os = "linux", feature = "fs"))]
pub mod files;
#[cfg(any(feature = "assert", feature = "crypto", feature = "fs", feature = "log"))]
mod function;
#[cfg(feature = "http")]
pub mod http;
#[cfg(feature = "knowledge")]
pub mod knowledge;
#[cfg(feature = "log")]
pub mod log;
#[cfg(feature = "mail")]
pub mod mail;
#[cfg(all(unix, feature = "mcp"))]
pub mod mcp;
#[cfg(feature = "model")]
pub mod model;
#[cfg(feature = "notify")]
pub mod notify;
#[cfg(any(all(unix, feature = "mcp"), all(target_os = "linux", feature = "shell")))]
mod process;
#[cfg(any(feature = "assert", feature = "model", all(unix, feature = "mcp")))]
mod schema;
#[cfg(all(target_os = "linux", feature = "shell"))]
pub mod shell;

/// Compiles the code on this page of the guide.
#[cfg(all(doctest, target_os = "linux", feature = "fs", feature = "mail", feature = "mcp", feature = "model"))]
#[cfg(all(feature = "actions", feature = "knowledge", feature = "notify", feature = "shell"))]
#[doc = include_str!("../../docs/guide/tools.md")]
struct ToolsPage;
