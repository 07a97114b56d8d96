//! The `#[workflow]` attribute and the `StepError` derive of `workflow-sdk`.
//!
//! Do not depend on this crate directly. The SDK re-exports both macros, and the code that they
//! generate refers to the SDK.
//!
//! `#[workflow]` is expanded in stages:
//!
//! 1. `parse` turns tokens into plain structures.
//! 2. `model` checks them and returns a `Definition` or the errors. It calls `lint` for the body.
//! 3. `expand` turns a definition into tokens. It cannot fail.
//! 4. `fallback` replaces `expand` after an error. It keeps the function in the program.
//!
//! `step_error` has similar stages for the derive.

mod expand;
mod fallback;
mod lint;
mod model;
mod parse;
mod step_error;

use proc_macro::TokenStream;

/// Turns an `async fn` into a workflow that a client can start and a worker can run.
///
/// ```text
/// #[workflow]
/// async fn checkout(ctx: &Ctx<App>, order: Order) -> Result<Receipt> {
///     let app = ctx.state();
///     let hold = ctx.step("reserve", || app.stock.reserve(&order)).await?;
///     let paid = ctx.step("charge", || app.bank.charge(&order)).await?;
///     Ok(Receipt { hold, paid })
/// }
///
/// client.start(checkout, order).await?;
/// worker.register(checkout);
/// ```
///
/// # The function
///
/// * **Function**: a free `async fn` without generics. Its docs, attributes and visibility are
///   kept.
/// * **First argument**: `ctx: &Ctx<S>`, where `S` is the state of the worker. A workflow without
///   state takes `ctx: &Ctx`, and any worker can run it.
/// * **Second argument**: optional. It is one input that owns its data and implements `Serialize`,
///   `DeserializeOwned` and `Send`. It may be a pattern.
/// * **Return type**: `Result<T>`, `Result<T, E>` or an alias of either. `T` implements
///   `Serialize`, `DeserializeOwned` and `Send`, and `E` implements `Into<Error>`.
/// * **Body**: any code whose future is `Send`.
///
/// # Options
///
/// * `name = "checkout"` sets the name that is stored with each run and by which workers find the
///   function. Set it before you rename the function.
///   Default: the name of the function. Range: 1 to 255 bytes, no control characters.
/// * `version = "2"` sets the version that is stored with each new run.
///   Default: `"1"`. Range: 1 to 255 bytes, no control characters.
/// * `allow(wall_clock, files)` lists the rules of determinism that the body may break.
///   Default: none. Range: the rules below.
/// * `crate = "my_app::workflow_sdk"` sets the path of the SDK, if it is re-exported or renamed.
///   Default: `::workflow_sdk`. Range: a path.
/// * `retry = Retry::exponential().max_attempts(3)` sets `Workflow::RETRY`, the policy by which a
///   failed run is attempted again.
///   Default: no further attempt. Range: a constant expression of type `Retry`.
/// * `queue = "accounts"` sets `Workflow::QUEUE`, the queue of each start that names none: of
///   clients, parents and schedules. A start by name does not know the attribute. A worker that
///   names no queues serves this one too.
///   Default: `default`; for a child, the queue of its parent. Range: 1 to 255 bytes, no control
///   characters.
/// * `gate = |input: &Order| &input.account` computes the gate of each start that names none, as
///   `Workflow::gate`. It is called where the run is started, before anything is stored.
///   Default: no gate. Range: a closure over a reference to the input that captures nothing and
///   returns text (`AsRef<str>`) of 1 to 255 bytes without control characters. Other text is
///   refused by the start.
///
/// # Determinism
///
/// Outside of steps, the body must do the same in each replay. The macro refuses the common ways to
/// break this rule and says what to write instead. The closures of `step`, `transaction` and
/// `compensate` may do anything.
///
/// | Rule | Refused code |
/// |---|---|
/// | `wall_clock` | `SystemTime::now`, `Instant::now`, `Utc::now`, `Local::now`, `Zoned::now` |
/// | `randomness` | `rand`, `fastrand`, `Uuid::new_v4`, `Uuid::now_v7` |
/// | `spawn` | `tokio::spawn`, `tokio::task`, `thread::spawn`, `process::Command::new` |
/// | `tokio_time` | `tokio::time::sleep`, `timeout`, `interval`, `smol::Timer` |
/// | `unbiased_select` | `select!`, `join!` of `tokio` without `biased;`, `futures::select!` |
/// | `blocking_sleep` | `thread::sleep` |
/// | `environment` | `std::env`, `process::id` |
/// | `files` | `std::fs`, `tokio::fs` |
/// | `network` | `std::net`, `tokio::net`, `reqwest` |
/// | `map_order` | iteration over a `HashMap` or `HashSet` without a later sort |
/// | `static_mut` | `static mut` in the body |
/// | `repeated_name` | two calls with the same literal name, such as `ctx.step("mail", ..)` twice |
///
/// The macro reads only the words of this one function. It cannot look behind a call, an alias or a
/// trait. `docs/guide/determinism.md` in the repository explains the limits, and `docs/clippy.toml`
/// has the same list for clippy.
///
/// # Generated code
///
/// The macro generates a hidden type that implements `Workflow` and `RunsWith`, and a function
/// `checkout()` without arguments that returns it. The author's function becomes an associated
/// function of the type, and its body stays as it is. Inside and outside of the body, `checkout` is
/// therefore the workflow: a value to pass to `start`, `child` and `register`.
///
/// A variable, a parameter, a module or a type may have the name of the workflow. Another function
/// of the module may not.
#[proc_macro_attribute]
pub fn workflow(options: TokenStream, item: TokenStream) -> TokenStream {
    expand_workflow(options.into(), item.into()).into()
}

/// Implements `StepError`, so that an error of this type controls the retries of its step.
///
/// The error is stored as a value. A workflow gets the value back with `downcast`, also in a
/// replay.
///
/// ```text
/// #[derive(Debug, thiserror::Error, Serialize, Deserialize, StepError)]
/// enum CardError {
///     #[error("the card was stolen")]
///     #[retry(never)]
///     Stolen,
///     #[error("the bank is busy")]
///     #[retry(after = pause)]
///     Busy { pause: Duration },
///     #[error("the bank is away")]
///     Away,
/// }
///
/// match ctx.step("charge", || charge(cents)).await {
///     Err(error) => match error.downcast::<CardError>() { .. },
///     ..
/// }
/// ```
///
/// # The type
///
/// An enum or a struct without generics. It implements `std::error::Error` and derives `Serialize`
/// and `Deserialize`.
///
/// # `#[retry(...)]`, on a variant or on a struct
///
/// * `never`: no attempt follows.
/// * `after = field`: the next attempt starts after the delay in this field. The field is a
///   `Duration` or an `Option<Duration>`, and with `None` the step's policy decides. A field of a
///   tuple is named by its index, as in `after = 0`.
/// * `policy`: the step's policy decides. This is the default.
///
/// On an enum, `#[retry(never)]` is the default for all variants, and `#[retry(policy)]` on a
/// variant overrides it.
///
/// # `#[step_error(...)]`, on the type
///
/// * `name = "card error"` sets the name under which values are stored and found again. Set it
///   before you rename or move the type.
///   Default: the path of the type. Range: 1 to 255 bytes, no control characters.
/// * `crate = "my_app::workflow_sdk"` sets the path of the SDK, if it is re-exported or renamed.
///   Default: `::workflow_sdk`. Range: a path.
#[proc_macro_derive(StepError, attributes(retry, step_error))]
pub fn step_error(item: TokenStream) -> TokenStream {
    step_error::derive(item.into()).into()
}

fn expand_workflow(options: proc_macro2::TokenStream, item: proc_macro2::TokenStream) -> proc_macro2::TokenStream {
    let function = match parse::function(item.clone()) {
        Ok(function) => function,
        Err(error) => return fallback::as_written(item, &error),
    };
    match model::check(parse::args(options), function) {
        Ok(definition) => expand::expand(&definition),
        Err(refused) => fallback::expand(item, &refused),
    }
}

#[cfg(test)]
mod tests;
