use serde::{Deserialize, Serialize};
use workflow_sdk::prelude::*;

#[derive(Debug, thiserror::Error, Serialize, Deserialize, StepError)]
#[error("{self:?}")]
#[step_error(nmae = "card", name = 7, name = "twice")]
enum Unknown {
    Away,
}

#[derive(Debug, thiserror::Error, Serialize, Deserialize, StepError)]
#[error("{self:?}")]
#[step_error(name = "", crate = "no path")]
enum OutOfRange {
    Away,
}

#[derive(Debug, thiserror::Error, Serialize, Deserialize, StepError)]
#[error("{self:?}")]
#[step_error(name)]
#[step_error]
enum Bare {
    Away,
}

fn main() {}
