//! Schedules: one in code that starts a run per second, and one of the client that is previewed,
//! backfilled, triggered and paused.
//!
//! `cargo run --example schedule`

use std::time::{Duration, SystemTime};

use workflow_sdk::prelude::*;
use workflow_sdk::{Overlap, SCHEDULE_TAG, Schedule, Timestamp};
use workflow_worker::Worker;

#[workflow]
async fn report(ctx: &Ctx, kind: String) -> Result<String> {
    let at = ctx.occurrence().map_or("no occurrence".to_owned(), ToString::to_string);
    ctx.step("write", async || ok(format!("{kind} of {at}"))).await
}

#[tokio::main]
async fn main() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let client = Client::connect(format!("sqlite://{}/schedule.db", directory.path().display())).await?;

    let daily = Schedule::cron("daily-report", "0 7 * * MON-FRI").zone("Europe/Berlin");
    let daily = client.create_schedule(daily.start(report, "sales".to_string())).await?;
    for occurrence in daily.next(3).await? {
        println!("the daily report will run at {occurrence}");
    }
    let now = Timestamp::from(SystemTime::now());
    let backfill = daily.backfill(now - Duration::from_secs(14 * 24 * 3600), now);
    println!("a backfill of two weeks has {} runs", backfill.preview().await?.count);
    let started = backfill.await?.started;
    let triggered = daily.trigger().await?;
    daily.pause("the week is over").await?;

    let often = Schedule::every("often", Duration::from_secs(1)).overlap(Overlap::Allow);
    let often = often.start_with(report, |occurrence| format!("stock on {}", occurrence.date()));
    let worker = Worker::new(client.clone(), ()).register(report).schedule(often);
    let three_runs = async {
        let often = client.schedule("often");
        while !often.describe().await.is_ok_and(|often| often.state.started >= 3) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        println!("the triggered run: {:?}", triggered.result().await.map_err(|error| error.to_string()));
    };
    worker.run_until(three_runs).await?;

    for schedule in client.schedules().await? {
        let paused = schedule.state.paused.map(|pause| pause.reason);
        println!("{}: {} started, paused: {paused:?}", schedule.name, schedule.state.started);
    }
    let runs = client.list(&RunFilter::new().tag(SCHEDULE_TAG, "daily-report")).await?.len();
    // Ten days of two weeks are working days.
    if started == 10 && runs == 11 { Ok(()) } else { Err(Error::msg(format!("{started} backfilled, {runs} runs"))) }
}
