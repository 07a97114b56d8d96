//! Deletes the ended runs that are older than they are kept, once, now.

use std::collections::BTreeMap;

use comfy_table::Cell;
use serde::Serialize;
use workflow_sdk::{Client, RunStatus};
use workflow_worker::{PruneError, Pruned, prune};

use crate::arguments::Prune;
use crate::output::{Output, Rows, number};
use crate::serving::Served;
use crate::{Exit, Failure};

use crate::verbs::run_changes::agrees;

/// The old runs of one workflow.
#[derive(Debug, Default, Serialize)]
struct OldRuns {
    workflow: String,
    succeeded: u64,
    failed: u64,
    canceled: u64,
}

#[derive(Debug, Serialize)]
struct Report {
    items: Vec<OldRuns>,
    deleted: u64,
    kept: u64,
}

/// Applies what the living workers declare, and what this program's worker declares.
pub(crate) async fn run(
    worker: Option<&dyn Served>,
    client: &Client,
    Prune { dry_run, yes }: Prune,
    output: &Output,
) -> Result<Exit, Failure> {
    let apply = async |counts_only| match worker {
        Some(worker) => worker.prune(counts_only).await,
        None => prune(client, counts_only).await,
    };
    let mut pruned = apply(true).await.map_err(refused)?;
    let old: u64 = pruned.old.values().sum();
    let count = if old == 1 { "1 run".to_owned() } else { format!("{old} runs") };
    if old > 0 && !dry_run {
        if !yes && !agrees(&count, false).await? {
            let failure = Failure::new(Exit::Usage, format!("{count} are old enough, and nothing was deleted"));
            return Err(failure.help("add --yes to delete them, or --dry-run to see them"));
        }
        pruned = apply(false).await.map_err(refused)?;
    }
    show(&pruned, output)?;
    if output.is_for_people() {
        output.note(match (old, dry_run) {
            (0, _) => "no run is old enough".to_owned(),
            (_, true) => format!("{count} would be deleted"),
            (_, false) => format!("{} deleted, {} kept because something needs them", pruned.deleted, pruned.kept),
        });
    }
    Ok(Exit::Ok)
}

fn show(pruned: &Pruned, output: &Output) -> Result<(), Failure> {
    let mut workflows: BTreeMap<&str, OldRuns> = BTreeMap::new();
    for ((workflow, status), runs) in &pruned.old {
        let old = workflows.entry(workflow).or_default();
        old.workflow.clone_from(workflow);
        match status {
            RunStatus::Failed => old.failed += runs,
            RunStatus::Canceled => old.canceled += runs,
            _ => old.succeeded += runs,
        }
    }
    let items = workflows.into_values().collect();
    let report = Report { items, deleted: pruned.deleted, kept: pruned.kept };
    output.list(
        &report,
        &report.items,
        |old| old.workflow.clone(),
        |_| {
            let mut rows = Rows::new(&["WORKFLOW", "SUCCEEDED", "FAILED", "CANCELED"]);
            for old in &report.items {
                let numbers = [old.succeeded, old.failed, old.canceled].map(number);
                rows.push([Cell::new(&old.workflow)].into_iter().chain(numbers).collect());
            }
            rows
        },
    )
}

fn refused(error: PruneError) -> Failure {
    match &error {
        PruneError::NoRetention => Failure::new(Exit::Error, error.to_string())
            .help("start the workers, or delete by a query: workflow runs delete --where QUERY"),
        _ => Failure::new(Exit::Error, error.to_string()),
    }
}
