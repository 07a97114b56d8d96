//! Tells the script of a page when what it shows has changed.

use axum::Extension;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use serde::Deserialize;
use workflow_http::internal::{last_id, stream_of_changes};
use workflow_sdk::operate::{ListChanges, RunId};

use crate::Shared;
use crate::address::Parameters;
use crate::problem::Problem;
use crate::visit::Visit;

/// The content of a page: one run, the newest runs of a query, or something else.
#[derive(Deserialize)]
pub(crate) struct Shown {
    run: Option<RunId>,
    q: Option<String>,
}

/// `GET /changes`: a stream with an event for each change of what a page shows.
pub(crate) async fn stream(
    State(shared): State<Shared>,
    Extension(visit): Extension<Visit>,
    Parameters(shown): Parameters<Shown>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let list = match shown {
        Shown { run: Some(run), .. } => ListChanges::of_run(run),
        Shown { q: Some(query), .. } => ListChanges::of_runs(visit.query(&query)?),
        Shown { run: None, q: None } => ListChanges::of_all(),
    };
    Ok(stream_of_changes(&shared.operate, &shared.streams, list, last_id(&headers)).await?)
}
