//! The open streams of events: how many there are, and their end.

use std::fmt;
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use workflow_sdk::operate::{OperateError, OperateErrorCode};

/// The streams of events that are open at the routers of an application. It bounds their number,
/// and ends them when the server stops, which would otherwise wait for them. Clones share the bound
/// and the end.
///
/// ```
/// use workflow_http::{Access, Streams, router};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let client = workflow_sdk::Client::connect("sqlite::memory:").await?;
/// # let (begin_to_stop, stopped) = tokio::sync::oneshot::channel::<()>();
/// # begin_to_stop.send(()).map_err(|()| "")?;
/// let streams = Streams::default();
/// let app = router(client, Access::local().streams(streams.clone()));
/// let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
/// let served = axum::serve(listener, app).with_graceful_shutdown(async move {
///     drop(stopped.await);
///     streams.end();
/// });
/// served.await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Streams {
    permits: Arc<Semaphore>,
    most: usize,
    has_ended: Arc<watch::Sender<bool>>,
}

impl Default for Streams {
    /// Returns [`Streams::at_most`] of [`Streams::DEFAULT_MOST`].
    fn default() -> Self {
        Self::at_most(Self::DEFAULT_MOST)
    }
}

impl Streams {
    /// How many streams may be open, unless [`Streams::at_most`] says otherwise.
    pub const DEFAULT_MOST: usize = 256;

    /// Lets at most this many streams and waiting requests be open at once. Further ones are
    /// refused with the status 429. Range: 0 to a million; a larger number counts as that.
    #[must_use]
    pub fn at_most(streams: usize) -> Self {
        const MOST: usize = 1_000_000;
        let most = streams.min(MOST);
        Self { permits: Arc::new(Semaphore::new(most)), most, has_ended: Arc::new(watch::Sender::new(false)) }
    }

    /// Ends every stream, and each that is opened later. Call it when the server begins to stop.
    pub fn end(&self) {
        self.has_ended.send_replace(true);
    }

    /// Lets one more stream be opened.
    pub(crate) fn open(&self) -> Result<OpenStream, OperateError> {
        let permit = Arc::clone(&self.permits).try_acquire_owned();
        let refused = |_| {
            let message = format!("{} streams are open, and no more are allowed", self.most);
            OperateError::new(OperateErrorCode::Full, message, "close one of them, or read the lists from time to time")
        };
        Ok(OpenStream { _permit: permit.map_err(refused)?, has_ended: self.has_ended.subscribe() })
    }
}

impl fmt::Debug for Streams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let open = self.most.saturating_sub(self.permits.available_permits());
        f.debug_struct("Streams").field("most", &self.most).field("open", &open).finish_non_exhaustive()
    }
}

/// The right to one stream.
#[derive(Debug)]
pub(crate) struct OpenStream {
    _permit: OwnedSemaphorePermit,
    has_ended: watch::Receiver<bool>,
}

impl OpenStream {
    /// Returns the answer; `None` if the streams are ended first.
    pub(crate) async fn run<T>(&mut self, answer: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            // An error means that the router is gone, and the server with it.
            _ = self.has_ended.wait_for(|ended| *ended) => None,
            answer = answer => Some(answer),
        }
    }
}
