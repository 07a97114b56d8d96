//! The workflow that interprets a program.

use std::time::Duration;

use futures::future::{BoxFuture, FutureExt, try_join_all};
use serde::{Deserialize, Serialize};
use workflow_sdk::prelude::*;
use workflow_sdk::{Either, Error, ErrorKind};

use super::{ATTEMPTS, End, FAILED, Failing, NOTHING, Op, PLANNED, Program, mix};
use crate::ledger::{Fact, Ledger};
use crate::workflows::limited::LIMIT;
use crate::workflows::{Site, debit};

/// A value that changes when it is stored. A workflow must see only the stored form.
#[derive(Clone, Serialize, Deserialize)]
#[serde(from = "u64", into = "u64")]
struct Lossy {
    kept: u64,
    lost: u64,
}

impl From<u64> for Lossy {
    fn from(kept: u64) -> Self {
        Self { kept, lost: 0 }
    }
}

impl From<Lossy> for u64 {
    fn from(lossy: Lossy) -> Self {
        lossy.kept
    }
}

/// Longer than any campaign: this sleep never ends.
const FOREVER: Duration = Duration::from_secs(100_000);

/// Interprets its input and returns what [`Program::answer`] predicts.
///
/// # Errors
/// If the program ends with a failure.
#[workflow]
pub async fn program(ctx: &Ctx<Site>, wanted: Program) -> Result<u64> {
    let all = run(ctx, &wanted.ops, wanted.start).await?;
    match wanted.end {
        End::Value => Ok(all),
        End::Error => Err(Error::msg(format!("it ends with {all}"))),
        End::Panic => std::panic::panic_any(PLANNED),
        End::Cancel => ctx.sleep(FOREVER).await.map(|()| all),
        End::Continue(next) => ctx.continue_as_new(*next),
    }
}

fn run<'a>(ctx: &'a Ctx<Site>, ops: &'a [Op], all: u64) -> BoxFuture<'a, Result<u64>> {
    async move {
        let mut all = all;
        for op in ops {
            all = one(ctx, op).await?.into_iter().fold(all, mix);
        }
        Ok(all)
    }
    .boxed()
}

async fn one(ctx: &Ctx<Site>, op: &Op) -> Result<Vec<u64>> {
    Ok(vec![match op {
        Op::Step(id, value, failing) => {
            let name = format!("s{id}");
            let step = ctx.step(&name, || effect(ctx, *value, *failing)).retry(patience());
            given(ctx, &name, step.await?)
        }
        Op::Seated(id, value, failing, key) => {
            let name = format!("q{id}-{key}");
            let step = ctx.step(&name, || effect(ctx, *value, *failing)).retry(patience());
            given(ctx, &name, step.limit(LIMIT, format!("key-{key}")).await?)
        }
        Op::Lossy(id, value) => {
            let name = format!("y{id}");
            let step = ctx.step(&name, async || {
                let kept = effect(ctx, *value, Failing::Never).await?;
                Ok::<_, Error>(Lossy { kept, lost: 1 })
            });
            let Lossy { kept, lost } = step.await?;
            given(ctx, &name, kept.wrapping_add(lost))
        }
        Op::Long(id, value, milliseconds) => {
            let name = format!("w{id}");
            let step = ctx.step(&name, async || {
                let (ledger, key, attempt) = (ctx.state().ledger(), ctx.idempotency_key(), ctx.attempt());
                ledger.append(Fact::Begin, key, attempt);
                tokio::time::sleep(Duration::from_millis(*milliseconds)).await;
                // Written only if the body ends. For a dropped body the checker must not find this
                // line.
                ledger.append(Fact::End, key, attempt);
                Ok::<_, Error>(*value)
            });
            given(ctx, &name, step.await?)
        }
        Op::Hopeless(id, failing) => {
            let name = format!("h{id}");
            let step = ctx.step(&name, || effect(ctx, 0, *failing)).retry(Retry::none());
            given(ctx, &name, or_failed(step.await)?)
        }
        Op::Sleep(id, milliseconds) => {
            let name = format!("z{id}-{milliseconds}");
            ctx.scope(&name).sleep(Duration::from_millis(*milliseconds)).await?;
            given(ctx, &format!("{name}/sleep"), NOTHING)
        }
        Op::Signals(id, values) => {
            let name = format!("g{id}");
            let mut taken = Vec::new();
            for number in 0..values.len() {
                let value = ctx.signal::<u64>(name.as_str()).await?.unwrap_or(0);
                let key = if number == 0 { name.clone() } else { format!("{name}:{number}") };
                taken.push(given(ctx, &key, value));
            }
            return Ok(taken);
        }
        Op::Lapse(id, milliseconds) => {
            let name = format!("l{id}");
            let wait = ctx.signal::<u64>(name.as_str()).timeout(Duration::from_millis(*milliseconds));
            given(ctx, &name, wait.await?.unwrap_or(NOTHING))
        }
        Op::Child(id, child) => {
            let name = format!("c{id}");
            let scope = ctx.scope(&name);
            let value = or_failed(scope.child(program, (**child).clone()).await)?;
            given(ctx, &format!("{name}/program"), value)
        }
        Op::Transaction(id, value) => {
            let name = format!("t{id}");
            given(ctx, &name, ctx.transaction(&name, |tx| debit(ctx, tx, *value)).await?)
        }
        Op::Join(id, branches) => {
            let scopes: Vec<_> = (0..branches.len()).map(|branch| ctx.scope(format!("j{id}-{branch}"))).collect();
            return try_join_all(scopes.iter().zip(branches).map(|(scope, ops)| run(scope, ops, 0))).await;
        }
        Op::Race(id, runners, value) => {
            let branches = (0..*runners).map(|n| {
                // One branch is quick; the bodies of the others are dropped while they run.
                let behind = (u64::from(n) + value) % u64::from(*runners);
                let takes = ctx.state().pause() * (1 + 10 * behind as u32);
                ctx.step(format!("r{id}-{n}"), move || body(ctx, *value, Failing::Never, takes))
            });
            let (winner, value) = ctx.race(branches).await?;
            given(ctx, &format!("r{id}-{winner}"), value?)
        }
        Op::Beside(id, value) => {
            let name = format!("b{id}");
            let step = ctx.step(&name, || effect(ctx, *value, Failing::Never));
            match ctx.select(step, ctx.sleep(FOREVER)).await {
                Either::Left(value) => given(ctx, &name, value?),
                Either::Right(_) => 0,
            }
        }
        Op::Map(id, values, at_once) => {
            let each = ctx.map(values.iter().enumerate(), *at_once, |ctx, (number, value)| async move {
                let name = format!("m{id}-{number}");
                let value = ctx.step(&name, || effect(&ctx, *value, Failing::Never)).await?;
                Ok::<_, Error>(given(&ctx, &name, value))
            });
            return each.name(format!("m{id}")).await;
        }
        Op::Arm(id) => {
            let name = format!("u{id}");
            let subject = format!("{}/{name}", generation(ctx));
            let _armed = ctx.compensate(&name, subject, async |site, subject| {
                site.ledger().append(Fact::Begin, &subject, 1);
                tokio::time::sleep(site.pause()).await;
                site.ledger().append(Fact::End, &subject, 1);
                ok(())
            })?;
            return Ok(Vec::new());
        }
        Op::Tell(id, value) => {
            ctx.publish("told", value)?;
            ctx.emit("news", &(id, value))?;
            return Ok(Vec::new());
        }
    }])
}

/// Turns a failure into a value. A cancel of the run is not a failure of the call, so it is passed
/// on.
fn or_failed(outcome: Result<u64>) -> Result<u64> {
    match outcome {
        Err(error) if error.kind() != ErrorKind::Canceled => Ok(FAILED),
        other => other,
    }
}

fn patience() -> Retry {
    Retry::fixed(Duration::from_millis(5)).max_attempts(ATTEMPTS)
}

/// A body that has begun. The drop writes its end to the ledger, even if the body is dropped early;
/// only a process that dies leaves no end.
struct UnderWay<'a> {
    ledger: &'a Ledger,
    key: &'a str,
    attempt: u32,
}

impl<'a> UnderWay<'a> {
    fn begin(ctx: &'a Ctx<Site>) -> Self {
        let (ledger, key, attempt) = (ctx.state().ledger(), ctx.idempotency_key(), ctx.attempt());
        ledger.append(Fact::Begin, key, attempt);
        Self { ledger, key, attempt }
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.ledger.append(Fact::End, self.key, self.attempt);
    }
}

/// Writes the value that the workflow received to the ledger, so that a replay can be compared with
/// it.
fn given(ctx: &Ctx<Site>, name: &str, value: u64) -> u64 {
    let subject = format!("{}/{name}", generation(ctx));
    ctx.state().ledger().append_value(Fact::Delivered, &subject, 0, &value.to_string());
    value
}

/// Returns the part of an idempotency key that comes before the step key.
fn generation(ctx: &Ctx<Site>) -> String {
    match ctx.generation() {
        0 => ctx.run_id().to_string(),
        generation => format!("{}.{generation}", ctx.run_id()),
    }
}

/// The body of a step.
async fn effect(ctx: &Ctx<Site>, value: u64, failing: Failing) -> Result<u64> {
    body(ctx, value, failing, ctx.state().pause()).await
}

async fn body(ctx: &Ctx<Site>, value: u64, failing: Failing, takes: Duration) -> Result<u64> {
    let attempt = ctx.attempt();
    let under_way = UnderWay::begin(ctx);
    tokio::time::sleep(takes).await;
    drop(under_way);
    if attempt > failing.count() {
        return Ok(value);
    }
    match failing {
        Failing::Panics(_) => std::panic::panic_any(PLANNED),
        Failing::Never | Failing::Errors(_) => Err(Error::msg("a planned failure")),
    }
}
