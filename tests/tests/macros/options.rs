//! The options and their defaults.
#![deny(warnings)]

use workflow_sdk::prelude::*;

mod my_app {
    pub use workflow_sdk;
}

#[workflow]
async fn plain(_ctx: &Ctx) -> Result<()> {
    Ok(())
}

#[workflow()]
async fn r#type(_ctx: &Ctx) -> Result<()> {
    Ok(())
}

#[workflow(name = "checkout/eu", version = "2026-01", crate = "my_app::workflow_sdk")]
async fn checkout(_ctx: &Ctx) -> Result<()> {
    Ok(())
}

#[workflow(crate = "crate::options::my_app::workflow_sdk")]
async fn trailing_comma(_ctx: &Ctx) -> Result<()> {
    Ok(())
}

const PATIENT: Retry = Retry::exponential().max_attempts(3);

#[workflow(retry = PATIENT.max_attempts(4))]
async fn stubborn(_ctx: &Ctx) -> Result<()> {
    Ok(())
}

fn retry_of<W: Workflow>(_: W) -> Option<Retry> {
    W::RETRY
}

fn identity<W: Workflow>(_: W) -> (&'static str, &'static str) {
    (W::NAME, W::VERSION)
}

#[test]
fn options_and_their_defaults() {
    assert_eq!(identity(plain), ("plain", "1"));
    assert_eq!(identity(r#type), ("type", "1"));
    assert_eq!(identity(checkout), ("checkout/eu", "2026-01"));
    assert_eq!(identity(trailing_comma), ("trailing_comma", "1"));
    assert_eq!(retry_of(plain), None);
    assert_eq!(retry_of(stubborn), Some(Retry::exponential().max_attempts(4)));
}
