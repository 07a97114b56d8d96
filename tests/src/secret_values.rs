//! A workflow in which every value and every error text contains one mark, which must appear where
//! values belong and nowhere else.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use workflow_sdk::prelude::*;

use crate::Probe;

/// The mark in every value of an author.
pub const MARK: &str = "m4rk-of-a-secret";

const SOON: Duration = Duration::from_millis(5);

/// Returns a secret of this name.
#[must_use]
pub fn secret(of: &str) -> String {
    format!("{of} {MARK}")
}

/// An error that is stored as a value.
#[derive(Clone, Debug, PartialEq, thiserror::Error, Serialize, Deserialize, StepError)]
#[error("refused: {note}")]
#[retry(never)]
pub struct Refused {
    /// The reason.
    pub note: String,
}

/// Returns its input, or fails with it.
#[workflow(name = "marked_child")]
pub async fn marked_child(ctx: &Ctx<Probe>, text: String) -> Result<String> {
    if text.starts_with("fail") {
        ctx.step("fail", async || Err::<(), _>(Error::msg(secret("a child's step")))).retry(Retry::none()).await?;
    }
    Ok(text)
}

/// Does everything that a run can do, twice: it continues as new once.
#[workflow(name = "marked")]
pub async fn marked(ctx: &Ctx<Probe>, input: String) -> Result<String> {
    let probe = ctx.state();
    ctx.publish("shown", &secret("shown"))?;
    for number in 0..3 {
        ctx.emit("lines", &secret(&format!("line {number}")))?;
    }
    ctx.step("value", async || Ok::<_, Error>(secret("value"))).await?;
    let flaky = async || match probe.count("flaky") {
        1 => Err(Error::msg(secret("a failed attempt"))),
        _ => Ok(secret("flaky")),
    };
    ctx.step("flaky", flaky).retry(Retry::fixed(SOON)).await?;
    let typed = ctx.step("typed", async || Err::<(), _>(Refused { note: secret("typed") })).await.unwrap_err();
    assert_eq!(typed.downcast::<Refused>().map(|error| error.note), Some(secret("typed")));
    let panics = async || -> Result<()> { panic!("{}", secret("a panic")) };
    ctx.step("panics", panics).retry(Retry::none()).await.unwrap_err();
    let too_large = ctx.step("nan", async || Ok::<_, Error>((f64::NAN, secret("nan")))).retry(Retry::none()).await;
    too_large.unwrap_err();
    ctx.transaction("transaction", async |_tx| Ok::<_, Error>(secret("transaction"))).await?;
    assert_eq!(ctx.child(marked_child, secret("child")).await?, secret("child"));
    ctx.child(marked_child, secret("fail")).await.unwrap_err();
    let told: Option<String> = ctx.signal("tell").await?;
    assert_eq!(told, Some(secret("told")));
    let decision = ctx.approval("gate").to(secret("somebody")).await?;
    assert_eq!(decision.and_then(|decision| decision.note), Some(secret("note")));
    ctx.sleep(SOON).await?;
    if ctx.generation() == 0 {
        return ctx.continue_as_new(secret("the next input"));
    }
    Ok(format!("{input} and {}", secret("output")))
}

/// Fails after a step that is undone.
#[workflow(name = "marked_failure")]
pub async fn marked_failure(ctx: &Ctx<Probe>, input: String) -> Result<String> {
    ctx.step("book", async || Ok::<_, Error>(secret("booked"))).await?;
    let _undo = ctx.compensate("unbook", (), async |_probe, ()| Ok::<_, Error>(secret("unbooked")))?.undoes("book")?;
    Err(Error::msg(format!("{} {input}", secret("failure"))))
}

/// Panics.
#[workflow(name = "marked_panic")]
pub async fn marked_panic(ctx: &Ctx<Probe>, input: String) -> Result<String> {
    let _ = ctx;
    panic!("{input}")
}

/// Sends the signals that one generation of [`marked`] waits for.
///
/// # Panics
/// Panics if a signal is refused.
pub async fn tell<O>(client: &Client, run: &RunHandle<O>) {
    let listed = async || client.approvals_of(run.id()).await.expect("approvals").into_iter().next();
    client.signal(run.id(), "tell", &secret("told")).await.expect("a signal");
    let approval = crate::until("an approval is asked for", listed).await;
    assert_eq!(approval.to, Some(secret("somebody")));
    client.approve(run.id(), &approval.key, secret("ann")).note(secret("note")).await.expect("an approval");
    let gone = async || (listed().await.is_none_or(|now| now.since != approval.since)).then_some(());
    crate::until("the approval is taken", gone).await;
}
