//! Steps with a breaker: attempts that the circuit delays, and results of attempts that the circuit
//! counts.

use std::time::Duration;

use futures::future::{join, select};
use workflow_sdk::{AttemptStatus, Breaker, Ctx, Error, ErrorKind, Result, Retry, Timestamp};

use crate::harness::{Drive, Flow, START, Stop, Table, World, flow, run_and_replay};

const SECOND: Duration = Duration::from_secs(1);

/// Opens at the first failure, for 10 seconds.
const BANK: Breaker = Breaker::new("bank").failures(1).open_for(Duration::from_secs(10));

fn at(seconds: u64) -> Timestamp {
    START + Duration::from_secs(seconds)
}

/// Returns the time at which the delayed attempt is due. The circuit admits a probe at `second`,
/// and the delay has a jitter of at most half of 10 seconds.
#[track_caller]
fn delayed_until(stop: &Stop, second: u64) -> Timestamp {
    let until = stop.park_until().expect("a durable wait");
    assert_eq!(stop.timer(), Some(until));
    assert!(at(second) <= until && until <= at(second + 5), "{:?} after the start", until.since(START));
    until
}

fn attempts(table: &Table) -> Vec<(&str, i64, AttemptStatus)> {
    table.rows.iter().map(|row| (row.step_key.as_str(), row.attempt, row.status)).collect()
}

/// Returns whether the circuit is closed, so that it admits every attempt.
fn is_closed(drive: &Drive) -> bool {
    let mut circuits = drive.port.circuits.lock().unwrap();
    circuits.entry("bank".into()).or_default().admit(&BANK, START).is_ok_and(|admission| !admission.is_probe())
}

/// A step fails with its last attempt, and another step with the same breaker follows.
fn fails_then_calls() -> Flow {
    flow!(|ctx| {
        let bad = ctx.step("bad", async || Err::<(), _>(Error::msg("down"))).retry(Retry::none());
        bad.breaker(BANK).await.unwrap_err();
        let good = ctx.step("good", async || {
            let value = ctx.state().gated("good").await?;
            Ok::<_, Error>(format!("{value} {}", ctx.attempt()))
        });
        good.breaker(BANK).timeout(5 * SECOND).retry(Retry::none()).await
    })
}

#[test]
fn an_attempt_delayed_by_a_circuit_parks_the_run_and_begins_at_its_wake() {
    use AttemptStatus::{Failed, Succeeded};
    let mut table = Table::default();
    let mut drive = Drive::begin(&table, &fails_then_calls());
    let until = delayed_until(&drive.quiesce(&mut table), 10);
    assert_eq!(attempts(&table), [("bad", 1, Failed)], "an attempt that has not begun has no row");
    assert_eq!(drive.world.notes(), [""; 0]);
    // The run parks and wakes in the same worker, which still has the circuit.
    drive.drop_future();
    let mut woken = Drive::begin_at(&table, &fails_then_calls(), until, World::default());
    std::mem::swap(&mut *woken.port.circuits.lock().unwrap(), &mut *drive.port.circuits.lock().unwrap());
    woken.quiesce(&mut table);
    assert_eq!(woken.world.notes(), ["good"]);
    assert_eq!(woken.open("good", &mut table).value(), "<good> 1");
    assert_eq!(attempts(&table), [("bad", 1, Failed), ("good", 1, Succeeded)]);
    assert!(is_closed(&woken), "the probe has succeeded");
}

#[test]
fn an_attempt_delayed_in_memory_begins_at_its_time() {
    let mut table = Table::default();
    let mut drive = Drive::begin(&table, &fails_then_calls());
    let until = delayed_until(&drive.quiesce(&mut table), 10);
    drive.set_now(Timestamp::from_micros(until.as_micros() - 1));
    drive.quiesce(&mut table);
    assert_eq!(drive.world.notes(), [""; 0]);
    drive.set_now(until);
    drive.quiesce(&mut table);
    assert_eq!(drive.world.notes(), ["good"]);
}

#[test]
fn the_timeout_of_a_step_counts_from_the_start_of_its_attempt() {
    let mut table = Table::default();
    let mut drive = Drive::begin(&table, &fails_then_calls());
    let until = delayed_until(&drive.quiesce(&mut table), 10);
    drive.set_now(until);
    drive.quiesce(&mut table);
    drive.set_now(until + Duration::from_micros(4_999_999));
    drive.quiesce(&mut table);
    assert_eq!(drive.world.closed(), ["good"], "the body still runs");
    drive.set_now(until + 5 * SECOND);
    assert_eq!(drive.quiesce(&mut table).error().kind, ErrorKind::Timeout);
    let refused = drive.port.circuits.lock().unwrap().get_mut("bank").unwrap().admit(&BANK, until);
    assert_eq!(refused, Err(until + 10 * SECOND), "the probe has failed");
}

#[test]
fn a_retry_waits_for_its_delay_and_for_the_circuit() {
    for (delay, earliest) in [(1, 10), (30, 30)] {
        let flow = match delay {
            1 => flow!(|ctx| { retried(ctx, SECOND).await }),
            _ => flow!(|ctx| { retried(ctx, 30 * SECOND).await }),
        };
        let mut table = Table::default();
        let mut drive = Drive::begin(&table, &flow);
        assert_eq!(drive.quiesce(&mut table).timer(), Some(at(delay)));
        drive.set_now(at(delay));
        let stop = drive.quiesce(&mut table);
        if delay < earliest {
            let until = delayed_until(&stop, earliest);
            drive.set_now(until);
            assert_eq!(drive.quiesce(&mut table).value(), "2", "the delayed attempt keeps its number");
        } else {
            assert_eq!(stop.value(), "2");
        }
        assert_eq!(table.rows.len(), 2);
    }
}

async fn retried(ctx: &Ctx<World>, delay: Duration) -> Result<String> {
    let body = async || if ctx.attempt() == 1 { Err("down") } else { Ok(ctx.attempt().to_string()) };
    ctx.step("a", body).breaker(BANK).retry(Retry::fixed(delay)).await
}

#[test]
fn a_recorded_outcome_asks_no_breaker() {
    let mut table = Table::default();
    let flow = fails_then_calls();
    let mut drive = Drive::begin(&table, &flow);
    let until = delayed_until(&drive.quiesce(&mut table), 10);
    drive.set_now(until);
    drive.quiesce(&mut table);
    drive.open("good", &mut table);
    let replay = &mut Drive::begin(&table, &flow);
    assert_eq!(replay.advance().value(), "<good> 1");
    assert!(replay.port.circuits.lock().unwrap().is_empty());
}

/// Each entry has the kind of end, the workflow, and whether the circuit stays closed.
#[test]
fn only_failures_of_the_service_open_the_circuit() {
    let table: [(&str, Flow, bool); 6] = [
        ("success", flow!(|ctx| { ctx.step("a", || ctx.state().body("a")).breaker(BANK).await }), true),
        ("error", flow!(|ctx| { once(ctx, Error::msg("down")).await }), false),
        ("fatal", flow!(|ctx| { once(ctx, Error::fatal("bad request")).await }), true),
        (
            "refused value",
            flow!(|ctx| { ctx.step("a", async || Ok::<_, Error>("x".repeat(2000))).breaker(BANK).await }),
            true,
        ),
        (
            "panic",
            flow!(|ctx| {
                let body = async || -> Result<String> { panic!("oh") };
                ctx.step("a", body).breaker(BANK).retry(Retry::none()).await
            }),
            false,
        ),
        (
            "lost race",
            flow!(|ctx| {
                let loser = ctx.step("a", || ctx.state().gated("a")).breaker(BANK);
                select(loser, ctx.sleep(SECOND)).await;
                Ok(String::new())
            }),
            true,
        ),
    ];
    for (what, flow, stays_closed) in table {
        let mut table = Table::default();
        let mut drive = Drive::begin(&table, &flow);
        let Stop::Ended(_) = drive.run(&mut table) else { panic!("{what} does not end") };
        assert_eq!(is_closed(&drive), stays_closed, "{what}");
    }
}

async fn once(ctx: &Ctx<World>, error: Error) -> Result<String> {
    let mut error = Some(error);
    let body = move || std::future::ready(Err::<String, _>(error.take().unwrap()));
    ctx.step("a", body).breaker(BANK).retry(Retry::none()).await
}

#[test]
fn a_dropped_probe_frees_its_place_for_the_next() {
    let mut table = Table::default();
    let flow = flow!(|ctx| {
        let bad = ctx.step("bad", async || Err::<(), _>(Error::msg("down"))).retry(Retry::none());
        bad.breaker(BANK).await.unwrap_err();
        // Later than the time at which the circuit admits a probe.
        ctx.sleep(15 * SECOND).await?;
        let probe = ctx.step("probe", || ctx.state().gated("probe")).breaker(BANK);
        select(probe, ctx.sleep(SECOND)).await;
        ctx.step("next", || ctx.state().body("next")).breaker(BANK).await
    });
    let mut drive = Drive::begin(&table, &flow);
    assert_eq!(drive.run(&mut table).value(), "<next>");
    let next = table.rows.iter().find(|row| row.step_key == "next").unwrap();
    assert_eq!(next.started_at, at(16));
}

#[test]
fn of_two_delayed_attempts_one_is_the_probe_and_the_other_waits() {
    let mut table = Table::default();
    let flow = flow!(|ctx| {
        let bad = ctx.step("bad", async || Err::<(), _>(Error::msg("down"))).retry(Retry::none());
        bad.breaker(BANK).await.unwrap_err();
        let call = |name: &'static str| ctx.step(name, move || ctx.state().gated(name)).breaker(BANK);
        let (a, b) = join(call("a"), call("b")).await;
        Ok(a? + &b?)
    });
    let mut drive = Drive::begin(&table, &flow);
    delayed_until(&drive.quiesce(&mut table), 10);
    // Later than the due times of both attempts.
    drive.set_now(at(15));
    let stop = drive.quiesce(&mut table);
    assert_eq!(drive.world.notes().len(), 1, "one body runs");
    assert_eq!(stop.park_until(), None);
    let probe = drive.world.closed().remove(0);
    let other = if probe == "a" { "b" } else { "a" };
    // The circuit closes, and the other attempt begins when it is due.
    let until = delayed_until(&drive.open(&probe, &mut table), 25);
    drive.set_now(until);
    drive.quiesce(&mut table);
    assert_eq!(drive.open(other, &mut table).value(), "<a><b>");
}

#[test]
fn a_held_run_asks_no_breaker() {
    let mut table = Table::default();
    let flow = flow!(|ctx| { retried(ctx, 30 * SECOND).await });
    let mut drive = Drive::begin(&table, &flow);
    drive.quiesce(&mut table);
    drive.hold(true);
    drive.set_now(at(30));
    assert_eq!(drive.quiesce(&mut table).park_until(), None);
    let probe = drive.port.circuits.lock().unwrap().get_mut("bank").unwrap().admit(&BANK, at(25));
    assert!(probe.is_ok(), "the place of the probe is still free");
    drive.hold(false);
    let until = delayed_until(&drive.quiesce(&mut table), 35);
    drive.set_now(until);
    assert_eq!(drive.quiesce(&mut table).value(), "2");
}

#[test]
fn a_breaker_out_of_range_is_refused() {
    let table: [(Flow, &str); 5] = [
        (flow!(|ctx| { with(ctx, Breaker::new("b").failures(0)).await }), "opens after 0 failures; use 1 to 10000"),
        (flow!(|ctx| { with(ctx, Breaker::new("b").failures(10_001)).await }), "opens after 10001 failures"),
        (flow!(|ctx| { with(ctx, Breaker::new("b").within(Duration::ZERO)).await }), "within 0ns"),
        (flow!(|ctx| { with(ctx, Breaker::new("b").open_for(Duration::from_nanos(999))).await }), "open for 999ns"),
        (flow!(|ctx| { with(ctx, Breaker::named("")).await }), "breaker name \"\" is empty"),
    ];
    for (flow, text) in table {
        let (result, begun) = run_and_replay(&mut Table::default(), &flow);
        let error = result.unwrap_err();
        assert_eq!((error.kind, error.fatal), (ErrorKind::Refused, true));
        assert!(error.message.contains(text), "{}", error.message);
        assert_eq!(begun, [""; 0]);
    }
}

async fn with(ctx: &Ctx<World>, breaker: Breaker) -> Result<String> {
    ctx.step("a", || ctx.state().body("a")).breaker(breaker).await
}
