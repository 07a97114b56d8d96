use comfy_table::Cell;
use workflow_sdk::operate::{FailureView, ListFailures, Operate};

use crate::clock::Clock;
use crate::output::{Output, Rows, maybe, number};
use crate::{Exit, Failure, arguments};

use super::run_list::title;

pub(super) async fn list(
    operate: &dyn Operate,
    output: &Output,
    failures: arguments::Failures,
) -> Result<Exit, Failure> {
    let arguments::Failures { since, workflow, limit } = failures;
    let mut list = ListFailures::new().limit(limit);
    (list.since, list.workflow) = (since, workflow);
    let page = operate.failures(list).await?;
    output.list(&page, &page.items, |group| group.last_run.to_string(), |clock| table(clock, &page.items))?;
    let more = || format!("more groups failed earlier: --limit {}", ListFailures::MAX_LIMIT);
    output.page_end(page.items.is_empty().then_some("nothing has failed"), (!page.complete).then(more));
    Ok(Exit::Ok)
}

fn table(clock: &Clock, groups: &[FailureView]) -> Rows {
    let mut rows = Rows::new(&["COUNT", "LAST", "FIRST", "WORKFLOW", "STEP", "KIND", "MESSAGE", "LAST RUN"]);
    for group in groups {
        rows.push(vec![
            number(group.count),
            Cell::new(clock.relative(group.last_at)),
            Cell::new(clock.at(group.first_at)),
            Cell::new(title(&group.workflow, &group.tags)),
            maybe(group.step.as_deref()),
            Cell::new(group.kind),
            Cell::new(&group.message),
            Cell::new(group.last_run),
        ]);
    }
    rows
}
