//! Limits for steps.

use serde::{Deserialize, Serialize};

use workflow_engine::model::{LimitRecord, LimitRule};

use crate::Client;

use super::OperateError;
use super::counts::{AT_MOST, Count};
use super::outcome::warning_about;

/// The most limits in an answer: each costs a read.
const MOST_LIMITS: usize = 1_000;

/// A limit for steps that was declared or set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct LimitView {
    /// The name.
    pub name: String,
    /// The rule that was declared last: by a worker that started, or for a flow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub declared: Option<LimitRule>,
    /// The rule that an operator has set in its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overridden: Option<LimitRule>,
    /// The rule that holds. `None`: the limit is neither declared nor set, and holds nothing back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<LimitRule>,
    /// Why the stored rules are not understood. Until one is set again, no body begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_understood: Option<String>,
    /// The seats that are taken, over all keys.
    pub held: Count,
    /// The steps that wait for a seat, over all keys.
    pub waiting: Count,
}

/// See [`Operate::limits`](super::Operate::limits).
pub(super) async fn limits(client: &Client) -> Result<Vec<LimitView>, OperateError> {
    let store = client.store();
    let mut limits = Vec::new();
    for record in client.read(store.limits()).await?.into_iter().take(MOST_LIMITS) {
        let seats = client.read(store.seat_counts(&record.name, AT_MOST)).await?;
        let rule = record.rule();
        let LimitRecord { name, declared, overridden, not_understood, .. } = record;
        let (held, waiting) = (Count::of(seats.held), Count::of(seats.waiting));
        limits.push(LimitView { name, declared, overridden, rule, not_understood, held, waiting });
    }
    Ok(limits)
}

/// Returns `true` if an operator has set the rule of a limit, or if this program cannot know it.
/// A limit that was neither declared nor set is refused.
pub(super) async fn is_set(client: &Client, limit: &str) -> Result<bool, OperateError> {
    let records = client.read(client.store().limits()).await?;
    match records.iter().find(|record| record.name == limit) {
        Some(record) => Ok(record.overridden.is_some() || record.not_understood.is_some()),
        None => Err(OperateError::unknown_name("limit", limit, records.iter().map(|record| record.name.as_str()))),
    }
}

/// Returns a warning about a limit that was neither declared nor set. Its name may be mistyped, or
/// the order comes before the limit.
pub(super) async fn warning(client: &Client, limit: &str) -> Result<Option<String>, OperateError> {
    let records = client.read(client.store().limits()).await?;
    let is_known = records.iter().any(|record| record.name == limit);
    Ok((!is_known).then(|| warning_about("limit", limit, records.iter().map(|record| record.name.as_str()))))
}
