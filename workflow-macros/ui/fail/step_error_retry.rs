use serde::{Deserialize, Serialize};
use std::time::Duration;
use workflow_sdk::prelude::*;

#[derive(Debug, thiserror::Error, Serialize, Deserialize, StepError)]
#[error("{self:?}")]
enum CardError {
    #[retry]
    Bare,
    #[retry()]
    Empty,
    #[retry = "never"]
    Assigned,
    #[retry(nevr)]
    Misspelled,
    #[retry(fatal, times = 3)]
    Invented,
    #[retry(never = true)]
    Valued,
    #[retry(policy(3))]
    Called,
    #[retry(never, after = pause)]
    Both { pause: Duration },
    #[retry("never")]
    Quoted,
}

#[derive(Debug, thiserror::Error, Serialize, Deserialize, StepError)]
#[error("{self:?}")]
#[retry(after = pause)]
enum Default {
    Busy { pause: Duration },
}

#[derive(Debug, thiserror::Error, Serialize, Deserialize, StepError)]
#[error("{self:?}")]
#[retry(always)]
enum Unknown {
    Busy,
}

// The derive still implements `StepError`, so this function causes no further message.
fn look(error: &Error) -> Option<CardError> {
    error.downcast()
}

fn main() {
    let _ = look;
}
