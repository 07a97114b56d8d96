//! A workflow may return any `Result` whose error converts into the SDK's error.
#![deny(warnings)]

use std::num::ParseIntError;
use workflow_sdk::prelude::*;

type Parsed<T> = std::result::Result<T, ParseIntError>;

#[workflow]
async fn sdk_result(_ctx: &Ctx, text: String) -> Result<u64> {
    Ok(text.parse()?)
}

#[workflow]
async fn sdk_result_by_path(_ctx: &Ctx, text: String) -> workflow_sdk::Result<u64> {
    Ok(text.parse()?)
}

#[workflow]
async fn std_result(_ctx: &Ctx, text: String) -> std::result::Result<u64, ParseIntError> {
    text.parse()
}

#[workflow]
async fn alias(_ctx: &Ctx, text: String) -> Parsed<u64> {
    text.parse()
}

fn typed(_: impl Workflow<State = (), Input = String, Output = u64>) {}

#[test]
fn each_kind_of_result_is_accepted() {
    typed(sdk_result);
    typed(sdk_result_by_path);
    typed(std_result);
    typed(alias);
}
