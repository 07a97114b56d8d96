//! Workflows whose steps write to a [`Ledger`].

pub mod events;
pub mod limited;
pub mod rolled;

use std::path::PathBuf;
use std::sync::{Arc, Barrier};
use std::time::Duration;

use futures::future::try_join_all;
use workflow_engine::faults::failpoint;
use workflow_sdk::prelude::*;
use workflow_sdk::sqlx::{self, AssertSqlSafe};
use workflow_sdk::{RunsWith, Workflow};

use crate::ledger::{Fact, Ledger};

/// The state of a worker of a test: where its steps have their effects.
#[derive(Clone, Debug)]
pub struct Site {
    directory: PathBuf,
    ledger: Ledger,
    pause: Duration,
    threads: usize,
    /// The prefix of the names of the test's own tables: a schema and a dot, or nothing.
    schema: String,
    /// The release of the workflows that change between releases.
    release: u32,
}

impl Site {
    /// Returns a site in this directory. A short step takes `pause`, and the runtime has this many
    /// threads.
    #[must_use]
    pub fn new(directory: PathBuf, pause: Duration, threads: usize) -> Self {
        Self { ledger: Ledger::inside(&directory), directory, pause, threads, schema: String::new(), release: 0 }
    }

    /// Sets the PostgreSQL schema of the test's own tables; `None`: they are in the SQLite file.
    #[must_use]
    pub fn in_schema(self, schema: Option<&str>) -> Self {
        Self { schema: schema.map(|schema| format!("{schema}.")).unwrap_or_default(), ..self }
    }

    /// Sets the release of the workflows that change between releases.
    #[must_use]
    pub fn of_release(self, release: u32) -> Self {
        Self { release, ..self }
    }

    /// Returns the ledger of the steps.
    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Returns the duration of a short step.
    #[must_use]
    pub fn pause(&self) -> Duration {
        self.pause
    }

    /// Returns the file of this gate. The steps that wait for the gate end once the file exists.
    #[must_use]
    pub fn gate(&self, name: &str) -> PathBuf {
        self.directory.join(format!("gate-{name}"))
    }
}

/// Returns the steps that must have an outcome before this one can begin.
#[must_use]
pub fn before(step_key: &str) -> Vec<String> {
    match step_key {
        "link:1" => vec!["link".into()],
        "opened" => vec!["open".into()],
        "take" => vec!["number".into()],
        "called" => vec!["go".into()],
        "sum" => (0..5).map(|branch| format!("branch-{branch}")).collect(),
        "after" => vec!["before".into(), "sleep".into()],
        "total" => std::iter::once("leaf".into()).chain((1..10).map(|child| format!("leaf:{child}"))).collect(),
        "two" => vec!["one".into()],
        "undo-two" => vec!["two".into()],
        "undo-one" => vec!["undo-two".into()],
        "undo-only" => vec!["only".into(), "interruption".into()],
        "debit:1" => vec!["debit".into()],
        "debit:2" => vec!["debit:1".into()],
        "left" | "right" => vec!["debit:2".into()],
        take if take.starts_with("take:") => vec![take.replace("take", "number")],
        other => match (other.strip_prefix("link:"), other.strip_suffix("/store")) {
            (Some(link), _) => vec![format!("link:{}", link.parse::<u64>().expect("a number") - 1)],
            (_, Some(page)) => vec![format!("{page}/fetch")],
            (None, None) => Vec::new(),
        },
    }
}

/// The body of a short step.
async fn effect(ctx: &Ctx<Site>, value: u64) -> Result<u64> {
    let (site, key, attempt) = (ctx.state(), ctx.idempotency_key(), ctx.attempt());
    site.ledger.append(Fact::Begin, key, attempt);
    tokio::time::sleep(site.pause).await;
    failpoint("step.body");
    site.ledger.append(Fact::End, key, attempt);
    Ok(value)
}

/// The body of a short transaction, whose effect is a row of the table `effects`.
pub(crate) async fn debit(ctx: &Ctx<Site>, mut tx: Tx, value: u64) -> Result<u64> {
    let (site, key, attempt) = (ctx.state(), ctx.idempotency_key(), ctx.attempt());
    site.ledger.append(Fact::Begin, key, attempt);
    let insert = AssertSqlSafe(format!("INSERT INTO {}effects (subject) VALUES ('{key}')", site.schema));
    match site.schema.is_empty() {
        true => sqlx::query(insert).execute(tx.sqlite()?).await.map(drop)?,
        false => sqlx::query(insert).execute(tx.postgres()?).await.map(drop)?,
    }
    failpoint("transaction.body");
    tokio::time::sleep(site.pause).await;
    site.ledger.append(Fact::End, key, attempt);
    Ok(value)
}

/// The body of a step that ends when the test opens the gate.
async fn wait_for_gate(ctx: &Ctx<Site>, gate: &str) -> Result<u64> {
    let (site, key, attempt) = (ctx.state(), ctx.idempotency_key(), ctx.attempt());
    site.ledger.append(Fact::Begin, key, attempt);
    while !site.gate(gate).exists() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    site.ledger.append(Fact::End, key, attempt);
    Ok(1)
}

/// Runs ten short steps of the same name and returns `10 n + 45`.
///
/// # Errors
/// Never: its steps do not fail.
#[workflow]
pub async fn chain(ctx: &Ctx<Site>, n: u64) -> Result<u64> {
    let mut sum = 0;
    for link in 0..10 {
        sum += ctx.step("link", || effect(ctx, n + link)).await?;
    }
    Ok(sum)
}

/// Runs five concurrent short steps, then one more, and returns `5 n + 10`.
///
/// # Errors
/// Never: its steps do not fail.
#[workflow]
pub async fn fan(ctx: &Ctx<Site>, n: u64) -> Result<u64> {
    let branches = (0..5).map(|branch| ctx.step(format!("branch-{branch}"), move || effect(ctx, n + branch)));
    let sum: u64 = try_join_all(branches).await?.into_iter().sum();
    ctx.step("sum", || effect(ctx, sum)).await
}

/// The number of items of [`pages`] that run concurrently.
pub const PAGES_AT_ONCE: usize = 4;

/// Maps thirty items, four at a time, with two short steps each, and returns `60 n + 870`.
///
/// # Errors
/// Never: its steps do not fail.
#[workflow]
pub async fn pages(ctx: &Ctx<Site>, n: u64) -> Result<u64> {
    let each = ctx.map(0..30, PAGES_AT_ONCE, |ctx, page| async move {
        let fetched = ctx.step("fetch", || effect(&ctx, n + page)).await?;
        let stored = ctx.step("store", || effect(&ctx, n + page)).await?;
        Ok::<_, Error>(fetched + stored)
    });
    Ok(each.name("pages").await?.into_iter().sum())
}

/// The number of rows of `effects` that a run of [`debits`] leaves.
pub const DEBITS: usize = 4;

/// Runs three transactions one after the other, then one beside a step, and returns `5 n + 10`.
///
/// # Errors
/// Never: its steps do not fail.
#[workflow]
pub async fn debits(ctx: &Ctx<Site>, n: u64) -> Result<u64> {
    let mut sum = 0;
    for link in 0..3 {
        sum += ctx.transaction("debit", |tx| debit(ctx, tx, n + link)).await?;
    }
    let left = ctx.step("left", || effect(ctx, n + 3));
    let right = ctx.transaction("right", |tx| debit(ctx, tx, n + 4));
    let (left, right) = futures::try_join!(left, right)?;
    Ok(sum + left + right)
}

/// The number of generations of [`emitter`].
pub const GENERATIONS: u64 = 4;
/// The number of steps per generation of [`emitter`].
pub const PAGES: u64 = 4;

/// Emits an item per short step and continues as new after [`PAGES`] of them. Returns the number of
/// items.
///
/// # Errors
/// Never: its steps do not fail.
#[workflow]
pub async fn emitter(ctx: &Ctx<Site>, emitted: u64) -> Result<u64> {
    let mut emitted = emitted;
    for page in 0..PAGES {
        let value = ctx.step("page", || effect(ctx, page)).await?;
        emitted += 1;
        ctx.publish("told", &emitted)?;
        ctx.emit("news", &(ctx.generation(), value))?;
    }
    if ctx.generation() + 1 < GENERATIONS {
        return ctx.continue_as_new(emitted);
    }
    ctx.emit("news", &(GENERATIONS, emitted))?;
    Ok(emitted)
}

/// The sleep of [`sleepy`].
pub const NAP: Duration = Duration::from_millis(100);

/// Runs a short step, a sleep and a short step, and returns `2 n + 1`.
///
/// # Errors
/// Never: its steps do not fail.
#[workflow]
pub async fn sleepy(ctx: &Ctx<Site>, n: u64) -> Result<u64> {
    let before = ctx.step("before", || effect(ctx, n)).await?;
    ctx.sleep(NAP).await?;
    let after = ctx.step("after", || effect(ctx, n + 1)).await?;
    Ok(before + after)
}

/// The number of signals that [`collect`] consumes.
pub const NUMBERS: u64 = 20;

/// Consumes [`NUMBERS`] signals `number`, with a short step for each. The output depends on their
/// order: see [`in_order`].
///
/// # Errors
/// Never: its steps and waits do not fail.
#[workflow]
pub async fn collect(ctx: &Ctx<Site>, n: u64) -> Result<u64> {
    let mut all = n;
    for _ in 0..NUMBERS {
        let number = ctx.signal::<u64>("number").await?.unwrap_or_default();
        all = ctx.step("take", || effect(ctx, in_order(all, number))).await?;
    }
    Ok(all)
}

/// Waits for an event [`NUMBERS`] times, and folds the numbers as [`collect`] does. Each event has
/// a key of its own.
#[workflow]
pub async fn listen(ctx: &Ctx<Site>, n: u64) -> Result<u64> {
    let mut all = n;
    for number in 0..NUMBERS {
        let heard = ctx.event::<u64>("number").key(event_key(n, number)).await?.unwrap_or_default();
        all = ctx.step("take", || effect(ctx, in_order(all, heard))).await?;
    }
    Ok(all)
}

/// Returns the key of an event that [`listen`] waits for.
#[must_use]
pub fn event_key(n: u64, number: u64) -> String {
    format!("{n}-{number}")
}

/// Emits each event that the [`listen`] run of this number waits for, until it has reached that
/// run. Returns how many runs the events have reached.
#[workflow]
pub async fn announce(ctx: &Ctx<Site>, n: u64) -> Result<u64> {
    let mut reached = 0;
    for number in 0..NUMBERS {
        loop {
            let runs = ctx.emit_event("number", event_key(n, number), &number).await?;
            reached += runs;
            if runs > 0 {
                break;
            }
            ctx.sleep(Duration::from_millis(20)).await?;
        }
    }
    Ok(reached)
}

/// Folds one number into the output of [`collect`].
#[must_use]
pub const fn in_order(all: u64, number: u64) -> u64 {
    all.wrapping_mul(31).wrapping_add(number)
}

/// Waits for a signal `go`, runs a short step, and returns `n` plus the number in the signal.
///
/// # Errors
/// Never: its wait and its step do not fail.
#[workflow]
pub async fn waiter(ctx: &Ctx<Site>, n: u64) -> Result<u64> {
    let more = ctx.signal::<u64>("go").await?.unwrap_or_default();
    ctx.step("called", || effect(ctx, n + more)).await
}

/// Runs a short step and returns `n`.
///
/// # Errors
/// Never: its steps do not fail.
#[workflow]
pub async fn leaf(ctx: &Ctx<Site>, n: u64) -> Result<u64> {
    ctx.step("leaf", || effect(ctx, n)).await
}

/// Runs ten concurrent children, then a short step, and returns `10 n + 45`.
///
/// # Errors
/// Never: its children and its step do not fail.
#[workflow]
pub async fn parent(ctx: &Ctx<Site>, n: u64) -> Result<u64> {
    let children = try_join_all((0..10).map(|child| ctx.child(leaf, n + child))).await?;
    ctx.step("total", || effect(ctx, children.iter().sum())).await
}

/// Waits for an approval, then runs a short step. Returns `n` if it was approved, otherwise 0.
///
/// # Errors
/// Never: its steps do not fail.
#[workflow]
pub async fn gatekeeper(ctx: &Ctx<Site>, n: u64) -> Result<u64> {
    let approved = ctx.approval("open").await?.is_some_and(|decision| decision.approved);
    ctx.step("opened", || effect(ctx, if approved { n } else { 0 })).await
}

/// Runs two steps that wait for the gates `one` and `two`, and returns `n + 2`.
///
/// # Errors
/// Never: its steps do not fail.
#[workflow]
pub async fn gated(ctx: &Ctx<Site>, n: u64) -> Result<u64> {
    let one = ctx.step("one", || wait_for_gate(ctx, "one")).await?;
    let two = ctx.step("two", || wait_for_gate(ctx, "two")).await?;
    Ok(n + one + two)
}

/// The body of a compensation.
async fn undo(site: Arc<Site>, key: String) -> Result<()> {
    site.ledger.append(Fact::Begin, &key, 1);
    tokio::time::sleep(site.pause).await;
    site.ledger.append(Fact::End, &key, 1);
    Ok(())
}

/// Runs two short steps with a compensation each, then fails.
///
/// # Errors
/// Always, once both steps are undone.
#[workflow]
pub async fn unlucky(ctx: &Ctx<Site>, n: u64) -> Result<u64> {
    ctx.step("one", || effect(ctx, n)).await?;
    let _one = ctx.compensate("undo-one", format!("{}/undo-one", ctx.run_id()), undo)?;
    ctx.step("two", || effect(ctx, n)).await?;
    let _two = ctx.compensate("undo-two", format!("{}/undo-two", ctx.run_id()), undo)?;
    Err(Error::msg("no luck"))
}

/// Runs a short step with a compensation, then waits until it is canceled.
///
/// # Errors
/// The error of the cancel.
#[workflow]
pub async fn waits(ctx: &Ctx<Site>, n: u64) -> Result<u64> {
    let only = ctx.step("only", || effect(ctx, n)).await?;
    let _only = ctx.compensate("undo-only", format!("{}/undo-only", ctx.run_id()), undo)?;
    ctx.sleep(Duration::from_secs(3600)).await?;
    Ok(only)
}

/// Runs a step that blocks every thread of the runtime for this many milliseconds, and returns
/// them.
///
/// # Errors
/// Never: its steps do not fail.
#[workflow]
pub async fn blocker(ctx: &Ctx<Site>, milliseconds: u64) -> Result<u64> {
    ctx.step("block", async || {
        let (site, key, attempt) = (ctx.state(), ctx.idempotency_key(), ctx.attempt());
        site.ledger.append(Fact::Begin, key, attempt);
        let together = Arc::new(Barrier::new(site.threads));
        let runtime = tokio::runtime::Handle::current();
        let others = Arc::clone(&together);
        let helpers = site.threads - 1;
        // Spawned from outside the runtime: a task that a task spawns may wait for the thread of
        // its parent, which is blocked.
        std::thread::spawn(move || {
            for _ in 0..helpers {
                let others = Arc::clone(&others);
                runtime.spawn(async move { block(&others, milliseconds) });
            }
        });
        block(&together, milliseconds);
        site.ledger.append(Fact::End, key, attempt);
        Ok::<_, Error>(milliseconds)
    })
    .await
}

fn block(together: &Barrier, milliseconds: u64) {
    together.wait();
    // This is what the test needs: a body that blocks its thread.
    std::thread::sleep(Duration::from_millis(milliseconds));
}

/// Runs a step that blocks its thread, without an await, until the gate "stuck" is open. Returns
/// `n`.
///
/// # Errors
/// Never: its steps do not fail.
#[workflow]
pub async fn stuck(ctx: &Ctx<Site>, n: u64) -> Result<u64> {
    ctx.step("stuck", async || Ok::<_, Error>(block_until_gate(ctx, n))).await
}

/// Runs a short step with a compensation, then the step of [`stuck`]. Returns `n`.
///
/// # Errors
/// Only that of a cancel or a passed deadline.
#[workflow]
pub async fn stuck_later(ctx: &Ctx<Site>, n: u64) -> Result<u64> {
    let only = ctx.step("only", || effect(ctx, n)).await?;
    let _only = ctx.compensate("undo-only", format!("{}/undo-only", ctx.run_id()), undo)?;
    ctx.step("stuck", async || Ok::<_, Error>(block_until_gate(ctx, only))).await
}

/// The body of a step that blocks its thread until the gate "stuck" is open.
fn block_until_gate(ctx: &Ctx<Site>, n: u64) -> u64 {
    let (site, key, attempt) = (ctx.state(), ctx.idempotency_key(), ctx.attempt());
    site.ledger.append(Fact::Begin, key, attempt);
    while !site.gate("stuck").exists() {
        std::thread::sleep(Duration::from_millis(5));
    }
    site.ledger.append(Fact::End, key, attempt);
    n
}

/// Runs a step that lasts until the gate "last" is open, and writes to the ledger whether its body
/// has ended ([`ENDED`]) or was dropped ([`DROPPED`]). Returns `n`.
///
/// # Errors
/// Never: its step does not fail.
#[workflow]
pub async fn lasting(ctx: &Ctx<Site>, n: u64) -> Result<u64> {
    ctx.step("last", async || {
        let mut body = LastingBody::begin(ctx);
        while !ctx.state().gate("last").exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        body.end = ENDED;
        Ok::<_, Error>(n)
    })
    .await
}

/// The value in the ledger of a body of [`lasting`] that ended by itself.
pub const ENDED: &str = "ended";

/// The value in the ledger of a body of [`lasting`] that was dropped.
pub const DROPPED: &str = "dropped";

/// Writes the end of a body to the ledger, however the body ends.
struct LastingBody {
    ledger: Ledger,
    key: String,
    attempt: u32,
    end: &'static str,
}

impl LastingBody {
    fn begin(ctx: &Ctx<Site>) -> Self {
        let (ledger, key, attempt) = (ctx.state().ledger.clone(), ctx.idempotency_key().to_owned(), ctx.attempt());
        ledger.append(Fact::Begin, &key, attempt);
        Self { ledger, key, attempt, end: DROPPED }
    }
}

impl Drop for LastingBody {
    fn drop(&mut self) {
        self.ledger.append_value(Fact::End, &self.key, self.attempt, self.end);
    }
}

/// Runs a step that aborts its process.
///
/// # Errors
/// Never: the process ends before.
#[workflow]
pub async fn aborter(ctx: &Ctx<Site>, n: u64) -> Result<u64> {
    ctx.step("abort", async || {
        ctx.state().ledger.append(Fact::Begin, ctx.idempotency_key(), ctx.attempt());
        if n < u64::MAX {
            std::process::abort();
        }
        Ok::<_, Error>(n)
    })
    .await
}

/// Runs a step that aborts its process after this many milliseconds.
///
/// # Errors
/// Never: the process ends before.
#[workflow]
pub async fn slow_aborter(ctx: &Ctx<Site>, milliseconds: u64) -> Result<u64> {
    ctx.step("abort", async || {
        ctx.state().ledger.append(Fact::Begin, ctx.idempotency_key(), ctx.attempt());
        tokio::time::sleep(Duration::from_millis(milliseconds)).await;
        if milliseconds < u64::MAX {
            std::process::abort();
        }
        Ok::<_, Error>(milliseconds)
    })
    .await
}

/// A workflow with a retry policy: a short step, then one that fails in the first two attempts of
/// the run. Returns `n + 1`.
#[derive(Clone, Copy, Debug)]
pub struct Stubborn;

impl Workflow for Stubborn {
    type State = Site;
    type Input = u64;
    type Output = u64;
    const NAME: &'static str = "stubborn";
    const VERSION: &'static str = "1";
    // The delay is longer than the commit of the retry takes on a busy machine. Otherwise that
    // commit may claim the run at once, and the next attempt begins while its process is being
    // killed.
    const RETRY: Option<Retry> = Some(Retry::fixed(Duration::from_secs(1)).max_attempts(3));

    async fn run(ctx: &Ctx<Site>, n: u64) -> Result<u64> {
        let steady = ctx.step("steady", || effect(ctx, n)).await?;
        let attempt = ctx.attempt();
        let body = async || match effect(ctx, 1).await {
            Ok(_) if attempt < 3 => Err(Error::msg("not yet")),
            other => other,
        };
        Ok(steady + ctx.step("stubborn", body).retry(Retry::none()).await?)
    }
}

impl RunsWith<Site> for Stubborn {
    fn project(worker: &Arc<Site>) -> Arc<Site> {
        Arc::clone(worker)
    }
}
