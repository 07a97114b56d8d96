//! Time, random values and keys are identical on every replay.

use std::time::Duration;

use workflow_sdk::{Ctx, Error, Result, Retry};

use crate::harness::{Drive, START, Table, World, flow, run_and_replay, run_id};

#[test]
fn now_is_the_time_of_the_last_delivered_outcome() {
    let mut table = Table::default();
    let flow = flow!(|ctx| {
        let mut times = vec![ctx.now()];
        ctx.step("a", || ctx.state().gated("a")).await?;
        times.push(ctx.now());
        ctx.sleep(Duration::from_secs(60)).await?;
        times.push(ctx.now());
        let since = times.iter().map(|time| time.duration_since(START.into()).unwrap().as_secs().to_string());
        Ok(since.collect::<Vec<_>>().join(" "))
    });
    let mut drive = Drive::begin(&table, &flow);
    drive.quiesce(&mut table);
    drive.set_now(START + Duration::from_secs(7));
    drive.open("a", &mut table);
    assert_eq!(drive.run(&mut table).value(), "0 7 67");
    let later = START + Duration::from_secs(9999);
    assert_eq!(Drive::begin_at(&table, &flow, later, World::default()).advance().value(), "0 7 67");
}

#[test]
fn time_does_not_go_back_if_the_clock_does() {
    let mut table = Table::default();
    let flow = flow!(|ctx| {
        ctx.step("a", || ctx.state().gated("a")).await?;
        let after_a = ctx.now();
        ctx.step("b", || ctx.state().gated("b")).await?;
        Ok((ctx.now() >= after_a).to_string())
    });
    let mut drive = Drive::begin(&table, &flow);
    drive.quiesce(&mut table);
    drive.set_now(START + Duration::from_secs(7));
    drive.open("a", &mut table);
    drive.set_now(START);
    assert_eq!(drive.open("b", &mut table).value(), "true");
    assert!(table.rows.iter().all(|row| row.completed_at >= Some(row.started_at)));
}

#[test]
fn random_numbers_and_uuids_differ_from_each_other_and_are_the_same_on_replay() {
    let flow = flow!(|ctx| {
        let mut draws = vec![ctx.random().to_string(), ctx.random().to_string(), ctx.uuid().to_string()];
        draws.push(ctx.step("a", async || Ok::<_, Error>(ctx.random())).await?.to_string());
        draws.push(ctx.step("a", async || Ok::<_, Error>(ctx.random())).await?.to_string());
        draws.push(ctx.random().to_string());
        draws.push(ctx.uuid().to_string());
        Ok(draws.join(" "))
    });
    let value = run_and_replay(&mut Table::default(), &flow).0.unwrap();
    let different: std::collections::HashSet<_> = value.split(' ').collect();
    assert_eq!(different.len(), 7, "{value}");
}

#[test]
fn a_body_gets_the_same_random_values_in_every_attempt_and_does_not_change_those_of_the_workflow() {
    let mut table = Table::default();
    let flow = flow!(|ctx| {
        let body = || {
            let first = ctx.random();
            async move {
                ctx.state().note(format!("{first} {} {}", ctx.random(), ctx.idempotency_key()));
                if ctx.attempt() == 1 { Err(Error::msg("no")) } else { Ok(()) }
            }
        };
        ctx.step("a", body).retry(Retry::fixed(Duration::ZERO)).await?;
        Ok(ctx.random().to_string())
    });
    let notes = run_and_replay(&mut table, &flow).1;
    assert_eq!(notes.len(), 2);
    assert_eq!(notes[0], notes[1]);
}

#[test]
fn a_dropped_body_still_uses_its_own_random_source() {
    struct DrawsAtItsEnd<'a>(&'a Ctx<World>);
    impl Drop for DrawsAtItsEnd<'_> {
        fn drop(&mut self) {
            let _ = self.0.random();
        }
    }
    let mut table = Table::default();
    let flow = flow!(|ctx| {
        let loser = ctx.step("loser", async || {
            let _guard = DrawsAtItsEnd(ctx);
            ctx.state().gated("loser").await
        });
        futures::future::select(loser, ctx.step("winner", || ctx.state().body("winner"))).await;
        Ok(ctx.random().to_string())
    });
    run_and_replay(&mut table, &flow).0.unwrap();
}

#[test]
fn an_idempotency_key_names_the_run_and_the_step() {
    let flow = flow!(|ctx| {
        let mut keys = vec![ctx.idempotency_key().to_owned()];
        for _ in 0..2 {
            keys.push(ctx.step("pay", async || Ok::<_, Error>(ctx.idempotency_key().to_owned())).await?);
        }
        Ok(keys.join(" "))
    });
    let run = run_id();
    let value = run_and_replay(&mut Table::default(), &flow).0.unwrap();
    assert_eq!(value, format!("{run} {run}/pay {run}/pay:1"));
}
