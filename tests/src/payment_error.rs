//! An error type in a library crate, as an application has one that its worker and its web server
//! share.

use serde::{Deserialize, Serialize};
use workflow_sdk::StepError;

/// An error type that registers itself even if a program uses nothing else of this crate.
#[derive(Clone, Debug, PartialEq, thiserror::Error, Serialize, Deserialize, StepError)]
#[error("the card has {missing} cents too little")]
#[retry(never)]
pub struct PaymentError {
    /// The missing amount, in cents.
    pub missing: u64,
}
