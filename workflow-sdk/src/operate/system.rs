//! The database itself.

use serde::{Deserialize, Serialize};

use workflow_engine::model::DatabaseView;
use workflow_engine::schedule::ZoneDataView;

use crate::Client;

use super::OperateError;

/// The database and the program that has looked at it. See
/// [`Operate::system`](super::Operate::system).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct SystemView {
    /// The release of the program that has asked the database. Over HTTP, that is the server.
    pub release: String,
    /// The facts that the database has about itself.
    pub database: DatabaseView,
    /// The time zone data of that program, by which it computes the times of schedules. Other
    /// programs may have other data. `None`: a server of an earlier release does not tell it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone_data: Option<ZoneDataView>,
}

/// See [`Operate::system`](super::Operate::system).
pub(super) async fn system(client: &Client) -> Result<SystemView, OperateError> {
    let database = client.read(client.store().system()).await?;
    let zone_data = Some(ZoneDataView::of_this_program());
    Ok(SystemView { release: env!("CARGO_PKG_VERSION").to_owned(), database, zone_data })
}
