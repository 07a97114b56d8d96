//! Tests of `crash_everywhere`: safe workflows pass, and each unsafe place is reported.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Instant;

use workflow_sdk::prelude::*;
use workflow_testing::{CrashReport, Side, TestEnv, TestError, effect, idempotent_effect};
use workflow_tests::log_capture::{LogCapture, log_lines};

use crate::{DAY, HOUR};

/// A service that recognizes idempotency keys in some of its calls.
#[derive(Default)]
struct Bank {
    payments: Mutex<BTreeMap<String, u64>>,
    receipts: AtomicU32,
}

impl Bank {
    /// Charges once per key.
    async fn charge(&self, cents: u64, key: impl Into<String>) -> Result<u64, std::io::Error> {
        let key = key.into();
        idempotent_effect("charge", &key);
        let mut payments = self.payments.lock().unwrap();
        let number = payments.len() as u64;
        Ok(cents + *payments.entry(key).or_insert(number))
    }

    /// Charges at every call.
    async fn charge_again(&self, cents: u64) -> Result<u64, std::io::Error> {
        effect("charge", cents);
        Ok(cents)
    }

    /// Returns another number at every call.
    async fn number(&self) -> Result<u32, std::io::Error> {
        Ok(self.receipts.fetch_add(1, SeqCst))
    }
}

fn report(error: TestError) -> CrashReport {
    let TestError::NotCrashSafe(report) = error else { panic!("{error}") };
    println!("{report}");
    *report
}

#[workflow]
async fn twenty(ctx: &Ctx<Bank>, cents: u64) -> Result<u64> {
    let mut sum = 0;
    for number in 0..20 {
        let charge = || ctx.state().charge(cents, format!("{}-{number}", ctx.idempotency_key()));
        sum += ctx.step(format!("charge {number}"), charge).await?;
        if number % 7 == 3 {
            ctx.sleep(DAY).await?;
        }
    }
    Ok(sum)
}

#[tokio::test]
async fn a_workflow_of_twenty_steps_survives_every_crash() {
    let env = TestEnv::with_state(Bank::default).register(twenty).await.unwrap();
    let started = Instant::now();
    let survived = env.crash_everywhere(twenty, 5).await.unwrap();
    println!("{survived:?} took {:?}", started.elapsed());
    assert!(survived.commits >= 22, "{survived:?}");
    assert_eq!(survived.crashes, 2 * survived.commits);
}

#[workflow]
async fn subscription(ctx: &Ctx<Bank>, cents: u64) -> Result<u64> {
    let mut sum = 0;
    for month in 0..12 {
        let charge = || ctx.state().charge(cents, format!("{}-{month}", ctx.idempotency_key()));
        sum += ctx.step("charge", charge).await?;
        ctx.sleep(30 * DAY).await?;
    }
    Ok(sum)
}

#[tokio::test]
async fn twelve_months_survive_every_crash() {
    let env = TestEnv::with_state(Bank::default).register(subscription).await.unwrap();
    let started = Instant::now();
    let survived = env.crash_everywhere(subscription, 5).await.unwrap();
    println!("{survived} took {:?}", started.elapsed());
    assert_eq!(survived.effects, 12);
    let said = format!("survived {} crashes around {} commits, ", survived.crashes, survived.commits);
    assert_eq!(survived.to_string(), said + "with 12 marked effects");
}

#[workflow]
async fn three_steps(ctx: &Ctx) -> Result<()> {
    for _ in 0..3 {
        ctx.step("step", async || Ok::<_, Error>(())).await?;
    }
    Ok(())
}

#[workflow]
async fn step_sleep_step(ctx: &Ctx) -> Result<()> {
    ctx.step("before", async || Ok::<_, Error>(())).await?;
    ctx.sleep(HOUR).await?;
    ctx.step("after", async || Ok::<_, Error>(())).await
}

#[tokio::test]
async fn three_steps_in_a_row_take_four_commits() {
    let env = TestEnv::new().register(three_steps).await.unwrap();
    assert_eq!(env.crash_everywhere(three_steps, ()).await.unwrap().commits, 4);
}

/// The start, the step with the park, the claim, the end of the sleep, the step with the end.
#[tokio::test]
async fn a_step_and_the_park_behind_it_share_a_commit() {
    let env = TestEnv::new().register(step_sleep_step).await.unwrap();
    assert_eq!(env.crash_everywhere(step_sleep_step, ()).await.unwrap().commits, 5);
}

#[workflow]
async fn unmarked(ctx: &Ctx) -> Result<()> {
    ctx.step("charge", async || Ok::<_, Error>(())).await
}

#[workflow]
async fn only_waits(ctx: &Ctx) -> Result<()> {
    ctx.sleep(HOUR).await
}

#[tokio::test]
async fn a_workflow_without_a_marked_effect_is_warned_of() {
    let _captured = LogCapture::start();
    let env = TestEnv::new().register(unmarked).register(only_waits).await.unwrap();
    let survived = env.crash_everywhere(unmarked, ()).await.unwrap();
    assert_eq!(survived.effects, 0);
    assert!(survived.to_string().contains("but no effect was marked"), "{survived}");
    env.crash_everywhere(only_waits, ()).await.unwrap();
    let warnings = |workflow| log_lines(&["WARN", "no effect was marked", workflow]).len();
    assert_eq!((warnings("\"unmarked\""), warnings("\"only_waits\"")), (1, 0));
}

#[workflow]
async fn checkout(ctx: &Ctx<Bank>, cents: u64) -> Result<u64> {
    let bank = ctx.state();
    ctx.step("reserve", async || Ok::<_, Error>(())).await?;
    let paid = ctx.step("charge", || bank.charge_again(cents)).await?;
    ctx.sleep(HOUR).await?;
    ctx.step("mail", async || Ok::<_, Error>(paid)).await
}

#[tokio::test]
async fn an_effect_without_a_key_is_reported_with_its_step_and_place() {
    let env = TestEnv::with_state(Bank::default).register(checkout).await.unwrap();
    let report = report(env.crash_everywhere(checkout, 42).await.unwrap_err());
    assert_eq!(report.steps(), ["charge"]);
    let boundaries = report.boundaries();
    assert_eq!(boundaries.len(), 1, "{boundaries:?}");
    assert_eq!((boundaries[0].side, boundaries[0].step.as_deref()), (Side::Before, Some("charge")));
    let text = report.to_string();
    for part in [
        "the effect \"charge\" happened twice",
        "before the commit of the outcome of step \"charge\"",
        "1st time",
        "ctx.idempotency_key()",
    ] {
        assert!(text.contains(part), "{text}");
    }
}

#[workflow]
async fn drawn_key(ctx: &Ctx<Bank>, cents: u64) -> Result<()> {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    let charge = || ctx.state().charge(cents, format!("key {}", CALLS.fetch_add(1, SeqCst)));
    ctx.step("charge", charge).await.map(drop)
}

#[tokio::test]
async fn a_key_generated_in_the_body_is_reported() {
    let env = TestEnv::with_state(Bank::default).register(drawn_key).await.unwrap();
    let report = report(env.crash_everywhere(drawn_key, 42).await.unwrap_err());
    assert!(report.to_string().contains("happened again with another key, in step \"charge\""));
}

#[workflow]
async fn numbered(ctx: &Ctx<Bank>) -> Result<u32> {
    ctx.step("number", || ctx.state().number()).await
}

#[tokio::test]
async fn a_different_result_is_reported_unless_the_author_accepts_it() {
    let env = TestEnv::with_state(Bank::default).register(numbered).await.unwrap();
    let report = report(env.crash_everywhere(numbered, ()).await.unwrap_err());
    assert_eq!(report.steps(), ["number"]);
    assert!(report.to_string().contains("without:    succeeded with 0\n  with it:    succeeded with 1"));
    env.crash_everywhere(numbered, ()).same(|_, _| true).await.unwrap();
}

/// The number of executions of the body of one trial. Trials run at once, so a common number would
/// let the replay of a trial take the branch of its first execution.
#[derive(Default)]
struct Executions(AtomicU32);

#[workflow]
async fn flips(ctx: &Ctx<Executions>) -> Result<u32> {
    // The branch depends neither on the input nor on the history, so each replay takes another one.
    if ctx.state().0.fetch_add(1, SeqCst).is_multiple_of(2) {
        ctx.step("heads", async || Ok::<_, Error>(1)).await?;
    } else {
        ctx.step("tails", async || Ok::<_, Error>(2)).await?;
    }
    ctx.step("last", async || Ok::<_, Error>(3)).await
}

#[tokio::test]
async fn a_workflow_that_is_not_deterministic_diverges_at_a_crash() {
    let env = TestEnv::with_state(Executions::default).register(flips).await.unwrap();
    let report = report(env.crash_everywhere(flips, ()).await.unwrap_err());
    assert!(report.to_string().contains("with it:    diverged"), "{report}");
}

const GO: Signal<u32> = Signal::new("go");

#[workflow]
async fn guarded(ctx: &Ctx<Bank>) -> Result<u64> {
    let bank = ctx.state();
    let key = ctx.idempotency_key();
    let paid = ctx.step("charge", || bank.charge(1, key)).await?;
    let undo = async |bank: std::sync::Arc<Bank>, key: String| bank.charge(2, key).await.map(drop);
    let _refund = ctx.compensate("refund", format!("{key}/refund"), undo)?;
    let go = ctx.signal(GO).await?;
    if go == Some(0) { Err(Error::fatal("not allowed")) } else { Ok(paid) }
}

#[tokio::test]
async fn signals_and_compensations_survive_every_crash() {
    let env = TestEnv::with_state(Bank::default).register(guarded).await.unwrap();
    let waiting = env.crash_everywhere(guarded, ()).await.unwrap_err();
    assert!(matches!(waiting, TestError::StillWaiting { .. }), "{waiting}");
    env.crash_everywhere(guarded, ()).signal("go", &1).await.unwrap();
    env.crash_everywhere(guarded, ()).signal("go", &0).await.unwrap();
}

#[workflow]
async fn parent(ctx: &Ctx<Bank>) -> Result<u64> {
    let (one, two) = futures::try_join!(ctx.child(twenty_less, 1), ctx.child(twenty_less, 2))?;
    Ok(one + two)
}

#[workflow]
async fn twenty_less(ctx: &Ctx<Bank>, cents: u64) -> Result<u64> {
    ctx.step("charge", || ctx.state().charge(cents, ctx.idempotency_key())).await?;
    ctx.sleep(DAY).await?;
    Ok(cents)
}

#[tokio::test]
async fn children_survive_with_their_parent() {
    let env = TestEnv::with_state(Bank::default).register(parent).register(twenty_less).await.unwrap();
    env.crash_everywhere(parent, ()).await.unwrap();
}

#[workflow]
async fn debit(ctx: &Ctx, cents: u64) -> Result<u64> {
    ctx.transaction("debit", async |_tx: Tx| Ok::<_, Error>(cents)).await
}

#[tokio::test]
async fn transactions_survive() {
    let env = TestEnv::new().register(debit).await.unwrap();
    let survived = env.crash_everywhere(debit, 5).await.unwrap();
    assert!(survived.commits >= 3, "the start, the transaction and the end: {survived:?}");
}

#[workflow]
async fn counted(ctx: &Ctx, count: u64) -> Result<u64> {
    let next = ctx.step("count", async || Ok::<_, Error>(count + 1)).await?;
    if next < 4 { ctx.continue_as_new(next) } else { Ok(next) }
}

#[tokio::test]
async fn generations_survive() {
    let env = TestEnv::new().register(counted).await.unwrap();
    env.crash_everywhere(counted, 0).await.unwrap();
}
