//! The things that runs wait for: the runs that hold the slots and those that go before a due run,
//! and the steps that parked runs wait for.

use async_trait::async_trait;

use crate::model::{AwaitedStep, Run, RunId};

use super::DatabaseError;

/// The most running runs of a place that [`WaitStore::slot_holders`] looks at.
pub const MOST_HOLDERS: u32 = 1_000;
/// The most rows of a run that [`WaitStore::awaited_steps`] looks at.
pub const MOST_ROWS: u32 = 32;
/// The most steps of a run that [`WaitStore::awaited_steps`] returns.
pub const MOST_AWAITED: u32 = 3;

/// Reads the holders of slots, the due runs before a run, and the steps that parked runs wait for.
/// Each read is bounded, and uses the indexes of the claim or the keys of the tables.
#[async_trait]
pub trait WaitStore {
    /// Returns at most `limit` runs that hold a slot of this queue, or of this gate of it: running
    /// runs, of the first [`MOST_HOLDERS`] that it finds those with the smallest ids. Reads the
    /// running runs behind gates of all queues. Empty for a queue or gate that is not known.
    ///
    /// # Errors
    /// [`DatabaseError`] if the database fails or does not answer.
    async fn slot_holders(&self, queue: &str, gate: Option<&str>, limit: u32) -> Result<Vec<RunId>, DatabaseError>;

    /// Counts the due runs that claims take before this one, to at most `at_most`: those in its
    /// lane and behind its gate that come first in the order of ranks and due times. Running runs
    /// do not count. The run itself need not be stored.
    ///
    /// # Errors
    /// [`DatabaseError`] if the database fails or does not answer.
    async fn due_before(&self, run: &Run, at_most: u32) -> Result<u32, DatabaseError>;

    /// Returns `true` if a run was ever started in this queue. One index lookup.
    ///
    /// # Errors
    /// [`DatabaseError`] if the database fails or does not answer.
    async fn has_lane(&self, queue: &str) -> Result<bool, DatabaseError>;

    /// Returns steps that these parked runs wait for, in any order of the runs, and of each run by
    /// their keys: waits that have not ended, except for sleeps, and bodies that have another
    /// attempt. Finds at most [`MOST_AWAITED`] of a run, among the first [`MOST_ROWS`] rows of its
    /// history by key. One query for all.
    ///
    /// # Errors
    /// [`DatabaseError`] if the database fails or does not answer.
    async fn awaited_steps(&self, runs: &[RunId]) -> Result<Vec<(RunId, AwaitedStep)>, DatabaseError>;
}
