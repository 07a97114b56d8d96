//! Streams of events that tell what changes.
//!
//! The server makes the next part of a stream when the connection can be written. So a reader that
//! does not read keeps one part in memory. If it falls too far behind, it gets a reset.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use futures::stream::unfold;
use serde::Deserialize;
use tokio::time::Instant;
use workflow_sdk::RunId;
use workflow_sdk::operate::{
    self, ChangePage, ChangesOf, Cursor, ListChanges, Operate, OperateError, OperateErrorCode,
};

use crate::body::Query;
use crate::frame::Frame;
use crate::streams::{OpenStream, Streams};
use crate::{Actor, Answer, Problem, Shared};

/// The longest time without a byte: then a comment is sent.
pub(crate) const SILENCE: Duration = Duration::from_secs(15);

/// The longest life of a stream. Its reader opens it again, and the access is checked anew.
const LONGEST_LIFE: Duration = Duration::from_secs(600);

/// The id behind the last event of a stream that is complete.
pub(crate) const END: &str = "end";

/// The parameters of a stream of changes.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Watched {
    of: Option<Of>,
    query: Option<String>,
    run: Option<RunId>,
    limit: Option<u32>,
    cursor: Option<String>,
    wait: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Of {
    Runs,
    All,
}

impl Watched {
    /// Returns what is asked for.
    fn list(&self, actor: &Actor) -> Result<ListChanges, Problem> {
        let mut list = match (self.of, &self.query, self.run) {
            (None, None, Some(run)) => ListChanges::of_run(run),
            (Some(Of::All), None, None) => ListChanges::of_all(),
            (None | Some(Of::Runs), query, None) => {
                let query: operate::Query = query.as_deref().unwrap_or_default().parse().map_err(OperateError::from)?;
                crate::items::may_search(actor, &query)?;
                ListChanges::of_runs(query)
            }
            _ => {
                let detail = "query, run and of=all exclude each other";
                return Err(Problem::bad_input(detail, "give one of them"));
            }
        };
        if let Some(limit) = self.limit {
            list = list.limit(limit);
        }
        if let Some(cursor) = &self.cursor {
            list = list.cursor(Cursor::new(cursor));
        }
        Ok(list)
    }
}

/// `GET /changes`: what has changed since a cursor, after a wait for it.
pub(crate) async fn changes(
    State(shared): State<Shared>,
    Extension(actor): Extension<Actor>,
    Query(watched): Query<Watched>,
) -> Answer<ChangePage> {
    let wait = crate::runs::duration_of(watched.wait.as_deref())?.unwrap_or_default();
    let mut open = shared.streams.open()?;
    let list = watched.list(&actor)?;
    let page = open.run(shared.operate.changes(list.clone().wait(wait))).await;
    Ok(Json(match page {
        Some(page) => page?,
        None => shared.operate.changes(list).await?,
    }))
}

/// `GET /events`: what changes, as a stream.
pub(crate) async fn events(
    State(shared): State<Shared>,
    Extension(actor): Extension<Actor>,
    Query(watched): Query<Watched>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    if watched.wait.is_some() {
        return Err(Problem::bad_input("a stream has no wait", "leave it out, or read /changes"));
    }
    let list = watched.list(&actor)?;
    Ok(stream_of_changes(&shared.operate, &shared.streams, list, last_id(&headers)).await?)
}

/// Opens a stream of changes. `last_id` is the id of the last event that the reader got.
///
/// # Errors
/// See [`OperateChanges::changes`](operate::OperateChanges::changes).
/// [`Full`](OperateErrorCode::Full) if too many streams are open.
///
/// # Cancel safety
/// The call only reads: a dropped future leaves nothing behind.
pub async fn stream_of_changes(
    operate: &Arc<dyn Operate>,
    streams: &Streams,
    list: ListChanges,
    last_id: Option<&str>,
) -> Result<Response, OperateError> {
    let open = streams.open()?;
    let (list, page) = resumed(operate, list, last_id).await?;
    let first = if page.reset || !page.items.is_empty() {
        frame_of(&list.of, &page, Frame::first())
    } else {
        Frame::first().place(page.cursor.as_str())
    };
    let source = Changes { operate: Arc::clone(operate), list: list.cursor(page.cursor).wait(SILENCE) };
    Ok(respond(open, Next::Frame(first), source))
}

/// A stream of the changes of a list.
struct Changes {
    operate: Arc<dyn Operate>,
    list: ListChanges,
}

#[async_trait]
impl Source for Changes {
    async fn next(&mut self) -> Result<Next, OperateError> {
        let page = self.operate.changes(self.list.clone()).await?;
        self.list.cursor = Some(page.cursor.clone());
        if !page.reset && page.items.is_empty() {
            return Ok(Next::Frame(Frame::comment()));
        }
        Ok(Next::Frame(frame_of(&self.list.of, &page, Frame::default())))
    }
}

/// Returns the changes after the last event that a reader got. An id from which nothing can go on
/// resets the reader, because a browser would send the id again and again.
pub(crate) async fn resumed(
    operate: &Arc<dyn Operate>,
    list: ListChanges,
    last_id: Option<&str>,
) -> Result<(ListChanges, ChangePage), OperateError> {
    let Some(id) = last_id else {
        let page = operate.changes(list.clone()).await?;
        return Ok((list, page));
    };
    match operate.changes(list.clone().cursor(Cursor::new(id))).await {
        Err(error) if error.code == OperateErrorCode::BadCursor => {
            let mut page = operate.changes(list.clone()).await?;
            page.reset = true;
            Ok((list, page))
        }
        page => Ok((list, page?)),
    }
}

/// Returns the one event of a page of changes.
fn frame_of(of: &ChangesOf, page: &ChangePage, frame: Frame) -> Frame {
    let id = page.cursor.as_str();
    if page.reset {
        return frame.event("reset", id, &serde_json::json!({}));
    }
    let name = match of {
        ChangesOf::All => "committed",
        _ => "runs",
    };
    frame.event(name, id, &serde_json::json!({ "items": page.items }))
}

/// Returns the id of the last event that a reader got.
#[must_use]
pub fn last_id(headers: &HeaderMap) -> Option<&str> {
    headers.get("last-event-id")?.to_str().ok().filter(|id| !id.is_empty())
}

/// The source of a stream's events.
#[async_trait]
pub(crate) trait Source: Send {
    /// Waits for the next events, for at most [`SILENCE`].
    async fn next(&mut self) -> Result<Next, OperateError>;
}

/// The next part of a stream.
pub(crate) enum Next {
    Frame(Frame),
    /// The last frame.
    Last(Frame),
}

struct Sending<S> {
    open: OpenStream,
    source: S,
    first: Option<Frame>,
    ends_at: Instant,
    is_over: bool,
}

/// Returns the answer that sends a first frame, and then the frames of a source.
pub(crate) fn respond(open: OpenStream, first: Next, source: impl Source + 'static) -> Response {
    let is_over = matches!(first, Next::Last(_));
    let (Next::Frame(first) | Next::Last(first)) = first;
    let sending = Sending { open, source, first: Some(first), ends_at: Instant::now() + LONGEST_LIFE, is_over };
    let frames = unfold(sending, async |mut sending| {
        let text = sending.next().await?.into_text();
        Some((Ok::<_, Infallible>(text), sending))
    });
    // The last header keeps a proxy from gathering events.
    let headers = [(header::CONTENT_TYPE.as_str(), "text/event-stream"), ("x-accel-buffering", "no")];
    (headers, Body::from_stream(frames)).into_response()
}

impl<S: Source> Sending<S> {
    /// Returns the next frame. `None`: the stream ends.
    async fn next(&mut self) -> Option<Frame> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        if self.is_over || Instant::now() >= self.ends_at {
            return None;
        }
        match self.open.run(self.source.next()).await? {
            Ok(Next::Frame(frame)) => Some(frame),
            Ok(Next::Last(frame)) => {
                self.is_over = true;
                Some(frame)
            }
            Err(error) => {
                self.is_over = true;
                Some(Frame::default().problem(&Problem::from(error)))
            }
        }
    }
}

/// Answers a reader that got the last event of a stream. After this answer a browser asks no more.
pub(crate) fn complete() -> Response {
    StatusCode::NO_CONTENT.into_response()
}
