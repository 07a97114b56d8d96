use std::time::{Instant, SystemTime};
use workflow_sdk::prelude::*;

// Replace the types of `chrono` and `jiff`.
struct Utc;
struct Local;
struct Zoned;

impl Utc {
    fn now() {}
}

impl Local {
    fn now() {}
}

impl Zoned {
    fn now() {}
}

#[workflow]
async fn checkout(_ctx: &Ctx) -> Result<bool> {
    let begun = Instant::now();
    let early = SystemTime::now() < SystemTime::UNIX_EPOCH;
    let _ = std::time::SystemTime::now();
    Utc::now();
    Local::now();
    Zoned::now();
    Ok(early && begun.elapsed().is_zero())
}

fn main() {}
