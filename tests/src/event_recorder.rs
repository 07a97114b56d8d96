//! An observer that keeps the names of events, and lets a test wait for one.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use workflow_sdk::{Event, Observer, RunId};

/// Keeps the events of runs and steps. Clones share them.
#[derive(Clone, Debug)]
pub struct EventRecorder {
    events: Arc<Mutex<Vec<(RunId, String)>>>,
    count: watch::Sender<usize>,
}

impl EventRecorder {
    /// Returns a recorder without events.
    #[must_use]
    pub fn new() -> Self {
        Self { events: Arc::default(), count: watch::Sender::new(0) }
    }

    /// Returns the events of a run in their order: the name, and for a step its key.
    #[must_use]
    pub fn of(&self, run: RunId) -> Vec<String> {
        self.lock().iter().filter(|(id, _)| *id == run).map(|(_, event)| event.clone()).collect()
    }

    /// Returns the runs with this event, in the order of the events.
    #[must_use]
    pub fn runs_with(&self, event: &str) -> Vec<RunId> {
        self.lock().iter().filter(|(_, recorded)| recorded == event).map(|(run, _)| *run).collect()
    }

    /// Waits until the run has had this event.
    ///
    /// # Panics
    /// Panics after 20 seconds: long enough for a busy machine, so a test never fails by speed.
    pub async fn wait_for(&self, run: RunId, event: &str) {
        let mut count = self.count.subscribe();
        let has_come = count.wait_for(|_| self.of(run).iter().any(|recorded| recorded == event));
        let limit = std::time::Duration::from_secs(20);
        let came = tokio::time::timeout(limit, has_come).await.is_ok();
        assert!(came, "the run has no event {event:?}: {:?}", self.of(run));
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(RunId, String)>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for EventRecorder {
    fn default() -> Self {
        Self::new()
    }
}

impl Observer for EventRecorder {
    fn event(&self, event: &Event<'_>) {
        let name = event.name();
        let (run, text) = match event {
            Event::RunStarted { run }
            | Event::RunClaimed { run, .. }
            | Event::RunWoken { run, .. }
            | Event::RunTakenOver { run, .. }
            | Event::RunParked { run, .. }
            | Event::RunDiverged { run, .. }
            | Event::RunRetried { run, .. }
            | Event::RunContinued { run, .. }
            | Event::RunReleased { run }
            | Event::LeaseLost { run, .. } => (run.id, name.to_owned()),
            Event::RunEnded { run, status, .. } => (run.id, format!("{name} {status}")),
            Event::StepBegun { step } | Event::StepRetried { step, .. } | Event::StepEnded { step, .. } => {
                (step.run_id, format!("{name} {}", step.key))
            }
            _ => return,
        };
        self.lock().push((run, text));
        self.count.send_modify(|count| *count += 1);
    }
}
