use serde::{Deserialize, Serialize};
use std::time::Duration;
use workflow_sdk::prelude::*;

#[derive(Debug, thiserror::Error, Serialize, Deserialize, StepError)]
#[error("{self:?}")]
enum CardError {
    #[retry(after)]
    Bare { pause: Duration },
    #[retry(after(pause))]
    Called { pause: Duration },
    #[retry(after = "pause")]
    Quoted { pause: Duration },
    #[retry(after = Duration::ZERO)]
    Computed { pause: Duration },
    #[retry(after = puase)]
    Misspelled { pause: Duration, code: u16, text: String },
    #[retry(after = 2)]
    OutOfRange(Duration, u16),
    #[retry(after = pause)]
    One(Duration),
    #[retry(after = pause)]
    None,
}

#[derive(Debug, thiserror::Error, Serialize, Deserialize, StepError)]
#[error("{self:?}")]
#[retry(after = puase)]
struct Busy {
    pause: Duration,
}

fn main() {}
