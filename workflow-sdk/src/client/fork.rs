use std::collections::BTreeMap;
use std::fmt;
use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::pin::Pin;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use workflow_engine::model::{
    ForkPoint, KeyReuse, Lane, NameSubject, NewRun, Priority, Run, RunId, StartTime, Timestamp, TraceContext,
    UnreadablePayload, check_name, check_queue, check_tags, find_fork_point,
};
use workflow_engine::runtime::{PayloadError, encode_readable};
use workflow_engine::store::{ForkWrite, Outcome, StartOutcome, Write};

use super::start::check_size;
use super::start::same_input;
use super::{Client, ClientError, RunHandle};

/// The tag that holds the id of the run from which a fork was made.
pub const FORKED_FROM: &str = "workflow.forked_from";

/// A builder for a fork of a run: set its options, then await it. Made by [`Client::fork`] and
/// [`RunHandle::fork`].
#[must_use = "no run is started until this is awaited"]
pub struct Fork<O> {
    client: Client,
    source: RunId,
    from: Option<String>,
    input: Option<Result<String, PayloadError>>,
    version: Option<String>,
    queue: Option<String>,
    gate: Option<String>,
    priority: Option<Priority>,
    key: Option<String>,
    deadline: Option<StartTime>,
    tags: BTreeMap<String, String>,
    trace: Option<TraceContext>,
    output: PhantomData<fn() -> O>,
}

impl<O> Fork<O> {
    pub(super) fn new(client: &Client, source: RunId) -> Self {
        Self {
            client: client.clone(),
            source,
            from: None,
            input: None,
            version: None,
            queue: None,
            gate: None,
            priority: None,
            key: None,
            deadline: None,
            tags: BTreeMap::new(),
            trace: None,
            output: PhantomData,
        }
    }

    /// Sets the step at which the new run leaves the history of the source run, by its key as in
    /// [`StepAttempt::step_key`](crate::StepAttempt::step_key): `charge`, or `page:2` for the third
    /// step of the name `page`. Outcomes that were delivered before that step are kept, and their
    /// steps do not run again. That step and everything after it run anew. If the source run was
    /// told to end, the fork leaves its history there at the latest, so the new run is not told to
    /// end. Default: none; the new run begins at its beginning.
    pub fn from(mut self, step_key: impl Into<String>) -> Self {
        self.from = Some(step_key.into());
        self
    }

    /// Sets another input. The kept outcomes were produced with the old one: if the workflow makes
    /// other calls before them with the new input, the new run
    /// [diverges](crate::ErrorKind::Divergence). Default: the input of the source run.
    pub fn input(mut self, input: &impl Serialize) -> Self {
        let subject = format!("input of a fork of run {}", self.source);
        self.input = Some(encode_readable(&subject, input, self.client.payload_limit()));
        self
    }

    /// Sets another version of the workflow. A version that no worker serves yet is accepted; the
    /// run waits until one does, and [`Client::explain`] says so. Default: the version of the
    /// source run. Range: 1 to 255 bytes, no control characters.
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.version = Some(version.into());
        self
    }

    /// Sets the queue of the new run. Default: the queue of the source run. Range: 1 to 255 bytes,
    /// no control characters.
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        self.queue = Some(queue.into());
        self
    }

    /// Sets the gate of its queue behind which the new run waits. Default: the gate of the source
    /// run, whatever the input. Range: see [`Start::gate`](super::Start::gate).
    pub fn gate(mut self, gate: impl Into<String>) -> Self {
        self.gate = Some(gate.into());
        self
    }

    /// Sets how soon the new run is claimed for the first time. Default: [`Priority::Normal`].
    pub fn priority(mut self, priority: Priority) -> Self {
        self.priority = Some(priority);
        self
    }

    /// Sets the idempotency key of the fork: a second fork with the same key and input returns the
    /// same new run. The key of the source run is not copied. Default: none. Range: 1 to 255 bytes,
    /// no control characters.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Fails the new run if it has not ended within this time after its commit. The deadline of the
    /// source run is not copied. Default: none.
    pub fn deadline(mut self, after: Duration) -> Self {
        self.deadline = Some(StartTime::After(after));
        self
    }

    /// Fails the new run if it has not ended at this instant. See [`Fork::deadline`].
    pub fn deadline_at(mut self, instant: impl Into<Timestamp>) -> Self {
        self.deadline = Some(StartTime::At(instant.into()));
        self
    }

    /// Adds a tag to those of the source run, or replaces one. Default: none. Range: 1 to 255 bytes
    /// each, no control characters; the value may be empty.
    pub fn tag(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.tags.insert(name.into(), value.into());
        self
    }

    /// Makes the new run a part of a distributed trace: see
    /// [`Start::trace_parent`](super::Start::trace_parent). The trace of the source run is not
    /// copied.
    pub fn trace_parent(mut self, parent: TraceContext) -> Self {
        self.trace = Some(parent);
        self
    }

    async fn start(self) -> Result<RunHandle<O>, ClientError> {
        let client = self.client.clone();
        let write = self.write().await?;
        let (source, new) = (write.source, write.new.clone());
        match client.commit(Write::Fork(Box::new(write))).await? {
            Outcome::Started(StartOutcome::Created) => Ok(RunHandle::new(client, new.id)),
            Outcome::Started(StartOutcome::Existing { id, .. }) => {
                if is_same_fork(&client.run(id).await?, source, &new) {
                    return Ok(RunHandle::of_existing(client, id));
                }
                let (workflow, key) = (new.lane.workflow, new.key.unwrap_or_default());
                Err(ClientError::KeyConflict { workflow, key, run_id: id })
            }
            // The source run was deleted after it was read.
            Outcome::SourceMissing => Err(ClientError::UnknownRun { run_id: source }),
            other => Err(ClientError::unexpected(other)),
        }
    }

    pub(crate) async fn write(self) -> Result<ForkWrite, ClientError> {
        let input = self.input.transpose()?;
        if let Some(key) = &self.key {
            check_name(NameSubject::Key, key)?;
        }
        if let Some(version) = &self.version {
            check_name(NameSubject::Version, version)?;
        }
        if let Some(queue) = &self.queue {
            check_queue(queue)?;
        }
        if let Some(gate) = &self.gate {
            check_name(NameSubject::Gate, gate)?;
        }
        check_tags(&self.tags)?;
        let source = self.client.run(self.source).await?;
        if let Some(unreadable) = UnreadablePayload::in_place_of(&source.input).filter(|_| input.is_none()) {
            return Err(unreadable.into());
        }
        let before = match self.from {
            None => 1,
            Some(key) => position(&self.client, self.source, key).await?,
        };
        let mut tags = source.tags;
        tags.extend(self.tags);
        tags.remove(FORKED_FROM);
        let input = input.unwrap_or(source.input);
        check_size(&source.lane.workflow, &input, &tags, self.client.payload_limit())?;
        tags.insert(FORKED_FROM.into(), self.source.to_string());
        let new = NewRun {
            gate: self.gate.or(source.gate),
            id: self.source.generate_for_fork(),
            lane: Lane {
                queue: self.queue.unwrap_or(source.lane.queue),
                workflow: source.lane.workflow,
                version: self.version.unwrap_or(source.lane.version),
            },
            input,
            key: self.key,
            key_reuse: KeyReuse::Never,
            single: None,
            priority: self.priority,
            start: StartTime::Now,
            deadline: self.deadline,
            tags,
            parent: None,
            depth: 0,
            trace: self.trace.or_else(|| self.client.observers().current_trace()),
        };
        Ok(ForkWrite { source: self.source, new, before, kept: None })
    }
}

async fn position(client: &Client, source: RunId, key: String) -> Result<i64, ClientError> {
    match find_fork_point(&client.read(client.store().history(source)).await?, &key) {
        ForkPoint::Before(position) => Ok(position),
        ForkPoint::Unknown(keys) => Err(ClientError::UnknownStep { run_id: source, near: nearest(&key, keys), key }),
    }
}

/// Returns the keys that are most similar to the requested one, the most similar first.
fn nearest(key: &str, mut keys: Vec<String>) -> Vec<String> {
    const SHOWN: usize = 5;
    // A stable sort: of keys that are equally similar, the first in the history comes first.
    keys.sort_by(|a, b| {
        let likeness = |other: &String| strsim::normalized_damerau_levenshtein(key, other);
        likeness(b).total_cmp(&likeness(a))
    });
    keys.truncate(SHOWN);
    keys
}

fn is_same_fork(run: &Run, source: RunId, new: &NewRun) -> bool {
    run.tags.get(FORKED_FROM).is_some_and(|from| *from == source.to_string())
        && run.lane.version == new.lane.version
        && same_input(&run.input, &new.input)
}

impl Client {
    /// Starts a new run that keeps the history of another run up to a step and does the rest anew:
    /// see [`Fork::from`]. Returns a builder: set its options, then await it.
    ///
    /// The source run may have any status and does not change. The new run has the workflow,
    /// version, queue, input and tags of the source run unless an option says otherwise. It does
    /// not have its key, deadline or parent. The tag [`FORKED_FROM`] holds the id of the source
    /// run. Signals that kept steps have consumed are part of their outcomes; signals that wait in
    /// the inbox of the source run stay there. [`Ctx::random`](crate::Ctx::random),
    /// [`Ctx::uuid`](crate::Ctx::uuid) and [`Ctx::idempotency_key`](crate::Ctx::idempotency_key)
    /// depend on the run, so the new run gets other values.
    ///
    /// # Errors
    /// Awaiting the builder returns [`UnknownRun`](ClientError::UnknownRun),
    /// [`UnknownStep`](ClientError::UnknownStep) with the steps that have similar names,
    /// [`Name`](ClientError::Name), [`Payload`](ClientError::Payload),
    /// [`KeyConflict`](ClientError::KeyConflict), [`QueueFull`](ClientError::QueueFull) or
    /// [`Database`](ClientError::Database). No run was started then, except perhaps after an error
    /// of the database.
    ///
    /// # Cancel safety
    /// If the awaited future is dropped, the run may or may not have been started. Fork again with
    /// the same key.
    ///
    /// ```no_run
    /// // no_run: it needs a run that has a history.
    /// use workflow_sdk::prelude::*;
    /// # use workflow_sdk::{ClientError, RunId};
    ///
    /// # async fn repair(client: Client, id: RunId) -> Result<(), ClientError> {
    /// let again = client.fork(id).from("charge").version("2").key("order-42-repaired").await?;
    /// let receipt: String = again.typed().result().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn fork(&self, id: RunId) -> Fork<Value> {
        Fork::new(self, id)
    }
}

impl<O: 'static> IntoFuture for Fork<O> {
    type Output = Result<RunHandle<O>, ClientError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.start())
    }
}

impl<O> fmt::Debug for Fork<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fork").field("source", &self.source).field("from", &self.from).finish_non_exhaustive()
    }
}
