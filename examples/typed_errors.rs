//! Typed errors: an error type declares whether and when its step is retried. It comes back as a
//! value of its type: to the workflow, also after a replay, and to the client of a failed run. The
//! history shows how many attempts were left.
//!
//! `cargo run --example typed_errors`

use std::time::Duration;

use serde::{Deserialize, Serialize};
use workflow_sdk::ClientError;
use workflow_sdk::prelude::*;
use workflow_worker::Worker;

#[derive(Debug, thiserror::Error, Serialize, Deserialize, StepError)]
enum CardError {
    #[error("the card was stolen")]
    #[retry(never)]
    Stolen,
    #[error("the bank is busy")]
    #[retry(after = pause)]
    Busy { pause: Duration },
    /// The step's policy decides.
    #[error("the card has {missing} cents too little")]
    Declined { missing: u32 },
}

#[workflow]
async fn pay(ctx: &Ctx, card: String) -> Result<String> {
    let charge = ctx.step("charge", || charge(&card, ctx.attempt()));
    let policy = Retry::fixed(Duration::from_millis(20)).max_attempts(3);
    match charge.retry(policy).await {
        Ok(number) => Ok(number),
        Err(error) => match error.downcast() {
            Some(CardError::Declined { missing }) => {
                // The run parks here. Its replay gets the same error.
                ctx.sleep(Duration::from_millis(50)).await?;
                ctx.step("ask", async || ok(format!("asked for {missing} cents in cash"))).await
            }
            _ => Err(error),
        },
    }
}

/// Stands for the bank.
async fn charge(card: &str, attempt: u32) -> Result<String, CardError> {
    match (card, attempt) {
        ("stolen", _) => Err(CardError::Stolen),
        ("poor", _) => Err(CardError::Declined { missing: 120 }),
        (_, 1) => Err(CardError::Busy { pause: Duration::from_millis(100) }),
        _ => Ok(format!("charged at attempt {attempt}")),
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let client = Client::connect(format!("sqlite://{}/errors.db", directory.path().display())).await?;
    let mut runs = Vec::new();
    for card in ["good", "poor", "stolen"] {
        runs.push(client.start(pay, card.to_owned()).await?);
    }
    let all_ended = async {
        for run in &runs {
            _ = run.result().await;
        }
    };
    Worker::new(client, ()).register(pay).linger(Duration::ZERO).run_until(all_ended).await?;

    let mut results = Vec::new();
    for run in &runs {
        results.push(match run.result().await {
            Ok(receipt) => receipt,
            Err(ClientError::RunFailed { error, .. }) => match error.downcast() {
                Some(CardError::Stolen) => "call the police".to_owned(),
                other => return Err(Error::msg(format!("unexpected: {other:?}"))),
            },
            Err(error) => return Err(error.into()),
        });
    }
    println!("results: {results:?}");

    println!("history of the poor card:");
    let mut history = runs[1].history().await?;
    history.sort_by_key(|attempt| attempt.started_at);
    for attempt in history.iter().filter(|attempt| attempt.step_key == "charge") {
        let error = attempt.error.as_ref();
        let left = error.and_then(|error| error.attempts_left).unwrap_or(0);
        let text = error.map(|error| error.message.as_str()).unwrap_or_default();
        println!("  attempt {} {}: {text}; {left} left", attempt.attempt, attempt.status);
    }
    let expected = ["charged at attempt 2", "asked for 120 cents in cash", "call the police"];
    if results == expected { Ok(()) } else { Err(Error::msg(format!("unexpected results: {results:?}"))) }
}
