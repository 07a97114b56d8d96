use std::fmt;
use std::future::Future;
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::BoxError;
use crate::Result;
use workflow_engine::model::{ErrorKind, Retry, StepKind, StoredError};
use workflow_engine::replay::{CallId, StepOptions};

use super::step::{Body, BodyFuture, Step};
use workflow_engine::runtime::{ArmedCompensation, CompensationFuture};

use super::{Ctx, RunCell};

/// Keys that the refusal of [`Compensation::undoes`] shows at most.
const SHOWN_KEYS: usize = 20;

/// An armed compensation: what undoes a step if the run fails or is canceled. See [`Ctx::compensate`].
///
/// Dropping it leaves it armed, for `?` and the end of a scope drop it, and that is when it is needed. Only
/// [`Compensation::disarm`] takes it back.
#[must_use = "give the compensation a name: it can be limited to a step that succeeded (`undoes`) and taken back (`disarm`)"]
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
    /// Arms a compensation: call it after the step that it undoes.
    ///
    /// If the function ends with an error or a panic, or the run is canceled or passes its deadline and the function hands
    /// that error on, the armed compensations run, in the reverse order of their calls, one after the other. Each is a
    /// durable step of kind `compensation`, is seen in the history, has its own retries, and is not interrupted by a cancel.
    /// One that fails for good does not stop the others: the run's error then lists it among its causes, and a canceled run
    /// ends failed, with kind [`Compensation`](ErrorKind::Compensation). If the function succeeds none runs.
    ///
    /// A compensation runs after the function has returned, so its body owns what it uses, and gets the worker's state as an
    /// `Arc`. It is called once for each attempt: a body that moves a captured value clones it first. As every step it runs
    /// at least once, so tell outside systems by a key which refund it is, one made of [`Ctx::run_id`], say.
    ///
    /// The name is a step's: 1 to 255 bytes without control characters, `:1`, `:2`, ... for repeats. It takes its key here.
    ///
    /// # Errors
    /// Kind [`Refused`](ErrorKind::Refused): for an invalid name, and inside the body of a step.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use workflow_sdk::prelude::*;
    ///
    /// struct App;
    /// impl App {
    ///     async fn charge(&self, cents: u64) -> Result<String> { Ok(format!("payment of {cents}")) }
    ///     async fn refund(&self, payment: &str) -> Result<()> { Ok(()) }
    ///     async fn ship(&self) -> Result<()> { Ok(()) }
    /// }
    ///
    /// #[workflow]
    /// async fn checkout(ctx: &Ctx<App>, cents: u64) -> Result<()> {
    ///     let app = ctx.state();
    ///     let payment = ctx.step("charge", || app.charge(cents)).await?;
    ///     let _refund = ctx.compensate("refund", move |app: Arc<App>| {
    ///         let payment = payment.clone();
    ///         async move { app.refund(&payment).await }
    ///     })?;
    ///     ctx.step("ship", || app.ship()).await
    /// }
    /// ```
    #[track_caller]
    pub fn compensate<B, F, T, E>(&self, name: impl AsRef<str>, mut body: B) -> Result<Compensation<'_>>
    where
        B: FnMut(Arc<S>) -> F + Send + 'static,
        F: Future<Output = Result<T, E>> + Send + 'static,
        T: Serialize + DeserializeOwned + Send + 'static,
        E: Into<BoxError> + 'static,
    {
        let call = self.call_named(name.as_ref(), Location::caller())?;
        let state = Arc::clone(&self.state);
        let body = move || -> BodyFuture<'static, T> {
            let attempt = body(Arc::clone(&state));
            Box::pin(async move { attempt.await.map_err(|error| crate::Error::from_boxed(error.into())) })
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
    /// What follows a failed attempt. Default: [`Retry::COMPENSATION_DEFAULT`].
    pub fn retry(self, retry: Retry) -> Self {
        self.set(|options| options.retry = retry)
    }

    /// How long one attempt may take; after it the body is dropped, and the attempt failed with kind
    /// [`Timeout`](ErrorKind::Timeout), which is retried. Default: as long as it takes.
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

    /// Makes sure that it undoes something: a call of this key, as it stands in the history (`charge`, `charge:1`), has
    /// succeeded in this run.
    ///
    /// # Errors
    /// Kind [`Refused`](ErrorKind::Refused) if none has; the error lists the keys of those that have. The compensation is
    /// disarmed then.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use workflow_sdk::prelude::*;
    ///
    /// #[workflow]
    /// async fn checkout(ctx: &Ctx) -> Result<()> {
    ///     ctx.step("charge", async || Ok::<_, Error>(())).await?;
    ///     let refund = ctx.compensate("refund", |_: Arc<()>| async { Ok::<_, Error>(()) })?.undoes("charge")?;
    ///     let picked_up = ctx.step("ship", async || Ok::<_, Error>(true)).await?;
    ///     if picked_up {
    ///         // From here on nothing is paid back, whatever fails later.
    ///         refund.disarm();
    ///     }
    ///     Ok(())
    /// }
    /// ```
    pub fn undoes(self, key: &str) -> Result<Self> {
        let key = format!("{}{key}", self.scope);
        let succeeded: Vec<String> =
            self.cell.with_machine(|machine| machine.succeeded().map(ToOwned::to_owned).collect());
        if succeeded.contains(&key) {
            return Ok(self);
        }
        let name = self.cell.step_key(self.call);
        self.disarm();
        let shown: Vec<&str> = succeeded.iter().take(SHOWN_KEYS).map(String::as_str).collect();
        let more = if succeeded.len() > SHOWN_KEYS { ", and more" } else { "" };
        let message = format!(
            "compensation {name:?} is to undo {key:?}, but no call of that key has succeeded in this run; \
             these have: {shown:?}{more}; register it after the step that it undoes"
        );
        Err(StoredError::new(ErrorKind::Refused, message).fatal().into())
    }

    /// Takes it back: it will not run, whatever becomes of the run.
    pub fn disarm(self) {
        let call = self.call;
        let disarmed = self.cell.with_compensations(|armed| {
            let place = armed.iter().position(|armed| armed.call == call);
            place.map(|place| armed.remove(place))
        });
        // Outside of the lock: it is the author's closure that is dropped.
        drop(disarmed);
    }
}

impl fmt::Debug for Compensation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compensation").field("key", &self.cell.step_key(self.call)).finish_non_exhaustive()
    }
}
