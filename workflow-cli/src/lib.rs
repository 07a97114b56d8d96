//! The command line of workflows: the program `workflow`, as a library.
//!
//! Every verb goes through [`workflow_sdk::operate::Operate`], so it sees and does what a page or a
//! program can, and no more. `workflow --help` lists the verbs; `docs/guide/cli.md` explains them.
//!
//! [`kit`] puts the same verbs into a program of the application's own, beside its worker.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod arguments;
mod clock;
mod completion;
mod demo;
mod difference;
mod dry_run;
mod environment;
mod exit;
mod failure;
mod flow_target;
mod flow_test;
mod flow_worker;
mod flows;
mod inbox;
mod kit;
mod knowledge;
mod output;
mod preflight;
mod prune;
mod replay;
mod selection;
mod server;
mod serving;
mod standby;
mod target;
mod template;
#[cfg(feature = "otlp")]
mod traces;
mod verbs;
mod versions;

pub use exit::Exit;
use failure::Failure;
pub use kit::{Kit, kit};

/// Compiles the code on this page of the guide.
#[cfg(doctest)]
#[doc = include_str!("../../docs/guide/cli.md")]
struct CliPage;
