//! One run: its state, its timeline, its attempts, and the reason why it does not go on.

use std::fmt::Write as _;

use comfy_table::Cell;
use workflow_sdk::operate::{
    HistoryItem, ListChanges, ListHistory, Operate, RunDetail, RunId, StoredPayload, Timeline,
};

use crate::clock::{Clock, span};
use crate::output::{Output, Rows, maybe, number};
use crate::{Exit, Failure, selection};

use super::run_list::{cursor_of, one_line, text_of};
use super::timeline::{Style, draw};
use super::watch::watch;

/// The longest payload that is shown, in characters.
const LONGEST_PAYLOAD: usize = 400;

pub(super) async fn show(operate: &dyn Operate, output: &Output, run: &str, again: bool) -> Result<Exit, Failure> {
    let id = selection::find(operate, run).await?;
    if again {
        return watch(operate, output, ListChanges::of_run(id), async || print(operate, output, id).await).await;
    }
    print(operate, output, id).await?;
    Ok(Exit::Ok)
}

/// Prints a run. Returns `true` if it has ended.
async fn print(operate: &dyn Operate, output: &Output, id: RunId) -> Result<bool, Failure> {
    let detail = operate.run(id).await?;
    let timeline = if output.is_for_people() { Some(operate.timeline(id).await?) } else { None };
    let text = |clock: &Clock| text(clock, &detail, timeline.as_ref(), output);
    output.one(&detail, || id.to_string(), text)?;
    Ok(detail.summary.status.is_terminal())
}

fn text(clock: &Clock, detail: &RunDetail, timeline: Option<&Timeline>, output: &Output) -> String {
    let run = &detail.summary;
    let mut text = format!("{} {} {}\n", run.lane.workflow, run.id, run.status);
    let mut fact = |name: &str, value: String| {
        // Writing to a string does not fail.
        let _ = writeln!(text, "  {name:9} {value}");
    };
    fact("now", detail.why.clone());
    fact(
        "queue",
        match &run.gate {
            Some(gate) => format!("{}, behind gate {gate}", run.lane.queue),
            None => run.lane.queue.clone(),
        },
    );
    fact("version", run.lane.version.clone());
    if let Some(key) = &run.key {
        fact("key", key.clone());
    }
    fact("started", format!("{} ({})", clock.at(run.created_at), clock.relative(run.created_at)));
    if let Some(ended) = run.completed_at {
        fact("took", span(ended.since(run.created_at)));
    }
    if run.attempt > 1 {
        fact("attempt", run.attempt.to_string());
    }
    if let Some(parent) = &run.parent {
        fact("parent", format!("{} (step {})", parent.run_id, parent.step_key));
    }
    if let Some(trace) = run.trace {
        fact("trace", trace.trace_id());
    }
    for (name, value) in &run.tags {
        fact("tag", format!("{name}={value}"));
    }
    if let Some(input) = &detail.input {
        fact("input", shown(input));
    }
    if let Some(result) = &detail.output {
        fact("output", shown(result));
    }
    if let Some(timeline) = timeline.filter(|timeline| !timeline.rows.is_empty()) {
        text.push('\n');
        let style = if output.is_ascii() { Style::ASCII } else { Style::UNICODE };
        for line in draw(timeline, output.columns(), style) {
            let _ = writeln!(text, "{line}");
        }
        if !timeline.complete {
            let _ = writeln!(text, "  ... more steps: workflow runs history {}", run.id);
        } else if timeline.cut {
            let _ = writeln!(text, "  ... more attempts: workflow runs history {}", run.id);
        }
    }
    text.trim_end().to_owned()
}

fn shown(StoredPayload { bytes, json, unreadable, .. }: &StoredPayload) -> String {
    match (json, unreadable) {
        (Some(json), _) if json.as_str().chars().count() <= LONGEST_PAYLOAD => json.as_str().to_owned(),
        (Some(json), _) => {
            let beginning: String = json.as_str().chars().take(LONGEST_PAYLOAD).collect();
            format!("{beginning}… ({bytes} bytes)")
        }
        (None, Some(reason)) => format!("{bytes} bytes, {reason}"),
        (None, None) => format!("{bytes} bytes"),
    }
}

pub(super) async fn explain(operate: &dyn Operate, output: &Output, run: &str) -> Result<Exit, Failure> {
    let id = selection::find(operate, run).await?;
    let RunDetail { explanation, why, .. } = operate.run(id).await?;
    output.one(&explanation, || id.to_string(), |_| why.clone())?;
    Ok(Exit::Ok)
}

pub(super) async fn history(
    operate: &dyn Operate,
    output: &Output,
    run: &str,
    limit: u32,
    cursor: Option<String>,
) -> Result<Exit, Failure> {
    let mut list = ListHistory::new(selection::find(operate, run).await?).limit(limit);
    if let Some(cursor) = cursor {
        list = list.cursor(cursor_of(&cursor)?);
    }
    let page = operate.history(list).await?;
    let mut shown: Vec<&HistoryItem> = page.items.iter().collect();
    shown.sort_by_key(|item| (item.started_at, item.attempt));
    let id = |item: &HistoryItem| format!("{}#{}", item.step, item.attempt);
    output.list(&page, &page.items, id, |clock| table(clock, &shown))?;
    let more = page.next.as_ref().map(|next| format!("later attempts: --cursor {}", text_of(next)));
    output.page_end(page.items.is_empty().then_some("the run has no step yet"), more);
    Ok(Exit::Ok)
}

fn table(clock: &Clock, items: &[&HistoryItem]) -> Rows {
    let mut rows = Rows::new(&["STEP", "KIND", "TRY", "STATUS", "BEGAN", "TOOK", "RESULT"]);
    for item in items {
        let result = match (&item.error, &item.output) {
            (Some(error), _) => Some(one_line(&error.message)),
            (None, Some(output)) => Some(shown(output)),
            (None, None) => None,
        };
        rows.push(vec![
            Cell::new(&item.step),
            Cell::new(item.kind),
            number(item.attempt),
            Cell::new(item.status),
            Cell::new(clock.at(item.started_at)),
            maybe(item.completed_at.map(|ended| span(ended.since(item.started_at)))),
            maybe(result),
        ]);
    }
    rows
}
