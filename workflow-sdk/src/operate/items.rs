//! Published values of runs, and items of their streams.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::time::Instant;

use workflow_engine::model::{NameSubject, RunId, check_name};
use workflow_engine::store::EmittedItem;

use crate::{Client, ClientError};

use super::{ListChanges, OperateChanges, OperateError, StoredPayload, run};

/// A page ends at so many bytes of items, or with a single larger item: a client over HTTP takes no
/// answer of any size.
const PAGE_BYTES: usize = 16 * 1024 * 1024;

/// Asks for items of a stream: see [`OperateChanges::emitted`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ListEmitted {
    /// The run.
    pub run: RunId,
    /// The name of the stream.
    pub name: String,
    /// The number of the item after which to begin. Default: 0, so with the first one.
    #[serde(default)]
    pub after: u64,
    /// The largest number of items. Default: [`ListEmitted::MAX_LIMIT`]. Range: 1 to the default.
    /// A page also ends at 16 MiB of items, or with a single larger one.
    #[serde(default = "default_limit")]
    pub limit: u32,
    /// How long the call waits for an item, in milliseconds. Default: 0. A longer time than
    /// [`ListChanges::MAX_WAIT`] counts as that.
    #[serde(default)]
    pub wait_ms: u64,
}

const fn default_limit() -> u32 {
    ListEmitted::MAX_LIMIT
}

impl ListEmitted {
    /// The largest limit. It is small because a page is held in memory, and each item may have the
    /// largest size of a payload.
    pub const MAX_LIMIT: u32 = 64;

    /// Asks for the first items of a stream.
    #[must_use]
    pub fn new(run: RunId, name: impl Into<String>) -> Self {
        Self { run, name: name.into(), after: 0, limit: default_limit(), wait_ms: 0 }
    }

    /// Begins after the item with this number. Default: 0, so with the first one.
    #[must_use]
    pub fn after(mut self, number: u64) -> Self {
        self.after = number;
        self
    }

    /// Sets the largest number of items. Default: [`ListEmitted::MAX_LIMIT`]. Range: 1 to the
    /// default; another value is refused by the call.
    #[must_use]
    pub fn limit(mut self, items: u32) -> Self {
        self.limit = items;
        self
    }

    /// Sets how long the call waits for an item. Default: not at all. A longer time than
    /// [`ListChanges::MAX_WAIT`] counts as that.
    #[must_use]
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        self
    }

    /// Returns how long the call waits at most.
    #[must_use]
    pub fn longest_wait(&self) -> Duration {
        Duration::from_millis(self.wait_ms).min(ListChanges::MAX_WAIT)
    }
}

/// Items of a stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct EmittedPage {
    /// The items. Empty if there was none in the time of the call.
    pub items: Vec<EmittedView>,
    /// `true` if the run has ended and no item follows these.
    pub complete: bool,
}

/// An item of a stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct EmittedView {
    /// Its number. Numbers begin at 1 and rise; a refused item leaves a gap.
    pub number: u64,
    /// The item.
    pub item: StoredPayload,
}

impl From<EmittedItem> for EmittedView {
    fn from(EmittedItem { number, item }: EmittedItem) -> Self {
        Self { number: u64::try_from(number).unwrap_or_default(), item: StoredPayload::of(item, u64::MAX) }
    }
}

/// See [`OperateChanges::emitted`].
pub(super) async fn emitted(client: &Client, list: ListEmitted) -> Result<EmittedPage, OperateError> {
    OperateError::check_limit(list.limit, ListEmitted::MAX_LIMIT, "items")?;
    check_name(NameSubject::Stream, &list.name).map_err(ClientError::from)?;
    let ends_at = Instant::now() + list.longest_wait();
    let after = i64::try_from(list.after).unwrap_or(i64::MAX);
    let mut changes = ListChanges::of_run(list.run);
    if !list.longest_wait().is_zero() {
        changes.cursor = Some(client.changes(changes.clone()).await?.cursor);
    }
    loop {
        // The cursor and the end are read before the items, so that no later item is missed.
        let has_ended = run::found(client, list.run).await?.status.is_terminal();
        let read = client.store().emitted(list.run, &list.name, after, list.limit);
        let mut items = client.read(read).await?;
        let is_full = items.len() >= usize::try_from(list.limit).unwrap_or(usize::MAX);
        let has_more = cut(&mut items) || is_full;
        let items: Vec<EmittedView> = items.into_iter().map(EmittedView::from).collect();
        let left = ends_at.saturating_duration_since(Instant::now());
        if !items.is_empty() || has_ended || left.is_zero() {
            return Ok(EmittedPage { items, complete: has_ended && !has_more });
        }
        changes.cursor = Some(client.changes(changes.clone().wait(left)).await?.cursor);
    }
}

/// Leaves out the items behind the [`PAGE_BYTES`], but not the first one. Returns whether there are
/// any.
fn cut(items: &mut Vec<EmittedItem>) -> bool {
    let mut bytes = 0_usize;
    let fitting = items.iter().take_while(|item| {
        bytes = bytes.saturating_add(item.item.len());
        bytes <= PAGE_BYTES
    });
    let fitting = fitting.count().max(1);
    let is_cut = fitting < items.len();
    items.truncate(fitting);
    is_cut
}

/// A published value as the replay core records it.
#[derive(Deserialize)]
struct Published<'t> {
    #[serde(borrow)]
    value: &'t RawValue,
}

/// See [`OperateChanges::published`].
pub(super) async fn published(client: &Client, id: RunId, name: &str) -> Result<StoredPayload, OperateError> {
    check_name(NameSubject::Published, name).map_err(ClientError::from)?;
    let Some(text) = client.read(client.store().published(id, name)).await? else {
        run::found(client, id).await?;
        let help = "wait until it publishes the value, or check the name";
        return Err(OperateError::not_found(format!("run {id} has published no value {name:?}"), help));
    };
    let value = serde_json::from_str::<Published<'_>>(&text);
    let value = value.map_err(|_| OperateError::not_understood(format!("the value {name:?} is not understood")))?;
    Ok(StoredPayload::of(value.value.get().to_owned(), u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_ends_at_its_bytes_but_not_before_its_first_item() {
        let half = PAGE_BYTES / 2;
        for (sizes, left, is_cut) in [
            (vec![half, half], 2, false),
            (vec![half, half, 1], 2, true),
            (vec![PAGE_BYTES + 1, 1], 1, true),
            (vec![PAGE_BYTES + 1], 1, false),
            (vec![], 0, false),
        ] {
            let item = |size: &usize| EmittedItem { number: 1, item: "0".repeat(*size) };
            let mut items: Vec<_> = sizes.iter().map(item).collect();
            assert_eq!((cut(&mut items), items.len()), (is_cut, left), "{sizes:?}");
        }
    }
}
