//! Calls that leave an audit row.

use std::sync::Arc;

use workflow_engine::model::NewAudit;
use workflow_engine::store::{AuditedWrite, Write};

use super::{Client, Inner};

impl Client {
    /// Returns a client for one order: the change that its next call commits leaves this audit row.
    /// A call that commits a second write, because the first one changed nothing, leaves one row as
    /// well.
    pub(crate) fn audited(&self, order: NewAudit) -> Self {
        Self(Arc::new(Inner { audit: Some(order), ..Inner::clone(&self.0) }))
    }

    /// Returns `true` if the next change of this client leaves an audit row.
    pub(super) fn is_audited(&self) -> bool {
        self.0.audit.is_some()
    }

    /// Returns the write that this client commits in place of a write.
    pub(super) fn audit(&self, write: Write) -> Write {
        match &self.0.audit {
            Some(order) => Write::Audited(Box::new(AuditedWrite { write, order: order.clone() })),
            None => write,
        }
    }
}
