//! The `#[workflow]` attribute and the `StepError` derive of `workflow-sdk`.
//!
//! Not for use on its own: the SDK re-exports both, and what they write refers to the SDK.
//!
//! The way through the crate: `parse` turns tokens into syntax, `model` refuses or yields a `Definition`, `expand` turns
//! a definition into tokens and cannot fail, and `fallback` keeps a refused function in the program. On its way `model` asks
//! `lint` about the body.
//! `step_error` goes the same way for the derive.

mod expand;
mod fallback;
mod lint;
mod model;
mod parse;
mod step_error;

use proc_macro::TokenStream;

/// Makes an `async fn` a workflow that a client can start and a worker can run.
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
/// | Part | What is accepted |
/// |---|---|
/// | Function | a free `async fn` without generics; its docs, attributes and visibility are kept |
/// | First argument | `ctx: &Ctx<S>`, where `S` is the state of the worker; `ctx: &Ctx` for a workflow that needs none, which any worker can run |
/// | Second argument | none, or one input that owns its data and is `Serialize`, `DeserializeOwned` and `Send`; it may be a pattern |
/// | Return type | `Result<T>` or `Result<T, E>`, or an alias of it; `T` is `Serialize`, `DeserializeOwned` and `Send`, and `E` is `Into<Error>` |
/// | Body | any code whose future is `Send` |
///
/// # Options
///
/// | Option | Meaning | Default | Range |
/// |---|---|---|---|
/// | `name = "checkout"` | the name under which runs are stored and workers find the function; set it before you rename the function | the name of the function | 1 to 255 bytes, no control characters |
/// | `version = "2"` | the version stored with each new run | `"1"` | 1 to 255 bytes, no control characters |
/// | `allow(wall_clock, files)` | the rules of determinism that the body may break | none | the names below |
/// | `crate = "my_app::workflow_sdk"` | where to find the SDK, if it is re-exported or renamed | `::workflow_sdk` | a path |
/// | `retry = Retry::exponential().max_attempts(3)` | what follows a failed attempt of the run, as `Workflow::RETRY` | none follows | a constant expression of type `Retry` |
///
/// # Determinism
///
/// Outside of steps the body gives the same in each replay. What commonly breaks that is refused, with what to write
/// instead; in the closures of `step`, `transaction` and `compensate` everything goes.
///
/// | Rule | What it refuses |
/// |---|---|
/// | `wall_clock` | `SystemTime::now`, `Instant::now`, `Utc::now`, `Local::now`, `Zoned::now` |
/// | `randomness` | `rand`, `fastrand`, `Uuid::new_v4`, `Uuid::now_v7` |
/// | `spawn` | `tokio::spawn`, `tokio::task`, `thread::spawn` |
/// | `tokio_time` | `tokio::time::sleep`, `timeout`, `interval` |
/// | `unbiased_select` | `tokio::select!` without `biased;`, `futures::select!` |
/// | `blocking_sleep` | `thread::sleep` |
/// | `environment` | `std::env` |
/// | `files` | `std::fs`, `tokio::fs` |
/// | `network` | `std::net`, `tokio::net`, `reqwest` |
/// | `map_order` | iteration over a `HashMap` or a `HashSet` that is not sorted afterwards |
/// | `static_mut` | `static mut` in the body |
///
/// It reads the words of this one function: what is behind a call, an alias or a trait it cannot see. `docs/guide/determinism.md` of
/// the repository says more, and has the same list for clippy.
///
/// # What it writes
///
/// A unit struct with the name of the function, which implements `Workflow` and `RunsWith`. The function itself becomes an
/// associated function of that struct, its body as written, so inside and outside of it `checkout` is the workflow: a value
/// for `start` and `register`, not something to call.
///
/// As a struct, its name is also that of a type. It cannot stand in one module with a type or a module of the same name, and
/// a `let` cannot bind that name where the workflow is in scope.
#[proc_macro_attribute]
pub fn workflow(options: TokenStream, item: TokenStream) -> TokenStream {
    expand_workflow(options.into(), item.into()).into()
}

/// Makes an error type one that says how a step goes on after it, and that comes back as a value.
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
/// An enum or a struct without generics that is a `std::error::Error` and derives `Serialize` and `Deserialize`.
///
/// # `#[retry(...)]`, on a variant or on a struct
///
/// | Option | Meaning |
/// |---|---|
/// | `never` | no attempt follows |
/// | `after = field` | the next attempt comes after the delay in this field, a `Duration` or an `Option<Duration>`, where `None` leaves it to the policy; a field of a tuple has its index for a name, as in `after = 0` |
/// | `policy` | the step's policy decides; the default |
///
/// On an enum, `#[retry(never)]` is the default for all of its variants, and `#[retry(policy)]` on a variant undoes it.
///
/// # `#[step_error(...)]`, on the type
///
/// | Option | Meaning | Default | Range |
/// |---|---|---|---|
/// | `name = "card error"` | the name under which values are stored and found again; set it before you rename or move the type | the path of the type | 1 to 255 bytes, no control characters |
/// | `crate = "my_app::workflow_sdk"` | where to find the SDK, if it is re-exported or renamed | `::workflow_sdk` | a path |
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
