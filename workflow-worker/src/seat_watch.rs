//! Looks for free seats of limits for steps to which no commit has called a waiting step.
//!
//! The commit that gives a seat back calls the next step. A seat that comes free in another way,
//! with the end of its run or of its claim, is found here.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use workflow_engine::model::{LimitChange, NameSubject, check_name};
use workflow_engine::store::{LimitWrite, Outcome, Write};
use workflow_sdk::internal::call_waiting_seats;

use crate::limit::Limit;
use crate::shared::Shared;
use crate::{WorkerError, WorkerOptions};

/// How often a worker looks for free seats that steps wait for.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Whether a worker has to look for free seats.
#[derive(Debug, Default)]
pub(crate) struct SeatWatch {
    /// Whether the database has limits for steps.
    is_used: AtomicBool,
    look: Notify,
}

impl SeatWatch {
    /// Takes note that steps of this worker have limits.
    pub(crate) fn note_used(&self) {
        if !self.is_used.swap(true, Ordering::Relaxed) {
            self.look.notify_one();
        }
    }

    /// Takes note that a run of this worker was given back or has ended while it may have had a
    /// seat.
    pub(crate) fn note_left(&self) {
        self.is_used.store(true, Ordering::Relaxed);
        self.look.notify_one();
    }
}

/// Declares these limits, as far as they differ from what is declared.
///
/// # Errors
/// [`WorkerError::Name`], [`WorkerError::Rate`], [`WorkerError::DuplicateLimit`],
/// [`WorkerError::Database`] or [`WorkerError::Stopped`].
pub(crate) async fn declare(shared: &Shared, limits: &[Limit]) -> Result<(), WorkerError> {
    check(limits)?;
    let records = shared.client.store().limits().await?;
    for Limit { name, rule } in limits {
        let declared = records.iter().find(|record| record.name == *name).and_then(|record| record.declared);
        if declared == Some(*rule) {
            continue;
        }
        let write = LimitWrite { limit: name.clone(), change: LimitChange::Declare(*rule) };
        if let Outcome::Refused(error) = shared.executor().commit(Write::Limit(write)).await? {
            return Err(error.into());
        }
    }
    if !limits.is_empty() || !records.is_empty() {
        shared.seats.note_used();
    }
    Ok(())
}

fn check(limits: &[Limit]) -> Result<(), WorkerError> {
    for (place, limit) in limits.iter().enumerate() {
        check_name(NameSubject::Limit, &limit.name)?;
        limit.rule.check()?;
        let other = limits[..place].iter().find(|other| other.name == limit.name && other.rule != limit.rule);
        if other.is_some() {
            return Err(WorkerError::DuplicateLimit { name: limit.name.clone() });
        }
    }
    Ok(())
}

/// Calls steps that may take free seats, until the future is dropped. Does nothing while the
/// database has no limits for steps.
pub(crate) async fn watch_seats(shared: Arc<Shared>) {
    let interval = shared.pace(LOOK_INTERVAL, WorkerOptions::LONGEST_TIME);
    let mut after = None;
    loop {
        if shared.seats.is_used.load(Ordering::Relaxed) {
            // The pause ends early after a notification.
            let _ = tokio::time::timeout(interval, shared.seats.look.notified()).await;
        } else {
            shared.seats.look.notified().await;
        }
        match call_waiting_seats(&shared.client, after.take()).await {
            Ok(next) => after = next,
            Err(error) => {
                tracing::debug!(error = &error as &dyn std::error::Error, "cannot look for free seats, trying again");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use workflow_sdk::Rate;

    use super::*;

    #[test]
    fn a_limit_with_two_rules_is_refused() {
        let (one, two) = (Limit::new("llm").concurrency(1), Limit::new("llm").concurrency(2));
        assert!(check(&[one.clone(), one.clone()]).is_ok());
        let refused = check(&[one, two]);
        assert!(matches!(refused, Err(WorkerError::DuplicateLimit { name }) if name == "llm"));
        assert!(matches!(check(&[Limit::new("")]), Err(WorkerError::Name(_))));
        let rates = [60, 61].map(|bodies| Limit::new("llm").concurrency(1).rate(Rate::per_minute(bodies)));
        assert!(matches!(check(&rates), Err(WorkerError::DuplicateLimit { .. })));
        assert!(check(&[rates[0].clone(), rates[0].clone()]).is_ok());
        let refused = check(&[Limit::new("llm").rate(Rate::per_minute(0))]);
        assert!(matches!(refused, Err(WorkerError::Rate(_))), "{refused:?}");
    }
}
