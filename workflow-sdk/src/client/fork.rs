use std::collections::BTreeMap;
use std::fmt;
use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::pin::Pin;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use workflow_engine::model::{
    ForkPoint, Lane, NameSubject, NewRun, Run, RunId, StartTime, Timestamp, UnreadablePayload, check_name, check_queue,
    check_tag, find_fork_point,
};
use workflow_engine::runtime::{PayloadError, encode_readable};
use workflow_engine::store::{ForkWrite, Outcome, StartOutcome, Write};

use super::start::same_input;
use super::{Client, ClientError, RunHandle};

/// The tag under which a fork keeps the id of the run that it comes from.
pub const FORKED_FROM: &str = "workflow.forked_from";

/// A run that is to be forked: set its options, then await it. Made by [`Client::fork`] and [`RunHandle::fork`].
#[must_use = "no run is started until this is awaited"]
pub struct Fork<O> {
    client: Client,
    source: RunId,
    from: Option<String>,
    input: Option<Result<String, PayloadError>>,
    version: Option<String>,
    queue: Option<String>,
    key: Option<String>,
    deadline: Option<StartTime>,
    tags: BTreeMap<String, String>,
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
            key: None,
            deadline: None,
            tags: BTreeMap::new(),
            output: PhantomData,
        }
    }

    /// The key of the step at which the new run leaves the history of the other one, as it stands in
    /// [`StepAttempt::step_key`](crate::StepAttempt::step_key): `charge`, or `page:2` for the third step of the name `page`.
    /// Every outcome that was delivered before that step's is kept, and none of these steps runs again; the step itself and all
    /// that came after it is done anew. A run that was told to end parts there at the latest: the new one is not told so.
    /// Default: none, and the new run begins at its beginning.
    pub fn from(mut self, step_key: impl Into<String>) -> Self {
        self.from = Some(step_key.into());
        self
    }

    /// Another input. The kept outcomes are those of the old one: if the workflow makes other calls before them with the new
    /// input, the new run [diverges](crate::ErrorKind::Divergence). Default: that of the other run.
    pub fn input(mut self, input: &impl Serialize) -> Self {
        let subject = format!("input of a fork of run {}", self.source);
        self.input = Some(encode_readable(&subject, input, self.client.payload_limit()));
        self
    }

    /// Another version of the workflow. One that no worker knows is accepted, for its worker may come later: the run stays
    /// due, and [`Client::explain`] says why. Default: that of the other run. Range: 1 to 255 bytes, no control characters.
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.version = Some(version.into());
        self
    }

    /// The queue of the new run. Default: that of the other run. Range: 1 to 255 bytes, no control characters.
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        self.queue = Some(queue.into());
        self
    }

    /// Idempotency key of the fork: awaited again with the same key and input, it gives the same new run. Default: none; that
    /// of the other run stays its own. Range: 1 to 255 bytes, no control characters.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Fails the new run if it has not ended so long after its commit. Default: none, whatever the other run had.
    pub fn deadline(mut self, after: Duration) -> Self {
        self.deadline = Some(StartTime::After(after));
        self
    }

    /// As [`Fork::deadline`], at this instant.
    pub fn deadline_at(mut self, instant: impl Into<Timestamp>) -> Self {
        self.deadline = Some(StartTime::At(instant.into()));
        self
    }

    /// A label beside those that the new run has from the other one, or in place of one. Default: none. Range: 1 to 255 bytes
    /// each, no control characters; the value may be empty.
    pub fn tag(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.tags.insert(name.into(), value.into());
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
                    return Ok(RunHandle::new(client, id));
                }
                let (workflow, key) = (new.lane.workflow, new.key.unwrap_or_default());
                Err(ClientError::KeyConflict { workflow, key, run_id: id })
            }
            other => Err(ClientError::unexpected(other)),
        }
    }

    async fn write(self) -> Result<ForkWrite, ClientError> {
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
        for (name, value) in &self.tags {
            check_tag(name, value)?;
        }
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
        tags.insert(FORKED_FROM.into(), self.source.to_string());
        let new = NewRun {
            id: RunId::generate(),
            lane: Lane {
                queue: self.queue.unwrap_or(source.lane.queue),
                workflow: source.lane.workflow,
                version: self.version.unwrap_or(source.lane.version),
            },
            input: input.unwrap_or(source.input),
            key: self.key,
            start: StartTime::Now,
            deadline: self.deadline,
            tags,
            parent: None,
            depth: 0,
        };
        Ok(ForkWrite { source: self.source, new, before, kept: None })
    }
}

async fn position(client: &Client, source: RunId, key: String) -> Result<i64, ClientError> {
    match find_fork_point(&client.store().history(source).await?, &key) {
        ForkPoint::Before(position) => Ok(position),
        ForkPoint::Unknown(keys) => Err(ClientError::UnknownStep { run_id: source, near: nearest(&key, keys), key }),
    }
}

/// The keys that are most like the one that was asked for, the most alike first.
fn nearest(key: &str, mut keys: Vec<String>) -> Vec<String> {
    const SHOWN: usize = 5;
    // Stable: of keys that are equally far, the first in the history comes first.
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
    /// Starts a new run that keeps the history of another one before a step, and does the rest anew: see [`Fork::from`].
    /// Returns a builder: set its options, then await it.
    ///
    /// The other run may be in any status, and stays as it is. The new run has its workflow, version, queue, input and tags
    /// unless told otherwise, none of its key, deadline and parent, and its id under the tag [`FORKED_FROM`]. Signals that
    /// kept steps have consumed are part of what they gave; those that wait in the inbox of the other run are its own.
    /// [`Ctx::random`](crate::Ctx::random), [`Ctx::uuid`](crate::Ctx::uuid) and
    /// [`Ctx::idempotency_key`](crate::Ctx::idempotency_key) belong to a run, so the new one has others.
    ///
    /// # Errors
    /// Awaiting it gives [`ClientError`]: [`UnknownRun`](ClientError::UnknownRun), [`UnknownStep`](ClientError::UnknownStep)
    /// with the steps that have near names, [`Name`](ClientError::Name), [`Payload`](ClientError::Payload),
    /// [`KeyConflict`](ClientError::KeyConflict), or one of the database. No run was started then.
    ///
    /// # Cancel safety
    /// Dropping the awaited future leaves it open whether the run was started; fork again with the same key.
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
