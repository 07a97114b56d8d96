//! The external events of a run: its signals, its cancel and the ends of its children.

use std::time::Duration;

use workflow_engine::faults::failpoint_error;
use workflow_engine::replay::{AwaitedEvents, ChildEnd};
use workflow_engine::store::{EndedRun, INBOX_PAGE, Inbox, Store, understood};
use workflow_sdk::{DatabaseError, ErrorKind, RunId, RunStatus, StoredError};

use super::Drive;
use super::exit::Exit;
use super::wait::next_fact_without_database;

/// The longest park of a run that waits for a child. Nothing wakes it if the child is deleted.
pub(super) const CHILD_LOOK_INTERVAL: Duration = Duration::from_secs(3600);

/// How much a drive knows of the external events of its run.
#[derive(Debug)]
pub(super) struct ExternalEvents {
    /// The run's `wakes` when its events were last read.
    wakes: i64,
    /// The wake sequence of the claim when the drive last looked at it.
    wake_seq: u64,
}

impl ExternalEvents {
    pub(super) fn new(wakes: i64) -> Self {
        Self { wakes, wake_seq: 0 }
    }

    pub(super) fn wakes(&self) -> i64 {
        self.wakes
    }

    pub(super) fn set_wakes(&mut self, wakes: i64) {
        self.wakes = wakes;
    }

    /// Takes note of the wake sequence of the claim. Returns whether there were events since the
    /// last call.
    pub(super) fn update(&mut self, wake_seq: u64) -> bool {
        std::mem::replace(&mut self.wake_seq, wake_seq) != wake_seq
    }
}

impl Drive<'_> {
    /// Looks for the external events that the run waits for, unless nothing can have come since the
    /// last look. Returns whether it looked.
    pub(super) async fn look_for_events(&mut self) -> Result<bool, Exit> {
        let cell = self.workflow.cell();
        let Some(awaited) = cell.begin_look() else {
            let watched = cell.awaits_external_events().then_some(self.events.wakes());
            self.claim.state().watch_wakes(watched);
            return Ok(false);
        };
        // Records must not wait for a query before they are sent.
        self.send_held()?;
        // Set before the query, with the number known so far, so that a hint during the query
        // counts as an event.
        self.claim.state().watch_wakes(Some(self.events.wakes()));
        let store = self.shared.client.store().as_ref();
        match read_events(store, self.run.claim.run_id, &awaited).await {
            Ok((inbox, ended)) => self.take_events(inbox.ok_or(Exit::Lost)?, ended),
            // An exit now would interrupt a body that no crash has interrupted.
            Err(error) if error.kind.is_transient() && self.workflow.cell().is_running() => {
                self.wait_to_look_again(&error).await?;
            }
            Err(error) => return Err(Exit::Unreadable(error)),
        }
        Ok(true)
    }

    fn take_events(&mut self, inbox: Inbox, ended: Vec<ChildEnd>) {
        self.events.set_wakes(inbox.wakes);
        if inbox.cancel_requested {
            // The `wakes` that were read count the cancel, so the cancel would not wake a run that
            // parks with them.
            self.claim.state().request_cancel();
        }
        self.claim.state().watch_wakes(Some(inbox.wakes));
        let may_have_more = inbox.signals.len() >= INBOX_PAGE as usize;
        self.workflow.cell().looked(inbox.signals, may_have_more, ended);
    }

    /// Goes on with bodies for a while, because the external events could not be read.
    async fn wait_to_look_again(&mut self, error: &DatabaseError) -> Result<(), Exit> {
        tracing::warn!(error = error as &dyn std::error::Error, "cannot look for what a run waits for, trying again");
        self.workflow.cell().look_again();
        let fact = next_fact_without_database(&mut self.writes, self.claim.state()).await;
        self.take_fact(fact)?;
        // Other facts than the time may come again and again.
        self.workflow.fire_timers();
        Ok(())
    }
}

/// Reads the events that a run waits for. `None` in place of the inbox: the run does not exist.
///
/// The inbox with the run's `wakes` is read first. An event that comes after that raises `wakes`,
/// so the run stays due if it is parked with the number that was read.
pub(super) async fn read_events(
    store: &dyn Store,
    run_id: RunId,
    awaited: &AwaitedEvents,
) -> Result<(Option<Inbox>, Vec<ChildEnd>), DatabaseError> {
    failpoint_error("drive.before_look")?;
    let inbox = store.inbox(run_id, &awaited.signals).await?;
    let ended = match awaited.children.as_slice() {
        [] => Vec::new(),
        children => store.ended(children).await?,
    };
    if let Some(unreadable) = ended.iter().find_map(EndedRun::unreadable) {
        return Err(unreadable.into());
    }
    for EndedRun { id, error, .. } in &ended {
        if let Some(error) = error {
            understood(error, || format!("the error of the child, run {id},"))?;
        }
    }
    let mut ends: Vec<ChildEnd> = ended.into_iter().map(child_end).collect();
    if !awaited.recorded_children.is_empty() {
        ends.extend(store.missing(&awaited.recorded_children).await?.into_iter().map(missing_child));
    }
    Ok((inbox, ends))
}

fn missing_child(run_id: RunId) -> ChildEnd {
    let message = format!("the child, run {run_id}, is not in the database any more: it was deleted");
    ChildEnd { run_id, result: Err(StoredError::new(ErrorKind::ChildMissing, message)) }
}

/// Returns the end of a child as its parent gets it.
fn child_end(ended: EndedRun) -> ChildEnd {
    let result = match ended.status {
        RunStatus::Succeeded => Ok(ended.output.unwrap_or_else(|| "null".into())),
        RunStatus::Canceled => {
            let message = format!("the child, run {}, was canceled", ended.id);
            Err(StoredError::new(ErrorKind::ChildCanceled, message))
        }
        _ => {
            let missing = || StoredError::new(ErrorKind::Application, "the child failed without a recorded error");
            Err(ended.error.unwrap_or_else(missing))
        }
    };
    ChildEnd { run_id: ended.id, result }
}
