use comfy_table::Cell;
use serde_json::Value;
use workflow_flows::{Answer, answer_step};
use workflow_sdk::ApprovalKind;
use workflow_sdk::operate::{Action, ListApprovals, Operate};

use crate::arguments::{ApprovalsVerb, Choose, Decide};
use crate::output::{Output, Rows, maybe};
use crate::{Exit, Failure, selection};

use super::order::{actor, perform};
use super::run_list::{cursor_of, text_of, title};

pub(super) async fn run(operate: &dyn Operate, output: &Output, verb: ApprovalsVerb) -> Result<Exit, Failure> {
    match verb {
        ApprovalsVerb::List { limit, cursor } => list(operate, output, limit, cursor.as_deref()).await,
        ApprovalsVerb::Approve(decide) => decide_as(operate, output, decide, true).await,
        ApprovalsVerb::Reject(decide) => decide_as(operate, output, decide, false).await,
        ApprovalsVerb::Choose(choose) => answer(operate, output, choose).await,
    }
}

async fn decide_as(operate: &dyn Operate, output: &Output, decide: Decide, approve: bool) -> Result<Exit, Failure> {
    let Decide { run, approval, note, author } = decide;
    let run = selection::find(operate, &run).await?;
    let action = Action::DecideApproval { run, step: approval, approve, note };
    perform(operate, output, action, &author).await
}

async fn answer(operate: &dyn Operate, output: &Output, choose: Choose) -> Result<Exit, Failure> {
    let Choose { run, decision, choice, as_json, note, author } = choose;
    let choice = if as_json {
        let refused = |error: serde_json::Error| {
            Failure::new(Exit::Usage, format!("the choice is not JSON: {error}")).help("a text stands in quotes")
        };
        serde_json::from_str(&choice).map_err(refused)?
    } else {
        Value::String(choice)
    };
    let run = selection::find(operate, &run).await?;
    let mut answer = Answer::default();
    (answer.choice, answer.note) = (Some(choice), note);
    let by = actor(&author).unwrap_or_default();
    let action = answer_step(operate, run, &decision, answer, &by).await?;
    perform(operate, output, action, &author).await
}

async fn list(operate: &dyn Operate, output: &Output, limit: u32, cursor: Option<&str>) -> Result<Exit, Failure> {
    let mut list = ListApprovals::new().limit(limit);
    list.cursor = cursor.map(cursor_of).transpose()?;
    let page = list.first_page(operate).await?;
    output.list(
        &page,
        &page.items,
        |approval| approval.run_id.to_string(),
        |clock| {
            let mut rows = Rows::new(&["RUN", "APPROVAL", "KIND", "WORKFLOW", "ASKS", "SINCE", "UNTIL"]);
            for approval in &page.items {
                rows.push(vec![
                    Cell::new(approval.run_id),
                    Cell::new(&approval.key),
                    Cell::new(kind(approval.kind)),
                    Cell::new(title(&approval.lane.workflow, &approval.tags)),
                    maybe(approval.to.as_deref()),
                    Cell::new(clock.relative(approval.since)),
                    maybe(approval.until.map(|until| clock.relative(until))),
                ]);
            }
            rows
        },
    )?;
    let more = page.next.as_ref().map(|next| format!("later approvals: --cursor {}", text_of(next)));
    output.page_end(page.items.is_empty().then_some("no run waits for an approval or a decision"), more);
    Ok(Exit::Ok)
}

fn kind(kind: ApprovalKind) -> &'static str {
    if kind == ApprovalKind::Decision { "decision" } else { "approval" }
}
