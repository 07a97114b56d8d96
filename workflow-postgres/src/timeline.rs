//! The timeline of the server, which rises with each promotion of a standby.
//!
//! After a failover the old primary may come back as if nothing had happened, and an address may
//! lead to it by mistake. It lacks what was committed since, and what is committed there is lost
//! once it becomes a standby. So a store refuses each new session on a timeline that is older than
//! one that it has met. A store that was just opened has met none: it cannot know.

use std::sync::{Arc, Mutex, PoisonError};

use sqlx::{PgConnection, Row};
use tokio::sync::watch;

use workflow_engine::faults::planted;
use workflow_engine::store::DatabaseErrorKind;

use super::error::Failure;
use super::sql::Statement;

/// A session was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the server is on timeline {found}, and this program has met timeline {newest} of the same database: it is a primary from before a failover; let the address lead to the new primary, and make the old one its standby; if the database was restored on purpose, restart this program"
)]
pub(super) struct OlderTimeline {
    found: i64,
    newest: i64,
}

/// Where a server stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The number that all copies of one database share.
    pub(super) system: i64,
    /// The number of the history that the server continues.
    pub(super) timeline: i64,
}

/// The newest timeline that the sessions of one store have met. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct NewestTimeline(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// Never held across an await.
    newest: Mutex<Newest>,
    /// The last refusal; a change tells of one more.
    refusals: watch::Sender<Option<OlderTimeline>>,
}

#[derive(Debug, Default)]
struct Newest {
    /// `None` before the first session.
    place: Option<Place>,
    /// `true` if the last session was refused.
    refuses: bool,
}

impl Default for NewestTimeline {
    fn default() -> Self {
        Self(Arc::new(Shared { newest: Mutex::default(), refusals: watch::Sender::new(None) }))
    }
}

impl NewestTimeline {
    /// Fails if the server of this new session is on an older timeline of the same database. A
    /// standby is not looked at, because nothing is written there. Nor is a server that does not
    /// tell its timeline, which products do that only speak the protocol of PostgreSQL.
    pub(super) async fn check(&self, connection: &mut PgConnection, read: &Statement) -> Result<(), Failure> {
        match place(connection, read).await {
            Ok(Some(place)) => self.admit(place).map_err(Failure::old_timeline),
            Ok(None) => Ok(()),
            Err(failure) if failure.kind == DatabaseErrorKind::Other && !failure.breaks_connection => Ok(()),
            Err(failure) => Err(failure),
        }
    }

    /// Remembers the place of a server, or refuses it.
    pub(super) fn admit(&self, found: Place) -> Result<(), OlderTimeline> {
        let mut newest = self.0.newest.lock().unwrap_or_else(PoisonError::into_inner);
        let met = newest.place.filter(|met| met.system == found.system && met.timeline > found.timeline);
        let Some(met) = met.filter(|_| !planted("unchecked-timeline")) else {
            *newest = Newest { place: Some(found), refuses: false };
            return Ok(());
        };
        let older = OlderTimeline { found: found.timeline, newest: met.timeline };
        // Once, because a worker tries again several times per second.
        if !std::mem::replace(&mut newest.refuses, true) {
            tracing::warn!(%older, "a connection was refused because its server is on an older timeline; trying again");
        }
        drop(newest);
        self.0.refusals.send_replace(Some(older));
        Err(older)
    }

    /// Returns the next refusal of a session. Never returns without one.
    pub(super) async fn refusal(&self) -> Failure {
        let mut refusals = self.0.refusals.subscribe();
        loop {
            if refusals.changed().await.is_err() {
                // Not while this value lives, which keeps the sender.
                std::future::pending::<()>().await;
            }
            let last = *refusals.borrow_and_update();
            if let Some(older) = last {
                return Failure::old_timeline(older);
            }
        }
    }
}

/// Reads the place of the server; `None` on a standby.
async fn place(connection: &mut PgConnection, read: &Statement) -> Result<Option<Place>, Failure> {
    let row = read.query().fetch_one(connection).await?;
    let timeline: Option<i64> = row.try_get("timeline")?;
    let system = row.try_get("system_identifier")?;
    Ok(timeline.map(|timeline| Place { system, timeline }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(system: i64, timeline: i64) -> Place {
        Place { system, timeline }
    }

    #[test]
    fn an_older_timeline_of_the_same_database_is_refused() {
        let newest = NewestTimeline::default();
        assert_eq!(newest.admit(place(-7, 1)), Ok(()));
        assert_eq!(newest.admit(place(-7, 1)), Ok(()));
        assert_eq!(newest.admit(place(-7, 3)), Ok(()), "after two failovers");
        assert_eq!(newest.admit(place(-7, 2)), Err(OlderTimeline { found: 2, newest: 3 }));
        assert_eq!(newest.admit(place(-7, 3)), Ok(()), "once the address leads to the new primary again");
        assert_eq!(newest.admit(place(8, 1)), Ok(()), "another database has timelines of its own");
    }

    #[tokio::test]
    async fn a_wait_for_a_connection_learns_of_a_refusal() {
        let newest = NewestTimeline::default();
        assert_eq!(newest.admit(place(7, 2)), Ok(()));
        let other = newest.clone();
        let (failure, refused) = tokio::join!(newest.refusal(), async move { other.admit(place(7, 1)) });
        assert!(refused.is_err());
        assert_eq!(failure.kind, DatabaseErrorKind::OldTimeline);
        assert!(failure.to_string().contains("timeline 1"), "{failure}");
    }
}
