//! A batch of one attempt without an effect, or of one end without a family, is one statement, and so its own transaction: the way to
//! the database's thread and back once, not three times, which was most of what a lone step took beside the sync of the disk (`history`).
//! It changes rows only if its claim holds. Where it changed none the batch goes the long way, which says why.

use crate::backend::{AttemptWrite, BackendError, EndWrite, Outcome, Write};
use crate::model::Effect;

use super::database::Database;
use super::writer::WriterGuard;
use super::{attempt, finish};

/// A batch that is one statement.
pub(super) enum Lone<'w> {
    Attempt(&'w AttemptWrite),
    End(&'w EndWrite),
}

impl<'w> Lone<'w> {
    /// The batch, if it is one.
    pub(super) fn of(writes: &'w [Write]) -> Option<Self> {
        match writes {
            [Write::Attempt(write)] if matches!(write.effect, Effect::None) => Some(Self::Attempt(write)),
            [Write::End(write)] if write.parent_run_id.is_none() && !write.has_children => Some(Self::End(write)),
            _ => None,
        }
    }

    /// Applies it. `None`: it changed nothing, and must go the long way.
    pub(super) async fn apply(
        self,
        writer: &mut WriterGuard,
        database: &Database,
    ) -> Result<Option<Vec<Outcome>>, BackendError> {
        let held = match self {
            Self::Attempt(write) => {
                writer.alone(async |connection| attempt::record_held(connection, write).await).await?
            }
            Self::End(write) => {
                // Before the write lock, which only the statement takes: an end may be a moment older than another process's before it.
                let now = database.now();
                writer.alone(async |connection| finish::end_held(connection, write, now).await).await?
            }
        };
        Ok(held.then(|| vec![Outcome::Applied]))
    }
}
