//! Workflows that wait for events, and workflows that emit them.

use serde::{Deserialize, Serialize};
use workflow_sdk::prelude::*;

use super::{Site, effect};

/// The name of the event.
pub const WORD: &str = "word";
/// The number of events that a run of [`listener`] waits for, one after the other.
pub const HEARD: u64 = 5;
/// The number of events that a run of [`speaker`] emits.
pub const SPOKEN: u64 = 10;

/// Waits [`HEARD`] times for an event with this key, with a short step after each. Returns the
/// numbers in the events.
///
/// # Errors
/// Never: its waits and steps do not fail.
#[workflow]
pub async fn listener(ctx: &Ctx<Site>, key: String) -> Result<Vec<u64>> {
    let mut heard = Vec::new();
    for _ in 0..HEARD {
        heard.extend(ctx.event::<u64>(WORD).key(&key).await?);
        ctx.step("take", || effect(ctx, 0)).await?;
    }
    Ok(heard)
}

/// The input of [`speaker`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Speech {
    /// The key of its events.
    pub key: String,
    /// The number in its first event. The next ones follow it.
    pub first: u64,
}

/// Emits [`SPOKEN`] events, with a short step after each. Returns how many runs each one reached.
///
/// # Errors
/// Never: its steps do not fail.
#[workflow]
pub async fn speaker(ctx: &Ctx<Site>, speech: Speech) -> Result<Vec<u64>> {
    let mut reached = Vec::new();
    for number in speech.first..speech.first + SPOKEN {
        reached.push(ctx.emit_event(WORD, &speech.key, &number).await?);
        ctx.step("take", || effect(ctx, 0)).await?;
    }
    Ok(reached)
}
