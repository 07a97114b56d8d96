//! Random programs whose answer is known beforehand, and the workflow that interprets them.

use std::time::Duration;

use fastrand::Rng;
use futures::future::{BoxFuture, join_all};
use serde::{Deserialize, Serialize};
use workflow_sdk::prelude::*;
use workflow_sdk::{ErrorKind, Tx};

use workflow_tests::log_secrets::SMALLEST_SECRET;

use super::world::Body;

/// The maximum number of attempts of a step.
pub const ATTEMPTS: u32 = 3;

/// The name of the signals that a program waits for. The n-th one carries [`signal`] of n.
pub const SIGNAL: &str = "paid";

/// The name of a signal that is never sent.
const NEVER: &str = "never";

/// One operation. Its value does not depend on the faults around it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Op {
    /// A step of which this many attempts fail; `ATTEMPTS` or more: all of them.
    Step {
        fails: u32,
        panics: bool,
        millis: u64,
    },
    Transaction {
        fails: u32,
    },
    Sleep {
        millis: u64,
    },
    Signal,
    /// A wait for a signal that never comes.
    TimedOut {
        millis: u64,
    },
    Child(Vec<Op>),
    Join(Vec<Op>),
    Emit,
    /// Continues as new with the remaining operations. Only in the outermost sequence.
    Continue,
}

/// The input of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Program {
    /// The operations, executed in sequence.
    pub ops: Vec<Op>,
    /// The initial sum, a number that appears in a log only if the engine logs values; in later
    /// generations the sum so far.
    pub sum: u64,
}

impl Program {
    /// Returns a random program.
    pub fn random(rng: &mut Rng) -> Self {
        let count = rng.usize(1..=5);
        let ops = (0..count).map(|_| if rng.u8(..10) == 0 { Op::Continue } else { op(rng, 2, true) }).collect();
        Self { ops, sum: rng.u64(SMALLEST_SECRET..) }
    }

    /// Returns the number of signals that the program consumes.
    #[must_use]
    pub fn signals(&self) -> u64 {
        self.ops.iter().map(Op::signals).sum()
    }

    /// Returns the output of the program.
    #[must_use]
    pub fn answer(&self) -> u64 {
        in_sequence(&self.ops, self.sum, &mut 0)
    }

    /// Returns programs that are a little smaller.
    #[must_use]
    pub fn smaller(&self) -> Vec<Self> {
        smaller(&self.ops).into_iter().map(|ops| Self { ops, ..*self }).collect()
    }
}

impl Op {
    fn signals(&self) -> u64 {
        match self {
            Self::Signal => 1,
            Self::Join(ops) => ops.iter().map(Self::signals).sum(),
            _ => 0,
        }
    }
}

/// Returns the value of the n-th signal.
#[must_use]
pub fn signal(n: u64) -> u64 {
    1000 + n
}

fn op(rng: &mut Rng, depth: u32, top: bool) -> Op {
    let fails = if rng.bool() { rng.u32(..=ATTEMPTS) } else { 0 };
    let several = |rng: &mut Rng, top| (0..rng.usize(1..=3)).map(|_| op(rng, depth - 1, top)).collect();
    match rng.u8(..16) {
        0 | 1 if depth > 0 => Op::Child(several(rng, false)),
        2 | 3 if depth > 0 => Op::Join(several(rng, top)),
        4 | 5 => Op::Sleep { millis: [5, 40, 700, 5000][rng.usize(..4)] },
        6 | 7 if top => Op::Signal,
        8 => Op::TimedOut { millis: [10, 300, 3000][rng.usize(..3)] },
        9 => Op::Emit,
        10 | 11 => Op::Transaction { fails },
        _ => Op::Step { fails, panics: rng.bool(), millis: [0, 0, 3, 30, 400][rng.usize(..5)] },
    }
}

fn smaller(ops: &[Op]) -> Vec<Vec<Op>> {
    let mut found = Vec::new();
    for (index, op) in ops.iter().enumerate() {
        let with = |by: Vec<Op>| {
            let mut ops = ops.to_vec();
            ops.splice(index..=index, by);
            ops
        };
        found.push(with(vec![]));
        match op {
            Op::Child(inner) => found.extend(smaller(inner).into_iter().map(|inner| with(vec![Op::Child(inner)]))),
            Op::Join(inner) => found.extend(smaller(inner).into_iter().map(|inner| with(vec![Op::Join(inner)]))),
            Op::Step { fails: 1.., .. } => found.push(with(vec![Op::Step { fails: 0, panics: false, millis: 0 }])),
            Op::Transaction { fails: 1.. } => found.push(with(vec![Op::Transaction { fails: 0 }])),
            _ => {}
        }
    }
    found
}

fn in_sequence(ops: &[Op], sum: u64, next_signal: &mut u64) -> u64 {
    ops.iter().fold(sum, |sum, op| mix(sum, value(op, next_signal)))
}

fn value(op: &Op, next_signal: &mut u64) -> u64 {
    match op {
        Op::Step { fails, .. } => outcome(*fails, 3),
        Op::Transaction { fails } => outcome(*fails, 11),
        Op::Sleep { .. } => 17,
        Op::Signal => {
            *next_signal += 1;
            signal(*next_signal)
        }
        Op::TimedOut { .. } => 19,
        Op::Child(ops) => in_sequence(ops, 23, &mut 0),
        // A sum, because branches end in any order.
        Op::Join(ops) => ops.iter().map(|op| value(op, next_signal)).fold(0, u64::wrapping_add),
        Op::Emit => 29,
        Op::Continue => 31,
    }
}

fn outcome(fails: u32, value: u64) -> u64 {
    if fails < ATTEMPTS { value } else { value + 1 }
}

fn mix(sum: u64, value: u64) -> u64 {
    sum.wrapping_mul(31).wrapping_add(value)
}

/// Interprets its input.
#[workflow]
pub async fn simulated(ctx: &Ctx<Body>, program: Program) -> Result<u64> {
    let mut sum = program.sum;
    for (index, op) in program.ops.iter().enumerate() {
        if *op == Op::Continue {
            let ops = program.ops[index + 1..].to_vec();
            return ctx.continue_as_new(Program { ops, sum: mix(sum, 31) });
        }
        sum = mix(sum, evaluate(op, ctx).await?);
    }
    Ok(sum)
}

fn evaluate<'a>(op: &'a Op, ctx: &'a Ctx<Body>) -> BoxFuture<'a, Result<u64>> {
    Box::pin(async move {
        let retry = Retry::fixed(Duration::from_millis(20)).max_attempts(ATTEMPTS);
        match op {
            Op::Step { fails, panics, millis } => {
                let step = ctx.step("step", || body(ctx, *fails, *panics, *millis, 3)).retry(retry);
                failed(step.await, 4)
            }
            Op::Transaction { fails } => {
                // Faults of the database use up attempts.
                let retry = retry.max_attempts(10_000);
                let step = ctx.transaction("debit", |tx| in_transaction(ctx, tx, *fails)).retry(retry);
                failed(step.await, 12)
            }
            Op::Sleep { millis } => ctx.sleep(Duration::from_millis(*millis)).await.map(|()| 17),
            Op::Signal => {
                let received = ctx.signal::<u64>(SIGNAL).await?;
                received.ok_or_else(|| Error::fatal("a wait without a timeout ended with nothing"))
            }
            Op::TimedOut { millis } => {
                let received = ctx.signal::<u64>(NEVER).timeout(Duration::from_millis(*millis)).await?;
                Ok(if received.is_none() { 19 } else { 0 })
            }
            Op::Child(ops) => ctx.child(simulated, Program { ops: ops.clone(), sum: 23 }).await,
            Op::Join(ops) => {
                let values = join_all(ops.iter().map(|op| evaluate(op, ctx))).await;
                values.into_iter().try_fold(0, |sum: u64, value| Ok(sum.wrapping_add(value?)))
            }
            Op::Emit => ctx.emit("log", &29).map(|()| 29),
            Op::Continue => Err(Error::fatal("only the outermost sequence continues")),
        }
    })
}

/// Turns the failure of a step into a value. The end of the run is not a failure of the step, so it
/// is passed on.
fn failed(result: Result<u64>, value: u64) -> Result<u64> {
    match result {
        Err(error) if !matches!(error.kind(), ErrorKind::Canceled | ErrorKind::Deadline) => Ok(value),
        other => other,
    }
}

async fn in_transaction(ctx: &Ctx<Body>, _tx: Tx, fails: u32) -> Result<u64> {
    match fails {
        ATTEMPTS.. => Err(Error::fatal("a failure for good")),
        _ => body(ctx, fails, false, 1, 11).await,
    }
}

async fn body(ctx: &Ctx<Body>, fails: u32, panics: bool, millis: u64, value: u64) -> Result<u64> {
    let attempt = ctx.attempt();
    ctx.state().begin(ctx.run_id(), ctx.idempotency_key(), attempt).await;
    tokio::time::sleep(Duration::from_millis(millis)).await;
    match attempt > fails {
        true => Ok(value),
        // Bypasses the panic hook, which would print the panic.
        false if panics => std::panic::resume_unwind(Box::new("a panic of the program")),
        false => Err(Error::msg("a failure of the program")),
    }
}
