use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::{Error, Result};
use workflow_engine::faults::planted;
use workflow_engine::model::{Breaker, ErrorKind, NameSubject, Retry, SeatLine, StoredError, check_name};
use workflow_engine::replay::{CallId, CallPoll, Delivered, StepOptions};
use workflow_engine::runtime::{PayloadError, decode, fingerprint, round_trip};

use super::{RunCell, StepValue};
use workflow_engine::runtime::panic_error;

pub(super) type BodyFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;
pub(super) type Body<'a, T> = Box<dyn FnMut() -> BodyFuture<'a, T> + Send + 'a>;

/// A builder for a step: set its options, then await it. Made by [`Ctx::step`](crate::Ctx::step)
/// and [`Ctx::send_signal`](crate::Ctx::send_signal).
#[must_use = "a step does nothing until it is awaited"]
pub struct Step<'a, T> {
    cell: &'a Arc<RunCell>,
    call: Result<CallId, StoredError>,
    pub(super) options: StepOptions,
    breaker: Option<Breaker>,
    /// The limit, and the key under which the step counts.
    limit: Option<Box<SeatLine>>,
    body: Body<'a, T>,
    encoding: Encoding<T>,
    running: Option<(u32, BodyFuture<'a, T>)>,
    /// The value of the attempt that succeeded, until its record is committed.
    kept: Option<T>,
}

/// No field is pinned in place, because the body's future is boxed.
impl<T> Unpin for Step<'_, T> {}

type RoundTrip<T> = fn(&OutputOf<'_>, &T, usize) -> Result<(String, T), PayloadError>;

/// The functions that store the value and read it back. A step keeps both, so that the compiler
/// reports a value that cannot be stored once: where the step is made, not where it is awaited.
struct Encoding<T> {
    /// Returns the value as text, and the value that the text decodes to.
    round_trip: RoundTrip<T>,
    decode: fn(&str) -> serde_json::Result<T>,
    /// Whether two values are serialized differently.
    differ: fn(&T, &T) -> bool,
}

impl<'a, T: StepValue> Step<'a, T> {
    pub(super) fn new(cell: &'a Arc<RunCell>, call: Result<CallId, StoredError>, body: Body<'a, T>) -> Self {
        Self::with_options(cell, call, StepOptions::default(), body)
    }

    pub(super) fn with_options(
        cell: &'a Arc<RunCell>,
        call: Result<CallId, StoredError>,
        options: StepOptions,
        body: Body<'a, T>,
    ) -> Self {
        let encoding = Encoding {
            round_trip: |subject, value, limit| round_trip(subject, value, limit),
            decode: decode::<T>,
            differ: |one, other| fingerprint(one) != fingerprint(other),
        };
        Self { cell, call, options, breaker: None, limit: None, body, encoding, running: None, kept: None }
    }
}

impl<T> Step<'_, T> {
    /// Sets the retry policy of failed attempts. An error can overrule it: see
    /// [`ErrorExt`](crate::ErrorExt) and [`StepError`](trait@crate::StepError). Default:
    /// [`Retry::STEP_DEFAULT`].
    pub fn retry(mut self, retry: Retry) -> Self {
        self.options.retry = retry;
        self
    }

    /// Limits the duration of one attempt. When it has passed, the body is dropped and the attempt
    /// fails with an error of kind [`Timeout`](ErrorKind::Timeout), which is retried. Default:
    /// none.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.options.timeout = Some(timeout);
        self
    }

    /// Shares this breaker with every step that names it. While the service behind it fails, no
    /// attempt of this step begins, and the run parks. Default: none. If the breaker is [out of
    /// range](Breaker::check), the step fails with an error of kind
    /// [`Refused`](ErrorKind::Refused).
    ///
    /// ```
    /// use std::time::Duration;
    /// use workflow_sdk::prelude::*;
    ///
    /// /// One policy for every step that calls the bank.
    /// const BANK: Breaker = Breaker::new("bank").failures(20).open_for(Duration::from_secs(10));
    ///
    /// # async fn hold(_cents: u64) -> Result<u64, std::io::Error> { Ok(7) }
    /// # async fn charge(_hold: u64) -> Result<(), std::io::Error> { Ok(()) }
    /// #[workflow]
    /// async fn pay(ctx: &Ctx, cents: u64) -> Result<()> {
    ///     let held = ctx.step("hold", || hold(cents)).breaker(BANK).await?;
    ///     ctx.step("charge", || charge(held)).breaker(BANK).timeout(Duration::from_secs(5)).await
    /// }
    /// ```
    pub fn breaker(mut self, breaker: Breaker) -> Self {
        if let (Ok(call), Err(refusal)) = (&self.call, breaker.check()) {
            self.cell.dropped(*call);
            self.call = Err(StoredError::new(ErrorKind::Refused, refusal.to_string()).fatal());
        }
        self.breaker = Some(breaker);
        self
    }

    /// Lets at most as many bodies run at once as the limit with this name allows, per `key` and
    /// over all workers and workflows of the database. A worker declares the limit
    /// (`Worker::limit`), and an operator may set another rule: see
    /// [`Client::limit`](crate::Client::limit). Default: no limit.
    ///
    /// An attempt begins once it has a seat. Seats are given in the order in which attempts ask,
    /// and a seat is held only while a body runs: not during a back-off. A run that waits longer
    /// for a seat than the worker's `linger` is parked, keeps its place, and occupies no worker. If
    /// the worker dies, its seats are free as soon as its runs are claimed again. The
    /// [timeout](Step::timeout) counts from the beginning of the body.
    ///
    /// If the limit has a rate, an attempt gets its seat when the rate lets its body begin. Each
    /// attempt counts. A begin counts at the commit that gives the seat. So a body whose worker
    /// dies after that commit may count twice, but no body begins without counting.
    ///
    /// Range of both texts: 1 to 255 bytes, no control characters. If one is out of range, if the
    /// step has a limit already, or if the limit is neither declared nor set, the step fails with
    /// an error of kind [`Refused`](ErrorKind::Refused).
    ///
    /// ```
    /// use workflow_sdk::prelude::*;
    ///
    /// # async fn llm(_prompt: &str) -> Result<String, std::io::Error> { Ok("42".into()) }
    /// #[workflow]
    /// async fn answer(ctx: &Ctx, account: String) -> Result<String> {
    ///     ctx.step("ask", || llm("why?")).limit("llm", &account).await
    /// }
    /// ```
    pub fn limit(mut self, name: impl Into<String>, key: impl Into<String>) -> Self {
        let line = SeatLine { limit: name.into(), key: key.into() };
        let refusal = match &self.limit {
            Some(first) => Some(format!(
                "the step has the limit {:?} already, and {:?} would be a second one; put one of the two bodies into \
                 a step of its own",
                first.limit, line.limit
            )),
            None => {
                let checked = check_name(NameSubject::Limit, &line.limit);
                checked
                    .and_then(|()| check_name(NameSubject::LimitKey, &line.key))
                    .err()
                    .map(|refusal| refusal.to_string())
            }
        };
        if let (Ok(call), Some(refusal)) = (&self.call, refusal) {
            self.cell.dropped(*call);
            self.call = Err(StoredError::new(ErrorKind::Refused, refusal).fatal());
        }
        self.limit = Some(Box::new(line));
        self
    }
}

impl<T> Step<'_, T> {
    /// Drops the body. Its destructors (which may draw a random number, say) belong to the body and
    /// not to the workflow, so a replay does not repeat them.
    fn drop_body(&mut self, call: CallId) {
        if let Some(body) = self.running.take() {
            let (_in_body, _) = self.cell.enter(call);
            drop(body);
        }
    }
}

impl<'a, T: Send + 'a> Future for Step<'a, T> {
    type Output = Result<T>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let step = self.get_mut();
        let call = match &step.call {
            Ok(call) => *call,
            Err(refusal) => return Poll::Ready(Err(refusal.clone().into())),
        };
        loop {
            if let Some(line) = &step.limit {
                step.cell.ask_for_seat(call, step.options, line);
            }
            if let Some(breaker) = &step.breaker {
                step.cell.ask_breaker(call, step.options, breaker);
            }
            match step.cell.poll_step(call, step.options, cx.waker()) {
                CallPoll::Pending => {
                    step.drop_stale_body(call);
                    return Poll::Pending;
                }
                CallPoll::Start { attempt } => step.begin(call, attempt),
                CallPoll::Run => {}
                CallPoll::Ended(delivered) => {
                    // The body of an interrupted attempt may still exist.
                    step.drop_body(call);
                    return step.take(call, delivered);
                }
            }
            match step.poll_body(call) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(result) => step.end_attempt(call, result),
            }
        }
    }
}

impl<'a, T: Send + 'a> Step<'a, T> {
    fn begin(&mut self, call: CallId, attempt: u32) {
        self.drop_body(call);
        let (_in_body, _) = self.cell.enter(call);
        let body = &mut self.body;
        self.running = match catch_unwind(AssertUnwindSafe(body)) {
            Ok(future) => match self.cell.body_begins(call) {
                Some(first) => Some((
                    attempt,
                    Box::pin(async move {
                        first.await;
                        future.await
                    }),
                )),
                None => Some((attempt, future)),
            },
            Err(panic) => {
                let error = Error::from(panic_error("the body of a step", panic.as_ref()));
                Some((attempt, Box::pin(std::future::ready(Err(error)))))
            }
        };
    }

    fn poll_body(&mut self, call: CallId) -> Poll<Result<T>> {
        let Some((_, future)) = &mut self.running else { return Poll::Pending };
        let (_in_body, waker) = self.cell.enter(call);
        catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(&mut Context::from_waker(&waker))))
            .unwrap_or_else(|panic| Poll::Ready(Err(panic_error("the body of a step", panic.as_ref()).into())))
    }

    fn end_attempt(&mut self, call: CallId, result: Result<T>) {
        self.drop_body(call);
        let result = result.map_err(Error::into_stored).and_then(|value| {
            let (text, decoded) =
                (self.encoding.round_trip)(&OutputOf { cell: self.cell, call }, &value, self.cell.payload_limit())
                    .map_err(|error| StoredError::new(ErrorKind::Refused, error.to_string()).fatal())?;
            if text.len() <= MOST_COMPARED && (self.encoding.differ)(&value, &decoded) {
                warn_of_change(self.cell, call, std::any::type_name::<T>());
            }
            self.kept = Some(if planted("undecoded-first-value") { value } else { decoded });
            Ok(text)
        });
        self.cell.attempt_ended(call, result);
    }

    /// Drops the body of an attempt that has timed out. The attempt is over for the machine, so its
    /// body must not continue.
    fn drop_stale_body(&mut self, call: CallId) {
        if let Some((attempt, _)) = &self.running
            && !self.cell.runs_attempt(call, *attempt)
        {
            self.drop_body(call);
            self.cell.close_body(call, Some(ErrorKind::Timeout));
        }
    }

    fn take(&mut self, call: CallId, delivered: Delivered) -> Poll<Result<T>> {
        match delivered {
            Delivered::Failed(error) => Poll::Ready(Err(error.into())),
            Delivered::Kept => self.kept.take().map_or(Poll::Pending, |value| Poll::Ready(Ok(value))),
            Delivered::Recorded(text) => match (self.encoding.decode)(&text) {
                Ok(value) => Poll::Ready(Ok(value)),
                Err(error) => {
                    self.cell.undecodable(call, std::any::type_name::<T>(), &error.to_string());
                    Poll::Pending
                }
            },
        }
    }
}

/// The longest text, in bytes, of a value that is compared with its decoded form.
const MOST_COMPARED: usize = 64 * 1024;

/// Warns of a value that the workflow sees in another form than the body has returned, once for
/// each step in the source and each worker.
fn warn_of_change(cell: &RunCell, call: CallId, type_name: &str) {
    let location = cell.with_machine(|machine| machine.location(call));
    let message = format!(
        "the value of step {:?}, of type {type_name}, changes in JSON: the workflow sees another value than the body \
         returned; see \"Values that change\" in docs/guide/rules-of-the-road.md; the step is at {location}",
        cell.step_key(call)
    );
    cell.port().warn_once(&location.to_string(), &message);
}

/// The name of a step's value in an error. It is formatted only when there is an error.
struct OutputOf<'a> {
    cell: &'a RunCell,
    call: CallId,
}

impl fmt::Display for OutputOf<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "output of step {:?} of run {}", self.cell.step_key(self.call), self.cell.run_id())
    }
}

impl<T> Drop for Step<'_, T> {
    fn drop(&mut self) {
        if let Ok(call) = self.call {
            self.drop_body(call);
            self.cell.dropped(call);
        }
    }
}

impl<T> fmt::Debug for Step<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Step").field("call", &self.call).field("options", &self.options).finish_non_exhaustive()
    }
}
