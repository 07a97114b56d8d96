use std::sync::Arc;
use std::time::Duration;

use tokio::sync::broadcast::error::RecvError;
use workflow_sdk::engine::{Cancel, Outcome, Write};

use crate::held::Order;
use crate::shared::Shared;

/// How often runs are failed whose deadline passed while no worker that knows them was there. A run that some worker knows
/// is failed by its claim, at the deadline.
const EXPIRY_INTERVAL: Duration = Duration::from_secs(5);

/// How long a run that was claimed before is left, after its deadline and the grace, to the workers that know it: one of them
/// may be about to come back.
const EXPIRY_PATIENCE: Duration = Duration::from_secs(300);

/// Runs failed at a time, so that the sweep never holds up the batch that it is part of.
const EXPIRY_LIMIT: u32 = 1000;

/// Fails runs past their deadline, until it is dropped.
pub(crate) async fn expire_runs(shared: Arc<Shared>) {
    let patience = shared.options.cancel_grace.saturating_add(EXPIRY_PATIENCE);
    loop {
        tokio::time::sleep(EXPIRY_INTERVAL.mul_f64(0.75 + fastrand::f64() / 4.0)).await;
        let expire = Write::Expire { limit: EXPIRY_LIMIT, patience };
        if let Ok(Outcome::Refused(error)) = shared.executor().commit(expire).await {
            tracing::warn!(error = &error as &dyn std::error::Error, "deadlines not looked at, trying again");
        }
    }
}

/// Hands cancels that this process committed to the drives at once; those of others come with the lease's renewal.
pub(crate) async fn pass_cancels(shared: Arc<Shared>) {
    let mut cancels = shared.executor().hub().cancels();
    loop {
        match cancels.recv().await {
            Ok(Cancel::Requested(run)) => shared.held.cancel_run(run),
            Ok(Cancel::Terminated(run)) => shared.held.order_run(run, Order::Lost),
            // What was missed comes with the renewal too.
            Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return,
        }
    }
}
