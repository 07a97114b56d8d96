//! The context of a batch, and the memory that batches leave to later ones.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use workflow_engine::model::Clock;

use super::claim_cursor::ClaimCursor;
use super::fence_cache::FenceCache;
use super::ownership::Workers;
use super::sql::Sql;

/// The context in which a batch is applied.
#[derive(Clone, Copy)]
pub(super) struct Context<'c> {
    pub(super) sql: &'c Sql,
    pub(super) clock: &'c Clock,
    /// The workers of this process on whose rows the batch may rely.
    pub(super) workers: &'c Workers,
}

/// The memory that batches leave to later ones. A batch may be bound while another one is under
/// way, so no task keeps this locked while it waits.
#[derive(Debug, Default)]
pub(super) struct Memory(Mutex<Remembered>);

/// The content of [`Memory`].
#[derive(Debug, Default)]
pub(super) struct Remembered {
    pub(super) workers: Workers,
    pub(super) fences: FenceCache,
    pub(super) cursor: ClaimCursor,
    /// When a claim last told the turns of gates what their wakes say.
    pub(super) opened_at: Option<Instant>,
}

impl Memory {
    /// Locks the content.
    pub(super) fn lock(&self) -> MutexGuard<'_, Remembered> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets everything that a failure or the slow path may have made wrong.
    pub(super) fn forget(&self) {
        let mut memory = self.lock();
        memory.fences = FenceCache::default();
        memory.cursor.forget();
    }
}
