//! The port of one run: the part of the worker that its workflow and bodies can reach.

use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use futures::future::BoxFuture;
use tokio::time::Instant;
use workflow_engine::faults::{failpoint, failpoint_error};
use workflow_engine::model::{Admission, Claim, NewEmission, NewSignal, ServiceReport};
use workflow_engine::observe::Observers;
use workflow_engine::runtime::{BodyHooks, Port, PortFuture};
use workflow_engine::store::{ClaimedRun, OpenTransaction, Outcome, Write};
use workflow_sdk::{Breaker, Client, ErrorKind, SignalOutcome, StoredError, Timestamp};

use crate::circuits::Circuits;
use crate::claim_state::{ClaimState, Directive};
use crate::clock::DatabaseClock;
use crate::shared::{Shared, Warned};
use crate::source_lines::SourceLines;

/// The port of one run.
#[derive(Debug)]
pub(super) struct DrivePort {
    clock: Arc<DatabaseClock>,
    claim: Claim,
    state: Arc<ClaimState>,
    /// No body begins after this time, in microseconds: the deadline, or the end of the grace.
    ends_at: AtomicI64,
    client: Client,
    circuits: Arc<Circuits>,
    body_hooks: Option<Arc<dyn BodyHooks>>,
    warned: Warned,
    source_lines: Option<Arc<SourceLines>>,
}

impl DrivePort {
    pub(super) fn new(shared: &Shared, run: &ClaimedRun, state: &Arc<ClaimState>) -> Arc<Self> {
        Arc::new(Self {
            clock: Arc::clone(&shared.clock),
            claim: run.claim,
            state: Arc::clone(state),
            ends_at: AtomicI64::new(run.deadline_at.map_or(i64::MAX, Timestamp::as_micros)),
            client: shared.client.clone(),
            circuits: Arc::clone(&shared.circuits),
            body_hooks: shared.body_hooks.clone(),
            warned: shared.warned.clone(),
            source_lines: shared.registry.source_lines(&run.lane).cloned(),
        })
    }

    /// Allows bodies to begin until this time.
    pub(super) fn set_end(&self, ends_at: Timestamp) {
        self.ends_at.store(ends_at.as_micros(), Ordering::Relaxed);
    }

    /// Returns whether bodies may begin until some time only.
    pub(super) fn has_end(&self) -> bool {
        self.ends_at.load(Ordering::Relaxed) < Timestamp::FAR_FUTURE.as_micros()
    }
}

impl Port for DrivePort {
    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn warn_once(&self, subject: &str, message: &str) {
        if self.warned.is_first(subject) {
            tracing::warn!(run_id = %self.claim.run_id, "{message}");
        }
    }

    fn observers(&self) -> Option<&Observers> {
        Some(self.client.observers())
    }

    /// Returns `false` if the lease may have run out, or the deadline or the grace is over.
    fn may_begin(&self) -> bool {
        let now = Instant::now();
        self.state.is_valid_at(now) && self.clock.at(now).as_micros() < self.ends_at.load(Ordering::Relaxed)
    }

    fn signal(&self, signal: NewSignal) -> PortFuture<workflow_sdk::Result<SignalOutcome>> {
        let executor = self.client.executor().clone();
        let signal = NewSignal { limit: Some(self.client.signal_limit()), ..signal };
        Box::pin(async move {
            match executor.commit(Write::Signal(signal)).await? {
                Outcome::Signaled(outcome) => Ok(outcome),
                Outcome::Refused(error) => Err(error.into()),
                other => Err(workflow_sdk::Error::msg(format!("a signal was answered with {}", other.name()))),
            }
        })
    }

    fn emit(&self, emission: NewEmission) -> PortFuture<workflow_sdk::Result<u64>> {
        let client = self.client.clone();
        Box::pin(async move {
            match workflow_sdk::internal::emit(&client, emission).await? {
                Outcome::Emitted(emitted) => Ok(emitted.count),
                Outcome::Refused(error) => Err(error.into()),
                other => Err(workflow_sdk::Error::msg(format!("an emission was answered with {}", other.name()))),
            }
        })
    }

    fn breaker_admits(&self, breaker: &Breaker) -> Result<Admission, Timestamp> {
        self.circuits.admit(breaker, self.clock.now())
    }

    fn breaker_report(&self, breaker: &Breaker, admission: Admission, report: ServiceReport<'_>) {
        self.circuits.report(breaker, admission, report, self.clock.now());
    }

    fn note_call(&self, key: &str, location: &'static Location<'static>) {
        if let Some(line) = self.source_lines.as_ref().and_then(|lines| lines.note(key, location)) {
            self.client.executor().statistics().source_line(line);
        }
    }

    fn body_hooks(&self) -> Option<&dyn BodyHooks> {
        self.body_hooks.as_deref()
    }

    fn wake(&self) {
        if let Some(hooks) = &self.body_hooks {
            hooks.woken(self.claim.run_id);
        }
        self.state.notify();
    }

    fn begin_transaction(&self) -> BoxFuture<'_, Result<OpenTransaction, StoredError>> {
        Box::pin(async move {
            loop {
                let begun = match failpoint_error("transaction.before_begin") {
                    Ok(()) => self.client.store().begin(self.claim).await,
                    Err(fault) => Err(fault.into()),
                };
                failpoint("transaction.begun");
                match begun {
                    Ok(Some(transaction)) if self.state.is_valid_at(Instant::now()) => return Ok(transaction),
                    // The lease may have run out while the database was slow, so no body begins
                    // before a renewal. The transaction is dropped first, because on SQLite it
                    // would keep the renewal waiting.
                    Ok(Some(transaction)) => {
                        drop(transaction);
                        self.state.valid().await;
                    }
                    Ok(None) => {
                        self.state.direct(Directive::Lost);
                        std::future::pending::<()>().await;
                    }
                    Err(error) => return Err(StoredError::from_error(ErrorKind::Application, &error)),
                }
            }
        })
    }
}
