use serde::{Deserialize, Serialize};
use std::time::Duration;
use workflow_sdk::prelude::*;

#[derive(Debug, thiserror::Error, Serialize, Deserialize, StepError)]
#[error("{self:?}")]
#[retry(never)]
#[retry(policy)]
enum CardError {
    #[retry(never)]
    #[retry(after = pause)]
    Busy { pause: Duration },
}

fn main() {}
