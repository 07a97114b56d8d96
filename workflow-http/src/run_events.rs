//! The events of one run: its steps, and its end.

use std::sync::Arc;

use async_trait::async_trait;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use serde_json::{Value, json};
use workflow_sdk::operate::{Change, ChangePage, ListChanges, Operate, OperateError, OperateErrorCode};
use workflow_sdk::{RunId, RunStatus};

use crate::body::Path;
use crate::events::{END, Next, SILENCE, Source, complete, last_id, respond, resumed};
use crate::frame::Frame;
use crate::{Problem, Shared};

/// `GET /runs/{run}/events`: what happens to a run, until its end.
pub(crate) async fn events(
    State(shared): State<Shared>,
    Path(run): Path<RunId>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let last_id = last_id(&headers);
    if last_id == Some(END) {
        return Ok(complete());
    }
    let open = shared.streams.open()?;
    // Before the changes, so that these have all steps of a run that is seen to have ended.
    let before = match last_id {
        Some(_) => Some(status(&shared.operate, run).await?),
        None => None,
    };
    let (list, page) = resumed(&shared.operate, ListChanges::of_run(run), last_id).await?;
    let from = last_id.map_or_else(|| page.cursor.as_str().to_owned(), str::to_owned);
    let status = match before {
        Some(status) if !page.reset => status,
        // Behind the place from which the stream goes on, so that no end is missed.
        _ => status(&shared.operate, run).await?,
    };
    let mut events = RunEvents { operate: Arc::clone(&shared.operate), run, list: list.wait(SILENCE), from };
    let first = events.frame_of(&page, Some(status), Frame::first());
    Ok(respond(open, first, events))
}

/// Returns the status of a run. `None`: it was deleted.
async fn status(operate: &Arc<dyn Operate>, run: RunId) -> Result<Option<RunStatus>, OperateError> {
    match operate.run(run).await {
        Ok(detail) => Ok(Some(detail.summary.status)),
        Err(error) if error.code == OperateErrorCode::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

struct RunEvents {
    operate: Arc<dyn Operate>,
    run: RunId,
    list: ListChanges,
    /// The id of the event before the next page.
    from: String,
}

impl RunEvents {
    /// Returns the events of a page. `seen` is the run's status, where it was read beside the page;
    /// a status in the page goes before it. `Some(None)`: the run was deleted.
    fn frame_of(&mut self, page: &ChangePage, seen: Option<Option<RunStatus>>, mut frame: Frame) -> Next {
        self.list.cursor = Some(page.cursor.clone());
        // All but the last event lead back to the beginning of the page, because a reader that is
        // cut off between them has not got the others.
        let before = std::mem::replace(&mut self.from, page.cursor.as_str().to_owned());
        let mut status = seen;
        let mut steps: Vec<Value> = Vec::new();
        for change in &page.items {
            match change {
                Change::Changed { status: changed, .. } | Change::Entered { status: changed, .. } => {
                    status = Some(Some(*changed));
                }
                Change::Left { .. } => status = Some(None),
                Change::Step { step, attempt, kind, status, position, .. } => steps.push(json!({
                    "run": self.run, "step": step, "attempt": attempt, "kind": kind, "status": status,
                    "position": position,
                })),
                _ => {}
            }
        }
        if page.reset {
            frame = frame.event("reset", &before, &json!({ "run": self.run }));
        }
        let last = steps.len().checked_sub(1).filter(|_| status.is_none());
        for (at, step) in steps.iter().enumerate() {
            let id = if Some(at) == last { &self.from } else { &before };
            frame = frame.event("step", id, step);
        }
        match status {
            None => Next::Frame(frame),
            Some(Some(status)) if !status.is_terminal() => {
                Next::Frame(frame.event("run", &self.from, &json!({ "run": self.run, "status": status })))
            }
            Some(Some(status)) => Next::Last(frame.event("end", END, &json!({ "run": self.run, "status": status }))),
            Some(None) => Next::Last(frame.event("end", END, &json!({ "run": self.run, "deleted": true }))),
        }
    }
}

#[async_trait]
impl Source for RunEvents {
    async fn next(&mut self) -> Result<Next, OperateError> {
        let page = self.operate.changes(self.list.clone()).await?;
        if !page.reset && page.items.is_empty() {
            return Ok(Next::Frame(Frame::comment()));
        }
        // A reset hides an end.
        let seen = if page.reset { Some(status(&self.operate, self.run).await?) } else { None };
        Ok(self.frame_of(&page, seen, Frame::default()))
    }
}
