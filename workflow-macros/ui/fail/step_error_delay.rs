use serde::{Deserialize, Serialize};
use std::time::Duration;
use workflow_sdk::prelude::*;

#[derive(Debug, thiserror::Error, Serialize, Deserialize, StepError)]
#[error("{self:?}")]
enum CardError {
    #[retry(after = seconds)]
    Busy { seconds: u64 },
    #[retry(after = 0)]
    Away(Option<Option<Duration>>),
}

fn main() {}
