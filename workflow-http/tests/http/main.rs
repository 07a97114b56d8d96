//! The HTTP interface over real connections, on each database, and its OpenAPI document.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod api;
mod common;
#[cfg(feature = "flows")]
mod deploys;
mod document;
#[cfg(feature = "metrics")]
mod metrics;
mod refusals;
mod streams;
