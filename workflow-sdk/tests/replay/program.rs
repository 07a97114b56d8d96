//! Random programs: trees of sequence, join, race, unordered sets, maps, scopes and timeouts, whose leaves are
//! steps, sleeps, signals and children.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use fastrand::Rng;
use futures::StreamExt;
use futures::future::{BoxFuture, join_all, select_all};
use futures::stream::FuturesUnordered;
use workflow_sdk::{Breaker, Ctx, Error, Result, Retry, Tx};

use crate::harness::{Flow, World, flow_of};
use crate::outside::{TAKEN_KEY, kid};

/// Few names, so that they repeat inside and across branches; one that looks like a key of another, one that is the name
/// of every sleep, one that looks like the key of a step in a scope.
const NAMES: [&str; 6] = ["a", "b", "c", "a:1", "sleep", "s/a"];

/// The names of signals.
pub(crate) const SIGNALS: [&str; 2] = ["paid", "a"];

/// What a program sees when the time of a wait is over. No signal carries it.
const NO_SIGNAL: u64 = 0;

/// Attempts of a step.
const ATTEMPTS: u32 = 3;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Node {
    Step(Plan),
    Sleep {
        leaf: usize,
        millis: u64,
    },
    Signal {
        leaf: usize,
        name: &'static str,
        timeout: Option<u64>,
    },
    Child {
        leaf: usize,
        detached: bool,
        /// Its key belongs to another run.
        key_taken: bool,
    },
    Seq(Vec<Node>),
    Join(Vec<Node>),
    Race(Vec<Node>),
    Unordered(Vec<Node>),
    Map(MapPlan, Vec<Node>),
    /// `ctx.race`.
    FirstOf(Vec<Node>),
    Scope(Vec<Node>),
    Timeout {
        leaf: usize,
        millis: u64,
        within: Vec<Node>,
    },
    /// Its one branch is passed by when the run is told to end.
    Shield(Vec<Node>),
    /// Its one branch has succeeded when this compensation is armed.
    Saga {
        leaf: usize,
        undo_fails: bool,
        branch: Vec<Node>,
    },
    /// The function fails after its one branch.
    Fail(Vec<Node>),
    /// The way of runs that had passed here before the change, and the way of the others.
    Patched {
        name: usize,
        ways: Vec<Node>,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MapPlan {
    limit: usize,
    policy: Policy,
    /// An item fails if its value is a multiple of this.
    fails: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Policy {
    FirstFailure,
    FinishAll,
    CollectResults,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Plan {
    leaf: usize,
    name: &'static str,
    /// So many attempts fail; `ATTEMPTS` or more: all of them.
    fails: u32,
    fatal: bool,
    /// The body ends in the poll in which it begins.
    at_once: bool,
    /// The body works in a transaction.
    transaction: bool,
    back_off_millis: u64,
    guarded: bool,
}

/// What guarded steps share: opens at once, so that half of them are held back.
const BREAKER: Breaker = Breaker::new("service").failures(2).open_for(Duration::from_millis(20));

/// Which leaves programs may have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Leaves {
    Any,
    /// No signals and no children.
    WithoutOutside,
    /// No sleeps, no back-off, no breaker, no body that ends by itself, no commit beside the queue: the order in which gates are
    /// opened decides everything.
    WithoutTime,
}

pub(crate) fn random(rng: &mut Rng, depth: u32, leaves: Leaves) -> Node {
    let mut program = branch(rng, depth, leaves);
    program.number(&mut 0);
    program
}

impl Node {
    /// The same with another name for each step: a key is then the same whichever way the run goes.
    pub(crate) fn with_own_names(self) -> Self {
        let all = |children: Vec<Self>| children.into_iter().map(Self::with_own_names).collect();
        match self {
            Self::Step(plan) => Self::Step(Plan { name: format!("step {}", plan.leaf).leak(), ..plan }),
            Self::Sleep { .. } => self,
            node => {
                let children = all(node.children().to_vec());
                node.with_children(children)
            }
        }
    }
}

fn branch(rng: &mut Rng, depth: u32, leaves: Leaves) -> Node {
    if depth == 0 || rng.u8(..4) == 0 {
        return leaf(rng, leaves);
    }
    let children: Vec<Node> = (0..rng.usize(2..=3)).map(|_| branch(rng, depth - 1, leaves)).collect();
    match rng.u8(..16) {
        0 | 1 => Node::Seq(children),
        2 | 3 => Node::Join(children),
        4 | 5 => Node::Race(children),
        6 => Node::Unordered(children),
        7 | 8 => Node::Map(map_plan(rng), children),
        9 => Node::FirstOf(children),
        10 if leaves != Leaves::WithoutTime => Node::Timeout { leaf: 0, millis: rng.u64(..60), within: children },
        11 => Node::Shield(children.into_iter().take(1).collect()),
        12 | 13 => Node::Saga { leaf: 0, undo_fails: rng.u8(..5) == 0, branch: children.into_iter().take(1).collect() },
        14 => Node::Fail(children.into_iter().take(1).collect()),
        _ => Node::Scope(children),
    }
}

fn map_plan(rng: &mut Rng) -> MapPlan {
    let policy = [Policy::FirstFailure, Policy::FinishAll, Policy::CollectResults][rng.usize(..3)];
    MapPlan { limit: rng.usize(1..=3), policy, fails: rng.u64(2..=4) }
}

fn leaf(rng: &mut Rng, leaves: Leaves) -> Node {
    if leaves == Leaves::Any && rng.u8(..3) == 0 {
        return outside(rng);
    }
    if leaves != Leaves::WithoutTime && rng.u8(..5) == 0 {
        return Node::Sleep { leaf: 0, millis: rng.u64(..40) };
    }
    let fails = if rng.u8(..3) == 0 { rng.u32(1..=ATTEMPTS) } else { 0 };
    let back_off_millis = if leaves != Leaves::WithoutTime { rng.u64(..40) } else { 0 };
    let at_once = leaves != Leaves::WithoutTime && rng.u8(..4) == 0;
    let transaction = leaves != Leaves::WithoutTime && rng.u8(..3) == 0;
    let name = NAMES[rng.usize(..NAMES.len())];
    let guarded = leaves == Leaves::Any && rng.u8(..3) == 0;
    Node::Step(Plan { leaf: 0, name, fails, fatal: rng.u8(..8) == 0, at_once, transaction, back_off_millis, guarded })
}

fn outside(rng: &mut Rng) -> Node {
    if rng.u8(..3) == 0 {
        return Node::Child { leaf: 0, detached: rng.u8(..3) == 0, key_taken: rng.u8(..4) == 0 };
    }
    let timeout = rng.bool().then(|| rng.u64(..40));
    Node::Signal { leaf: 0, name: SIGNALS[rng.usize(..SIGNALS.len())], timeout }
}

/// A step whose name no program has.
pub(crate) fn inserted_step() -> Node {
    Node::Step(Plan {
        leaf: usize::MAX,
        name: "new",
        fails: 0,
        fatal: false,
        at_once: false,
        transaction: false,
        back_off_millis: 0,
        guarded: false,
    })
}

impl Node {
    fn number(&mut self, next: &mut usize) {
        if let Self::Step(Plan { leaf, .. })
        | Self::Sleep { leaf, .. }
        | Self::Signal { leaf, .. }
        | Self::Child { leaf, .. }
        | Self::Saga { leaf, .. }
        | Self::Timeout { leaf, .. } = self
        {
            *leaf = *next;
            *next += 1;
        }
        if !self.children().is_empty() {
            self.children_mut().iter_mut().for_each(|child| child.number(next));
        }
    }

    pub(crate) fn children(&self) -> &[Self] {
        match self {
            Self::Step(_) | Self::Sleep { .. } | Self::Signal { .. } | Self::Child { .. } => &[],
            Self::Seq(children)
            | Self::Join(children)
            | Self::Race(children)
            | Self::Unordered(children)
            | Self::Map(_, children)
            | Self::FirstOf(children)
            | Self::Scope(children)
            | Self::Timeout { within: children, .. }
            | Self::Shield(children)
            | Self::Saga { branch: children, .. }
            | Self::Fail(children)
            | Self::Patched { ways: children, .. } => children,
        }
    }

    fn children_mut(&mut self) -> &mut Vec<Self> {
        match self {
            Self::Step(_) | Self::Sleep { .. } | Self::Signal { .. } | Self::Child { .. } => {
                panic!("a leaf has no children")
            }
            Self::Seq(children)
            | Self::Join(children)
            | Self::Race(children)
            | Self::Unordered(children)
            | Self::Map(_, children)
            | Self::FirstOf(children)
            | Self::Scope(children)
            | Self::Timeout { within: children, .. }
            | Self::Shield(children)
            | Self::Saga { branch: children, .. }
            | Self::Fail(children)
            | Self::Patched { ways: children, .. } => children,
        }
    }

    pub(crate) fn with_children(&self, children: Vec<Self>) -> Self {
        let mut node = self.clone();
        if !node.children().is_empty() {
            *node.children_mut() = children;
        }
        node
    }

    /// This program with an inner node or leaf, picked at random, changed.
    pub(crate) fn change_one(&self, rng: &mut Rng, change: &dyn Fn(&mut Rng, &Self) -> Self) -> Self {
        if self.children().is_empty() || rng.u8(..4) == 0 {
            return change(rng, self);
        }
        let mut children = self.children().to_vec();
        let index = rng.usize(..children.len());
        children[index] = children[index].change_one(rng, change);
        self.with_children(children)
    }

    /// Programs that are a little smaller than this one.
    fn smaller(&self) -> Vec<Self> {
        let mut smaller = self.children().to_vec();
        if let Self::Step(plan) = self
            && plan.fails > 0
        {
            smaller.push(Self::Step(Plan { fails: 0, ..plan.clone() }));
        }
        if let Self::Step(plan) = self
            && plan.guarded
        {
            smaller.push(Self::Step(Plan { guarded: false, ..plan.clone() }));
        }
        for (index, child) in self.children().iter().enumerate() {
            let replaced = |by: Option<Self>| {
                let mut children = self.children().to_vec();
                children.splice(index..=index, by);
                self.with_children(children)
            };
            if self.children().len() > 1 && !matches!(self, Self::Patched { .. }) {
                smaller.push(replaced(None));
            }
            smaller.extend(child.smaller().into_iter().map(|by| replaced(Some(by))));
        }
        smaller
    }

    /// Whether the function fails in the end.
    fn fails(&self) -> bool {
        matches!(self, Self::Fail(_)) || self.children().iter().any(Self::fails)
    }

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

    /// The same, and it emits and publishes all that it sees.
    pub(crate) fn talkative_flow(&self) -> Flow {
        let flow = self.flow();
        flow_of(move |ctx| {
            let flow = Arc::clone(&flow);
            Box::pin(async move {
                ctx.state().talks.store(true, Ordering::Relaxed);
                flow(ctx).await
            })
        })
    }
}

/// The smallest program reachable by small steps that still fails, and how it fails.
pub(crate) fn minimal(
    mut program: Node,
    mut failure: String,
    check: impl Fn(&Node) -> Result<usize, String>,
) -> (Node, String) {
    loop {
        let failing = program.smaller().into_iter().find_map(|smaller| {
            let failure = check(&smaller).err()?;
            Some((smaller, failure))
        });
        match failing {
            Some(found) => (program, failure) = found,
            None => return (program, failure),
        }
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
                // A sleep fails only where the run is told to end.
                let slept = ctx.sleep(Duration::from_millis(*millis)).await;
                see(ctx, *leaf, slept.map_or_else(|error| hash(&error.to_string()), |()| 1))
            }
            Node::Signal { leaf, name, timeout } => wait_for_signal(*leaf, name, *timeout, ctx).await,
            Node::Child { leaf, detached, key_taken } => wait_for_child(*leaf, *detached, *key_taken, ctx).await,
            Node::Seq(children) => in_sequence(children, ctx).await,
            Node::Scope(children) => in_sequence(children, &ctx.scope("s")).await,
            Node::Map(plan, items) => run_map(plan, items, ctx).await,
            Node::FirstOf(children) => {
                let (index, value) = ctx.race(branches(children)).await.expect("a race of some");
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
                let taken = ctx.patched(format!("change {name}")).expect("one place");
                let way = if taken { ways.last() } else { ways.first() };
                mix(u64::from(taken), evaluate(way.expect("two ways"), ctx).await)
            }
        }
    })
}

/// The name of the compensation of a leaf.
pub(crate) fn undo(leaf: usize) -> String {
    format!("undo-{leaf}")
}

fn arm(ctx: &Ctx<World>, leaf: usize, fails: bool) {
    let body = move |world: Arc<World>| async move {
        // Which attempt it is, no body of a compensation can tell.
        let label = format!("{}#?", undo(leaf));
        world.note(&label);
        world.pass(&label).await;
        if fails { Err(Error::fatal("cannot be undone")) } else { Ok(()) }
    };
    ctx.state().armed.lock().unwrap().push(leaf);
    let _undo = ctx.compensate(undo(leaf), body).expect("a good name");
}

async fn wait_for_signal(leaf: usize, name: &str, timeout: Option<u64>, ctx: &Ctx<World>) -> u64 {
    let mut wait = ctx.signal::<u64>(name);
    if let Some(millis) = timeout {
        wait = wait.timeout(Duration::from_millis(millis));
    }
    let received = match wait.await {
        Ok(received) => received,
        // The run was told to end.
        Err(error) => return see(ctx, leaf, hash(&error.to_string())),
    };
    assert!(received.is_some() || timeout.is_some(), "nothing without a timeout");
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
    assert!(!key_taken || value.is_err(), "its key belongs to another run");
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
    let label = label(&ctx.idempotency_key(), attempt);
    world.note(&label);
    let value = if plan.at_once { world.value(&label) } else { world.pass(&label).await };
    match attempt > plan.fails {
        true => Ok(value),
        false if plan.fatal => Err(Error::fatal(format!("failed with {value}"))),
        false => Err(Error::msg(format!("failed with {value}"))),
    }
}

/// The label of a body, from its idempotency key.
fn label(idempotency_key: &str, attempt: u32) -> String {
    let (_, key) = idempotency_key.split_once('/').expect("run and step");
    format!("{key}#{attempt}")
}

impl World {
    /// The value of the body of this label in this life.
    pub(crate) fn value(&self, label: &str) -> u64 {
        self.values.get(label).copied().unwrap_or_else(|| hash(&(label, self.life)))
    }
}

fn see(ctx: &Ctx<World>, leaf: usize, value: u64) -> u64 {
    ctx.state().seen.lock().unwrap().push((leaf, value, ctx.now(), ctx.random()));
    if ctx.state().talks.load(Ordering::Relaxed) {
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
