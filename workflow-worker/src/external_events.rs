//! How a drive learns of what others do: signals to its run, and the ends of its children.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::broadcast::error::RecvError;
use workflow_engine::faults::failpoint_error;
use workflow_engine::replay::{AwaitedEvents, ChildEnd};
use workflow_engine::store::{EndedRun, INBOX_PAGE, Inbox};
use workflow_sdk::{DatabaseError, ErrorKind, RunId, RunStatus, StoredError};

use crate::drive::{Drive, Exit};
use crate::shared::Shared;

/// The least time between two looks at all runs of this worker that wait: hints of other processes come up to twenty times
/// a second.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

impl Drive<'_> {
    /// Takes note of what this drive was told since the last time.
    pub(crate) fn hear(&mut self, told: u64) {
        if std::mem::replace(&mut self.told, told) != told {
            self.cell.look_again();
        }
    }

    /// Looks for what the run waits for, if nobody has. Says whether it looked.
    pub(crate) async fn look_outside(&mut self) -> Result<bool, Exit> {
        let Some(awaited) = self.cell.begin_look() else {
            self.claim.state().watch_wakes(self.cell.awaits_external_events().then_some(self.wakes));
            return Ok(false);
        };
        // Before the query, with what was known: a hint that comes meanwhile is then not taken for an old one.
        self.claim.state().watch_wakes(Some(self.wakes));
        let (inbox, ended) = match read_outside(self.shared, self.run.claim.run_id, &awaited).await {
            Ok((inbox, ended)) => (inbox.ok_or(Exit::Lost)?, ended),
            // Given up now, the run would cut off a body that no crash has cut off.
            Err(error) if error.kind.is_transient() && self.cell.is_running() => {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "cannot look for what a run waits for, trying again"
                );
                self.cell.look_again();
                self.wait_to_look().await?;
                return Ok(true);
            }
            Err(error) => return Err(Exit::Unreadable(error)),
        };
        self.wakes = inbox.wakes;
        if inbox.cancel_requested {
            // Counted in these wakes: a run that is parked with them would not be woken for it.
            self.shared.claims.request_cancel(self.run.claim);
        }
        self.claim.state().watch_wakes(Some(self.wakes));
        let more = inbox.signals.len() >= INBOX_PAGE as usize;
        self.cell.looked(inbox.signals, more, ended.into_iter().map(child_end).collect());
        Ok(true)
    }
}

type Read = Result<(Option<Inbox>, Vec<EndedRun>), DatabaseError>;

/// The wakes first: what happens after they were read makes the run due, should it be parked with them.
async fn read_outside(shared: &Shared, run_id: RunId, awaited: &AwaitedEvents) -> Read {
    failpoint_error("drive.before_look")?;
    let store = shared.client.store();
    let inbox = store.inbox(run_id, &awaited.signals).await?;
    let ended = match awaited.children.as_slice() {
        [] => Vec::new(),
        children => store.ended(children).await?,
    };
    if let Some(unreadable) = ended.iter().find_map(EndedRun::unreadable) {
        return Err(unreadable.into());
    }
    Ok((inbox, ended))
}

/// What a parent gets of the end of its child.
fn child_end(ended: EndedRun) -> ChildEnd {
    let result = match ended.status {
        RunStatus::Succeeded => Ok(ended.output.unwrap_or_else(|| "null".into())),
        RunStatus::Canceled => {
            let message = format!("the child, run {}, was canceled", ended.id);
            Err(StoredError::new(ErrorKind::ChildCanceled, message))
        }
        _ => {
            let missing = || StoredError::new(ErrorKind::Application, "the child ended without an error that is kept");
            Err(ended.error.unwrap_or_else(missing))
        }
    };
    ChildEnd { run_id: ended.id, result }
}

/// Tells drives of wakes that this process committed at once, and of those of other processes after their hints, until it
/// is dropped. What is missed here comes with the renewal of the lease.
pub(crate) async fn pass_wakes(shared: Arc<Shared>) {
    let notifier = Arc::clone(shared.executor().notifier());
    let (mut wakes, mut changes) = (notifier.wakes(), notifier.changes());
    loop {
        tokio::select! {
            biased;
            woken = wakes.recv() => match woken {
                Ok(run) => shared.claims.wake_run(run),
                Err(RecvError::Lagged(_)) => look_at_all(&shared).await,
                Err(RecvError::Closed) => return,
            },
            changed = changes.changed() => {
                if changed.is_err() {
                    return;
                }
                look_at_all(&shared).await;
                tokio::time::sleep(LOOK_INTERVAL).await;
            }
        }
    }
}

/// One query for all runs of this worker that wait for something outside.
async fn look_at_all(shared: &Shared) {
    let waiting = shared.claims.waiting_runs();
    if waiting.is_empty() {
        return;
    }
    match shared.client.store().wakes(&waiting).await {
        Ok(wakes) => wakes.into_iter().for_each(|(run, wakes)| shared.claims.update_wakes(run, wakes)),
        Err(error) => {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "cannot look for woken runs; the lease's renewal will"
            );
        }
    }
}
