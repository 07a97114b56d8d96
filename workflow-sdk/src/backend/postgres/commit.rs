use std::collections::{BTreeMap, BTreeSet};

use sqlx::{Connection, PgConnection};

use crate::backend::{AttemptWrite, ContinueWrite, EndWrite, Outcome, ParkWrite, Write};
use crate::failpoint::failpoint;
use crate::model::{Claim, Clock, NewRun, RunId};

use super::error::Failure;
use super::fence::Fence;
use super::finish::Finishes;
use super::sql::Sql;
use super::{attempt, claim, generation, settle, start};

/// Stated in the transaction itself: behind a pooler, the session's settings may be another's.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";

/// Applies the writes in one transaction.
pub(super) async fn commit(
    connection: &mut PgConnection,
    sql: &Sql,
    clock: &Clock,
    writes: &[Write],
) -> Result<Vec<Outcome>, Failure> {
    let mut transaction = connection.begin_with(BEGIN).await?;
    let mut batch = Batch::sort(writes);
    match batch.apply(&mut transaction, sql, clock).await {
        Ok(()) => {
            failpoint("backend.in_transaction");
            transaction.commit().await?;
        }
        Err(failure) => {
            // Of a broken connection nobody hears the answer, and the failure says that it is broken.
            if !failure.breaks_connection {
                transaction.rollback().await?;
            }
            return Err(failure);
        }
    }
    batch.outcomes()
}

/// The writes by kind, each with its place in the batch, and the outcomes so far.
struct Batch<'w> {
    starts: Vec<(usize, &'w NewRun)>,
    attempts: Vec<(usize, &'w AttemptWrite)>,
    ends: Vec<(usize, &'w EndWrite)>,
    parks: Vec<(usize, &'w ParkWrite)>,
    continues: Vec<(usize, &'w ContinueWrite)>,
    cancels: Vec<(usize, RunId)>,
    /// Rare, and one statement each: disowns, expiries, claims.
    others: Vec<(usize, &'w Write)>,
    outcomes: Vec<Option<Outcome>>,
}

impl<'w> Batch<'w> {
    fn sort(writes: &'w [Write]) -> Self {
        let mut batch = Self {
            starts: Vec::new(),
            attempts: Vec::new(),
            ends: Vec::new(),
            parks: Vec::new(),
            continues: Vec::new(),
            cancels: Vec::new(),
            others: Vec::new(),
            outcomes: writes.iter().map(|_| None).collect(),
        };
        for (place, write) in writes.iter().enumerate() {
            match write {
                Write::Start(run) => batch.starts.push((place, run)),
                Write::Attempt(write) => batch.attempts.push((place, write)),
                Write::End(write) => batch.ends.push((place, write)),
                Write::Park(write) => batch.parks.push((place, write)),
                Write::Continue(write) => batch.continues.push((place, write)),
                Write::Cancel(id) => batch.cancels.push((place, *id)),
                Write::Disown { .. } | Write::Expire { .. } | Write::Claim(_) => batch.others.push((place, write)),
            }
        }
        batch
    }

    /// The order is the contract's.
    async fn apply(&mut self, connection: &mut PgConnection, sql: &Sql, clock: &Clock) -> Result<(), Failure> {
        self.start(connection, sql, clock).await?;
        let fence = self.lock(connection, sql).await?;
        self.record_attempts(connection, sql, &fence).await?;
        self.finish(connection, sql, clock, &fence).await?;
        self.disown(connection, sql, clock).await?;
        self.cancel(connection, sql, clock).await?;
        self.expire(connection, sql, clock).await?;
        self.claim(connection, sql, clock).await
    }

    async fn start(&mut self, connection: &mut PgConnection, sql: &Sql, clock: &Clock) -> Result<(), Failure> {
        if self.starts.is_empty() {
            return Ok(());
        }
        let runs: Vec<&NewRun> = self.starts.iter().map(|(_, run)| *run).collect();
        let outcomes = start::start(connection, sql, clock, &runs).await?;
        for ((place, _), outcome) in self.starts.iter().zip(outcomes) {
            self.outcomes[*place] = Some(Outcome::Started(outcome));
        }
        Ok(())
    }

    async fn lock(&self, connection: &mut PgConnection, sql: &Sql) -> Result<Fence, Failure> {
        let attempts = self.attempts.iter().map(|(_, write)| write.claim.run_id);
        let ends = self.ends.iter().map(|(_, write)| write.claim.run_id);
        let parks = self.parks.iter().map(|(_, write)| write.claim.run_id);
        let continues = self.continues.iter().map(|(_, write)| write.claim.run_id);
        let cancels = self.cancels.iter().map(|(_, id)| *id);
        let runs: BTreeSet<RunId> = attempts.chain(ends).chain(parks).chain(continues).chain(cancels).collect();
        Fence::lock(connection, sql, &runs).await
    }

    async fn record_attempts(
        &mut self,
        connection: &mut PgConnection,
        sql: &Sql,
        fence: &Fence,
    ) -> Result<(), Failure> {
        let mut live = Vec::with_capacity(self.attempts.len());
        for (place, write) in &self.attempts {
            let refusal = fence.refusal(write.claim);
            if refusal.is_none() {
                live.push(*write);
            }
            self.outcomes[*place] = Some(refusal.unwrap_or(Outcome::Applied));
        }
        if live.is_empty() { Ok(()) } else { attempt::record(connection, sql, live).await }
    }

    async fn finish(
        &mut self,
        connection: &mut PgConnection,
        sql: &Sql,
        clock: &Clock,
        fence: &Fence,
    ) -> Result<(), Failure> {
        let mut finishes = Finishes::default();
        for (place, write) in &self.ends {
            let outcome = finish_outcome(fence, write.claim, || finishes.end(write))?;
            self.outcomes[*place] = Some(outcome);
        }
        for (place, write) in &self.parks {
            let outcome = finish_outcome(fence, write.claim, || finishes.park(write))?;
            self.outcomes[*place] = Some(outcome);
        }
        let mut continued = BTreeMap::new();
        for (place, write) in &self.continues {
            let run_id = write.claim.run_id;
            let add = || {
                let is_first = !finishes.lets_go_of(run_id) && !continued.contains_key(&run_id);
                if is_first {
                    continued.insert(run_id, *write);
                }
                Ok(is_first)
            };
            let outcome = finish_outcome(fence, write.claim, add)?;
            self.outcomes[*place] = Some(outcome);
        }
        finishes.apply(connection, sql, clock).await?;
        generation::begin(connection, sql, clock, &continued).await
    }

    async fn disown(&mut self, connection: &mut PgConnection, sql: &Sql, clock: &Clock) -> Result<(), Failure> {
        for (place, write) in &self.others {
            if let Write::Disown { worker, known } = write {
                let changed = settle::disown(connection, sql, clock, *worker, known).await?;
                self.outcomes[*place] = Some(Outcome::Changed(changed));
            }
        }
        Ok(())
    }

    async fn cancel(&mut self, connection: &mut PgConnection, sql: &Sql, clock: &Clock) -> Result<(), Failure> {
        if self.cancels.is_empty() {
            return Ok(());
        }
        let ids: Vec<RunId> = self.cancels.iter().map(|(_, id)| *id).collect();
        let outcomes = settle::cancel(connection, sql, clock, &ids).await?;
        for ((place, _), outcome) in self.cancels.iter().zip(outcomes) {
            self.outcomes[*place] = Some(Outcome::Canceled(outcome));
        }
        Ok(())
    }

    async fn expire(&mut self, connection: &mut PgConnection, sql: &Sql, clock: &Clock) -> Result<(), Failure> {
        for (place, write) in &self.others {
            if let Write::Expire { limit } = write {
                let changed = settle::expire(connection, sql, clock, *limit).await?;
                self.outcomes[*place] = Some(Outcome::Changed(changed));
            }
        }
        Ok(())
    }

    async fn claim(&mut self, connection: &mut PgConnection, sql: &Sql, clock: &Clock) -> Result<(), Failure> {
        for (place, write) in &self.others {
            if let Write::Claim(request) = write {
                let claimed = claim::claim(connection, sql, clock, request).await?;
                self.outcomes[*place] = Some(Outcome::Claimed(claimed));
            }
        }
        Ok(())
    }

    fn outcomes(self) -> Result<Vec<Outcome>, Failure> {
        // Every write has a place and every place an outcome; a gap would be a fault of this file.
        self.outcomes.into_iter().collect::<Option<_>>().ok_or_else(|| Failure::corrupt("a write has no outcome"))
    }
}

/// What an end, a park or a continue is answered with; `add` puts it among those that are applied.
fn finish_outcome(
    fence: &Fence,
    claim: Claim,
    add: impl FnOnce() -> Result<bool, Failure>,
) -> Result<Outcome, Failure> {
    match fence.refusal(claim) {
        Some(refusal) => Ok(refusal),
        None if add()? => Ok(Outcome::Applied),
        None => Ok(Outcome::Duplicate),
    }
}
