use std::fmt;
use std::future::Future;
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::Result;
use workflow_engine::model::{ErrorKind, Retry, StepKind, StoredError};
use workflow_engine::replay::{CallId, StepOptions};

use super::step::{Body, BodyFuture, Step};
use workflow_engine::runtime::{ArmedCompensation, CompensationFuture};

use super::{BodyError, Ctx, RunCell, StepValue};

/// The number of keys that the error of [`Compensation::undoes`] shows at most.
const SHOWN_KEYS: usize = 20;

/// An armed compensation, which undoes a step if the run fails or is canceled. See
/// [`Ctx::compensate`].
///
/// Dropping the value leaves the compensation armed, because `?` and the end of a scope drop the
/// value exactly when the compensation is needed. Only [`Compensation::disarm`] disarms it.
#[must_use = "bind the compensation to a variable: `undoes` checks that its step succeeded, `disarm` keeps it from running"]
pub struct Compensation<'a> {
    cell: &'a Arc<RunCell>,
    call: CallId,
    scope: &'a str,
}

fn run<'a, T: Serialize + DeserializeOwned + Send + 'static>(
    cell: &'a Arc<RunCell>,
    call: CallId,
    options: StepOptions,
    mut body: impl FnMut() -> BodyFuture<'static, T> + Send + 'static,
) -> CompensationFuture<'a> {
    let body: Body<'a, T> = Box::new(move || body());
    let step = Step::with_options(cell, Ok(call), options, body);
    Box::pin(async move { step.await.map(drop) })
}

impl<S: Send + Sync + 'static> Ctx<S> {
    /// Arms a compensation. Call it after the step that it undoes.
    ///
    /// Armed compensations run if the function ends with an error or a panic. The error of a cancel
    /// is one, and a function that has received its deadline has failed, whatever it returns. They
    /// run one after the other, in the reverse order of their calls. Each is a durable step of kind
    /// `compensation`: it is part of the history, has its own retries, and is not interrupted by a
    /// cancel. If one fails for good, the others still run. The run's error then lists the failure
    /// among its causes, and a canceled run ends as failed, with kind
    /// [`Compensation`](ErrorKind::Compensation). No compensation runs if the function succeeds, or
    /// if the worker ends the run before it returns, for example at the limit of its history.
    ///
    /// A run that [continues as new](Ctx::continue_as_new) with an armed compensation fails: keep
    /// the returned value, and disarm it before.
    ///
    /// A compensation runs after the function has returned. So its body does not borrow from the
    /// function: it receives the worker's state as an `Arc`, and a clone of `value`, such as the
    /// payment to refund. Pass `()` if the body needs no value. The body is called once per
    /// attempt.
    /// Like every step, it runs at least once. So give other systems a key that identifies the
    /// refund, for example one made of [`Ctx::run_id`].
    ///
    /// The name works like the name of a step: 1 to 255 bytes without control characters, with
    /// `:1`, `:2`, ... for repeats. The compensation takes its key in this call.
    ///
    /// # Errors
    /// An error of kind [`Refused`](ErrorKind::Refused) for an invalid name, or inside the body of
    /// a step.
    ///
    /// ```
    /// use workflow_sdk::prelude::*;
    ///
    /// struct App;
    /// impl App {
    ///     async fn charge(&self, cents: u64) -> Result<String> { Ok(format!("{cents} cents")) }
    ///     async fn refund(&self, payment: &str) -> Result<()> { Ok(()) }
    ///     async fn ship(&self) -> Result<()> { Ok(()) }
    /// }
    ///
    /// #[workflow]
    /// async fn checkout(ctx: &Ctx<App>, cents: u64) -> Result<()> {
    ///     let app = ctx.state();
    ///     let payment = ctx.step("charge", || app.charge(cents)).await?;
    ///     let _refund = ctx.compensate("refund", payment, async |app, payment| {
    ///         app.refund(&payment).await
    ///     })?;
    ///     ctx.step("ship", || app.ship()).await
    /// }
    /// ```
    #[track_caller]
    pub fn compensate<V, B, F, T, E>(&self, name: impl AsRef<str>, value: V, mut body: B) -> Result<Compensation<'_>>
    where
        V: Clone + Send + 'static,
        B: FnMut(Arc<S>, V) -> F + Send + 'static,
        F: Future<Output = Result<T, E>> + Send + 'static,
        T: StepValue + 'static,
        E: BodyError + 'static,
    {
        let call = self.call_named(name.as_ref(), Location::caller())?;
        let state = Arc::clone(&self.state);
        let body = move || -> BodyFuture<'static, T> {
            let attempt = body(Arc::clone(&state), value.clone());
            Box::pin(async move { attempt.await.map_err(BodyError::into_error) })
        };
        let options = StepOptions { kind: StepKind::Compensation, retry: Retry::COMPENSATION_DEFAULT, timeout: None };
        self.cell.arm(ArmedCompensation {
            call,
            options,
            run: Box::new(move |cell, call, options| run(cell, call, options, body)),
        });
        Ok(Compensation { cell: &self.cell, call, scope: &self.scope })
    }
}

impl Compensation<'_> {
    /// Sets the retry policy of failed attempts. Default: [`Retry::COMPENSATION_DEFAULT`].
    pub fn retry(self, retry: Retry) -> Self {
        self.set(|options| options.retry = retry)
    }

    /// Limits the duration of one attempt. When it has passed, the body is dropped and the attempt
    /// fails with kind [`Timeout`](ErrorKind::Timeout), which is retried. Default: none.
    pub fn timeout(self, timeout: Duration) -> Self {
        self.set(|options| options.timeout = Some(timeout))
    }

    fn set(self, change: impl FnOnce(&mut StepOptions)) -> Self {
        self.cell.with_compensations(|armed| {
            if let Some(armed) = armed.iter_mut().find(|armed| armed.call == self.call) {
                change(&mut armed.options);
            }
        });
        self
    }

    /// Checks that there is something to undo: a call with this key must have succeeded in this
    /// run. The key is that of a call in the scope of this compensation (`charge`, `charge:1`), or
    /// the whole key as it stands in the history (`trip/charge`).
    ///
    /// # Errors
    /// An error of kind [`Refused`](ErrorKind::Refused) if no call with this key has succeeded. The
    /// error lists the keys of the calls that have. The compensation is disarmed then.
    ///
    /// ```
    /// use workflow_sdk::prelude::*;
    ///
    /// #[workflow]
    /// async fn checkout(ctx: &Ctx) -> Result<()> {
    ///     ctx.step("charge", async || ok(())).await?;
    ///     let refund = ctx.compensate("refund", (), async |_, ()| ok(()))?;
    ///     let refund = refund.undoes("charge")?;
    ///     let picked_up = ctx.step("ship", async || ok(true)).await?;
    ///     if picked_up {
    ///         // From here on the payment is not refunded, even if the run fails later.
    ///         refund.disarm();
    ///     }
    ///     Ok(())
    /// }
    /// ```
    pub fn undoes(self, key: &str) -> Result<Self> {
        let scoped = format!("{}{key}", self.scope);
        let succeeded: Vec<String> =
            self.cell.with_machine(|machine| machine.succeeded().map(ToOwned::to_owned).collect());
        if succeeded.iter().any(|other| *other == scoped || other == key) {
            return Ok(self);
        }
        let name = self.cell.step_key(self.call);
        self.disarm();
        let shown: Vec<&str> = succeeded.iter().take(SHOWN_KEYS).map(String::as_str).collect();
        let more = if succeeded.len() > SHOWN_KEYS { ", and more" } else { "" };
        let message = format!(
            "compensation {name:?} is to undo {scoped:?}, but no call with that key has succeeded in this run; \
             these have: {shown:?}{more}; call ctx.compensate after the step that it undoes"
        );
        Err(StoredError::new(ErrorKind::Refused, message).fatal().into())
    }

    /// Disarms the compensation: it does not run, however the run ends.
    pub fn disarm(self) {
        let call = self.call;
        let disarmed = self.cell.with_compensations(|armed| {
            let index = armed.iter().position(|armed| armed.call == call);
            index.map(|index| armed.remove(index))
        });
        // Dropped outside of the lock, because it holds the author's closure.
        drop(disarmed);
    }
}

impl fmt::Debug for Compensation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compensation").field("key", &self.cell.step_key(self.call)).finish_non_exhaustive()
    }
}
