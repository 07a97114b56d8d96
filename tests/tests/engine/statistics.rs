use std::collections::BTreeSet;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

use workflow_engine::model::{RunStatistics, SourceLine, StatisticsSpan};
use workflow_engine::store::StatisticsScan;
use workflow_sdk::operate::{ListFailures, ListStats, Stats, StatsBy};
use workflow_sdk::prelude::*;
use workflow_sdk::{Encryption, EncryptionKey, ErrorKind, Timestamp};
use workflow_tests::{Live, LocalWorker, until};
use workflow_worker::Worker;

#[workflow]
async fn succeeds(ctx: &Ctx) -> Result<u32> {
    ctx.step("step", async || ok(1)).await
}

#[workflow]
async fn declines(ctx: &Ctx, order: u32) -> Result<()> {
    ctx.step("charge", async || Err(Error::fatal(format!("order {order} of \"ada{order}\" was declined")))).await
}

#[workflow]
async fn tries_again(ctx: &Ctx) -> Result<u32> {
    ctx.step("unsteady", async || Err(Error::msg("not yet")))
        .retry(Retry::fixed(Duration::from_millis(1)).max_attempts(3))
        .await
}

#[workflow]
async fn starts_children(ctx: &Ctx) -> Result<u32> {
    for _ in 0..3 {
        ctx.child(succeeds, ()).await?;
    }
    Ok(3)
}

/// The line of the first call in `calls`.
const FIRST_CALL: u32 = line!() + 4;

#[workflow]
async fn calls(ctx: &Ctx) -> Result<()> {
    ctx.step("reserve", async || ok(())).await?;
    for name in ["page", "page"] {
        ctx.step(name, async || ok(())).await?;
    }
    ctx.step("page", async || ok(())).await?;
    ctx.child(succeeds, ()).name("last").await?;
    Ok(())
}

fn worker(db: &Live) -> Worker<()> {
    db.worker(()).register(succeeds).register(declines).register(tries_again).register(starts_children)
}

async fn totals(client: &Client) -> Vec<(String, Stats)> {
    let list = ListStats::new().since("-2h".parse().unwrap()).by(StatsBy::Workflow);
    let page = client.operate().stats(list).await.unwrap();
    assert!(page.complete);
    page.groups.into_iter().map(|group| (group.workflow.unwrap(), group.total)).collect()
}

/// Nothing is waited for after the worker has stopped.
pub async fn counts_equal_what_ran(db: Live) {
    let working = LocalWorker::start(worker(&db));
    for _ in 0..5 {
        db.client.start(succeeds, ()).await.unwrap().result().await.unwrap();
    }
    for order in 0..4 {
        db.client.start(declines, order).await.unwrap().result().await.unwrap_err();
    }
    db.client.start(tries_again, ()).await.unwrap().result().await.unwrap_err();
    db.client.start(starts_children, ()).await.unwrap().result().await.unwrap();
    let unserved = db.client.start_by_name("no_code", &1.into()).await.unwrap();
    db.client.start_by_name("no_code", &2.into()).await.unwrap();
    unserved.cancel().await.unwrap();
    working.stop().await;

    let totals = totals(&db.client).await;
    let counts = totals.iter().map(|(workflow, it)| {
        let ends = (it.succeeded, it.failed, it.canceled);
        (workflow.as_str(), it.started, it.begun, ends, it.retries)
    });
    let expected = [
        ("declines", 4, 4, (0, 4, 0), 0),
        ("no_code", 2, 0, (0, 0, 1), 0),
        ("starts_children", 1, 1, (1, 0, 0), 0),
        ("succeeds", 8, 8, (8, 0, 0), 0),
        ("tries_again", 1, 1, (0, 1, 0), 2),
    ];
    assert_eq!(counts.collect::<Vec<_>>(), expected);
    for (workflow, total) in &totals {
        let has_ended = total.ended() > total.canceled;
        assert_eq!(total.mean_wait_us.is_some(), total.begun > 0, "{workflow}");
        assert_eq!((total.mean_duration_us.is_some(), total.p99_us.is_some()), (has_ended, has_ended), "{workflow}");
    }
    // A filter and the whole say the same.
    let one = db.client.operate().stats(ListStats::new().workflow("declines")).await.unwrap();
    assert_eq!(one.groups[0].total.failed, 4);
    let all = db.client.operate().stats(ListStats::new()).await.unwrap();
    assert_eq!(all.groups[0].total.started, totals.iter().map(|(_, total)| total.started).sum::<u64>());
}

/// While the worker works on, the counts come by themselves.
pub async fn counts_are_written_while_a_worker_works(db: Live) {
    let working = LocalWorker::start(worker(&db));
    let reader = db.second_client().await;
    for number in 1..=2 {
        db.client.start(succeeds, ()).await.unwrap().result().await.unwrap();
        until("the run is counted", async || {
            let totals = totals(&reader).await;
            (totals.first()?.1.succeeded == number).then_some(())
        })
        .await;
    }
    working.stop().await;
}

pub async fn alike_failures_are_one_group(db: Live) {
    let working = LocalWorker::start(worker(&db));
    let mut last = None;
    for order in 0..3 {
        let run = db.client.start(declines, order).await.unwrap();
        run.result().await.unwrap_err();
        last = Some(run.id());
    }
    db.client.start(tries_again, ()).await.unwrap().result().await.unwrap_err();
    working.stop().await;

    let page = db.client.operate().failures(ListFailures::new()).await.unwrap();
    let seen = page.items.iter().map(|it| (it.workflow.as_str(), it.count, it.step.as_deref(), it.message.as_str()));
    let expected = [
        ("tries_again", 1, Some("unsteady"), "not yet"),
        ("declines", 3, Some("charge"), "order # of \"*\" was declined"),
    ];
    assert_eq!(seen.collect::<Vec<_>>(), expected);
    let group = &page.items[1];
    assert_eq!((group.kind, Some(group.last_run)), (ErrorKind::Application, last));
    assert!(group.first_at < group.last_at && page.complete);
    let one = db.client.operate().failures(ListFailures::new().limit(1)).await.unwrap();
    assert!(one.items.len() == 1 && !one.complete);
    let declines = db.client.operate().failures(ListFailures::new().workflow("declines")).await.unwrap();
    assert_eq!(declines.items, std::slice::from_ref(group));
}

/// A message would show a part of an error that is encrypted in its run.
pub async fn a_codec_leaves_no_message_of_an_error(db: Live) {
    let codec = Encryption::new(EncryptionKey::new("k1", [7; 32]).unwrap());
    let client = db.connect().codec(codec).await.unwrap();
    let working = LocalWorker::start(Worker::new(client.clone(), ()).register(declines));
    for order in 0..2 {
        client.start(declines, order).await.unwrap().result().await.unwrap_err();
    }
    working.stop().await;
    let page = client.operate().failures(ListFailures::new()).await.unwrap();
    let [group] = &page.items[..] else { panic!("{page:?}") };
    assert_eq!((group.count, group.step.as_deref(), group.message.as_str()), (2, Some("charge"), "(encoded)"));
    let mut raw = db.raw().await;
    assert_eq!(raw.number("SELECT count(*) FROM workflow_failures WHERE message LIKE '%declined%'").await, 0);
}

/// A process that is killed has written all but the counts of its last second.
pub async fn a_kill_loses_the_counts_of_a_moment(db: Live) {
    /// The delay of a write, and the time that a busy machine takes for it.
    const MOMENT: Duration = Duration::from_secs(4);
    let mut command = Command::new(env!("CARGO_BIN_EXE_count"));
    command.arg(db.url()).arg(db.schema().unwrap_or_default()).stdout(Stdio::null()).kill_on_drop(true);
    let mut process = command.spawn().expect("run the program");
    let started = async || {
        let all = StatisticsScan {
            span: StatisticsSpan::Minute,
            from: Timestamp::from_micros(0),
            before: Timestamp::FAR_FUTURE,
            limit: 1000,
        };
        let mut sum = RunStatistics::default();
        let rows = db.client.store().statistics(&all).await.unwrap();
        rows.iter().for_each(|row| sum.add(&row.counts));
        sum.started
    };
    let first = until("runs are counted", async || Some(started().await).filter(|counted| *counted > 0)).await;
    until("more runs are counted", async || (started().await > first).then_some(())).await;
    process.kill().await.expect("kill the process");

    let mut raw = db.raw().await;
    let last = raw.number("SELECT max(created_at) FROM workflow_runs").await;
    let runs = raw.number("SELECT count(*) FROM workflow_runs").await;
    let moment = i64::try_from(MOMENT.as_micros()).unwrap();
    let before = format!("SELECT count(*) FROM workflow_runs WHERE created_at < {}", last - moment);
    let counted = i64::try_from(started().await).unwrap();
    let at_least = raw.number(&before).await.max(i64::try_from(first).unwrap());
    assert!((at_least..=runs).contains(&counted), "{counted} of {runs} runs, at least {at_least}");
}

/// A worker writes the lines with its counts, and another one finds them in the database.
pub async fn a_step_shows_the_line_that_calls_it(db: Live) {
    let working = LocalWorker::start(db.worker(()).register(calls).register(succeeds));
    let run = db.client.start(calls, ()).await.unwrap();
    run.result().await.unwrap();
    working.stop().await;

    let reader = db.second_client().await;
    let rows = reader.operate().timeline(run.id()).await.unwrap().rows;
    let shown: Vec<_> = rows.iter().map(|row| (row.step.as_str(), row.source_line.as_deref())).collect();
    let at = |lines: &[u32]| lines.iter().map(|line| format!("{}:{}", file!(), FIRST_CALL + line)).collect::<Vec<_>>();
    let (first, last) = (at(&[0]).join(", "), at(&[5]).join(", "));
    // Two calls have the name, and nothing says which of them made which key.
    let page = at(&[2, 4]).join(", ");
    let expected = [("reserve", &first), ("page", &page), ("page:1", &page), ("page:2", &page), ("last", &last)]
        .map(|(step, lines)| (step, Some(lines.as_str())));
    assert_eq!(shown, expected);
    // The call of the child had the name of its workflow before it was given its own.
    let renamed = BTreeSet::from(["succeeds"]);
    assert_eq!(reader.store().source_lines("calls", "1", &renamed).await.unwrap(), []);

    // Another program with the same version has moved the call.
    let moved = SourceLine {
        workflow: "calls".into(),
        version: "1".into(),
        step: "reserve".into(),
        lines: "src/calls.rs:7".into(),
    };
    reader.executor().statistics().source_line(moved);
    reader.executor().write_statistics().await;
    let rows = db.client.operate().timeline(run.id()).await.unwrap().rows;
    assert_eq!(rows[0].source_line.as_deref(), Some("src/calls.rs:7"));
    assert_eq!(rows[1].source_line.as_deref(), Some(page.as_str()));
}
