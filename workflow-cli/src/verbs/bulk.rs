//! Bulk operations: ordered by `--where`, executed by the workers.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use comfy_table::Cell;
use workflow_sdk::operate::{
    Action, BulkAction, BulkId, BulkStatus, BulkView, ListBulks, Operate, OrderOutcome, Query, StartBulk,
};

use crate::arguments::{BulkVerb, Change};
use crate::clock::Clock;
use crate::output::{Output, Rows, maybe, number};
use crate::{Exit, Failure, arguments};

use super::order::{order, perform};
use super::run_changes::agrees;
use super::run_list::{cursor_of, text_of};

/// How often a command that follows an operation reads how far it has come.
const LOOK: Duration = Duration::from_millis(250);

pub(super) async fn run(operate: &dyn Operate, output: &Output, verb: BulkVerb) -> Result<Exit, Failure> {
    match verb {
        BulkVerb::List(arguments::ListBulks { limit, cursor }) => list(operate, output, limit, cursor).await,
        BulkVerb::Show { bulk, wait: false } => {
            let view = operate.bulk(id(&bulk)?).await?;
            show(output, &view)?;
            Ok(exit_of(&view, false))
        }
        BulkVerb::Show { bulk, wait: true } => follow(operate, output, id(&bulk)?).await,
        BulkVerb::Stop { bulk, author } => {
            perform(operate, output, Action::StopBulk { bulk: id(&bulk)? }, &author).await
        }
    }
}

/// Returns `true` if a living worker can execute an operation.
pub(super) async fn has_worker(operate: &dyn Operate) -> Result<bool, Failure> {
    Ok(operate.workers().await?.iter().any(|worker| worker.live))
}

/// Orders an operation and follows it to its end.
pub(super) async fn start(
    operate: &dyn Operate,
    output: &Output,
    query: &str,
    apply: BulkAction,
    Change { confirm, author, .. }: &Change,
) -> Result<Exit, Failure> {
    let query: Query = query.parse()?;
    let found = operate.bulk_preview(&query).await?.runs;
    let count = match (found.runs, found.at_least) {
        (1, false) => "1 run".to_owned(),
        (runs, false) => format!("{runs} runs"),
        (runs, true) => format!("at least {runs} runs"),
    };
    let is_empty = found.runs == 0 && !found.at_least;
    if is_empty {
        output.note("no run matches, and nothing was changed");
        return Ok(Exit::Ok);
    }
    if !confirm.yes && !agrees(&count, false).await? {
        let verb = if count == "1 run" { "matches" } else { "match" };
        return Err(Failure::new(Exit::Usage, format!("{count} {verb}, and nothing was changed"))
            .help("add --yes to change them, or --dry-run to see them"));
    }
    let start = Action::StartBulk(Box::new(StartBulk::new(query, apply)));
    let done = operate.perform(order(start, author)).await?;
    let (OrderOutcome::BulkStarted { bulk } | OrderOutcome::BulkExisted { bulk }) = done.outcome else {
        return Err(Failure::new(Exit::Error, done.message));
    };
    if confirm.detach {
        output.one(&done, || bulk.to_string(), |_| format!("{}: workflow bulk show {bulk}", done.message))?;
        return Ok(Exit::Ok);
    }
    output.note(format!("bulk operation {bulk} goes on if this command ends: workflow bulk stop {bulk} ends it"));
    follow(operate, output, bulk).await
}

async fn follow(operate: &dyn Operate, output: &Output, bulk: BulkId) -> Result<Exit, Failure> {
    let is_shown = io::stderr().is_terminal() && output.is_for_people();
    loop {
        let view = operate.bulk(bulk).await?;
        let has_ended = view.status != BulkStatus::Running;
        if is_shown {
            // A closed standard error leaves nothing to show.
            let _ = write!(io::stderr(), "\r\x1b[K{}{}", progress(&view), if has_ended { "\n" } else { "" });
        }
        if has_ended {
            show(output, &view)?;
            return Ok(exit_of(&view, view.status == BulkStatus::Stopped));
        }
        tokio::time::sleep(LOOK).await;
    }
}

fn progress(view: &BulkView) -> String {
    let BulkView { done, skipped, failed, matched, .. } = view;
    let dealt = done + skipped + failed;
    let of = matched.map(|matched| format!(" of {}", matched.max(dealt))).unwrap_or_default();
    format!("{dealt}{of} runs: {done} changed, {skipped} skipped, {failed} failed")
}

fn show(output: &Output, view: &BulkView) -> Result<(), Failure> {
    output.one(view, || view.id.to_string(), |clock| text(clock, view))
}

/// Returns the exit code for an operation that has dealt with all of its runs, unless it was
/// stopped before.
fn exit_of(view: &BulkView, was_stopped: bool) -> Exit {
    match (view.failed, view.done + view.skipped) {
        (0, _) if !was_stopped => Exit::Ok,
        (_, 0) => Exit::Error,
        _ => Exit::Partly,
    }
}

fn text(clock: &Clock, view: &BulkView) -> String {
    let mut lines = vec![format!("{} of {:?}, {}: {}", view.verb, view.query, view.status, progress(view))];
    lines.push(format!("ordered {}{}", clock.at(view.created_at), by(view)));
    lines.extend(view.failures.iter().map(|failure| format!("  {}: {}", failure.run, failure.reason)));
    let shown = u64::try_from(view.failures.len()).unwrap_or_default();
    if view.failed > shown {
        lines.push(format!("  and {} more", view.failed - shown));
    }
    lines.join("\n")
}

fn by(view: &BulkView) -> String {
    let actor = view.actor.as_ref().map(|actor| format!(" by {actor}")).unwrap_or_default();
    let reason = view.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    actor + &reason
}

async fn list(operate: &dyn Operate, output: &Output, limit: u32, cursor: Option<String>) -> Result<Exit, Failure> {
    let mut list = ListBulks::new().limit(limit);
    if let Some(cursor) = cursor {
        list = list.cursor(cursor_of(&cursor)?);
    }
    let page = operate.bulks(list).await?;
    output.list(&page, &page.items, |view| view.id.to_string(), |clock| table(clock, &page.items))?;
    let more = page.next.as_ref().map(|next| format!("older operations: --cursor {}", text_of(next)));
    output.page_end(page.items.is_empty().then_some("no bulk operation was ordered"), more);
    Ok(Exit::Ok)
}

fn table(clock: &Clock, views: &[BulkView]) -> Rows {
    let mut rows = Rows::new(&["ID", "AT", "VERB", "QUERY", "STATUS", "CHANGED", "SKIPPED", "FAILED", "BY"]);
    for view in views {
        rows.push(vec![
            Cell::new(view.id),
            Cell::new(clock.at(view.created_at)),
            Cell::new(&view.verb),
            Cell::new(&view.query),
            Cell::new(view.status),
            number(view.done),
            number(view.skipped),
            number(view.failed),
            maybe(view.actor.as_deref()),
        ]);
    }
    rows
}

fn id(text: &str) -> Result<BulkId, Failure> {
    text.parse().map_err(|_| {
        let message = format!("{text:?} is not the id of a bulk operation");
        Failure::usage(message, "`workflow bulk list` shows the ids")
    })
}
