//! Published values of runs, and streams of their items.

use std::sync::Arc;

use async_trait::async_trait;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use axum::{Extension, Json};
use serde::Deserialize;
use serde_json::json;
use workflow_sdk::RunId;
use workflow_sdk::operate::{self, EmittedPage, ListEmitted, Operate, OperateError, OperateErrorCode, StoredPayload};

use crate::body::{Path, Query};
use crate::events::{END, Next, SILENCE, Source, complete, last_id, respond};
use crate::frame::Frame;
use crate::{Actor, Answer, Problem, Shared};

/// How many items a stream reads at once: each may have the largest size of a payload.
const READ_AT_ONCE: u32 = 8;

/// Refuses an actor that does not see payloads.
pub(crate) fn sees_payloads(actor: &Actor) -> Result<(), OperateError> {
    if actor.payloads {
        return Ok(());
    }
    let (message, help) = ("this actor does not see payloads", "ask an actor that may");
    Err(OperateError::new(OperateErrorCode::Forbidden, message, help))
}

/// Refuses a query that the actor may not search by.
///
/// # Errors
/// [`OperateErrorCode::Forbidden`].
pub fn may_search(actor: &Actor, query: &operate::Query) -> Result<(), OperateError> {
    if actor.may_search(query) { Ok(()) } else { sees_payloads(actor) }
}

/// `GET /runs/{run}/published/{name}`: the value that a run published last under this name.
pub(crate) async fn published(
    State(shared): State<Shared>,
    Extension(actor): Extension<Actor>,
    Path((run, name)): Path<(RunId, String)>,
) -> Answer<StoredPayload> {
    sees_payloads(&actor)?;
    Ok(Json(shared.operate.published(run, &name).await?))
}

/// The parameters of a list of items.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Page {
    after: Option<u64>,
    limit: Option<u32>,
    wait: Option<String>,
}

/// `GET /runs/{run}/emitted/{name}`: items of a stream, after a wait for the next one.
pub(crate) async fn emitted(
    State(shared): State<Shared>,
    Extension(actor): Extension<Actor>,
    Path((run, name)): Path<(RunId, String)>,
    Query(page): Query<Page>,
) -> Answer<EmittedPage> {
    sees_payloads(&actor)?;
    let wait = crate::runs::duration_of(page.wait.as_deref())?.unwrap_or_default();
    let mut list = ListEmitted::new(run, name).after(page.after.unwrap_or_default());
    if let Some(limit) = page.limit {
        list = list.limit(limit);
    }
    let mut open = shared.streams.open()?;
    let page = open.run(shared.operate.emitted(list.clone().wait(wait))).await;
    Ok(Json(match page {
        Some(page) => page?,
        None => shared.operate.emitted(list).await?,
    }))
}

/// `GET /runs/{run}/stream/{name}`: the items that a run emits, until its end.
pub(crate) async fn stream(
    State(shared): State<Shared>,
    Extension(actor): Extension<Actor>,
    Path((run, name)): Path<(RunId, String)>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    sees_payloads(&actor)?;
    let after = match last_id(&headers) {
        None => 0,
        Some(END) => return Ok(complete()),
        Some(id) => id.parse().map_err(|_| {
            Problem::bad_input("the Last-Event-ID is not the number of an item", "send the id of the last event")
        })?,
    };
    let open = shared.streams.open()?;
    let list = ListEmitted::new(run, name).after(after).limit(READ_AT_ONCE);
    let page = shared.operate.emitted(list.clone()).await?;
    let mut items = Items { operate: Arc::clone(&shared.operate), list: list.wait(SILENCE), is_complete: false };
    let first = items.frame_of(page, Frame::first());
    Ok(respond(open, Next::Frame(first), items))
}

struct Items {
    operate: Arc<dyn Operate>,
    list: ListEmitted,
    is_complete: bool,
}

impl Items {
    fn frame_of(&mut self, page: EmittedPage, mut frame: Frame) -> Frame {
        for item in page.items {
            self.list.after = item.number;
            frame = frame.event("item", &item.number.to_string(), &item);
        }
        self.is_complete = page.complete;
        frame
    }
}

#[async_trait]
impl Source for Items {
    async fn next(&mut self) -> Result<Next, OperateError> {
        if self.is_complete {
            return Ok(Next::Last(Frame::default().event("end", END, &json!({ "run": self.list.run }))));
        }
        let page = self.operate.emitted(self.list.clone()).await?;
        let is_news = !page.items.is_empty() || page.complete;
        let frame = self.frame_of(page, Frame::default());
        Ok(Next::Frame(if is_news { frame } else { Frame::comment() }))
    }
}
