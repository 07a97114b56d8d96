//! The claims that a worker holds.

use std::collections::{BTreeMap, HashMap};
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use workflow_engine::model::Claim;
use workflow_engine::store::RunWakes;
use workflow_sdk::RunId;

use crate::claim_state::{ClaimState, Directive};
use crate::pulse::AwakeClock;

/// The claims that this worker holds. The drives, the lease thread and the shutdown meet here.
///
/// Each change is applied outside of the table's lock, because it wakes a drive.
#[derive(Debug, Default)]
pub(crate) struct ClaimTable {
    states: Mutex<BTreeMap<Claim, Arc<ClaimState>>>,
    /// Measures the polls of the workflows.
    awake: AwakeClock,
}

impl ClaimTable {
    pub(crate) fn new(awake: AwakeClock) -> Self {
        Self { states: Mutex::default(), awake }
    }

    fn states(&self) -> MutexGuard<'_, BTreeMap<Claim, Arc<ClaimState>>> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a claim. The table has it until the returned guard is dropped.
    ///
    /// An older claim of the same run is lost. Its drive learns of that here, before its next write
    /// is refused.
    pub(crate) fn insert(self: &Arc<Self>, claim: Claim, valid_until: Instant) -> ClaimGuard {
        self.direct_run(claim.run_id, Directive::Lost);
        let state = Arc::new(ClaimState::new(valid_until, self.awake.clone()));
        self.states().insert(claim, Arc::clone(&state));
        ClaimGuard { table: Arc::clone(self), claim, state }
    }

    pub(crate) fn all(&self) -> Vec<Claim> {
        self.states().keys().copied().collect()
    }

    /// Returns the claims whose workflows have been polled without a break for longer than this,
    /// each with the time.
    pub(crate) fn polled_longer_than(&self, limit: Duration) -> Vec<(Claim, Duration)> {
        let states = self.states();
        let polled = states.iter().filter_map(|(claim, state)| Some((*claim, state.polled_for()?)));
        polled.filter(|(_, time)| *time > limit).collect()
    }

    /// Whether the workflow of an older claim of this run has been polled for longer than this.
    pub(crate) fn is_stuck(&self, run: RunId, limit: Duration) -> bool {
        self.states().range(claims_of(run)).any(|(_, state)| state.polled_for().is_some_and(|time| time > limit))
    }

    /// Directs the drives whose leases may have ended to give their runs up. Returns their number.
    pub(crate) fn give_up_lapsed(&self) -> usize {
        let now = Instant::now();
        let lapsed: Vec<_> = self.states().values().filter(|state| !state.is_valid_at(now)).cloned().collect();
        let news = lapsed.iter().filter(|state| state.snapshot().directive != Directive::Lost).count();
        lapsed.iter().for_each(|state| state.direct(Directive::Lost));
        news
    }

    pub(crate) fn renew(&self, claim: Claim, valid_until: Instant) {
        self.for_claim(claim, |state| state.renew(valid_until));
    }

    pub(crate) fn direct(&self, claim: Claim, directive: Directive) {
        self.for_claim(claim, |state| state.direct(directive));
    }

    pub(crate) fn direct_run(&self, run: RunId, directive: Directive) {
        self.for_run(run, |state| state.direct(directive));
    }

    pub(crate) fn direct_all(&self, directive: Directive) {
        let states: Vec<_> = self.states().values().cloned().collect();
        states.iter().for_each(|state| state.direct(directive));
    }

    /// Directs all claims but this one.
    pub(crate) fn direct_others(&self, than: Claim, directive: Directive) {
        let states: Vec<_> =
            self.states().iter().filter(|(claim, _)| **claim != than).map(|(_, state)| Arc::clone(state)).collect();
        states.iter().for_each(|state| state.direct(directive));
    }

    pub(crate) fn request_cancel(&self, claim: Claim) {
        self.for_claim(claim, ClaimState::request_cancel);
    }

    pub(crate) fn request_cancel_of_run(&self, run: RunId) {
        self.for_run(run, ClaimState::request_cancel);
    }

    /// Tells the drive of the run that the run has an external event.
    pub(crate) fn wake_run(&self, run: RunId) {
        self.for_run(run, ClaimState::wake);
    }

    /// Tells the drive of the run the run's present `wakes`. If the drive knows another number, the
    /// run has an external event.
    pub(crate) fn update_wakes(&self, run: RunId, wakes: i64) {
        self.for_run(run, |state| state.update_wakes(wakes));
    }

    /// Returns the claims of the runs that wait for external events.
    pub(crate) fn waiting(&self) -> Vec<Claim> {
        let states = self.states();
        let waiting = states.iter().filter(|(_, state)| state.snapshot().watched_wakes.is_some());
        waiting.map(|(claim, _)| *claim).collect()
    }

    /// Takes note of what others have asked of the runs of these claims. A later claim of such a
    /// run is left alone: its run may have been retried after the cancel.
    pub(crate) fn take_asked(&self, claims: &[Claim], runs: &[RunWakes]) {
        let runs: HashMap<RunId, &RunWakes> = runs.iter().map(|run| (run.id, run)).collect();
        for claim in claims {
            let Some(RunWakes { wakes, cancel_requested, paused, .. }) = runs.get(&claim.run_id) else { continue };
            self.for_claim(*claim, |state| {
                state.update_wakes(*wakes);
                if *paused {
                    state.direct(Directive::Drain);
                }
                if *cancel_requested {
                    state.request_cancel();
                }
            });
        }
    }

    fn for_claim(&self, claim: Claim, change: impl FnOnce(&ClaimState)) {
        let state = self.states().get(&claim).cloned();
        if let Some(state) = state {
            change(&state);
        }
    }

    fn for_run(&self, run: RunId, change: impl Fn(&ClaimState)) {
        let states: Vec<_> = self.states().range(claims_of(run)).map(|(_, state)| Arc::clone(state)).collect();
        states.iter().for_each(|state| change(state));
    }
}

/// The range of all claims of a run. They are neighbours in the table, so a run is found among
/// thousands without a scan.
fn claims_of(run: RunId) -> RangeInclusive<Claim> {
    Claim { run_id: run, epoch: i64::MIN }..=Claim { run_id: run, epoch: i64::MAX }
}

/// Keeps a claim in the table, and gives its drive the state of the claim.
#[derive(Debug)]
pub(crate) struct ClaimGuard {
    table: Arc<ClaimTable>,
    claim: Claim,
    state: Arc<ClaimState>,
}

impl ClaimGuard {
    pub(crate) fn state(&self) -> &Arc<ClaimState> {
        &self.state
    }
}

impl Drop for ClaimGuard {
    fn drop(&mut self) {
        self.table.states().remove(&self.claim);
    }
}
