use comfy_table::Cell;
use workflow_sdk::operate::{AuditEntry, ListAudit, Operate};

use crate::clock::Clock;
use crate::output::{Output, Rows, maybe};
use crate::{Exit, Failure, arguments};

use super::run_list::{cursor_of, text_of};

pub(super) async fn list(operate: &dyn Operate, output: &Output, audit: arguments::Audit) -> Result<Exit, Failure> {
    let mut list = ListAudit::new().verb(audit.verb).limit(audit.limit);
    if let Some(target) = audit.target {
        list = list.target(target);
    }
    if let Some(actor) = audit.by {
        list = list.actor(actor);
    }
    if let Some(cursor) = audit.cursor {
        list = list.cursor(cursor_of(&cursor)?);
    }
    let page = operate.audit(list).await?;
    output.list(&page, &page.items, |entry| entry.id.to_string(), |clock| table(clock, &page.items))?;
    let more = page.next.as_ref().map(|next| format!("older changes: --cursor {}", text_of(next)));
    output.page_end(page.items.is_empty().then_some("no change matches"), more);
    Ok(Exit::Ok)
}

fn table(clock: &Clock, entries: &[AuditEntry]) -> Rows {
    let mut rows = Rows::new(&["AT", "BY", "VERB", "TARGET", "OUTCOME", "REASON"]);
    for entry in entries {
        rows.push(vec![
            Cell::new(clock.at(entry.at)),
            maybe(entry.actor.as_deref()),
            Cell::new(&entry.verb),
            Cell::new(&entry.target),
            Cell::new(&entry.outcome),
            maybe(entry.reason.as_deref()),
        ]);
    }
    rows
}
