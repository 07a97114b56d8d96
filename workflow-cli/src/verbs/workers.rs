use std::collections::BTreeSet;

use comfy_table::{Cell, Color};
use workflow_sdk::operate::{Operate, WorkerView};

use crate::output::{Output, Rows, number};
use crate::{Exit, Failure};

use super::counts::shown;

pub(super) async fn list(operate: &dyn Operate, output: &Output) -> Result<Exit, Failure> {
    let workers = operate.workers().await?;
    output.list(
        &workers,
        &workers,
        |worker| worker.id.to_string(),
        |clock| {
            let mut rows = Rows::new(&["WORKER", "STARTED", "RUNS", "QUEUES", "WORKFLOWS", "STATE"]);
            for worker in &workers {
                let state = if worker.live { Cell::new("live") } else { Cell::new("dead").fg(Color::Red) };
                rows.push(vec![
                    Cell::new(worker.id),
                    Cell::new(clock.relative(worker.started_at)),
                    number(shown(worker.runs)),
                    Cell::new(names(worker, |lane| &lane.queue)),
                    Cell::new(names(worker, |lane| &lane.workflow)),
                    state,
                ]);
            }
            rows
        },
    )?;
    if output.is_for_people() && workers.is_empty() {
        output.note("no worker lives; runs wait until one begins");
    }
    Ok(Exit::Ok)
}

fn names(worker: &WorkerView, name: impl Fn(&workflow_sdk::Lane) -> &String) -> String {
    let names: BTreeSet<&str> = worker.lanes.iter().map(|lane| name(lane).as_str()).collect();
    Vec::from_iter(names).join(", ")
}
