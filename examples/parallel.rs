//! Runs steps concurrently with plain `try_join!` and `try_join_all`. Each step is still recorded
//! separately.
//!
//! `cargo run --example parallel`

use std::time::Duration;

use futures::future::try_join_all;
use workflow_sdk::prelude::*;
use workflow_worker::Worker;

#[workflow]
async fn plan_trip(ctx: &Ctx, cities: Vec<String>) -> Result<String> {
    let (flight, hotel) = futures::try_join!(
        ctx.step("flight", || ask("a seat at the window")),
        ctx.step("hotel", || ask("a room with a view")),
    )?;
    let weather =
        try_join_all(cities.iter().map(|city| ctx.step(format!("weather {city}"), move || ask(city)))).await?;
    Ok(format!("{flight}, {hotel}, {} forecasts", weather.len()))
}

/// Stands for a slow service.
async fn ask(what: &str) -> Result<String> {
    tokio::time::sleep(Duration::from_millis(200)).await;
    Ok(what.into())
}

#[tokio::main]
async fn main() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let client = Client::connect(format!("sqlite://{}/parallel.db", directory.path().display())).await?;

    let cities = ["Lisbon", "Porto", "Coimbra", "Faro", "Braga"].map(String::from);
    let run = client.start(plan_trip, cities.into()).await?;
    let worker = Worker::new(client, ()).register(plan_trip);
    worker.run_until(async { _ = run.result().await }).await?;
    println!("{}", run.result().await?);

    let history = run.history().await?;
    let (Some(begin), Some(end)) =
        (history.iter().map(|step| step.started_at).min(), history.iter().filter_map(|step| step.completed_at).max())
    else {
        return Err(Error::msg("the run has no history"));
    };
    for step in &history {
        let bar = |from, to| " ".repeat(columns(begin, from)) + &"#".repeat(columns(from, to));
        println!("  {:<16} {}", step.step_key, bar(step.started_at, step.completed_at.unwrap_or(end)));
    }
    let one_by_one: Duration = history.iter().filter_map(|step| Some(step.completed_at?.since(step.started_at))).sum();
    println!("{} steps with {one_by_one:.1?} in total took {:.1?}", history.len(), end.since(begin));
    if end.since(begin) < one_by_one { Ok(()) } else { Err(Error::msg("the steps did not overlap")) }
}

/// Returns the width of a bar in columns.
fn columns(from: workflow_sdk::Timestamp, to: workflow_sdk::Timestamp) -> usize {
    usize::try_from(to.since(from).as_millis() / 10).unwrap_or(usize::MAX)
}
