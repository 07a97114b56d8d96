//! Tests of virtual time, which passes only on request.

use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::{Duration, Instant};

use workflow_sdk::prelude::*;
use workflow_sdk::{ClientError, ErrorKind, RunFilter, SCHEDULE_TAG, Schedule, SignalOutcome, Timestamp};
use workflow_testing::{TestEnv, TestError};
use workflow_tests::until;

use crate::{DAY, HOUR};

#[derive(Default)]
struct Bank {
    calls: AtomicU32,
    /// The number of calls that fail before one succeeds.
    fails: u32,
}

impl Bank {
    async fn charge(&self, cents: u64) -> Result<u64, std::io::Error> {
        if self.calls.fetch_add(1, SeqCst) < self.fails {
            return Err(std::io::Error::other("the bank is closed"));
        }
        Ok(cents)
    }
}

#[workflow]
async fn remind(ctx: &Ctx, name: String) -> Result<String> {
    ctx.sleep(90 * DAY).await?;
    ctx.step("write", async || Ok::<_, Error>(format!("dear {name}"))).await
}

#[tokio::test]
async fn ninety_days_pass_in_a_moment_and_not_one_day_before() {
    let env = TestEnv::new().register(remind).await.unwrap();
    let began = env.now();
    let runs = [env.start(remind, "Ada".into()).await.unwrap(), env.start(remind, "Bob".into()).await.unwrap()];
    let started = Instant::now();
    env.advance(89 * DAY).await.unwrap();
    for run in &runs {
        assert_eq!(run.status().await.unwrap(), RunStatus::Parked);
        assert!(matches!(run.result().await, Err(TestError::StillWaiting { .. })));
        run.assert_ran::<&str>([]).await;
    }
    env.advance(DAY).await.unwrap();
    assert_eq!(runs[0].result().await.unwrap(), "dear Ada");
    assert_eq!(runs[1].result().await.unwrap(), "dear Bob");
    println!("90 days took {:?}", started.elapsed());
    runs[0].assert_ran(["sleep", "write"]).await;
    assert_eq!(env.now(), began + 90 * DAY);
}

/// No worker of the env serves the queue, so no time helps.
#[tokio::test]
async fn a_run_in_a_queue_that_is_not_served_still_waits() {
    let env = TestEnv::new().register(remind).await.unwrap();
    let run = env.start(remind, "Ada".into()).with(|start| start.queue("mail")).await.unwrap();
    let began = env.now();
    assert!(matches!(run.finish().await, Err(TestError::StillWaiting { .. })));
    assert!(env.now().since(began) < DAY);
}

#[workflow]
async fn hibernate(ctx: &Ctx, days: u32) -> Result<()> {
    ctx.sleep(days * DAY).await
}

/// The cost of the leap is counted inside of the crate, where
/// `a_sleep_of_ten_years_costs_what_one_of_a_minute_does`.
#[tokio::test]
async fn time_leaps_over_the_years_in_which_nothing_happens() {
    let env = TestEnv::new().register(hibernate).await.unwrap();
    let began = env.now();
    let run = env.start(hibernate, 90 * 365).await.unwrap();
    run.finish().await.unwrap();
    assert_eq!(env.now(), began + 90 * 365 * DAY);
}

#[workflow]
async fn stuck(_: &Ctx) -> Result<()> {
    std::future::pending().await
}

#[tokio::test]
async fn a_workflow_that_awaits_something_foreign_for_ever_fails() {
    let env = TestEnv::new().register(stuck).await.unwrap();
    let failed = env.start(stuck, ()).await.unwrap().finish().await.unwrap_err().to_string();
    assert!(failed.contains("has awaited something that is not a call of its context for 30s"), "{failed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn any_runtime_works_and_a_run_is_followed_to_its_end() {
    let env = TestEnv::new().register(remind).start_time(Timestamp::from_micros(0)).await.unwrap();
    let run = env.start(remind, "Ada".into()).await.unwrap();
    assert_eq!(run.finish().await.unwrap(), "dear Ada");
    assert_eq!(env.now(), Timestamp::from_micros(0) + 90 * DAY);
}

#[workflow]
async fn pay(ctx: &Ctx<Bank>, cents: u64) -> Result<u64> {
    let bank = ctx.state();
    let retry = Retry::exponential().initial_delay(HOUR).max_delay(24 * HOUR).max_attempts(5);
    ctx.step("charge", || bank.charge(cents)).retry(retry).await
}

#[tokio::test]
async fn retries_with_hours_between_them() {
    let env = TestEnv::with_state(|| Bank { fails: 3, ..Bank::default() }).register(pay).await.unwrap();
    let run = env.start(pay, 42).await.unwrap();
    assert_eq!(env.state().calls.load(SeqCst), 1);
    env.advance(Duration::from_secs(60)).await.unwrap();
    assert_eq!(env.state().calls.load(SeqCst), 1, "the second attempt is not due yet");
    assert_eq!(run.finish().await.unwrap(), 42);
    assert_eq!(env.state().calls.load(SeqCst), 4);
    run.assert_ran(["charge"]).await;
    assert_eq!(run.history().await.unwrap().len(), 4, "each attempt has a row");
}

const GO: Signal<u32> = Signal::new("go");

#[workflow]
async fn wait_for_go(ctx: &Ctx) -> Result<u32> {
    Ok(ctx.signal(GO).await?.unwrap_or_default())
}

#[tokio::test]
async fn a_run_that_waits_for_a_signal_reports_it() {
    let env = TestEnv::new().register(wait_for_go).await.unwrap();
    let run = env.start(wait_for_go, ()).await.unwrap();
    let waiting = run.finish().await.unwrap_err().to_string();
    assert!(waiting.contains("\"go\"") && waiting.contains("env.advance"), "{waiting}");
    assert_eq!(env.signal(&run, GO, &7).await.unwrap(), SignalOutcome::Accepted);
    assert_eq!(run.result().await.unwrap(), 7);
}

#[tokio::test]
async fn a_deadline_passes_in_virtual_time() {
    let env = TestEnv::new().register(remind).await.unwrap();
    let run = env.start(remind, "Ada".into()).with(|start| start.deadline(DAY).key("ada")).await.unwrap();
    env.advance(DAY - HOUR).await.unwrap();
    assert_eq!(run.status().await.unwrap(), RunStatus::Parked);
    env.advance(HOUR).await.unwrap();
    let failed = run.result().await.unwrap_err();
    let TestError::Client(ClientError::RunFailed { error, .. }) = failed else { panic!("{failed}") };
    assert_eq!(error.kind, ErrorKind::Deadline);
}

#[derive(Default)]
struct Journal(std::sync::Mutex<Vec<String>>);

impl Journal {
    async fn write(&self, what: &str) -> Result<String, std::io::Error> {
        self.0.lock().unwrap().push(what.to_owned());
        Ok(what.to_owned())
    }

    fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

#[workflow]
async fn trip(ctx: &Ctx<Journal>) -> Result<()> {
    for what in ["flight", "hotel"] {
        ctx.step(format!("book {what}"), || ctx.state().write(what)).await?;
        let undo = async |journal: std::sync::Arc<Journal>, what| journal.write(what).await.map(drop);
        let _cancel = ctx.compensate(format!("cancel {what}"), what, undo)?;
    }
    ctx.sleep(30 * DAY).await
}

#[tokio::test]
async fn a_canceled_run_undoes_what_it_did() {
    let env = TestEnv::with_state(Journal::default).register(trip).await.unwrap();
    let run = env.start(trip, ()).await.unwrap();
    env.advance(29 * DAY).await.unwrap();
    run.cancel().await.unwrap();
    assert_eq!(run.status().await.unwrap(), RunStatus::Canceled);
    assert_eq!(env.state().lines(), ["flight", "hotel", "hotel", "flight"]);
}

#[workflow]
async fn pay_out(ctx: &Ctx, account: u64) -> Result<u64> {
    ctx.sleep(account as u32 * HOUR).await?;
    ctx.step("transfer", async || Ok::<_, Error>(account)).await
}

#[workflow]
async fn pay_all(ctx: &Ctx, accounts: Vec<u64>) -> Result<u64> {
    let children = accounts.into_iter().map(|account| ctx.child(pay_out, account));
    let paid = futures::future::try_join_all(children).await?;
    Ok(paid.into_iter().sum())
}

#[tokio::test]
async fn children_wait_for_their_own_times() {
    let env = TestEnv::new().register(pay_all).register(pay_out).await.unwrap();
    let run = env.start(pay_all, vec![3, 1, 2]).await.unwrap();
    let began = env.now();
    assert_eq!(run.finish().await.unwrap(), 6);
    assert_eq!(env.now(), began + 3 * HOUR);
    run.assert_ran(["pay_out:1", "pay_out:2", "pay_out"]).await;
}

#[workflow]
async fn watch_meter(ctx: &Ctx, (mut readings, mut sum): (u64, u64)) -> Result<(u64, u64)> {
    for _ in 0..4 {
        let value = ctx.step("read", async || Ok::<_, Error>(100 + readings)).await?;
        (readings, sum) = (readings + 1, sum + value);
        ctx.sleep(DAY).await?;
    }
    if readings < 12 { ctx.continue_as_new((readings, sum)) } else { Ok((readings, sum)) }
}

#[tokio::test]
async fn generations_follow_each_other() {
    let env = TestEnv::new().register(watch_meter).await.unwrap();
    let run = env.start(watch_meter, (0, 0)).await.unwrap();
    assert_eq!(run.finish().await.unwrap(), (12, 1266));
    assert_eq!(run.run().await.unwrap().generation, 2);
}

#[tokio::test]
async fn a_run_of_a_dead_worker_waits_until_another_worker_starts() {
    let env = TestEnv::new().register(remind).await.unwrap();
    let run = env.start(remind, "Ada".into()).await.unwrap();
    env.crash().await.unwrap();
    env.advance(100 * DAY).await.unwrap();
    assert_eq!(run.status().await.unwrap(), RunStatus::Parked);
    env.restart().await.unwrap();
    assert_eq!(run.result().await.unwrap(), "dear Ada");
}

#[workflow]
async fn nap(ctx: &Ctx, how: String) -> Result<String> {
    ctx.step("nap", || async {
        match how.as_str() {
            "virtual" => tokio::time::sleep(10 * DAY).await,
            "blocking" => {
                let pause = || std::thread::sleep(Duration::from_millis(50));
                tokio::task::spawn_blocking(pause).await.map_err(|_| std::io::Error::other("no nap"))?;
            }
            "thread" => {
                let (sender, waked) = tokio::sync::oneshot::channel();
                std::thread::spawn(move || {
                    std::thread::sleep(Duration::from_millis(50));
                    sender.send(())
                });
                waked.await.map_err(|_| std::io::Error::other("no nap"))?;
            }
            _ => drop(tokio::net::TcpListener::bind("127.0.0.1:0").await?),
        }
        Ok::<_, std::io::Error>(how.clone())
    })
    .retry(Retry::none())
    .timeout(20 * DAY)
    .await
}

#[tokio::test]
async fn stubs_may_wait_in_virtual_time_and_for_blocking_calls() {
    let env = TestEnv::new().register(nap).await.unwrap();
    let began = env.now();
    let run = env.start(nap, "blocking".into()).await.unwrap();
    assert_eq!(run.finish().await.unwrap(), "blocking");
    assert_eq!(env.now(), began, "time stood still during the blocking call");
    let run = env.start(nap, "thread".into()).await.unwrap();
    assert_eq!(run.result().await.unwrap(), "thread");
    assert_eq!(env.now(), began);
    let run = env.start(nap, "virtual".into()).await.unwrap();
    assert_eq!(run.finish().await.unwrap(), "virtual");
    assert_eq!(env.now(), began + 10 * DAY);
}

/// A gate that a step's body waits for and that is opened from outside of the test environment.
#[derive(Default)]
struct Gate(tokio::sync::Notify);

#[workflow]
async fn pass(ctx: &Ctx<Gate>) -> Result<()> {
    ctx.step("pass", async || {
        ctx.state().0.notified().await;
        Ok::<_, Error>(())
    })
    .await
}

#[tokio::test]
async fn waking_a_stub_from_another_thread_while_time_passes_is_an_error() {
    let env = TestEnv::with_state(Gate::default).register(pass).await.unwrap();
    let run = env.start(pass, ()).await.unwrap();
    env.advance(DAY).await.unwrap();
    env.state().0.notify_one();
    run.result().await.expect("time stood still when it was woken");

    let run = env.start(pass, ()).await.unwrap();
    let began = env.now();
    let wake = async {
        until("time passes", async || (env.now() > began).then_some(())).await;
        env.state().0.notify_one();
    };
    let (finished, ()) = futures::join!(run.finish(), wake);
    assert!(matches!(finished, Err(TestError::Overtaken { .. })), "{finished:?}");
}

#[tokio::test]
async fn a_stub_that_opens_a_socket_gets_an_error() {
    let env = TestEnv::new().register(nap).await.unwrap();
    let run = env.start(nap, "socket".into()).await.unwrap();
    let refused = run.result().await.unwrap_err().to_string();
    assert!(refused.contains("enable_io"), "{refused}");
}

#[tokio::test]
async fn a_workflow_that_is_not_registered_is_refused_by_its_name() {
    let env = TestEnv::new().await.unwrap();
    let refused = env.start(remind, "Ada".into()).await.unwrap_err().to_string();
    assert!(refused.contains(".register(remind)"), "{refused}");
}

#[tokio::test]
#[should_panic(expected = "  - proofread    (expected, did not run)")]
async fn an_unexpected_history_is_shown_beside_the_expected_one() {
    let env = TestEnv::new().register(remind).await.unwrap();
    let run = env.start(remind, "Ada".into()).await.unwrap();
    run.finish().await.unwrap();
    run.assert_ran(["sleep", "write", "proofread"]).await;
}

#[tokio::test]
async fn random_values_are_equal_in_each_env() {
    let mut drawn = Vec::new();
    for _ in 0..2 {
        let env = TestEnv::new().register(draw).await.unwrap();
        let run = env.start(draw, ()).await.unwrap();
        drawn.push(run.result().await.unwrap());
    }
    assert_eq!(drawn[0], drawn[1]);
}

#[workflow]
async fn draw(ctx: &Ctx) -> Result<(String, u64)> {
    Ok((ctx.uuid().to_string(), ctx.random()))
}

#[workflow]
async fn report(ctx: &Ctx, day: String) -> Result<String> {
    assert_eq!(ctx.occurrence().map(|occurrence| occurrence.date()), Some(day.as_str()));
    ok(day)
}

/// From 1 January 2027, in winter, over both changes of the clock.
#[tokio::test]
async fn a_schedule_fires_once_a_day_through_a_year() {
    let begin = Timestamp::from_micros(1_798_761_600_000_000);
    let daily = || {
        let daily = Schedule::cron("daily", "30 2 * * *").zone("Europe/Berlin");
        daily.start_with(report, |occurrence| occurrence.date().to_owned())
    };
    let env = TestEnv::new().register(report).start_time(begin).worker(move |worker| worker.schedule(daily()));
    let env = env.await.unwrap();
    env.advance(365 * DAY).await.unwrap();
    let client = env.client().await.unwrap();
    let filter = RunFilter::new().tag(SCHEDULE_TAG, "daily").page_size(1000);
    let runs = client.list(&filter).await.unwrap();
    let mut days = Vec::new();
    for run in &runs {
        days.push(client.run(run.id).await.unwrap().output.unwrap());
    }
    days.sort();
    days.dedup();
    assert_eq!((runs.len(), days.len()), (365, 365));
    assert_eq!((days[0].as_str(), days[364].as_str()), ("\"2027-01-01\"", "\"2027-12-31\""));
}
