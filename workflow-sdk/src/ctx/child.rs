use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::panic::Location;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::Result;
use crate::client::DEFAULT_VERSION;
use crate::workflow::Workflow;
use workflow_engine::model::{
    ErrorKind, KeyReuse, Lane, NameSubject, NewRun, OnParentEnd, Priority, StartTime, StoredError, check_gate_of,
    check_name, check_queue, check_tags,
};
use workflow_engine::replay::{CallId, CallPoll, ChildCall, Delivered};
use workflow_engine::runtime::{decode, round_trip};

use super::scope::key_under;
use super::{ChildHandle, Ctx, RunCell};

/// The number of parents that a run may have above it. The limit stops a workflow that starts
/// itself without end.
pub const MAX_CHILD_DEPTH: i64 = 100;

impl<S> Ctx<S> {
    /// Starts a run of its own, the child, and waits for its result. The child is started in the
    /// commit of its step's record, so it is started once, however often this run is resumed. Any
    /// worker that knows the workflow may run it. The commit of its end wakes this run.
    ///
    /// If this run ends first, the child is canceled at that moment, unless
    /// [`Child::on_parent_end`] says otherwise. The child's own children follow when the child
    /// ends.
    ///
    /// # Errors
    /// Awaiting it returns the child's error, with its kind, message, causes and typed value. The
    /// kind is [`ChildCanceled`](ErrorKind::ChildCanceled) if the child was canceled. It is
    /// [`Refused`](ErrorKind::Refused) for an invalid input or option, a key that another run has,
    /// more than [`MAX_CHILD_DEPTH`] parents, or a child inside the body of a step. It is
    /// [`Canceled`](ErrorKind::Canceled) or [`Deadline`](ErrorKind::Deadline) if this run is told
    /// to end while it waits.
    ///
    /// # Cancel safety
    /// Dropping the future ends the wait. A child that was started continues until it or this run
    /// ends.
    ///
    /// ```
    /// use workflow_sdk::prelude::*;
    ///
    /// #[workflow]
    /// async fn refund(ctx: &Ctx, cents: u64) -> Result<u64> {
    ///     ctx.step("refund", async || ok(cents)).await
    /// }
    ///
    /// #[workflow]
    /// async fn give_back(ctx: &Ctx, cents: u64) -> Result<u64> {
    ///     ctx.child(refund, cents).queue("payments").await
    /// }
    /// ```
    #[track_caller]
    pub fn child<W: Workflow>(&self, workflow: W, input: W::Input) -> Child<'_, W::Output> {
        let (_, location) = (workflow, Location::caller());
        let run = self.child_run(W::NAME, W::VERSION, &input).map(|mut run| {
            if let Some(queue) = W::QUEUE {
                queue.clone_into(&mut run.lane.queue);
            }
            run
        });
        let mut child = self.begin_child(W::NAME, run, location);
        child.default_gate = W::gate(&input).map(|gate| match check_gate_of(W::NAME, &gate) {
            Ok(()) => Ok(gate),
            Err(error) => Err(refused(error.to_string())),
        });
        child
    }

    /// Starts a child of a workflow that this program need not know, with its input and output as
    /// JSON, and waits for its result. The version is [`DEFAULT_VERSION`] unless
    /// [`Child::version`] sets another one. See [`Ctx::child`].
    ///
    /// # Errors
    /// Awaiting it returns what [`Ctx::child`] returns, and [`Refused`](ErrorKind::Refused) for an
    /// invalid name. The child itself fails if its workflow does not take this input.
    ///
    /// # Cancel safety
    /// See [`Ctx::child`].
    ///
    /// ```
    /// use serde_json::{Value, json};
    /// use workflow_sdk::prelude::*;
    ///
    /// #[workflow]
    /// async fn dispatch(ctx: &Ctx, task: String) -> Result<Value> {
    ///     ctx.child_by_name(task, &json!({ "cents": 100 })).version("2").await
    /// }
    /// ```
    #[track_caller]
    pub fn child_by_name(&self, workflow: impl Into<String>, input: &Value) -> Child<'_, Value> {
        let (workflow, location) = (workflow.into(), Location::caller());
        let is_valid = check_name(NameSubject::Workflow, &workflow).map_err(|error| refused(error.to_string()));
        let run = is_valid.and_then(|()| self.child_run(&workflow, DEFAULT_VERSION, input));
        self.begin_child(&workflow, run, location)
    }

    fn begin_child<O>(
        &self,
        name: &str,
        run: Result<NewRun, StoredError>,
        location: &'static Location<'static>,
    ) -> Child<'_, O> {
        let asked = run.as_ref().map_err(Clone::clone).and_then(|_| self.key_in_scope(name));
        let call = asked.as_ref().map_err(Clone::clone).and_then(|asked| self.cell.call(asked, location));
        Child {
            cell: &self.cell,
            scope: &self.scope,
            call,
            asked: asked.map(Cow::into_owned).unwrap_or_default(),
            run,
            default_gate: None,
            on_parent_end: None,
            output: PhantomData,
        }
    }

    fn child_run<I>(&self, workflow: &str, version: &str, input: &I) -> Result<NewRun, StoredError>
    where
        I: Serialize + DeserializeOwned,
    {
        let settings = self.cell.settings();
        if settings.depth >= MAX_CHILD_DEPTH {
            return Err(refused(format!(
                "run {} has {MAX_CHILD_DEPTH} parents above it, which is the limit; a workflow that starts itself again and \
                 again should continue as new instead",
                settings.run_id
            )));
        }
        let subject = format!("input of child {workflow:?} of run {}", settings.run_id);
        let (input, _) =
            round_trip(&subject, input, settings.payload_limit).map_err(|error| refused(error.to_string()))?;
        Ok(NewRun {
            gate: None,
            id: settings.run_id,
            lane: Lane { queue: settings.lane.queue.clone(), workflow: workflow.into(), version: version.into() },
            input,
            key: None,
            key_reuse: KeyReuse::Never,
            single: None,
            priority: None,
            start: StartTime::Now,
            deadline: None,
            tags: BTreeMap::new(),
            parent: None,
            depth: settings.depth + 1,
            trace: self.cell.trace_context(),
        })
    }
}

fn refused(message: String) -> StoredError {
    StoredError::new(ErrorKind::Refused, message).fatal()
}

/// A builder for a child: set its options, then await it. Made by [`Ctx::child`].
#[must_use = "a child is not started until it is awaited"]
pub struct Child<'a, O> {
    cell: &'a Arc<RunCell>,
    /// The prefix of the key of each call in the context's scope.
    scope: &'a str,
    call: Result<CallId, StoredError>,
    /// The key of the call before repeats are numbered.
    asked: String,
    /// The new run, without its id and its parent, which the record decides.
    run: Result<NewRun, StoredError>,
    /// The gate that the attribute of the workflow computes, until another one is set.
    default_gate: Option<Result<String, StoredError>>,
    /// `None`: the default, which is another one for a detached child.
    on_parent_end: Option<OnParentEnd>,
    output: PhantomData<fn() -> O>,
}

impl<'a, O> Child<'a, O> {
    fn set(mut self, change: impl FnOnce(&mut NewRun) -> Result<(), String>) -> Self {
        if let Ok(run) = &mut self.run
            && let Err(reason) = change(run)
        {
            self.run = Err(refused(reason));
        }
        self
    }

    /// Sets the name of the child's step, in place of the name of the child's workflow. The call
    /// takes its key anew, so a child keeps its key whatever other children of its workflow are
    /// started beside it. A repeated name gets `:1`, `:2`, ... in the order of these calls.
    /// Default: the name of the child's workflow. Range: 1 to 255 bytes, no control characters.
    ///
    /// Set the name before the child is polled. A later one is refused, with an error of kind
    /// [`Refused`](ErrorKind::Refused) when the child is awaited.
    ///
    /// For a run that is under way, a name on a call that had none is another step: see
    /// [`Ctx::patched`].
    ///
    /// ```
    /// use workflow_sdk::prelude::*;
    ///
    /// # #[workflow]
    /// # async fn refund(ctx: &Ctx, cents: u64) -> Result<u64> { ok(cents) }
    /// #[workflow]
    /// async fn give_back(ctx: &Ctx, cents: u64) -> Result<u64> {
    ///     let net = ctx.child(refund, cents).name("net").await?;
    ///     Ok(net + ctx.child(refund, cents / 5).name("tax").await?)
    /// }
    /// ```
    pub fn name(mut self, name: impl AsRef<str>) -> Self {
        let named = self.take_name(name.as_ref());
        self.set(|_| named)
    }

    fn take_name(&mut self, name: &str) -> Result<(), String> {
        let Ok(call) = self.call else { return Ok(()) };
        check_name(NameSubject::Step, name).map_err(|error| error.to_string())?;
        let asked = key_under(self.scope, name).map_err(|refusal| refusal.message)?;
        if !self.cell.rename(call, &self.asked, &asked) {
            return Err(format!("child {:?} was polled before it was given the name {name:?}", self.asked));
        }
        self.asked = asked.into_owned();
        Ok(())
    }

    /// Lets the child wait behind a gate of its queue: see [`Start::gate`](crate::Start::gate). A
    /// child does not inherit the gate of its parent. Default: the gate that the attribute of the
    /// child's workflow computes from the input, or none. Range: 1 to 255 bytes, no control
    /// characters.
    pub fn gate(mut self, gate: impl Into<String>) -> Self {
        let gate = gate.into();
        self.default_gate = None;
        self.set(|run| {
            check_name(NameSubject::Gate, &gate).map_err(|error| error.to_string())?;
            run.gate = Some(gate);
            Ok(())
        })
    }

    /// Sets the idempotency key, which is unique within the child's workflow: if another run has
    /// the key, the child is refused. A child needs no key to be started only once. If this run is
    /// retried after the failure of the child, the next child of the step takes the key. Default:
    /// none. Range: 1 to 255 bytes, no control characters.
    pub fn key(self, key: impl Into<String>) -> Self {
        let key = key.into();
        self.set(|run| {
            check_name(NameSubject::Key, &key).map_err(|error| error.to_string())?;
            run.key = Some(key);
            Ok(())
        })
    }

    /// Sets the queue in which the child waits for a worker. Default: the queue in the attribute of
    /// the child's workflow, or the queue of this run. Range: 1 to 255 bytes, no control
    /// characters.
    pub fn queue(self, queue: impl Into<String>) -> Self {
        let queue = queue.into();
        self.set(|run| {
            check_queue(&queue).map_err(|error| error.to_string())?;
            run.lane.queue = queue;
            Ok(())
        })
    }

    /// Sets how soon the child is claimed for the first time. Default: [`Priority::Urgent`] for a
    /// child that ends with this run, [`Priority::Normal`] for any other.
    pub fn priority(self, priority: Priority) -> Self {
        self.set(|run| {
            run.priority = Some(priority);
            Ok(())
        })
    }

    /// Sets the version of the child's workflow. A version that no worker serves yet is accepted;
    /// the child waits until one does. Default: the version in the workflow's attribute. Range: 1
    /// to 255 bytes, no control characters.
    pub fn version(self, version: impl Into<String>) -> Self {
        let version = version.into();
        self.set(|run| {
            check_name(NameSubject::Version, &version).map_err(|error| error.to_string())?;
            run.lane.version = version;
            Ok(())
        })
    }

    /// Adds a tag to find the child by; a second value under the same name replaces the first.
    /// Default: none. Range: 1 to 255 bytes each, no control characters; the value may be empty.
    pub fn tag(self, name: impl Into<String>, value: impl Into<String>) -> Self {
        let (name, value) = (name.into(), value.into());
        self.set(|run| {
            run.tags.insert(name, value);
            check_tags(&run.tags).map(drop).map_err(|error| error.to_string())
        })
    }

    /// Delays the start of the child by `delay`, measured from the commit. Default: no delay.
    pub fn delay(self, delay: Duration) -> Self {
        self.set(|run| {
            run.start = StartTime::After(delay);
            Ok(())
        })
    }

    /// Fails the child if it has not ended within this time after its start. Default: none.
    pub fn deadline(self, deadline: Duration) -> Self {
        self.set(|run| {
            run.deadline = Some(StartTime::After(deadline));
            Ok(())
        })
    }

    /// Sets what happens to the child if this run ends first. Default: [`OnParentEnd::Cancel`], or
    /// [`OnParentEnd::Abandon`] for a [detached](Child::detach) child.
    pub fn on_parent_end(mut self, policy: OnParentEnd) -> Self {
        self.on_parent_end = Some(policy);
        self
    }

    /// Starts the child and does not wait for its end. The child continues when this run ends,
    /// unless [`Child::on_parent_end`] or [`DetachedChild::on_parent_end`] says otherwise. Errors
    /// and cancel safety are those of [`Ctx::child`], except that an error of the child is not
    /// returned.
    ///
    /// ```
    /// use workflow_sdk::prelude::*;
    ///
    /// #[workflow]
    /// async fn audit(ctx: &Ctx, order: u64) -> Result<()> {
    ///     ctx.step("audit", async || ok(println!("order {order}"))).await
    /// }
    ///
    /// #[workflow]
    /// async fn checkout(ctx: &Ctx, order: u64) -> Result<RunId> {
    ///     let handle = ctx.child(audit, order).detach().await?;
    ///     Ok(handle.id())
    /// }
    /// ```
    pub fn detach(self) -> DetachedChild<'a, O> {
        DetachedChild(self)
    }

    fn poll_child(&self, detached: bool, cx: &mut Context<'_>) -> Poll<Result<(CallId, Delivered)>> {
        let default_gate = self.default_gate.as_ref().map_or(Ok(None), |gate| gate.as_ref().map(Some));
        let (call, run, gate) = match (&self.call, &self.run, default_gate) {
            (Ok(call), Ok(run), Ok(gate)) => (*call, run, gate.or(run.gate.as_ref())),
            (Err(refusal), _, _) | (_, Err(refusal), _) | (_, _, Err(refusal)) => {
                return Poll::Ready(Err(refusal.clone().into()));
            }
        };
        let child = || {
            let run = NewRun { gate: gate.cloned(), ..run.clone() };
            let default = if detached { OnParentEnd::Abandon } else { OnParentEnd::Cancel };
            ChildCall { run: Box::new(run), on_parent_end: self.on_parent_end.unwrap_or(default), detached }
        };
        match self.cell.poll_child(call, child, cx.waker()) {
            CallPoll::Ended(Delivered::Failed(error)) => Poll::Ready(Err(error.into())),
            CallPoll::Ended(delivered) => Poll::Ready(Ok((call, delivered))),
            CallPoll::Pending | CallPoll::Start { .. } | CallPoll::Run => Poll::Pending,
        }
    }

    /// Decodes the value of a record.
    fn decoded<T: DeserializeOwned>(&self, call: CallId, delivered: Delivered) -> Poll<Result<T>> {
        let Delivered::Recorded(text) = delivered else { return Poll::Pending };
        match decode(&text) {
            Ok(value) => Poll::Ready(Ok(value)),
            Err(error) => {
                self.cell.undecodable(call, std::any::type_name::<T>(), &error.to_string());
                Poll::Pending
            }
        }
    }
}

impl<O: DeserializeOwned> Future for Child<'_, O> {
    type Output = Result<O>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.poll_child(false, cx) {
            Poll::Ready(Ok((call, delivered))) => self.decoded(call, delivered),
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<O> Drop for Child<'_, O> {
    fn drop(&mut self) {
        if let Ok(call) = self.call {
            self.cell.dropped(call);
        }
    }
}

impl<O> fmt::Debug for Child<'_, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Child")
            .field("run", &self.run)
            .field("on_parent_end", &self.on_parent_end)
            .finish_non_exhaustive()
    }
}

/// A builder for a child that this run does not wait for: set its options, then await it. Made by
/// [`Child::detach`].
#[must_use = "a child is not started until it is awaited"]
#[derive(Debug)]
pub struct DetachedChild<'a, O>(Child<'a, O>);

impl<O> DetachedChild<'_, O> {
    /// Sets what happens to the child if this run ends first. Default: [`OnParentEnd::Abandon`].
    pub fn on_parent_end(self, policy: OnParentEnd) -> Self {
        Self(self.0.on_parent_end(policy))
    }
}

impl<O> Future for DetachedChild<'_, O> {
    type Output = Result<ChildHandle<O>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let child = &self.get_mut().0;
        match child.poll_child(true, cx) {
            Poll::Ready(Ok((call, delivered))) => child.decoded(call, delivered).map_ok(ChildHandle::new),
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => Poll::Pending,
        }
    }
}
