use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::panic::Location;
use std::sync::Arc;

use workflow_engine::model::{ErrorKind, StoredError, check_scope};

use super::Ctx;

/// The longest key of a call in bytes, with its scopes but without the number of a repeat. Keys are
/// part of the primary key of the history, whose entries PostgreSQL limits to 2704 bytes. They are
/// also part of the idempotency keys that other systems must accept.
const MAX_KEY_BYTES: usize = 1024;

/// A context whose calls have keys of their own. Made by [`Ctx::scope`], and by [`Ctx::map`] for
/// each item.
///
/// It dereferences to a [`Ctx`], and behaves like one in all other respects. Like the reference to
/// a context, it cannot be moved to another task by `tokio::spawn`.
pub struct Scope<'a, S = ()> {
    ctx: Ctx<S>,
    of: PhantomData<&'a Ctx<S>>,
}

impl<'a, S> Scope<'a, S> {
    pub(super) fn new(of: &'a Ctx<S>, path: Result<Arc<str>, StoredError>) -> Self {
        Self { ctx: of.at(path), of: PhantomData }
    }

    /// Opens a scope within this one: see [`Ctx::scope`].
    #[track_caller]
    pub fn scope(&self, name: impl AsRef<str>) -> Scope<'a, S> {
        let path = self.ctx.open_scope(name.as_ref(), Location::caller());
        Scope { ctx: self.ctx.at(path), of: PhantomData }
    }
}

impl<S> Deref for Scope<'_, S> {
    type Target = Ctx<S>;

    fn deref(&self) -> &Ctx<S> {
        &self.ctx
    }
}

impl<S> fmt::Debug for Scope<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope").field("path", &self.ctx.scope).finish_non_exhaustive()
    }
}

impl<S> Ctx<S> {
    /// Returns a context that puts this name before the keys of its calls: `name/step`, or
    /// `outer/inner/step` for a scope within a scope.
    ///
    /// So a part of a workflow keeps its keys, whatever other parts call, and two parts may use the
    /// same names for their steps. A repeated name of a scope gets `:1`, `:2`, ... in the order of
    /// calls.
    ///
    /// Range of the name: 1 to 255 bytes without control characters and without `/`. A whole key,
    /// with its scopes, has at most 1024 bytes.
    ///
    /// # Errors
    /// None here. If the name is refused, or the scope is opened inside the body of a step, each
    /// call in the scope returns an error of kind [`Refused`](ErrorKind::Refused) with the reason,
    /// and no body runs.
    ///
    /// ```
    /// use workflow_sdk::prelude::*;
    ///
    /// #[workflow]
    /// async fn travel(ctx: &Ctx) -> Result<String> {
    ///     // The keys of the two steps are `there/book` and `back/book`.
    ///     let there = book(&ctx.scope("there"), "Lisbon").await?;
    ///     let back = book(&ctx.scope("back"), "Oslo").await?;
    ///     Ok(format!("{there}, {back}"))
    /// }
    ///
    /// async fn book(ctx: &Ctx, to: &str) -> Result<String> {
    ///     ctx.step("book", async || ok(format!("a seat to {to}"))).await
    /// }
    /// ```
    #[track_caller]
    pub fn scope(&self, name: impl AsRef<str>) -> Scope<'_, S> {
        Scope::new(self, self.open_scope(name.as_ref(), Location::caller()))
    }

    pub(super) fn open_scope(&self, name: &str, location: &'static Location<'static>) -> Result<Arc<str>, StoredError> {
        if let Some(refused) = &self.refused {
            return Err(refused.as_ref().clone());
        }
        check_scope(name).map_err(|error| StoredError::new(ErrorKind::Refused, error.to_string()).fatal())?;
        let path = self.cell.open_scope(&format!("{}{name}", self.scope), location)?;
        Ok(path.into())
    }

    /// Returns this context in the scope of this path.
    fn at(&self, path: Result<Arc<str>, StoredError>) -> Self {
        let (scope, refused) = match path {
            Ok(path) => (format!("{path}/").into(), None),
            Err(refusal) => (Arc::clone(&self.scope), Some(Arc::new(refusal))),
        };
        Self { state: Arc::clone(&self.state), cell: Arc::clone(&self.cell), scope, refused }
    }

    /// Returns the key of a call with this name, before repeats are numbered.
    pub(super) fn key_in_scope<'n>(&self, name: &'n str) -> Result<Cow<'n, str>, StoredError> {
        match &self.refused {
            Some(refused) => Err(refused.as_ref().clone()),
            None => key_under(&self.scope, name),
        }
    }
}

/// Returns the key of a call with this name, before repeats are numbered, in the scope that gives
/// its calls the prefix `scope`.
pub(super) fn key_under<'n>(scope: &str, name: &'n str) -> Result<Cow<'n, str>, StoredError> {
    let key = match scope {
        "" => Cow::Borrowed(name),
        scope => Cow::Owned([scope, name].concat()),
    };
    if key.len() <= MAX_KEY_BYTES {
        return Ok(key);
    }
    let shown: String = key.chars().take(80).collect();
    let message = format!(
        "the key of step {name:?} in its scopes, {shown:?}..., is {} bytes long; \
         use shorter names or fewer scopes: at most {MAX_KEY_BYTES} bytes",
        key.len()
    );
    Err(StoredError::new(ErrorKind::Refused, message).fatal())
}
