use comfy_table::{Cell, Color};
use workflow_sdk::operate::Operate;

use crate::output::{Output, Rows, number};
use crate::{Exit, Failure};

pub(super) async fn list(operate: &dyn Operate, output: &Output) -> Result<Exit, Failure> {
    let workflows = operate.workflows().await?;
    output.list(
        &workflows,
        &workflows,
        |workflow| workflow.name.clone(),
        |_| {
            let mut rows = Rows::new(&["WORKFLOW", "VERSION", "QUEUE", "WORKERS", "STATE"]);
            for workflow in &workflows {
                for version in &workflow.versions {
                    let state = match (version.unserved, version.due) {
                        (true, _) => Cell::new("runs are due, and no worker serves them").fg(Color::Red),
                        (false, true) => Cell::new("runs are due"),
                        (false, false) => Cell::new("idle"),
                    };
                    rows.push(vec![
                        Cell::new(&workflow.name),
                        Cell::new(&version.version),
                        Cell::new(&version.queue),
                        number(version.workers.len()),
                        state,
                    ]);
                }
            }
            rows
        },
    )?;
    if output.is_for_people() && workflows.is_empty() {
        output.note("no workflow is known yet: the first start or worker names one");
    }
    Ok(Exit::Ok)
}
