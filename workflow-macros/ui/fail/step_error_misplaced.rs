use serde::{Deserialize, Serialize};
use std::time::Duration;
use workflow_sdk::prelude::*;

#[derive(Debug, thiserror::Error, Serialize, Deserialize, StepError)]
#[error("{self:?}")]
enum CardError {
    Busy {
        #[retry(after)]
        pause: Duration,
    },
    #[step_error(name = "away")]
    Away(#[step_error(name = "text")] String),
}

#[derive(Debug, thiserror::Error, Serialize, Deserialize, StepError)]
#[error("{self:?}")]
struct SoldOut(#[retry(after)] Duration);

fn main() {}
