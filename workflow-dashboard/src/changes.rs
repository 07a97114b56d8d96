//! Tells the script of a page when what it shows has changed.

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::HeaderMap;
use axum::response::Response;
use serde::Deserialize;
use workflow_http::internal::{last_id, stream_of_changes};
use workflow_sdk::operate::{ListChanges, OperateError, RunId};

use crate::Shared;
use crate::problem::Problem;

/// The content of a page: one run, the newest runs of a query, or something else.
#[derive(Deserialize)]
pub(crate) struct Shown {
    run: Option<RunId>,
    q: Option<String>,
}

/// `GET /changes`: a stream with an event for each change of what a page shows.
pub(crate) async fn stream(
    State(shared): State<Shared>,
    shown: Result<Query<Shown>, QueryRejection>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let refused = |error: QueryRejection| Problem::bad_input(error.body_text(), "Load the page again.");
    let list = match shown.map_err(refused)? {
        Query(Shown { run: Some(run), .. }) => ListChanges::of_run(run),
        Query(Shown { q: Some(query), .. }) => ListChanges::of_runs(query.parse().map_err(OperateError::from)?),
        Query(Shown { run: None, q: None }) => ListChanges::of_all(),
    };
    Ok(stream_of_changes(&shared.operate, &shared.streams, list, last_id(&headers)).await?)
}
