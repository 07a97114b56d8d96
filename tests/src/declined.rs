//! An error type of a library, as an application has one that its worker and its web server share.

use serde::{Deserialize, Serialize};
use workflow_sdk::StepError;

/// Registered from a crate of which a program may use nothing but the name of this type.
#[derive(Clone, Debug, PartialEq, thiserror::Error, Serialize, Deserialize, StepError)]
#[error("the card has {missing} cents too little")]
#[retry(never)]
pub struct Declined {
    /// Cents.
    pub missing: u64,
}
