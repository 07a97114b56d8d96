//! Bulk operations.

use std::collections::BTreeMap;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde::Deserialize;
use serde_json::value::RawValue;
use workflow_sdk::operate::{self, Action, BulkId, BulkPage, BulkPreview, BulkView, Cursor, Done, ListBulks, Order};

use crate::body::{Body, Path, Query, Text, parse};
use crate::orders::{Caller, carry_out};
use crate::{Actor, Answer, Problem, Shared};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Preview {
    query: operate::Query,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Page {
    cursor: Option<String>,
    limit: Option<u32>,
}

/// `POST /bulk`: orders an operation. The body is the order without the name of its action, and is
/// read as one, so that a payload keeps its very digits.
pub(crate) async fn start(State(shared): State<Shared>, caller: Caller, Text(body): Text) -> Result<Response, Problem> {
    let mut fields: BTreeMap<String, Box<RawValue>> = parse(&body)?;
    fields.insert("action".into(), parse(br#""start_bulk""#)?);
    let unwritten = |error| Problem::bad_input(format!("the body is not as expected: {error}"), "mend the JSON");
    let order: Order = parse(&serde_json::to_vec(&fields).map_err(unwritten)?)?;
    let done = carry_out(&*shared.operate, &caller, order).await?;
    Ok((StatusCode::ACCEPTED, Json(done)).into_response())
}

/// `POST /bulk/preview`: counts the runs that an operation would find.
pub(crate) async fn preview(
    State(shared): State<Shared>,
    Extension(actor): Extension<Actor>,
    Body(Preview { query }): Body<Preview>,
) -> Answer<BulkPreview> {
    crate::items::may_search(&actor, &query)?;
    let mut preview = shared.operate.bulk_preview(&query).await?;
    if !actor.payloads {
        preview.examples.iter_mut().for_each(|run| run.error = None);
    }
    Ok(Json(preview))
}

/// `GET /bulk`: lists operations.
pub(crate) async fn list(State(shared): State<Shared>, Query(page): Query<Page>) -> Answer<BulkPage> {
    let mut list = ListBulks::new();
    if let Some(limit) = page.limit {
        list = list.limit(limit);
    }
    if let Some(cursor) = page.cursor {
        list = list.cursor(Cursor::new(cursor));
    }
    Ok(Json(shared.operate.bulks(list).await?))
}

/// `GET /bulk/{bulk}`: shows one operation.
pub(crate) async fn read(State(shared): State<Shared>, Path(bulk): Path<BulkId>) -> Answer<BulkView> {
    Ok(Json(shared.operate.bulk(bulk).await?))
}

/// `POST /bulk/{bulk}/stop`: ends an operation.
pub(crate) async fn stop(State(shared): State<Shared>, caller: Caller, Path(bulk): Path<BulkId>) -> Answer<Done> {
    carry_out(&*shared.operate, &caller, Order::new(Action::StopBulk { bulk })).await.map(Json)
}
