//! Dry-replays the unfinished runs of the database against the registered code.

use std::collections::BTreeMap;

use workflow_sdk::internal::{dry_replay, run_history};
use workflow_sdk::{
    Client, DatabaseErrorKind, Misfit, Replayed, Run, RunFilter, RunHistory, RunId, RunStatus, UnreadablePayload,
};

use crate::drive::unreadable;
use crate::preflight_report::{Finding, PreflightReport, Unregistered};
use crate::registry::Registry;
use crate::{Worker, WorkerError};

impl<S> Worker<S> {
    /// Replays every unfinished run of the database, in all queues, against the registered
    /// workflows, and reports which runs would diverge or fail under them.
    ///
    /// It is meant for a CI job before a deployment, on the production database. It claims nothing,
    /// writes nothing and begins no body. On PostgreSQL a read-only user is enough once the schema
    /// is up to date. The code of the workflows outside of their steps does run, as in every
    /// replay.
    ///
    /// The runs are judged one after the other. Each run costs one query, and each page of runs one
    /// more. A run that a worker drives at the same time is judged by the state that was read.
    ///
    /// # Errors
    /// [`WorkerError::NoWorkflows`], [`WorkerError::DuplicateWorkflow`] and [`WorkerError::Name`]
    /// for the registered workflows, [`WorkerError::Database`] if the database cannot be read. A
    /// history that cannot be read is not an error: see [`PreflightReport::unreadable`].
    ///
    /// # Cancel safety
    /// Dropping the future has no effect, because it only reads.
    ///
    /// ```
    /// use std::process::ExitCode;
    /// use workflow_sdk::prelude::*;
    /// use workflow_worker::Worker;
    ///
    /// #[workflow]
    /// async fn greet(ctx: &Ctx, name: String) -> Result<String> {
    ///     ctx.step("greet", async || Ok::<_, Error>(format!("hello, {name}"))).await
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    /// let client = Client::connect("sqlite::memory:").await?;
    /// client.start(greet, "Ada".to_string()).await?;
    /// let report = Worker::new(client, ()).register(greet).preflight().await?;
    /// println!("{report}");
    /// assert_eq!(report.fits, 1);
    /// Ok(report.exit_code())
    /// # }
    /// ```
    pub async fn preflight(&self) -> Result<PreflightReport, WorkerError> {
        preflight(&self.client, &self.registry).await
    }
}

/// Judges every unfinished run, one after the other, and reads them page by page.
pub(crate) async fn preflight(client: &Client, registry: &Registry) -> Result<PreflightReport, WorkerError> {
    registry.check()?;
    let unfinished = RunStatus::ALL.into_iter().filter(|status| !status.is_terminal());
    let mut filter = unfinished.fold(RunFilter::new(), RunFilter::status);
    let mut report = PreflightReport::default();
    let mut unregistered = BTreeMap::new();
    loop {
        let page = client.store().list(&filter).await?;
        let Some(last) = page.last().map(|run| run.id) else { break };
        for listed in page {
            let Some(run) = client.store().run(listed.id).await? else { continue };
            judge_run(client, registry, run, &mut report, &mut unregistered).await?;
        }
        filter = filter.after(last);
    }
    let unregistered = unregistered.into_iter();
    report.unregistered =
        unregistered.map(|((workflow, version), runs)| Unregistered { workflow, version, runs }).collect();
    Ok(report)
}

async fn judge_run(
    client: &Client,
    registry: &Registry,
    run: Run,
    report: &mut PreflightReport,
    unregistered: &mut BTreeMap<(String, String), u64>,
) -> Result<(), WorkerError> {
    let Some(entry) = registry.entry(&run.lane) else {
        *unregistered.entry((run.lane.workflow, run.lane.version)).or_default() += 1;
        return Ok(());
    };
    let subject = Subject { run_id: run.id, workflow: run.lane.workflow.clone(), version: run.lane.version.clone() };
    let judge = |history: &RunHistory| dry_replay(entry, history, client.payload_limit());
    let read = match UnreadablePayload::in_place_of(&run.input) {
        Some(unreadable) => Err(unreadable.into()),
        None => client.store().history(run.id).await,
    };
    let steps = match read {
        Ok(steps) => steps,
        Err(error) if matches!(error.kind, DatabaseErrorKind::Corrupt | DatabaseErrorKind::Codec) => {
            report.unreadable.push(subject.found(unreadable(&error)));
            return Ok(());
        }
        Err(error) => return Err(error.into()),
    };
    let mut verdict = judge(&RunHistory::new(run, steps));
    if verdict.is_err() {
        // The run may have moved between the two reads. So it is read again, with its history,
        // before the report calls it diverged.
        match run_history(client.store().as_ref(), subject.run_id).await? {
            Some(history) if !history.run.status.is_terminal() => verdict = judge(&history),
            _ => return Ok(()),
        }
    }
    match verdict {
        Ok(Replayed::Blocked { unasked }) => report.blocked.push(subject.found(unasked)),
        Ok(_) => report.fits += 1,
        Err(Misfit::Diverged(divergence)) => report.diverged.push(subject.found(divergence)),
        Err(Misfit::Fails(error)) => report.failing.push(subject.found(error)),
    }
    Ok(())
}

struct Subject {
    run_id: RunId,
    workflow: String,
    version: String,
}

impl Subject {
    fn found<T>(self, found: T) -> Finding<T> {
        Finding { run_id: self.run_id, workflow: self.workflow, version: self.version, found }
    }
}
