//! Work for a commit that is done while another one is under way.

use std::any::Any;
use std::fmt;

use async_trait::async_trait;

use super::{DatabaseError, Outcome, Write};

/// A store that can make a batch ready while the database is busy with the one before it.
///
/// What a commit finds out before its answer (who holds what, which rows are there) is found out by the statement itself; so nothing that is
/// prepared is right or wrong by the time of its commit, only of more or less use.
#[async_trait]
pub trait Preparer: Send + Sync {
    /// Makes ready what the commit of these writes will send, as far as that depends on no answer. `None`: it is not worth it.
    fn prepare(&self, writes: &[Write]) -> Option<Prepared>;

    /// As [`Store::commit`](super::Store::commit), with what was prepared for just these writes.
    ///
    /// Only the executor calls it.
    ///
    /// # Errors
    /// As [`Store::commit`](super::Store::commit).
    async fn commit_prepared(&self, writes: &[Write], prepared: Prepared) -> Result<Answer, DatabaseError>;
}

/// What a store has made ready. Of use to that store alone.
pub struct Prepared(Box<dyn Any + Send>);

impl Prepared {
    /// From what the store keeps in it.
    pub fn new(prepared: impl Any + Send) -> Self {
        Self(Box::new(prepared))
    }

    /// What the store keeps in it; `None` if it is another's.
    #[must_use]
    pub fn into<T: Any>(self) -> Option<Box<T>> {
        self.0.downcast().ok()
    }
}

/// What the database answered to a commit. To read it takes a while, for which the next commit need not wait.
pub struct Answer(Read);

type Read = Box<dyn FnOnce(&[Write]) -> Vec<Outcome> + Send>;

impl Answer {
    /// An answer that is read by this.
    pub fn new(read: impl FnOnce(&[Write]) -> Vec<Outcome> + Send + 'static) -> Self {
        Self(Box::new(read))
    }

    /// What became of each of these writes, which are those of the commit.
    #[must_use]
    pub fn read(self, writes: &[Write]) -> Vec<Outcome> {
        self.0(writes)
    }
}

impl From<Vec<Outcome>> for Answer {
    fn from(outcomes: Vec<Outcome>) -> Self {
        Self::new(|_| outcomes)
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answer").finish_non_exhaustive()
    }
}

impl fmt::Debug for Prepared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prepared").finish_non_exhaustive()
    }
}
