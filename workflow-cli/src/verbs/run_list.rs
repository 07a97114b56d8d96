use std::collections::BTreeMap;

use comfy_table::{Cell, Color};
use workflow_flows::FlowName;
use workflow_sdk::RunStatus;
use workflow_sdk::operate::{Cursor, ListChanges, ListRuns, Operate, Query, RunNow, RunPage, RunSummary};

use crate::clock::Clock;
use crate::output::{Output, Rows, maybe};
use crate::{Exit, Failure, arguments};

use super::watch::watch;

pub(super) async fn list(
    operate: &dyn Operate,
    output: &Output,
    arguments: arguments::ListRuns,
) -> Result<Exit, Failure> {
    let query: Query = arguments.query.join(" ").parse()?;
    let mut list = ListRuns::new(query);
    if arguments.all {
        return list_all(operate, output, list.limit(ListRuns::MAX_LIMIT)).await;
    }
    list = list.limit(arguments.limit);
    if let Some(cursor) = arguments.cursor {
        list = list.cursor(cursor_of(&cursor)?);
    }
    if arguments.watch {
        let changes = ListChanges::of_runs(list.query.clone()).limit(list.limit.min(ListChanges::MAX_LIMIT));
        return watch(operate, output, changes, async || {
            print(output, &operate.runs(list.clone()).await?)?;
            Ok(false)
        })
        .await;
    }
    let page = operate.runs(list).await?;
    print(output, &page)?;
    let searched_to = page.searched_to.map(|until| format!("searched back to {}", output.clock().at(until)));
    output.page_end((page.items.is_empty() && page.complete).then_some("no run matches"), searched_to);
    output.page_end(None, page.next.as_ref().map(|next| format!("older runs: --cursor {}, or --all", text_of(next))));
    Ok(Exit::Ok)
}

/// Lists all pages: together as one document, else each page as it comes.
async fn list_all(operate: &dyn Operate, output: &Output, mut list: ListRuns) -> Result<Exit, Failure> {
    let mut items = Vec::new();
    loop {
        let mut page = operate.runs(list.clone()).await?;
        let next = page.next.take();
        if output.is_one_document() {
            items.append(&mut page.items);
            if next.is_none() {
                page.items = std::mem::take(&mut items);
                print(output, &page)?;
            }
        } else {
            print(output, &page)?;
        }
        let Some(next) = next else { return Ok(Exit::Ok) };
        list = list.cursor(next);
    }
}

pub(super) fn cursor_of(text: &str) -> Result<Cursor, Failure> {
    let parsed = serde_json::from_value(serde_json::Value::String(text.to_owned()));
    parsed.map_err(|_| {
        Failure::usage(format!("the cursor {text:?} is damaged"), "copy the whole cursor, or begin without one")
    })
}

/// Returns a cursor as the command line takes it.
pub(super) fn text_of(cursor: &Cursor) -> String {
    match serde_json::to_value(cursor) {
        Ok(serde_json::Value::String(text)) => text,
        _ => String::new(),
    }
}

fn print(output: &Output, page: &RunPage) -> Result<(), Failure> {
    output.list(page, &page.items, |run| run.id.to_string(), |clock| table(clock, &page.items))
}

fn table(clock: &Clock, runs: &[RunSummary]) -> Rows {
    let mut rows = Rows::new(&["RUN", "WORKFLOW", "STATUS", "STARTED", "KEY", "NOW"]);
    for run in runs {
        rows.push(vec![
            Cell::new(run.id),
            Cell::new(title(&run.lane.workflow, &run.tags)),
            status(run.status),
            Cell::new(clock.relative(run.created_at)),
            maybe(run.key.as_deref()),
            Cell::new(now(clock, run)),
        ]);
    }
    rows
}

/// Returns the name of the flow of runs with these tags, or that of their workflow.
pub(super) fn title<'n>(workflow: &'n str, tags: &'n BTreeMap<String, String>) -> &'n str {
    FlowName::of(workflow, tags).map_or(workflow, |flow| flow.name)
}

/// Returns the status in its color: only what is under way or has failed has one.
pub(super) fn status(status: RunStatus) -> Cell {
    let cell = Cell::new(status);
    match status {
        RunStatus::Running => cell.fg(Color::Blue),
        RunStatus::Failed => cell.fg(Color::Red),
        RunStatus::Canceled => cell.fg(Color::DarkGrey),
        _ => cell,
    }
}

/// Returns the present state of a run in a few words.
pub(super) fn now(clock: &Clock, run: &RunSummary) -> String {
    let error = run.error.as_ref().map(|error| match &error.step_key {
        // The error of a flow names its step itself.
        Some(step) if !error.message.contains(&format!("step {step:?}: ")) => {
            format!("{step}: {}", one_line(&error.message))
        }
        _ => one_line(&error.message),
    });
    let error = || error.clone().unwrap_or_default();
    match &run.now {
        RunNow::Due { since } => format!("due since {}", clock.at(*since)),
        RunNow::WaitsUntil { until } if run.error.is_some() => {
            format!("tried again {}: {}", clock.relative(*until), error())
        }
        RunNow::WaitsUntil { until } => match run.awaited() {
            Some(awaited) => format!("waits for {awaited}, until {}", clock.at(*until)),
            None => format!("waits until {}", clock.at(*until)),
        },
        RunNow::Waits => format!("waits for {}", run.awaited().as_deref().unwrap_or("a signal, an event or a child")),
        RunNow::Running { lease_until, .. } if *lease_until < clock.now() => {
            "its worker has died or is stuck".to_owned()
        }
        RunNow::Running { worker: Some(worker), .. } => format!("running on worker {worker}"),
        RunNow::Running { worker: None, .. } => "running".to_owned(),
        RunNow::Paused { since } => format!("paused since {}", clock.at(*since)),
        RunNow::Stuck => format!("stuck: {}", error()),
        RunNow::Ended { at: Some(at) } if run.error.is_none() => format!("ended {}", clock.relative(*at)),
        RunNow::Ended { .. } => error(),
        _ => String::new(),
    }
}

/// Returns the first line of a text.
pub(super) fn one_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}
