use std::fmt;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::Timestamp;

/// The id of an audit row: a UUIDv7, so ids sort by the time at which the orders were given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(transparent)]
pub struct AuditId(Uuid);

impl AuditId {
    /// The id after all others, which no row has.
    #[doc(hidden)]
    pub const LAST: Self = Self(Uuid::max());

    /// Generates a new id, which sorts after every id generated before it in this process.
    #[must_use]
    pub fn generate() -> Self {
        Self(Uuid::now_v7())
    }

    /// Returns the id as a UUID.
    #[must_use]
    pub fn as_uuid(self) -> Uuid {
        self.0
    }
}

impl From<Uuid> for AuditId {
    fn from(uuid: Uuid) -> Self {
        Self(uuid)
    }
}

impl fmt::Display for AuditId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An audit row before its commit: the order that changes something. It holds names, ids and
/// limits, and no payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewAudit {
    /// Identifies the order. However often it is committed, it leaves one row.
    pub id: AuditId,
    /// On whose behalf the order is given, if that is known.
    pub actor: Option<String>,
    /// The verb, such as `run.cancel`.
    pub verb: String,
    /// The target, such as `queue:mail`.
    pub target: String,
    /// The reason.
    pub reason: Option<String>,
    /// Further names, ids and limits of the order, as the JSON text of an object.
    pub arguments: String,
}

/// An audit row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditRow {
    /// The order.
    pub order: NewAudit,
    /// When it was committed, by the clock of the store.
    pub at: Timestamp,
    /// The outcome, such as `canceled`.
    pub outcome: String,
}
