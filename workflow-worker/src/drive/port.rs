use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use futures::future::BoxFuture;
use tokio::time::Instant;
use workflow_engine::faults::{failpoint, failpoint_error};
use workflow_engine::model::{Admission, Claim, NewSignal, ServiceReport};
use workflow_engine::runtime::{BodyHooks, Port, PortFuture};
use workflow_engine::store::{Outcome, StepTransaction, Write};
use workflow_sdk::{Breaker, Client, ErrorKind, SignalOutcome, StoredError, Timestamp};

use crate::circuits::Circuits;
use crate::claim_state::{ClaimState, Directive};
use crate::claims::ClaimTable;
use crate::clock::DatabaseClock;

/// What the calls of one run reach of the worker.
#[derive(Debug)]
pub(crate) struct DrivePort {
    pub(crate) clock: Arc<DatabaseClock>,
    pub(crate) state: Arc<ClaimState>,
    /// No body begins after this instant, in microseconds: the deadline, or the end of the grace.
    pub(crate) ends_at: AtomicI64,
    pub(crate) client: Client,
    pub(crate) claim: Claim,
    pub(crate) claims: Arc<ClaimTable>,
    pub(crate) circuits: Arc<Circuits>,
    pub(crate) watch: Option<Arc<dyn BodyHooks>>,
}

impl Port for DrivePort {
    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Not on a claim whose lease may have run out, and not after the end.
    fn may_begin(&self) -> bool {
        let now = Instant::now();
        self.state.is_valid_at(now) && self.clock.at(now).as_micros() < self.ends_at.load(Ordering::Relaxed)
    }

    fn signal(&self, signal: NewSignal) -> PortFuture<workflow_sdk::Result<SignalOutcome>> {
        let executor = self.client.executor().clone();
        Box::pin(async move {
            match executor.commit(Write::Signal(signal)).await? {
                Outcome::Signaled(outcome) => Ok(outcome),
                Outcome::Refused(error) => Err(error.into()),
                other => Err(workflow_sdk::Error::msg(format!("a signal was answered with {}", other.name()))),
            }
        })
    }

    fn breaker_admits(&self, breaker: &Breaker) -> Result<Admission, Timestamp> {
        self.circuits.admit(breaker, self.clock.now())
    }

    fn breaker_report(&self, breaker: &Breaker, admission: Admission, report: ServiceReport<'_>) {
        self.circuits.report(breaker, admission, report, self.clock.now());
    }

    fn body_hooks(&self) -> Option<&dyn BodyHooks> {
        self.watch.as_deref()
    }

    fn wake(&self) {
        if let Some(watch) = &self.watch {
            watch.woken(self.claim.run_id);
        }
        self.state.notify();
    }

    fn begin_transaction(&self) -> BoxFuture<'_, Result<Box<dyn StepTransaction>, StoredError>> {
        Box::pin(async move {
            loop {
                let begun = match failpoint_error("transaction.before_begin") {
                    Ok(()) => self.client.store().begin(self.claim).await,
                    Err(fault) => Err(fault.into()),
                };
                failpoint("transaction.begun");
                match begun {
                    Ok(Some(transaction)) if self.state.is_valid_at(Instant::now()) => return Ok(transaction),
                    // The lease may have run out while the database was waited for: no body begins before a renewal. Not in
                    // this transaction: on SQLite it would hold the renewal up.
                    Ok(Some(transaction)) => {
                        drop(transaction);
                        self.state.valid().await;
                    }
                    Ok(None) => {
                        self.claims.direct(self.claim, Directive::Lost);
                        std::future::pending::<()>().await;
                    }
                    Err(error) => return Err(StoredError::from_error(ErrorKind::Application, &error)),
                }
            }
        })
    }
}
