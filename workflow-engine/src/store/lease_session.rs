use std::fmt;
use std::time::Duration;

use async_trait::async_trait;

use crate::model::{Claim, WorkerId};

use super::DatabaseError;

/// The connection of one worker: renews its claims and shows that its process lives.
#[async_trait]
pub trait LeaseSession: fmt::Debug + Send {
    /// Moves the end of the lease of all these claims to now + `lease`, in one statement. Claims
    /// that are missing in the answer are lost.
    ///
    /// # Errors
    /// [`DatabaseError`]: any of the claims may have been renewed.
    async fn renew(&mut self, claims: &[Claim], lease: Duration) -> Result<Vec<Renewed>, DatabaseError>;

    /// Returns recorded workers, other than this one, whose liveness lock is free at this moment.
    /// Records this worker again if another one has removed its record.
    ///
    /// # Errors
    /// [`DatabaseError`] if the database fails or does not answer.
    async fn unlocked_workers(&mut self) -> Result<Vec<WorkerId>, DatabaseError>;

    /// Forgets a worker that died, counts a crash for each run that it held, and makes those runs
    /// due now, all in one transaction. Returns the number of runs. A run that the worker drove
    /// alone also counts a lone crash. Does nothing if the worker is not recorded.
    ///
    /// Safe while that worker still lives: the next claim has another epoch.
    ///
    /// # Errors
    /// [`DatabaseError`] if the database fails or does not answer.
    async fn release_worker(&mut self, worker: WorkerId) -> Result<u64, DatabaseError>;

    /// Forgets this worker and frees its lock.
    ///
    /// # Errors
    /// [`DatabaseError`] if the database fails or does not answer.
    async fn close(self: Box<Self>) -> Result<(), DatabaseError>;
}

/// A claim that was renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Renewed {
    /// The claim.
    pub claim: Claim,
    /// `true` if a cancel of the run was requested.
    pub cancel_requested: bool,
    /// `true` if the run is paused.
    pub paused: bool,
    /// The run's `wakes`: how often something asked it to wake.
    pub wakes: i64,
}
