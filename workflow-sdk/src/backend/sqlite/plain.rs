//! Small batches of the ordinary kind: starts, attempts without effects, ends without a family, claims. Their statements change
//! only what a current claim holds, and say how much they changed; where that is all, nobody has to be asked before. It saves the
//! way to the database's thread and back, which a lone step feels; for many rows the question is cheaper (`throughput`).

use sqlx::SqliteConnection;

use crate::backend::fence::Asked;
use crate::backend::outcomes::Outcomes;
use crate::backend::{BackendError, Outcome, Write};
use crate::model::{Effect, Timestamp};

use super::attempt::Ready;
use super::{attempt, claim, finish, start};

/// The most writes of a plain batch.
const FEW: usize = 16;

/// Whether these are few, and every one of those kinds. `asked`: what they ask; two claims of one run need the fence to decide between them.
pub(super) fn is_plain(writes: &[Write], asked: &Asked) -> bool {
    let plain = |write: &Write| match write {
        Write::Start(_) | Write::Claim(_) => true,
        Write::Attempt(write) => matches!(write.effect, Effect::None),
        Write::End(write) => write.parent_run_id.is_none() && !write.has_children,
        _ => false,
    };
    writes.len() <= FEW && writes.iter().all(plain) && asked.values().all(Option::is_some)
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
