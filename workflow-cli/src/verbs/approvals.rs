use comfy_table::Cell;
use workflow_sdk::operate::{Action, ListApprovals, Operate};

use crate::arguments::{ApprovalsVerb, Decide};
use crate::output::{Output, Rows, maybe};
use crate::{Exit, Failure, selection};

use super::order::perform;

pub(super) async fn run(operate: &dyn Operate, output: &Output, verb: ApprovalsVerb) -> Result<Exit, Failure> {
    match verb {
        ApprovalsVerb::List { limit } => list(operate, output, limit).await,
        ApprovalsVerb::Approve(decide) => decide_as(operate, output, decide, true).await,
        ApprovalsVerb::Reject(decide) => decide_as(operate, output, decide, false).await,
    }
}

async fn decide_as(operate: &dyn Operate, output: &Output, decide: Decide, approve: bool) -> Result<Exit, Failure> {
    let Decide { run, approval, note, author } = decide;
    let run = selection::find(operate, &run).await?;
    let action = Action::DecideApproval { run, step: approval, approve, note };
    perform(operate, output, action, &author).await
}

async fn list(operate: &dyn Operate, output: &Output, limit: u32) -> Result<Exit, Failure> {
    let page = operate.approvals(ListApprovals::new().limit(limit)).await?;
    output.list(
        &page,
        &page.items,
        |approval| approval.run_id.to_string(),
        |clock| {
            let mut rows = Rows::new(&["RUN", "APPROVAL", "WORKFLOW", "ASKS", "SINCE", "UNTIL"]);
            for approval in &page.items {
                rows.push(vec![
                    Cell::new(approval.run_id),
                    Cell::new(&approval.key),
                    Cell::new(&approval.lane.workflow),
                    maybe(approval.to.as_deref()),
                    Cell::new(clock.relative(approval.since)),
                    maybe(approval.until.map(|until| clock.relative(until))),
                ]);
            }
            rows
        },
    )?;
    if output.is_for_people() {
        if page.items.is_empty() {
            output.note("no run waits for an approval");
        } else if !page.complete {
            output.note("there are more: raise --limit");
        }
    }
    Ok(Exit::Ok)
}
