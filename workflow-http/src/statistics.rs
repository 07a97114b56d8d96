//! Statistics and failures.

use axum::extract::State;
use axum::{Extension, Json};
use workflow_sdk::operate::{FailurePage, ListFailures, ListStats, StatsPage};

use crate::body::Query;
use crate::{Actor, Answer, Shared};

/// Stands for the message of a group that the actor may not see.
const HIDDEN: &str = "(hidden)";

pub(crate) async fn stats(State(shared): State<Shared>, Query(list): Query<ListStats>) -> Answer<StatsPage> {
    Ok(Json(shared.operate.stats(list).await?))
}

pub(crate) async fn failures(
    State(shared): State<Shared>,
    Extension(actor): Extension<Actor>,
    Query(list): Query<ListFailures>,
) -> Answer<FailurePage> {
    let mut page = shared.operate.failures(list).await?;
    if !actor.payloads {
        page.items.iter_mut().for_each(|group| group.message = HIDDEN.into());
    }
    Ok(Json(page))
}
