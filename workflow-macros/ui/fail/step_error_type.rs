use serde::{Deserialize, Serialize};
use workflow_sdk::prelude::*;

#[derive(Debug, thiserror::Error, Serialize, Deserialize, StepError)]
#[error("away")]
enum Generic<T> {
    Away(T),
}

#[derive(Debug, thiserror::Error, StepError)]
#[error("{text}")]
struct Borrowed<'a> {
    text: &'a str,
}

#[derive(StepError)]
union Either {
    signed: i8,
    unsigned: u8,
}

fn main() {}
