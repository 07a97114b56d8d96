//! jq in helper processes.
//!
//! A jq program can recurse without end and fill the memory in ways that its interpreter cannot
//! stop. So it runs in a process of its own, with limits of the operating system, which is killed
//! at its deadline.

mod answer;
mod command;
mod fault;
mod filter;
mod place;
#[cfg(target_os = "linux")]
mod process;
mod request;
mod serve;

pub(super) use command::HelperSource;
pub use command::jq_helper;
pub(crate) use fault::{faults, filter_repair};
pub(super) use place::Place;
pub(super) use request::Request;
