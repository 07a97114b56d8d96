//! Writes that leave an audit row, and the lists of these rows.

use crate::model::{AuditId, AuditRow, NewAudit, SignalOutcome};

use super::{CancelOutcome, DeleteOutcome, Outcome, PauseOutcome, PlaceOutcome, ResumeOutcome, StartOutcome, Write};

/// A write that leaves an audit row in the same commit, if it changes something.
#[derive(Clone, Debug)]
pub struct AuditedWrite {
    /// The write. It is applied as if it came without the row.
    pub write: Write,
    /// The row.
    pub order: NewAudit,
}

/// An audit row that is to be inserted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InsertedAudit<'w> {
    /// The order.
    pub order: &'w NewAudit,
    /// Its outcome, for people.
    pub outcome: String,
}

/// Returns what the audit row says about the outcome of a write; `None` if it leaves no row.
///
/// A write that was refused, or that found nothing to change, leaves none. A write that is applied
/// again because its reply was lost has left its row before, with the outcome of that time.
pub(super) fn audited_outcome(write: &Write, outcome: &Outcome) -> Option<String> {
    let word = match outcome {
        Outcome::Applied | Outcome::Started(StartOutcome::Created | StartOutcome::Replaced { .. }) => {
            return Some(match write.new_runs().next() {
                Some(run) => format!("started {}", run.id),
                None => "applied".into(),
            });
        }
        Outcome::Started(StartOutcome::Moved { id }) => return Some(format!("moved {id}")),
        Outcome::Emitted(emitted) if emitted.count > 0 => return Some(format!("delivered to {}", emitted.count)),
        Outcome::Signaled(SignalOutcome::Accepted) => "accepted",
        Outcome::Canceled(CancelOutcome::Canceled) => "canceled",
        Outcome::Canceled(CancelOutcome::Requested) | Outcome::Paused(PauseOutcome::Requested) => "requested",
        Outcome::Deleted(DeleteOutcome::Deleted(_)) => "deleted",
        Outcome::Paused(PauseOutcome::Paused) => "paused",
        Outcome::Resumed(ResumeOutcome::Resumed) => "resumed",
        Outcome::Placed(PlaceOutcome::Changed) => "changed",
        Outcome::Started(_) | Outcome::Emitted(_) | Outcome::Signaled(_) | Outcome::Canceled(_) => return None,
        Outcome::Deleted(_) | Outcome::Paused(_) | Outcome::Resumed(_) | Outcome::Placed(_) => return None,
        Outcome::Duplicate | Outcome::Lost | Outcome::Refused(_) | Outcome::Busy | Outcome::Delivered => return None,
        Outcome::KeyTaken { .. } | Outcome::QueueFull(_) | Outcome::SingleTaken { .. } => return None,
        Outcome::SourceMissing | Outcome::LimitUndeclared | Outcome::SeatWaits { .. } => return None,
        // Only workers send these writes.
        Outcome::Called(_) | Outcome::Claimed(_) | Outcome::Changed(_) => return None,
        Outcome::BulkClaimed(_) | Outcome::Advanced(_) => return None,
    };
    Some(word.into())
}

/// Asks for audit rows, the newest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditList {
    /// Only rows with ids before this one.
    pub older_than: AuditId,
    /// Only rows with verbs that begin with this text.
    pub verb: String,
    /// Only rows of this target.
    pub target: Option<String>,
    /// Only rows of this actor.
    pub actor: Option<String>,
    /// The largest number of rows.
    pub limit: u32,
    /// The largest number of rows that are read.
    pub budget: u32,
}

impl AuditList {
    /// `true` if the list wants this row.
    #[must_use]
    pub fn wants(&self, NewAudit { verb, target, actor, .. }: &NewAudit) -> bool {
        verb.starts_with(&self.verb)
            && self.target.as_ref().is_none_or(|wanted| wanted == target)
            && (self.actor.is_none() || self.actor == *actor)
    }
}

/// A part of a list of audit rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListedAudits {
    /// The rows, the newest first.
    pub rows: Vec<AuditRow>,
    /// The last row that was read, if the budget or the limit ended the list.
    pub next: Option<AuditId>,
}

impl ListedAudits {
    /// Returns the answer to a list, given the rows that it found, at most one more than its limit,
    /// and the row at which its budget ended.
    #[must_use]
    pub fn of(list: &AuditList, mut rows: Vec<AuditRow>, end: Option<AuditId>) -> Self {
        let is_full = rows.len() > list.limit as usize;
        rows.truncate(list.limit as usize);
        let next = if is_full { rows.last().map(|row| row.order.id) } else { end };
        Self { rows, next }
    }
}
