//! Small batches of the ordinary kind: starts, attempts without effects, ends without a family, claims. Their statements change
//! only what a current claim holds, and say how much they changed; where that is all, nobody has to be asked before. It saves the
//! way to the database's thread and back, which a lone step feels; for many rows the question is cheaper (`throughput`).

use sqlx::SqliteConnection;

use crate::backend::fence::Asked;
use crate::backend::outcomes::Outcomes;
use crate::backend::{BackendError, Outcome, Write};
use crate::model::{Effect, Timestamp};

use super::attempt::Ready;
use super::writer::WriterGuard;
use super::{attempt, claim, finish, start};

/// The most writes of a plain batch.
const FEW: usize = 16;

/// Whether these are few, and every one of those kinds. `asked`: what they ask; two claims of one run need the fence to decide between them.
pub(super) fn is_plain(writes: &[Write], asked: &Asked) -> bool {
    writes.len() <= FEW && writes.iter().all(is_ordinary) && asked.values().all(Option::is_some)
}

fn is_ordinary(write: &Write) -> bool {
    match write {
        Write::Start(_) | Write::Claim(_) => true,
        Write::Attempt(write) => matches!(write.effect, Effect::None),
        Write::End(write) => write.parent_run_id.is_none() && !write.has_children,
        _ => false,
    }
}

/// Whether this is one ordinary attempt or end: one statement, and so its own transaction. It takes the way to the database's thread
/// and back once, not three times, which was most of what a lone step took beside the sync of the disk (`history`).
pub(super) fn is_lone(writes: &[Write]) -> bool {
    matches!(writes, [write @ (Write::Attempt(_) | Write::End(_))] if is_ordinary(write))
}

/// Applies it. `None`: its claim does not hold, or its row was final already, and it changed nothing. `now` comes before the write
/// lock, which only the statement takes: an end may be a moment older than one of another process that was before it.
pub(super) async fn apply_lone(
    writer: &mut WriterGuard,
    writes: &[Write],
    now: Timestamp,
) -> Result<Option<Vec<Outcome>>, BackendError> {
    let ready = attempt::prepare(writes)?;
    let statement = async |connection: &mut SqliteConnection| {
        Ok(attempt::apply_plain(connection, &ready).await? && finish::end_plain(connection, writes, now).await?)
    };
    Ok(writer.alone(statement).await?.then(|| vec![Outcome::Applied]))
}

/// Applies them. `None` if a claim does not hold, or a row was final already: what was changed until then must be rolled back.
pub(super) async fn apply(
    connection: &mut SqliteConnection,
    writes: &[Write],
    ready: &Ready,
    now: Timestamp,
) -> Result<Option<Vec<Outcome>>, BackendError> {
    let mut outcomes = Outcomes::of(writes);
    start::apply(connection, writes, now, &mut outcomes).await?;
    if !attempt::apply_plain(connection, ready).await? || !finish::end_plain(connection, writes, now).await? {
        return Ok(None);
    }
    for (place, write) in writes.iter().enumerate() {
        if matches!(write, Write::Attempt(_) | Write::End(_)) {
            outcomes.set(place, Outcome::Applied);
        }
    }
    claim::apply(connection, writes, now, &mut outcomes).await?;
    outcomes.complete().map(Some)
}
