//! The workflow of a program.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::StreamExt;
use futures::future::{BoxFuture, join_all, select_all};
use futures::stream::FuturesUnordered;
use workflow_sdk::{Breaker, Ctx, Error, Result, Retry, Tx};

use super::{ATTEMPTS, MapPlan, Node, Plan, Policy};
use crate::external_events::{TAKEN_KEY, kid};
use crate::harness::{Flow, World, flow_of};

/// The value of a wait that ended with its timeout. No signal has this payload.
const NO_SIGNAL: u64 = 0;

/// The breaker of all guarded steps. It opens so soon that half of their attempts are delayed.
const BREAKER: Breaker = Breaker::new("service").failures(2).open_for(Duration::from_millis(20));

impl Node {
    pub(crate) fn flow(&self) -> Flow {
        let program = Arc::new(self.clone());
        flow_of(move |ctx| {
            let program = Arc::clone(&program);
            Box::pin(async move {
                let value = evaluate(&program, ctx).await;
                if program.fails() { Err(Error::msg(format!("failed after {value}"))) } else { Ok(value.to_string()) }
            })
        })
    }

    /// Returns the workflow of this program, which also emits and publishes every value that it
    /// sees.
    pub(crate) fn emitting_flow(&self) -> Flow {
        let flow = self.flow();
        flow_of(move |ctx| {
            let flow = Arc::clone(&flow);
            Box::pin(async move {
                ctx.state().emits.store(true, Ordering::Relaxed);
                flow(ctx).await
            })
        })
    }
}

async fn in_sequence(nodes: &[Node], ctx: &Ctx<World>) -> u64 {
    let mut all = 1;
    for node in nodes {
        all = mix(all, evaluate(node, ctx).await);
    }
    all
}

async fn run_map(plan: &MapPlan, items: &[Node], ctx: &Ctx<World>) -> u64 {
    let map = ctx.map(items, plan.limit, |ctx, item| async move {
        let value = evaluate(item, &ctx).await;
        if value % plan.fails > 0 { Ok(value) } else { Err(Error::msg(value)) }
    });
    let results = match plan.policy {
        Policy::FirstFailure => map.await.map(|values| values.into_iter().map(Ok).collect()),
        Policy::FinishAll => map.finish_all().await.map(|values| values.into_iter().map(Ok).collect()),
        Policy::CollectResults => map.collect_results().await,
    };
    let value = |result: Result<u64>| result.unwrap_or_else(|error| hash(&error.to_string()));
    results.map_or_else(|error| value(Err(error)), |results| results.into_iter().map(value).fold(4, mix))
}

fn evaluate<'a>(node: &'a Node, ctx: &'a Ctx<World>) -> BoxFuture<'a, u64> {
    let branches = move |children: &'a [Node]| children.iter().map(move |child| evaluate(child, ctx));
    Box::pin(async move {
        match node {
            Node::Step(plan) => run_step(plan, ctx).await,
            Node::Sleep { leaf, millis } => {
                // A sleep fails only by an interruption.
                let slept = ctx.sleep(Duration::from_millis(*millis)).await;
                see(ctx, *leaf, slept.map_or_else(|error| hash(&error.to_string()), |()| 1))
            }
            Node::Signal { leaf, name, timeout } => wait_for_signal(*leaf, name, *timeout, ctx).await,
            Node::Child { leaf, detached, key_taken } => wait_for_child(*leaf, *detached, *key_taken, ctx).await,
            Node::Seq(children) => in_sequence(children, ctx).await,
            Node::Scope(children) => in_sequence(children, &ctx.scope("s")).await,
            Node::Own { leaf, within } => in_sequence(within, &ctx.scope(format!("own {leaf}"))).await,
            Node::Map(plan, items) => run_map(plan, items, ctx).await,
            Node::FirstOf(children) => {
                let (index, value) = ctx.race(branches(children)).await.expect("a race with branches");
                mix(value, index as u64)
            }
            Node::Timeout { leaf, millis, within } => {
                let within = async { Ok::<_, Error>(in_sequence(within, ctx).await) };
                match ctx.timeout(Duration::from_millis(*millis), within).await {
                    Ok(value) => value,
                    Err(error) => see(ctx, *leaf, hash(&error.to_string())),
                }
            }
            Node::Join(children) => join_all(branches(children)).await.into_iter().fold(2, mix),
            Node::Shield(children) => {
                ctx.shield(futures::future::join_all(branches(children))).await.into_iter().fold(4, mix)
            }
            Node::Fail(children) => join_all(branches(children)).await.into_iter().fold(5, mix),
            Node::Saga { leaf, undo_fails, branch } => {
                let value = join_all(branches(branch)).await.into_iter().fold(6, mix);
                arm(ctx, *leaf, *undo_fails);
                see(ctx, *leaf, value)
            }
            Node::Race(children) => {
                let (value, index, _) = select_all(branches(children)).await;
                mix(value, index as u64)
            }
            Node::Unordered(children) => {
                branches(children).collect::<FuturesUnordered<_>>().fold(3, async |all, value| mix(all, value)).await
            }
            Node::Patched { name, ways } => {
                let taken = ctx.patched(format!("change {name}")).expect("each patch name has one call");
                let way = if taken { ways.last() } else { ways.first() };
                mix(u64::from(taken), evaluate(way.expect("two branches"), ctx).await)
            }
        }
    })
}

/// Returns the name of the compensation of a leaf.
pub(crate) fn undo(leaf: usize) -> String {
    format!("undo-{leaf}")
}

fn arm(ctx: &Ctx<World>, leaf: usize, fails: bool) {
    let body = move |world: Arc<World>, ()| async move {
        // The body of a compensation cannot know its attempt.
        let label = format!("{}#?", undo(leaf));
        world.note(&label);
        world.pass(&label).await;
        if fails { Err(Error::fatal("cannot be undone")) } else { Ok(()) }
    };
    ctx.state().armed.lock().unwrap().push(leaf);
    let _undo = ctx.compensate(undo(leaf), (), body).expect("a valid name");
}

async fn wait_for_signal(leaf: usize, name: &str, timeout: Option<u64>, ctx: &Ctx<World>) -> u64 {
    let mut wait = ctx.signal::<u64>(name);
    if let Some(millis) = timeout {
        wait = wait.timeout(Duration::from_millis(millis));
    }
    let received = match wait.await {
        Ok(received) => received,
        // The run was interrupted.
        Err(error) => return see(ctx, leaf, hash(&error.to_string())),
    };
    assert!(received.is_some() || timeout.is_some(), "only a wait with a timeout ends without a signal");
    see(ctx, leaf, received.unwrap_or(NO_SIGNAL))
}

async fn wait_for_child(leaf: usize, detached: bool, key_taken: bool, ctx: &Ctx<World>) -> u64 {
    let mut child = ctx.child(kid, ());
    if key_taken {
        child = child.key(TAKEN_KEY);
    }
    let value = match detached {
        true => child.detach().await.map(|handle| hash(&handle.id().to_string())),
        false => child.await,
    };
    assert!(!key_taken || value.is_err(), "a taken key is an error");
    see(ctx, leaf, value.unwrap_or_else(|error| hash(&error.to_string())))
}

async fn run_step(plan: &Plan, ctx: &Ctx<World>) -> u64 {
    let retry = Retry::fixed(Duration::from_millis(plan.back_off_millis)).max_attempts(ATTEMPTS);
    let result = match plan.transaction {
        true => ctx.transaction(plan.name, |tx| in_transaction(tx, plan, ctx)).retry(retry).await,
        false => {
            let step = ctx.step(plan.name, || body(plan, ctx)).retry(retry);
            let step = if plan.guarded { step.breaker(BREAKER) } else { step };
            step.await
        }
    };
    match result {
        Ok(value) => see(ctx, plan.leaf, value),
        Err(error) => {
            assert!(error.step_key().is_some_and(|key| key.contains(plan.name)), "{error:?}");
            see(ctx, plan.leaf, hash(&error.to_string()))
        }
    }
}

async fn in_transaction(_tx: Tx, plan: &Plan, ctx: &Ctx<World>) -> Result<u64> {
    body(plan, ctx).await
}

async fn body(plan: &Plan, ctx: &Ctx<World>) -> Result<u64> {
    let (world, attempt) = (ctx.state(), ctx.attempt());
    let label = label(ctx.idempotency_key(), attempt);
    world.note(&label);
    let value = if plan.at_once { world.value(&label) } else { world.pass(&label).await };
    match attempt > plan.fails {
        true => Ok(value),
        false if plan.fatal => Err(Error::fatal(format!("failed with {value}"))),
        false => Err(Error::msg(format!("failed with {value}"))),
    }
}

/// Returns the label of a body, from its idempotency key.
fn label(idempotency_key: &str, attempt: u32) -> String {
    let (_, key) = idempotency_key.split_once('/').expect("run and step");
    format!("{key}#{attempt}")
}

impl World {
    /// Returns the value of the body with this label in this drive.
    pub(crate) fn value(&self, label: &str) -> u64 {
        self.values.get(label).copied().unwrap_or_else(|| hash(&(label, self.drive)))
    }
}

fn see(ctx: &Ctx<World>, leaf: usize, value: u64) -> u64 {
    ctx.state().seen.lock().unwrap().push((leaf, value, ctx.now(), ctx.random()));
    if ctx.state().emits.load(Ordering::Relaxed) {
        ctx.emit("seen", &(leaf, value)).expect("a small item");
        ctx.publish("last", &(leaf, value)).expect("a small value");
    }
    value
}

fn mix(all: u64, value: u64) -> u64 {
    all.wrapping_mul(31).wrapping_add(value)
}

fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
