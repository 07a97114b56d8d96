use std::collections::VecDeque;
use std::fmt;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt, Stream};
use serde::de::DeserializeOwned;

use workflow_engine::model::{NameSubject, RunId, UnreadablePayload, check_name, unquoted};
use workflow_engine::store::EmittedItem;

use super::{Client, ClientError};

/// Items per read: few enough to be held in memory even if each has the largest size of a payload.
const PAGE: u32 = 64;

/// Poll interval: bounds the delay of an item whose notifications were all lost.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Shortest time between two reads that only hints asked for: hints can come at any rate, and each
/// read costs.
const SHORTEST_PAUSE: Duration = Duration::from_millis(20);

/// The items that a run [emits](crate::Ctx::emit) to one of its streams, as a `Stream`: first the
/// items that exist, then each further item once it is committed, each once and in order. It ends
/// when the run has ended and every item was delivered. A run that continues as new goes on with
/// the same stream.
///
/// # Errors
/// An item that does not decode as `T` yields [`ClientError::DecodeLive`], and one that the codec
/// cannot decode yields [`ClientError::Unreadable`]; the stream continues with the next item. After
/// any other error ([`ClientError::UnknownRun`], [`ClientError::Name`], [`ClientError::Database`])
/// the stream may be polled again and continues at its position.
///
/// # Cancel safety
/// Safe: a future that waits for the next item can be dropped, and no item is lost. To continue a
/// stream later, call [`RunStream::after`] with the [`RunStream::last`] of the old one.
///
/// ```
/// use futures::StreamExt;
/// use workflow_sdk::prelude::*;
///
/// # #[workflow]
/// # async fn import(_ctx: &Ctx, _files: Vec<String>) -> Result<()> { Ok(()) }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("sqlite::memory:").await?;
/// let run = client.start(import, vec!["a.csv".to_string()]).await?;
/// # run.cancel().await?;
/// let mut log = run.stream::<String>("log");
/// while let Some(line) = log.next().await {
///     println!("{}", line?);
/// }
/// # Ok(())
/// # }
/// ```
#[must_use = "a stream does nothing until it is polled"]
pub struct RunStream<T> {
    source: Source,
    last: i64,
    read: VecDeque<EmittedItem>,
    reading: Option<BoxFuture<'static, Result<Page, ClientError>>>,
    is_complete: bool,
    item: PhantomData<fn() -> T>,
}

/// The source of the items.
#[derive(Clone)]
struct Source {
    client: Client,
    run_id: RunId,
    name: String,
}

/// Items, and `true` if no item will follow.
struct Page {
    items: Vec<EmittedItem>,
    is_last: bool,
}

impl<T> RunStream<T> {
    pub(super) fn new(client: Client, run_id: RunId, name: String) -> Self {
        Self {
            source: Source { client, run_id, name },
            last: 0,
            read: VecDeque::new(),
            reading: None,
            is_complete: false,
            item: PhantomData,
        }
    }

    /// Begins after the item with this number. Default: 0, so with the first item.
    pub fn after(mut self, number: u64) -> Self {
        self.last = i64::try_from(number).unwrap_or(i64::MAX);
        self
    }

    /// Returns the number of the item that was delivered last, or the number after which the stream
    /// begins. Numbers rise from 1.
    #[must_use]
    pub fn last(&self) -> u64 {
        u64::try_from(self.last).unwrap_or(0)
    }
}

impl Source {
    /// Waits for the next items.
    async fn read(self, after: i64) -> Result<Page, ClientError> {
        check_name(NameSubject::Stream, &self.name)?;
        let page = self.page(after).await?;
        if !page.is_empty() {
            return Ok(Page { items: page, is_last: false });
        }
        // A wait for the end of a run that does not exist would never end.
        self.client.run(self.run_id).await?;
        self.wait(after).await
    }

    async fn wait(&self, after: i64) -> Result<Page, ClientError> {
        let notifier = self.client.executor().notifier();
        let follow = notifier.follow(self.run_id);
        let mut changes = notifier.changes();
        let mut ended = std::pin::pin!(self.client.results().wait(self.run_id).fuse());
        let mut has_ended = false;
        loop {
            // Listens before it reads, so that it notices an item that is committed in between.
            let emitted = follow.notified();
            changes.mark_unchanged();
            let items = self.page(after).await?;
            if !items.is_empty() || has_ended {
                // A run emits nothing after its end, but one page may not hold all of its items.
                return Ok(Page { is_last: items.is_empty(), items });
            }
            tokio::select! {
                biased;
                end = &mut ended => {
                    end?;
                    has_ended = true;
                }
                () = emitted => {}
                _ = changes.changed() => tokio::time::sleep(SHORTEST_PAUSE).await,
                () = tokio::time::sleep(POLL_INTERVAL) => {}
            }
        }
    }

    async fn page(&self, after: i64) -> Result<Vec<EmittedItem>, ClientError> {
        self.client.read(self.client.store().emitted(self.run_id, &self.name, after, PAGE)).await
    }

    fn decode<T: DeserializeOwned>(&self, item: &EmittedItem) -> Result<T, ClientError> {
        if let Some(unreadable) = UnreadablePayload::in_place_of(&item.item) {
            return Err(unreadable.into());
        }
        serde_json::from_str(&item.item).map_err(|source| ClientError::DecodeLive {
            run_id: self.run_id,
            what: format!("item {} of stream {:?}", item.number, self.name),
            type_name: std::any::type_name::<T>(),
            source: unquoted(source),
        })
    }
}

impl<T: DeserializeOwned> Stream for RunStream<T> {
    type Item = Result<T, ClientError>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let stream = self.get_mut();
        loop {
            if let Some(item) = stream.read.pop_front() {
                stream.last = item.number;
                return Poll::Ready(Some(stream.source.decode(&item)));
            }
            if stream.is_complete {
                return Poll::Ready(None);
            }
            let (source, after) = (&stream.source, stream.last);
            let reading = stream.reading.get_or_insert_with(|| source.clone().read(after).boxed());
            let page = futures::ready!(reading.as_mut().poll(cx));
            stream.reading = None;
            match page {
                Ok(Page { items, is_last }) => {
                    stream.read = items.into();
                    stream.is_complete = is_last;
                }
                Err(error) => return Poll::Ready(Some(Err(error))),
            }
        }
    }
}

impl<T> fmt::Debug for RunStream<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunStream")
            .field("run_id", &self.source.run_id)
            .field("name", &self.source.name)
            .field("last", &self.last)
            .finish_non_exhaustive()
    }
}
