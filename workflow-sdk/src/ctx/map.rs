use std::fmt;
use std::future::Future;
use std::panic::Location;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crate::Result;
use workflow_engine::model::{ErrorKind, StoredError};

use super::branches::{BoxFuture, Branches};
use super::{Ctx, RunCell, Scope};

/// The scope of a map without a name of its own.
const NAME: &str = "map";

/// Replaces the scope of a map: closes the given scope and opens one with the new name.
type Rename<'a> = Box<dyn FnMut(&str, &str) -> Result<Arc<str>, StoredError> + Send + 'a>;

/// Makes the future of the next item. Its scope is the map's scope with this number.
type Begin<'a, T> = Box<dyn FnMut(&str, usize) -> Option<BoxFuture<'a, Result<T>>> + Send + 'a>;

/// A builder for a map, which runs a function for many items: set its options, then await it. Made
/// by [`Ctx::map`].
#[must_use = "a map does nothing until it is awaited"]
pub struct Map<'a, T> {
    cell: &'a Arc<RunCell>,
    scope: Result<Arc<str>, StoredError>,
    limit: usize,
    stops_at_failure: bool,
    rename: Rename<'a>,
    /// `None` once the items are used up.
    begin: Option<Begin<'a, T>>,
    running: Branches<'a, Result<T>>,
    /// The result of each item, by number. `None` while the item runs.
    results: Vec<Option<Result<T>>>,
    /// Whether the run had been told to end before the map. `None` before the first poll.
    was_told_to_end: Option<bool>,
    /// The error of items that do not begin, because the run was told to end during the map.
    left_out: Option<StoredError>,
    is_over: bool,
}

/// No field is pinned in place, because the futures of items are boxed.
impl<T> Unpin for Map<'_, T> {}

impl<S: Send + Sync> Ctx<S> {
    /// Runs `f` for each item, at most `limit` of them at a time, and returns the results in the
    /// order of the items.
    ///
    /// `f` returns a [`Result`](crate::Result), so `?` converts every error. It receives a context
    /// of its own for each item, so the keys of an item do not depend on other items. The step
    /// `fetch` of the third item has the key `map/2/fetch`; in a second map, `map:1/2/fetch`.
    /// [`Map::name`] replaces `map` by another name. Items are taken in order, and
    /// the next begins when a running one has ended. `items` must yield identical items on every
    /// replay.
    ///
    /// The first failure ends the map, and the other items are dropped. [`Map::finish_all`] and
    /// [`Map::collect_results`] change that. A map of ten thousand items is fine: the cost of a
    /// replay grows linearly with the number of recorded outcomes. The results must fit into
    /// memory.
    ///
    /// Range of `limit`: 1 or more.
    ///
    /// # Errors
    /// Awaiting it returns the first error of an item, or an error of kind
    /// [`Refused`](ErrorKind::Refused) for a limit of 0, an invalid name, or a map inside the body
    /// of a step.
    ///
    /// # Cancel safety
    /// Dropping the future drops the running items. Their recorded outcomes stay recorded.
    ///
    /// ```
    /// use workflow_sdk::prelude::*;
    ///
    /// # struct Web;
    /// # impl Web {
    /// #     async fn get(&self, _url: &str) -> Result<String, Error> { Ok(String::new()) }
    /// # }
    /// #[workflow]
    /// async fn index(ctx: &Ctx<Web>, urls: Vec<String>) -> Result<usize> {
    ///     let sizes = ctx
    ///         .map(&urls, 20, |ctx, url| async move {
    ///             let page = ctx.step("fetch", || ctx.state().get(url)).await?;
    ///             ctx.step("index", async || ok(page.len())).await?;
    ///             Ok(page.len())
    ///         })
    ///         .name("pages")
    ///         .await?;
    ///     Ok(sizes.iter().sum())
    /// }
    /// ```
    #[track_caller]
    pub fn map<'a, I, F, Fut, T>(&'a self, items: I, limit: usize, mut f: F) -> Map<'a, T>
    where
        I: IntoIterator<IntoIter: Send + 'a>,
        F: FnMut(Scope<'a, S>, I::Item) -> Fut + Send + 'a,
        Fut: Future<Output = Result<T>> + Send + 'a,
        T: Send + 'a,
    {
        let location = Location::caller();
        let mut items = items.into_iter();
        let begin = move |map: &str, number: usize| -> Option<BoxFuture<'a, Result<T>>> {
            Some(Box::pin(f(Scope::new(self, Ok(format!("{map}/{number}").into())), items.next()?)))
        };
        let rename = move |given: &str, name: &str| {
            self.cell.close_scope(&format!("{}{NAME}", self.scope), given);
            self.open_scope(name, location)
        };
        Map {
            cell: &self.cell,
            scope: self.open_scope(NAME, location),
            limit,
            stops_at_failure: true,
            rename: Box::new(rename),
            begin: Some(Box::new(begin)),
            running: Branches::new(),
            results: Vec::new(),
            was_told_to_end: None,
            left_out: None,
            is_over: false,
        }
    }
}

impl<'a, T> Map<'a, T> {
    /// Sets the name of the map's scope. Default: `map`. Range: see [`Ctx::scope`].
    pub fn name(mut self, name: impl AsRef<str>) -> Self {
        if let Ok(given) = &self.scope {
            self.scope = (self.rename)(given, name.as_ref());
        }
        self
    }

    /// Runs every item to its end, even if others fail. Awaiting it then returns the values, or the
    /// error of the first failed item in the order of items. If the run is canceled or its deadline
    /// passes meanwhile, no further item begins, and the error is that of the interruption.
    ///
    /// ```
    /// use workflow_sdk::prelude::*;
    ///
    /// #[workflow]
    /// async fn upload(ctx: &Ctx, files: Vec<String>) -> Result<usize> {
    ///     let sent = ctx.map(files, 5, |ctx, file| async move {
    ///         ctx.step("send", async || ok(file.len())).await
    ///     });
    ///     // Even if one file fails, the others are sent.
    ///     Ok(sent.finish_all().await?.iter().sum())
    /// }
    /// ```
    pub fn finish_all(mut self) -> Self {
        self.stops_at_failure = false;
        self
    }

    /// Runs every item to its end, even if others fail, and returns the result of each.
    ///
    /// # Errors
    /// Awaiting it returns an error only if the map itself is refused (see [`Ctx::map`]), or if the
    /// run is canceled or its deadline passes before all items have begun.
    ///
    /// ```
    /// use workflow_sdk::prelude::*;
    ///
    /// #[workflow]
    /// async fn notify(ctx: &Ctx, people: Vec<String>) -> Result<usize> {
    ///     let sent = ctx.map(people, 5, |ctx, person| async move {
    ///         let mail = async || if person.is_empty() { Err("no recipient") } else { Ok(()) };
    ///         ctx.step("mail", mail).await
    ///     });
    ///     let sent = sent.collect_results().await?;
    ///     Ok(sent.iter().filter(|result| result.is_err()).count())
    /// }
    /// ```
    pub fn collect_results(self) -> CollectResults<'a, T> {
        CollectResults(self.finish_all())
    }

    /// Polls the woken items and begins as many as there is room for. Returns the results as soon
    /// as the failure policy allows.
    fn poll_results(&mut self, cx: &mut Context<'_>) -> Poll<Result<Vec<Result<T>>>> {
        if self.is_over {
            return Poll::Pending;
        }
        let scope = match self.accepted() {
            Ok(scope) => scope,
            Err(refusal) => return self.end(Err(refusal.into())),
        };
        loop {
            self.begin_items(&scope, cx.waker());
            match self.running.poll_next(cx) {
                Poll::Ready((_, Err(error))) if self.stops_at_failure => return self.end(Err(error)),
                Poll::Ready((number, result)) => self.results[number] = Some(result),
                Poll::Pending if self.running.len() > 0 => return Poll::Pending,
                Poll::Pending => {
                    if let Some(error) = self.left_out.take() {
                        self.cell.with_machine(|machine| machine.take_interruption());
                        return self.end(Err(error.into()));
                    }
                    let results = std::mem::take(&mut self.results).into_iter().flatten().collect();
                    return self.end(Ok(results));
                }
            }
        }
    }

    fn accepted(&self) -> Result<Arc<str>, StoredError> {
        let scope = self.scope.clone()?;
        if self.limit > 0 {
            return Ok(scope);
        }
        let message = format!(
            "the map {scope:?} has a limit of 0, so no item could ever begin; \
             give ctx.map a limit of 1 or more: how many items may run at a time"
        );
        Err(StoredError::new(ErrorKind::Refused, message).fatal())
    }

    fn begin_items(&mut self, scope: &str, waker: &Waker) {
        let told_to_end = self.cell.with_machine(|machine| machine.told_to_end());
        let was_told_to_end = *self.was_told_to_end.get_or_insert(told_to_end.is_some());
        if let Some(by) = told_to_end.filter(|_| !was_told_to_end) {
            if let Some(mut begin) = self.begin.take() {
                self.left_out = begin(scope, self.results.len()).map(|_| by.error());
            }
            return;
        }
        while let Some(begin) = &mut self.begin {
            let number = self.results.len();
            // A limit that was lowered does not hold back items that have recorded outcomes.
            if self.running.len() >= self.limit && !self.cell.hold_back(scope, number, waker) {
                return;
            }
            match begin(scope, number) {
                Some(item) => {
                    self.results.push(None);
                    self.running.insert(number, item);
                }
                None => self.begin = None,
            }
        }
    }

    /// Drops the other items now and not with the map, because a caller may keep the map.
    fn end(&mut self, result: Result<Vec<Result<T>>>) -> Poll<Result<Vec<Result<T>>>> {
        self.is_over = true;
        self.running.clear();
        self.begin = None;
        Poll::Ready(result)
    }
}

impl<T> Future for Map<'_, T> {
    type Output = Result<Vec<T>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.get_mut().poll_results(cx).map(|results| results?.into_iter().collect())
    }
}

/// A map that returns the result of each item: await it. Made by [`Map::collect_results`].
#[must_use = "a map does nothing until it is awaited"]
#[derive(Debug)]
pub struct CollectResults<'a, T>(Map<'a, T>);

impl<T> Future for CollectResults<'_, T> {
    type Output = Result<Vec<Result<T>>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.get_mut().0.poll_results(cx)
    }
}

impl<T> fmt::Debug for Map<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let map = &mut f.debug_struct("Map");
        map.field("scope", &self.scope).field("limit", &self.limit).field("running", &self.running);
        map.finish_non_exhaustive()
    }
}
