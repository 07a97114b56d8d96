//! Audit rows.

use workflow_engine::model::{AuditRow, Timestamp};
use workflow_engine::store::{AuditList, InsertedAudit, ListedAudits};

use super::tables::Tables;

/// Inserts a row, unless its id exists.
pub(super) fn insert(tables: &mut Tables, InsertedAudit { order, outcome }: &InsertedAudit<'_>, now: Timestamp) {
    let row = || AuditRow { order: (*order).clone(), at: now, outcome: outcome.clone() };
    tables.audits_mut().entry(order.id).or_insert_with(row);
}

/// See [`Store::audits`](workflow_engine::store::Store::audits).
pub(super) fn list(tables: &Tables, list: &AuditList) -> ListedAudits {
    let is_read = |row: &&AuditRow| list.target.as_ref().is_none_or(|target| *target == row.order.target);
    let read = || tables.audits().range(..list.older_than).rev().map(|(_, row)| row).filter(is_read);
    let budget = list.budget as usize;
    let end = read().nth(budget.saturating_sub(1)).map(|row| row.order.id);
    let wanted = read().take(budget).filter(|row| list.wants(&row.order));
    ListedAudits::of(list, wanted.take(list.limit as usize + 1).cloned().collect(), end)
}
