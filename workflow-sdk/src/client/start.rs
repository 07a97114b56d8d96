use std::collections::BTreeMap;
use std::fmt;
use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::pin::Pin;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::workflow::Workflow;
use workflow_engine::faults::failpoint_error;
use workflow_engine::model::{
    KeyReuse, Lane, LimitRule, NameSubject, NewRun, Priority, Run, RunId, StartTime, Timestamp, TraceContext,
    UnreadablePayload, check_gate_of, check_name, check_queue, check_tags,
};
use workflow_engine::runtime::{PayloadError, round_trip_for_caller};
use workflow_engine::store::{DatabaseError, Outcome, StartOutcome, Write};

use super::single::{SingleOptions, Tries};
use super::within::commit_within;
use super::{Client, ClientError, RunHandle, single, timeout};

/// The default queue of a run, and the queue that a worker serves by default.
pub const DEFAULT_QUEUE: &str = "default";

/// The version of a workflow whose attribute names none.
pub const DEFAULT_VERSION: &str = "1";

/// A builder for a new run: set its options, then await it.
#[must_use = "no run is started until this is awaited"]
pub struct Start<O> {
    client: Client,
    run: Result<NewRun, PayloadError>,
    /// The gate that the attribute of the workflow computes, for a start that names none.
    default_gate: Option<String>,
    pub(super) single: SingleOptions,
    limits: BTreeMap<String, LimitRule>,
    output: PhantomData<fn() -> O>,
}

impl<O> Start<O> {
    pub(super) fn of_workflow<W: Workflow<Output = O>>(client: &Client, input: &W::Input) -> Self {
        let start = Self::new(client, W::NAME.into(), W::VERSION.into(), input);
        let start = Self { default_gate: W::gate(input), ..start };
        match W::QUEUE {
            Some(queue) => start.queue(queue),
            None => start,
        }
    }

    fn new<I: Serialize + DeserializeOwned>(client: &Client, workflow: String, version: String, input: &I) -> Self {
        let subject = format!("input of workflow {workflow:?}");
        let run = round_trip_for_caller(&subject, input, client.payload_limit()).map(|(input, _)| NewRun {
            gate: None,
            id: RunId::generate(),
            lane: Lane { queue: DEFAULT_QUEUE.into(), workflow, version },
            input,
            key: None,
            key_reuse: KeyReuse::Never,
            single: None,
            priority: None,
            start: StartTime::Now,
            deadline: None,
            tags: BTreeMap::new(),
            parent: None,
            depth: 0,
            trace: None,
        });
        let (single, limits) = (SingleOptions::default(), BTreeMap::new());
        Self { client: client.clone(), run, default_gate: None, single, limits, output: PhantomData }
    }

    fn set(mut self, change: impl FnOnce(&mut NewRun)) -> Self {
        if let Ok(run) = &mut self.run {
            change(run);
        }
        self
    }

    /// Sets the idempotency key. As long as the run is kept, a start with the same workflow and key
    /// returns the same run; with another input it is a [`ClientError::KeyConflict`]. Default:
    /// none. Range: 1 to 255 bytes, no control characters.
    pub fn key(self, key: impl Into<String>) -> Self {
        self.set(|run| run.key = Some(key.into()))
    }

    /// Sets what this start does if its key belongs to an ended run. Default: [`KeyReuse::Never`].
    ///
    /// ```
    /// # use workflow_sdk::prelude::*;
    /// # #[workflow]
    /// # async fn checkout(ctx: &Ctx, order: u64) -> Result<()> { Ok(()) }
    /// # async fn start(client: &Client) -> Result<(), ClientError> {
    /// use workflow_sdk::KeyReuse;
    ///
    /// // A second try of an order whose run failed is a new run.
    /// let start = client.start(checkout, 42).key("order-42");
    /// let run = start.key_reuse(KeyReuse::AfterFailure).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn key_reuse(self, reuse: KeyReuse) -> Self {
        self.set(|run| run.key_reuse = reuse)
    }

    /// Sets the id of the run, for tests: the random values of a run depend on its id.
    #[doc(hidden)]
    pub fn id(self, id: RunId) -> Self {
        self.set(|run| run.id = id)
    }

    /// Declares those of these limits for steps that have no rule, before the run is started. For
    /// flows, whose documents hold their limits. Default: none. A start [within](Start::within) a
    /// transaction declares none: others that declare them would wait for its end.
    #[doc(hidden)]
    pub fn limits(self, limits: BTreeMap<String, LimitRule>) -> Self {
        Self { limits, ..self }
    }

    /// Delays the start by `delay`, measured from the commit. Default: no delay.
    pub fn delay(self, delay: Duration) -> Self {
        self.set(|run| run.start = StartTime::After(delay))
    }

    /// Starts the run at this instant, or at once if it has passed. Default: at once.
    pub fn at(self, instant: impl Into<Timestamp>) -> Self {
        self.set(|run| run.start = StartTime::At(instant.into()))
    }

    /// Fails the run with an error of kind [`Deadline`](crate::ErrorKind::Deadline) if it has not
    /// ended within this time after its commit. Its pending call then fails with that kind, so that
    /// the function can clean up and its compensations run, within the worker's grace
    /// (`WorkerOptions::cancel_grace`). Nothing else begins after that. Default: none.
    pub fn deadline(self, after: Duration) -> Self {
        self.set(|run| run.deadline = Some(StartTime::After(after)))
    }

    /// Fails the run if it has not ended at this instant. See [`Start::deadline`].
    pub fn deadline_at(self, instant: impl Into<Timestamp>) -> Self {
        self.set(|run| run.deadline = Some(StartTime::At(instant.into())))
    }

    /// Sets the queue in which the run waits for a worker. Default: the queue in the workflow's
    /// attribute, or [`DEFAULT_QUEUE`]. Range: 1 to 255 bytes, no control characters.
    pub fn queue(self, queue: impl Into<String>) -> Self {
        self.set(|run| run.lane.queue = queue.into())
    }

    /// Lets the run wait behind a gate of its queue: a part of the queue for one account, tenant or
    /// the like. The gates of a queue take turns, so the backlog of one does not delay the others,
    /// and each may have [limits of its own](crate::GateLimits). A gate is known from its first
    /// start on. A run behind a gate is not claimed by the commit that starts it. Default: the gate
    /// that the workflow's attribute computes from the input, or none. The runs behind no gate have
    /// a turn of their own. Range: 1 to 255 bytes, no control characters.
    ///
    /// ```
    /// # use workflow_sdk::prelude::*;
    /// # #[workflow]
    /// # async fn import(ctx: &Ctx, account: String) -> Result<()> { Ok(()) }
    /// # async fn start(client: &Client) -> Result<(), ClientError> {
    /// let account = "acct-42".to_owned();
    /// let run = client.start(import, account.clone()).queue("imports").gate(account).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn gate(self, gate: impl Into<String>) -> Self {
        self.set(|run| run.gate = Some(gate.into()))
    }

    /// Sets how soon the run is claimed for the first time, among the due runs of its workflow and
    /// version in its queue. Default: [`Priority::Normal`]. [`Priority`] says how long the head
    /// start of each is: a run that has waited for that much longer goes first.
    ///
    /// ```
    /// # use workflow_sdk::prelude::*;
    /// # #[workflow]
    /// # async fn checkout(ctx: &Ctx, order: u64) -> Result<()> { Ok(()) }
    /// # async fn start(client: &Client) -> Result<(), ClientError> {
    /// use workflow_sdk::Priority;
    ///
    /// // A person waits for this one.
    /// let run = client.start(checkout, 42).priority(Priority::High).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn priority(self, priority: Priority) -> Self {
        self.set(|run| run.priority = Some(priority))
    }

    /// Sets the version of the workflow. A version that no worker serves yet is accepted; the run
    /// waits until one does, and [`Client::explain`] says so. Default: the version in the
    /// workflow's attribute, or [`DEFAULT_VERSION`] for a start by name. Range: 1 to 255 bytes, no
    /// control characters.
    pub fn version(self, version: impl Into<String>) -> Self {
        self.set(|run| run.lane.version = version.into())
    }

    /// Adds a tag to find the run by; a second value under the same name replaces the first.
    /// Default: none. Range: 1 to 255 bytes each, no control characters; the value may be empty. At
    /// most [`MAX_TAGS`](crate::MAX_TAGS) tags of [`MAX_TAG_BYTES`](crate::MAX_TAG_BYTES) together,
    /// which count in [`Connect::payload_limit`](crate::Connect::payload_limit).
    pub fn tag(self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.set(|run| {
            run.tags.insert(name.into(), value.into());
        })
    }

    /// Makes the run, its steps and its children a part of a distributed trace, below this span.
    /// It often comes from the header `traceparent` of the request that starts the run. It is kept
    /// with the run, so spans of every worker that goes on with the run belong to the trace. A
    /// start that finds a run with its key changes nothing. Default: the place at which an
    /// [observer](crate::Observer::current_trace) says the caller is, or no trace.
    ///
    /// ```
    /// # use workflow_sdk::prelude::*;
    /// # #[workflow]
    /// # async fn checkout(ctx: &Ctx, order: u64) -> Result<()> { Ok(()) }
    /// # async fn start(client: &Client, header: &str) -> Result<(), Box<dyn std::error::Error>> {
    /// let start = client.start(checkout, 42);
    /// // A header that is not understood begins no trace, and refuses no order.
    /// let run = match header.parse::<workflow_sdk::TraceContext>() {
    ///     Ok(parent) => start.trace_parent(parent).await?,
    ///     Err(_) => start.await?,
    /// };
    /// # Ok(())
    /// # }
    /// ```
    pub fn trace_parent(self, parent: TraceContext) -> Self {
        self.set(|run| run.trace = Some(parent))
    }

    /// Starts the run in a transaction of the application, on the client's database: the run exists
    /// if and only if that transaction commits. A worker is woken after the commit, and the result
    /// can be awaited from then on.
    ///
    /// On SQLite the transaction holds the write lock of the file until it ends, so keep it short.
    /// Begin it with `BEGIN IMMEDIATE` if it reads before it writes. On PostgreSQL it holds the
    /// single key of the start until it ends: other starts of that key wait. Open transactions do
    /// not see each other's starts, so together they may exceed
    /// [`QueueLimits::max_waiting`](crate::QueueLimits::max_waiting).
    ///
    /// # Errors
    /// See [`Client::start`]; also [`ClientError::OtherDatabase`]. After an error of the database,
    /// roll the transaction back.
    pub async fn within<T: super::ApplicationTransaction>(
        self,
        transaction: &mut T,
    ) -> Result<RunHandle<O>, ClientError> {
        let (client, mut run, options) = self.checked()?;
        options.number(&client, &mut run).await?;
        let mut tries = Tries::of(&options);
        loop {
            let outcome = commit_within(&client, transaction, &Write::Start(run.clone())).await?;
            if let Some(outcome) = tries.next(&mut run, outcome).await? {
                return answer_outcome(client, &run, &options, outcome);
            }
        }
    }

    /// Returns the run that this start would create if it was committed now.
    pub(super) fn into_run(self, now: Timestamp) -> Result<Run, ClientError> {
        let (_, new, _) = self.checked()?;
        let priority = new.rank().priority();
        let mut run = Run::pending(new.id, new.lane, new.input, new.start.resolve(now), now);
        (run.gate, run.priority) = (new.gate, priority);
        Ok(run)
    }

    fn checked(self) -> Result<(Client, NewRun, SingleOptions), ClientError> {
        let mut run = self.run?;
        check_name(NameSubject::Workflow, &run.lane.workflow)?;
        check_name(NameSubject::Version, &run.lane.version)?;
        check_queue(&run.lane.queue)?;
        match (&run.gate, self.default_gate) {
            (Some(gate), _) => check_name(NameSubject::Gate, gate)?,
            (None, Some(gate)) => {
                check_gate_of(&run.lane.workflow, &gate)?;
                run.gate = Some(gate);
            }
            (None, None) => {}
        }
        if let Some(key) = &run.key {
            check_name(NameSubject::Key, key)?;
        }
        self.single.apply(&mut run)?;
        run.trace = run.trace.or_else(|| self.client.observers().current_trace());
        check_size(&run.lane.workflow, &run.input, &run.tags, self.client.payload_limit())?;
        Ok((self.client, run, self.single))
    }
}

/// Checks the tags of a new run. They count in the limit of its input.
pub(super) fn check_size(
    workflow: &str,
    input: &str,
    tags: &BTreeMap<String, String>,
    limit: usize,
) -> Result<(), ClientError> {
    let bytes = input.len() + check_tags(tags)?;
    if bytes > limit {
        let subject = format!("input of workflow {workflow:?} with its tags");
        return Err(PayloadError::TooLarge { subject, bytes, limit }.into());
    }
    Ok(())
}

impl Start<Value> {
    pub(super) fn by_name<I: Serialize + DeserializeOwned>(client: &Client, workflow: String, input: &I) -> Self {
        Self::new(client, workflow, DEFAULT_VERSION.into(), input)
    }
}

impl Client {
    /// Starts a run as [`Client::start_by_name`] does, with an input of any type.
    pub(crate) fn start_named<I: Serialize + DeserializeOwned>(&self, workflow: String, input: &I) -> Start<Value> {
        Start::by_name(self, workflow, input)
    }
}

impl<O: 'static> IntoFuture for Start<O> {
    type Output = Result<RunHandle<O>, ClientError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(mut self) -> Self::IntoFuture {
        Box::pin(async move {
            let limits = std::mem::take(&mut self.limits);
            let (client, mut run, options) = self.checked()?;
            client.declare_missing(limits).await?;
            options.number(&client, &mut run).await?;
            let mut tries = Tries::of(&options);
            loop {
                failpoint_error("start.before_commit").map_err(DatabaseError::from)?;
                let outcome = client.commit(Write::Start(run.clone())).await?;
                failpoint_error("start.after_commit").map_err(DatabaseError::from)?;
                if let Some(outcome) = tries.next(&mut run, outcome).await? {
                    return answer_outcome(client, &run, &options, outcome);
                }
            }
        })
    }
}

pub(super) async fn start_many<O>(
    client: &Client,
    starts: impl Iterator<Item = Start<O>>,
) -> Result<Vec<RunHandle<O>>, ClientError> {
    let runs = starts.map(|start| start.checked().map(|(_, run, _)| run)).collect::<Result<Vec<_>, _>>()?;
    let mut pending = Vec::with_capacity(runs.len());
    for run in runs {
        let limit = client.call_limit();
        pending.push((run.clone(), client.enqueue(limit, Write::Start(run)).await.map_err(of_many)?));
    }
    let mut handles = Vec::with_capacity(pending.len());
    for (run, outcome) in pending {
        let outcome = timeout::outcome(client.call_limit(), outcome).await?;
        handles.push(answer_outcome(client.clone(), &run, &SingleOptions::default(), outcome)?);
    }
    Ok(handles)
}

/// Returns the error of one start of many: others may have been queued before.
fn of_many(error: ClientError) -> ClientError {
    match error {
        ClientError::TimedOut { after, .. } => ClientError::TimedOut { after, effect_unknown: true },
        error => error,
    }
}

fn answer_outcome<O>(
    client: Client,
    run: &NewRun,
    options: &SingleOptions,
    outcome: Outcome,
) -> Result<RunHandle<O>, ClientError> {
    match outcome {
        Outcome::Started(outcome) => answer(client, run, options, outcome),
        other => Err(ClientError::unexpected(other)),
    }
}

fn answer<O>(
    client: Client,
    run: &NewRun,
    options: &SingleOptions,
    outcome: StartOutcome,
) -> Result<RunHandle<O>, ClientError> {
    let is_accepted = |input: &str| options.accepts_any_input() || same_input(input, &run.input);
    match outcome {
        StartOutcome::Created | StartOutcome::Replaced { .. } => Ok(RunHandle::new(client, run.id)),
        StartOutcome::Held { id } if options.refuses() => Err(single::taken(run, id)),
        StartOutcome::Held { id } | StartOutcome::Moved { id } => Ok(RunHandle::of_existing(client, id)),
        StartOutcome::Continued { id } => Ok(RunHandle::of_existing(client, id)),
        StartOutcome::Existing { id, input } if is_accepted(&input) => Ok(RunHandle::of_existing(client, id)),
        StartOutcome::Existing { id, input } => Err(match UnreadablePayload::in_place_of(&input) {
            Some(unreadable) => unreadable.into(),
            None => ClientError::KeyConflict {
                workflow: run.lane.workflow.clone(),
                key: run.key.clone().unwrap_or_default(),
                run_id: id,
            },
        }),
    }
}

/// `true` if two inputs are the same value. The text alone does not decide, because a map may be
/// written with its keys in another order.
pub(super) fn same_input(stored: &str, new: &str) -> bool {
    let parse = |text: &str| serde_json::from_str::<Value>(text).ok();
    stored == new || parse(stored).is_some_and(|stored| parse(new) == Some(stored))
}

impl<O> fmt::Debug for Start<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let run = self.run.as_ref().map(|run| (&run.id, &run.lane, &run.key));
        f.debug_struct("Start").field("run", &run).finish_non_exhaustive()
    }
}
