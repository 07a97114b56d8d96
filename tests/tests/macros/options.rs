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

#[derive(serde::Serialize, serde::Deserialize)]
struct Order {
    account: String,
    number: u64,
}

#[workflow(queue = "accounts", gate = |order: &Order| &order.account)]
async fn borrowed(_ctx: &Ctx, _order: Order) -> Result<()> {
    Ok(())
}

#[workflow(gate = |order| format!("acct-{}", order.number % 10))]
async fn computed(_ctx: &Ctx, order: Order) -> Result<u64> {
    Ok(order.number)
}

#[workflow(gate = |(account, _): &(String, u64)| account.as_str(), crate = "my_app::workflow_sdk")]
async fn pattern(_ctx: &Ctx, (_, count): (String, u64)) -> Result<u64> {
    Ok(count)
}

#[workflow(gate = |&()| "nightly")]
async fn without_input(_ctx: &Ctx) -> Result<()> {
    Ok(())
}

fn place<W: Workflow>(_: W, input: &W::Input) -> (Option<&'static str>, Option<String>) {
    (W::QUEUE, W::gate(input))
}

#[test]
fn the_queue_and_the_gate_of_an_input() {
    let order = Order { account: "acct-42".into(), number: 7 };
    let gate = |gate: &str| Some(gate.to_owned());
    assert_eq!(place(plain, &()), (None, None));
    assert_eq!(place(borrowed, &order), (Some("accounts"), gate("acct-42")));
    assert_eq!(place(computed, &order), (None, gate("acct-7")));
    assert_eq!(place(pattern, &("acct-9".into(), 1)), (None, gate("acct-9")));
    assert_eq!(place(without_input, &()), (None, gate("nightly")));
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
