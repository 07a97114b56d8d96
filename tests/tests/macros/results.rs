//! Any `Result` whose error becomes the SDK's.
#![deny(warnings)]

use std::num::ParseIntError;
use workflow_sdk::prelude::*;

type Parsed<T> = std::result::Result<T, ParseIntError>;

#[workflow]
async fn of_the_sdk(_ctx: &Ctx, text: String) -> Result<u64> {
    Ok(text.parse()?)
}

#[workflow]
async fn of_the_sdk_by_path(_ctx: &Ctx, text: String) -> workflow_sdk::Result<u64> {
    Ok(text.parse()?)
}

#[workflow]
async fn of_the_author(_ctx: &Ctx, text: String) -> std::result::Result<u64, ParseIntError> {
    text.parse()
}

#[workflow]
async fn alias(_ctx: &Ctx, text: String) -> Parsed<u64> {
    text.parse()
}

fn typed(_: impl Workflow<State = (), Input = String, Output = u64>) {}

#[test]
fn results_of_each_kind() {
    typed(of_the_sdk);
    typed(of_the_sdk_by_path);
    typed(of_the_author);
    typed(alias);
}
