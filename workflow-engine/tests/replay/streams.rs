//! Published values, streams and generations.

use workflow_sdk::{AttemptStatus, Ctx, ErrorKind, Result, StepKind};

use crate::harness::{Drive, Flow, PAYLOAD_LIMIT, Stop, Table, World, flow, run_and_replay};

fn emitting() -> Flow {
    flow!(|ctx| {
        for page in 0..3 {
            ctx.publish("progress", &page)?;
            ctx.step("page", || ctx.state().body("page")).await?;
            ctx.emit("log", &format!("page {page}"))?;
        }
        ctx.publish("progress", "done")?;
        Ok(String::new())
    })
}

#[test]
fn values_and_items_are_written_in_order_and_before_the_end() {
    let mut table = Table::default();
    run_and_replay(&mut table, &emitting()).0.unwrap();
    assert_eq!(table.items("log"), ["\"page 0\"", "\"page 1\"", "\"page 2\""]);
    assert_eq!(table.published("progress").unwrap(), "\"done\"");
    let rows = table.rows.iter().filter(|row| row.kind == StepKind::Published);
    assert_eq!(rows.map(|row| (row.attempt, row.status)).collect::<Vec<_>>(), [(1, AttemptStatus::Running)]);
}

#[test]
fn after_a_crash_at_any_commit_each_item_is_emitted_once() {
    for commits in 0..=10 {
        let mut table = Table::default();
        let mut drive = Drive::begin(&table, &emitting());
        for _ in 0..commits {
            drive.advance();
            if drive.in_flight.is_empty() {
                break;
            }
            drive.commit(&mut table).unwrap();
        }
        drop(drive);
        let (result, _) = run_and_replay(&mut table, &emitting());
        result.unwrap();
        assert_eq!(table.items("log").len(), 3, "after {commits} commits");
        assert_eq!(table.published("progress").unwrap(), "\"done\"", "after {commits} commits");
    }
}

/// A replay does not know the values that were published after the last commit. It does not publish
/// the older ones again.
#[test]
fn a_replay_does_not_publish_an_older_value_over_a_newer_one() {
    let mut table = Table::default();
    let mut drive = Drive::begin(&table, &emitting());
    for _ in 0..4 {
        drive.advance();
        drive.commit(&mut table).unwrap();
    }
    assert_eq!(table.published("progress").unwrap(), "1");
    let mut replay = Drive::begin(&table, &emitting());
    replay.advance();
    let written: Vec<_> = replay.in_flight.iter().map(|row| row.step_key.as_str()).collect();
    assert_eq!(written, ["page:1"]);
}

#[test]
fn a_run_that_has_published_parks_only_after_the_commit() {
    let flow = flow!(|ctx| {
        ctx.publish("progress", &1)?;
        ctx.sleep(std::time::Duration::from_secs(60)).await?;
        Ok(String::new())
    });
    let mut table = Table::default();
    let mut drive = Drive::begin(&table, &flow);
    assert_eq!(drive.advance().park_until(), None);
    assert!(drive.quiesce(&mut table).park_until().is_some());
}

#[test]
fn a_body_may_publish_and_a_replay_keeps_what_it_published() {
    let flow = flow!(|ctx| {
        ctx.publish("progress", "before")?;
        let body = async || {
            ctx.publish("progress", "inside")?;
            ctx.state().gated("gate").await
        };
        let value = ctx.step("a", body).await?;
        ctx.step("b", || ctx.state().gated("b")).await?;
        Ok(value)
    });
    let mut table = Table::default();
    let mut drive = Drive::begin(&table, &flow);
    drive.quiesce(&mut table);
    assert_eq!(table.published("progress").unwrap(), "\"inside\"");
    drive.open("gate", &mut table);
    let mut replay = Drive::begin(&table, &flow);
    replay.quiesce(&mut table);
    assert_eq!(table.published("progress").unwrap(), "\"inside\"");
    assert_eq!(replay.open("b", &mut table).value(), "<gate>");
}

#[test]
fn a_value_that_is_too_large_is_refused_and_the_run_continues() {
    let flow = flow!(|ctx| {
        let large = "x".repeat(PAYLOAD_LIMIT);
        ctx.emit("log", "first")?;
        let refused = [ctx.publish("progress", &large), ctx.emit("log", &large)];
        ctx.emit("log", "last")?;
        let kinds = refused.map(|refused| refused.unwrap_err());
        assert!(kinds[0].message().contains("published value \"progress\"") && kinds[1].message().contains("limit is"));
        Ok(format!("{:?}", kinds.map(|error| error.kind())))
    });
    let mut table = Table::default();
    assert_eq!(run_and_replay(&mut table, &flow).0.unwrap(), "[Refused, Refused]");
    assert_eq!(table.items("log"), ["\"first\"", "\"last\""]);
    assert_eq!(table.published("progress"), None);
}

#[test]
fn an_item_from_a_body_and_a_bad_name_are_refused() {
    let in_body = flow!(|ctx| { ctx.step("a", async || ctx.emit("log", "x").map(|()| String::new())).await });
    let error = Drive::begin(&Table::default(), &in_body).run(&mut Table::default()).error();
    assert_eq!(error.kind, ErrorKind::Refused);
    assert!(error.message.contains("ctx.emit(\"log\") was called at"), "{error}");
    for bad in ["", "a\nb"] {
        let flow = crate::harness::flow_of(move |ctx| {
            Box::pin(async move { ctx.publish(bad, &1).and(ctx.emit(bad, &1)).map(|()| String::new()) })
        });
        assert_eq!(Drive::begin(&Table::default(), &flow).run(&mut Table::default()).error().kind, ErrorKind::Refused);
    }
}

/// Emits two items in each generation, and continues as new twice.
fn generations() -> Flow {
    flow!(|ctx| {
        let generation = ctx.generation();
        ctx.publish("progress", &format!("began {generation}"))?;
        for item in 0..2 {
            ctx.emit("log", &(generation, item))?;
            let draw = ctx.random();
            ctx.step("page", async || Ok::<_, workflow_sdk::Error>((ctx.idempotency_key().to_owned(), draw))).await?;
        }
        if generation < 2 {
            return ctx.continue_as_new(generation + 1);
        }
        Ok("end".into())
    })
}

#[test]
fn a_stream_continues_through_generations_after_any_crash() {
    let expected = ["[0,0]", "[0,1]", "[1,0]", "[1,1]", "[2,0]", "[2,1]"];
    // The number of commits before each crash. In every generation, at least one drive gets
    // further.
    for commits in 1..=8 {
        let mut table = Table::default();
        let mut keys = std::collections::BTreeSet::new();
        for drive_number in 0.. {
            assert!(drive_number < 40, "no end with {commits} commits per drive");
            let mut drive = Drive::begin(&table, &generations());
            let mut left = commits;
            let end = loop {
                let stop = drive.advance();
                if drive.in_flight.is_empty() && !matches!(stop, Stop::Waits { .. }) {
                    break Some(stop);
                }
                if left == 0 {
                    break None;
                }
                left -= 1;
                drive.commit(&mut table).unwrap();
                if !matches!(stop, Stop::Waits { .. }) {
                    while drive.commit(&mut table).unwrap() {}
                    break Some(stop);
                }
            };
            let steps = table.rows.iter().filter(|row| row.kind == StepKind::Step);
            keys.extend(steps.map(|row| row.output.clone().unwrap()));
            match end {
                Some(Stop::Continued(input)) => {
                    table.continue_as_new();
                    assert_eq!(input, table.generation.to_string());
                }
                Some(stop) => {
                    assert_eq!(stop.value(), "end");
                    break;
                }
                None => {}
            }
        }
        assert_eq!(table.items("log"), expected, "{commits} commits per drive");
        assert_eq!(table.published("progress").unwrap(), "\"began 2\"");
        assert_eq!(keys.len(), 6, "each generation has its own keys and random values: {keys:?}");
    }
}

#[test]
fn a_body_cannot_continue_as_new() {
    let flow = flow!(|ctx| { ctx.step("a", async || ctx.continue_as_new::<String>(1)).await });
    let error = Drive::begin(&Table::default(), &flow).run(&mut Table::default()).error();
    assert_eq!(error.kind, ErrorKind::Refused);
    assert!(error.message.contains("ctx.continue_as_new was called at"), "{error}");
}

/// `ctx.continue_as_new` returns a value that the workflow must return. Code that drops the value
/// continues.
#[test]
fn a_continuation_that_is_not_returned_has_no_effect() {
    let flow = flow!(|ctx| {
        let continued: Result<String> = ctx.continue_as_new(1);
        Ok(continued.unwrap_err().to_string())
    });
    let (result, _) = run_and_replay(&mut Table::default(), &flow);
    assert!(result.unwrap().contains("not returned from the workflow"));
}

#[test]
fn a_run_that_continues_past_a_part_of_its_history_diverges() {
    let flow = flow!(|ctx| { ctx.continue_as_new(1) });
    let table = Table::default().with_value("a", 1, "1");
    assert!(Drive::begin(&table, &flow).advance().divergence().to_string().contains("\"a\""));
}
