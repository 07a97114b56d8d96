use std::fmt;
use std::time::Duration;

use async_trait::async_trait;

use crate::model::{Claim, WorkerId};

use super::DatabaseError;

/// The number of workers of a database that look for dead ones often. A second one finds the death
/// of the first.
const WATCHERS: usize = 2;

/// The connection of one worker: renews its claims and shows that its process lives.
#[async_trait]
pub trait LeaseSession: fmt::Debug + Send {
    /// Moves the end of the lease of all these claims to now + `lease`, in one statement. Claims
    /// that are missing in the answer are lost.
    ///
    /// # Errors
    /// [`DatabaseError`]: any of the claims may have been renewed.
    async fn renew(&mut self, claims: &[Claim], lease: Duration) -> Result<Vec<Renewed>, DatabaseError>;

    /// Looks at the liveness locks of the recorded workers. Records this worker again if another
    /// one has removed its record.
    ///
    /// # Errors
    /// [`DatabaseError`] if the database fails or does not answer.
    async fn look(&mut self) -> Result<WorkerLook, DatabaseError>;

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

/// The liveness lock of a recorded worker at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerLock {
    /// The worker.
    pub worker: WorkerId,
    /// `true` if a process holds the lock.
    pub is_held: bool,
}

/// A look of one worker at the liveness locks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerLook {
    /// The workers, other than this one, whose lock no process holds.
    pub unlocked: Vec<WorkerId>,
    /// `true` if this worker is a watcher, which looks often: others are recorded, and at most one
    /// that lives comes before it in the order of ids. So the cost of the frequent looks does not
    /// grow with the number of workers. `false` for a store in this process, whose workers die
    /// together.
    pub is_watcher: bool,
}

impl WorkerLook {
    /// Returns the look of this worker at these locks.
    #[must_use]
    pub fn of(worker: WorkerId, locks: &[WorkerLock]) -> Self {
        let others = || locks.iter().filter(|lock| lock.worker != worker);
        let before = others().filter(|lock| lock.is_held && lock.worker < worker).count();
        Self {
            unlocked: others().filter(|lock| !lock.is_held).map(|lock| lock.worker).collect(),
            is_watcher: others().next().is_some() && before < WATCHERS,
        }
    }
}

/// A claim that a renewal has found current.
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
    /// `false` if another transaction held the row of the run, so that the lease ends when it did
    /// before. The claim is not lost.
    pub is_extended: bool,
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn lock(number: u128, is_held: bool) -> WorkerLock {
        WorkerLock { worker: Uuid::from_u128(number).into(), is_held }
    }

    /// Returns the numbers of the workers that are watchers.
    fn watchers(locks: &[WorkerLock]) -> Vec<u128> {
        let watching = locks.iter().filter(|lock| WorkerLook::of(lock.worker, locks).is_watcher);
        watching.map(|lock| lock.worker.as_uuid().as_u128()).collect()
    }

    #[test]
    fn the_first_two_living_workers_watch() {
        let held = |numbers: &[u128]| numbers.iter().map(|number| lock(*number, true)).collect::<Vec<_>>();
        assert_eq!(watchers(&held(&[1])), Vec::<u128>::new(), "a worker that is alone has nothing to look at");
        assert_eq!(watchers(&held(&[1, 2])), [1, 2]);
        assert_eq!(watchers(&held(&[4, 3, 2, 1])), [2, 1], "the order of the records does not matter");
    }

    #[test]
    fn a_dead_worker_makes_way_for_the_next() {
        let locks = [lock(1, false), lock(2, true), lock(3, true), lock(4, true)];
        let live = locks.iter().filter(|lock| lock.is_held && WorkerLook::of(lock.worker, &locks).is_watcher);
        assert_eq!(live.map(|lock| lock.worker).collect::<Vec<_>>(), [locks[1].worker, locks[2].worker]);
        let pair = [lock(1, true), lock(2, false)];
        assert!(
            WorkerLook::of(pair[0].worker, &pair).is_watcher,
            "the last one that lives watches until the dead one is released"
        );
    }

    #[test]
    fn a_worker_never_finds_itself_unlocked() {
        let locks = [lock(1, false), lock(2, false), lock(3, true)];
        assert_eq!(WorkerLook::of(locks[0].worker, &locks).unlocked, [locks[1].worker]);
        assert_eq!(WorkerLook::of(locks[2].worker, &locks).unlocked, [locks[0].worker, locks[1].worker]);
    }
}
