//! The statement of a batch with everything that it binds, but for the cursors of its claim.
//!
//! So it can be bound while another batch is under way: whatever it relies on, the statement checks
//! itself when it is executed.

use std::collections::{BTreeMap, HashSet};
use std::time::Instant;

use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{Execute, PgConnection, Postgres, Row};
use uuid::Uuid;

use workflow_engine::model::{NewRun, RunId, Timestamp, WorkerId};
use workflow_engine::store::{ClaimRequest, StartOutcome, Write};

use super::answer::Answer;
use super::{Fast, FastPath, JoinedClaim};
use crate::attempt::Rows;
use crate::context::{Context, Memory};
use crate::error::Failure;
use crate::fence_cache::{FenceCache, Versions};
use crate::ownership::Workers;
use crate::parts::{Parts, PartsFence};
use crate::{claim, fence, start};

/// See the [module](self).
pub(crate) struct BatchStatement {
    query: Query<'static, Postgres, PgArguments>,
    parts: Parts,
    claim: Option<JoinedClaim>,
    /// The indexes of the claims that follow the statement.
    later_claims: Vec<usize>,
    /// The workers whose rows the statement locks.
    locked: Vec<WorkerId>,
    /// The claims that the statement checks.
    asked: BTreeMap<RunId, i64>,
    /// The runs that the statement ends or parks.
    releasing: Vec<RunId>,
}

impl BatchStatement {
    /// Binds the statement of this batch, part by part (`parts.rs`).
    pub(super) fn bind(
        batch: FastPath<'_>,
        Context { sql, clock, workers }: Context<'_>,
        cache: &FenceCache,
    ) -> Result<Self, Failure> {
        let starts = start::in_order_of_keys(&batch.starts);
        let (claim, later_claims) = batch.split_claims(&starts);
        let request = claim.as_ref().and_then(|_| batch.claims.first()).map(|(_, request)| *request);
        let rows = Rows::by_novelty(batch.attempts);
        let (attempts, releases) = (!rows.is_empty(), !batch.releases.is_empty());
        let releasing = batch.releases.runs();
        let only = rows.only();
        let has_others = releasing.iter().any(|run| Some(*run) != only.map(|claim| claim.run_id))
            || claim.is_some()
            || !starts.is_empty()
            || !batch.claims.is_empty();
        let fence = match (only, attempts || claim.is_some() && (releases || !starts.is_empty())) {
            (Some(_), _) if !has_others => PartsFence::Run,
            (_, true) => PartsFence::Owners,
            (_, false) => PartsFence::None,
        };
        let asked = if fence == PartsFence::Owners { batch.asked } else { BTreeMap::new() };
        let usual = rows.are_first_successes() && batch.releases.are_plain_ends() && asked.is_empty();
        let parts = Parts {
            gates: false,
            fence,
            starts: !starts.is_empty(),
            attempts,
            releases,
            claim: claim.is_some(),
            lapsed: claim.is_some(),
            turns: claim.is_some(),
            unusual: !usual,
        };
        let parts = parts.with_lanes(request.map_or(0, |request| request.lanes.len()));
        let none = Workers::default();
        let locked = if fence == PartsFence::Owners { workers } else { &none };
        let mut query = sql.parts(parts).query().bind(clock.fixed().map(Timestamp::as_micros));
        if let (PartsFence::Run, Some(claim)) = (fence, only) {
            query = query.bind(claim.run_id.as_uuid()).bind(claim.epoch);
        }
        if fence == PartsFence::Owners {
            query = query.bind(locked.uuids());
            if parts.unusual {
                query = query.bind(fence::ids(asked.keys()));
                query = query.bind(asked.values().copied().collect::<Vec<_>>());
            }
            let known = if batch.relies_on_cache { cache.versions(locked) } else { vec![None; locked.ids().len()] };
            query = query.bind(locked.uuids()).bind(known);
        }
        if parts.starts {
            query = start::bind(query, (&starts, true), request.zip(claim.as_ref().map(|claim| &claim.takes[..])))?;
        }
        if parts.attempts {
            query = if parts.unusual { rows.bind(query)? } else { rows.bind_first_successes(query) };
        }
        if parts.releases {
            query = if parts.unusual { batch.releases.bind(query) } else { batch.releases.bind_plain_ends(query) };
        }
        if let Some((request, claim)) = request.zip(claim.as_ref()) {
            query = claim::bind(query, request, claim.limit);
        }
        Ok(Self { query, parts, claim, later_claims, locked: locked.ids().to_vec(), asked, releasing })
    }

    /// Returns whether claims follow that look at limits.
    pub(crate) fn has_limited_claims(&self, writes: &[Write]) -> bool {
        let request = |index: &usize| writes.get(*index).and_then(Write::as_claim);
        self.later_claims.iter().filter_map(request).any(ClaimRequest::is_limited)
    }

    /// Executes the statement. These writes are the batch. If the outcome is [`Fast::Done`], ends
    /// and parks may be left, and claims may have to follow: [`Answer::unfinished`],
    /// [`Answer::claim_more`].
    pub(crate) async fn execute(
        self,
        connection: &mut PgConnection,
        context: Context<'_>,
        memory: &Memory,
        writes: &[Write],
    ) -> Result<Fast, Failure> {
        let request = self.claim.as_ref().and_then(|claim| writes.get(claim.index)).and_then(Write::as_claim);
        let cursors = request.map(|request| memory.lock().cursor.of(request, Instant::now())).unwrap_or_default();
        let query = match request {
            Some(request) => {
                let query = resumed(self.query, self.parts, context, !cursors.is_empty())?;
                claim::bind_cursors(query, request, &cursors)
            }
            None => self.query,
        };
        let rows = match query.fetch_all(&mut *connection).await.map_err(Failure::from) {
            // An attempt that was taken for a new one has a row.
            Err(failure) if failure.is_recorded() => return Ok(Fast::Refused),
            rows => rows?,
        };
        let first = rows.first().ok_or_else(|| Failure::corrupt("a batch answered nothing"))?;
        let refuses = |asked: bool, column: &str| Ok::<_, Failure>(asked && !first.try_get::<bool, _>(column)?);
        if refuses(self.parts.fence != PartsFence::None, "holds")? || refuses(self.parts.starts, "laned")? {
            return Ok(Fast::Refused);
        }
        let versions =
            if self.parts.fence == PartsFence::Owners { versions(first, self.locked)? } else { Versions::new() };
        let mut checked = self.asked;
        checked.retain(|run, _| self.releasing.binary_search(run).is_err());
        memory.lock().fences.add_checked(&versions, checked);
        let finished: Option<Vec<Uuid>> = if self.parts.releases { first.try_get("finished")? } else { None };
        let finished: Option<HashSet<Uuid>> = finished.map(HashSet::from_iter);
        let is_left = |run: &RunId| finished.as_ref().is_some_and(|finished| !finished.contains(&run.as_uuid()));
        let mut answer = Answer {
            unfinished: self.releasing.into_iter().filter(is_left).collect(),
            versions,
            claim: self.claim,
            cursors,
            later_claims: self.later_claims,
            ..Answer::default()
        };
        // The statement is committed: what fails from here on leaves an unknown effect.
        if self.parts.starts {
            let new: Option<Vec<Uuid>> = first.try_get("started")?;
            answer.started = started(connection, context, writes, new.is_none()).await?;
            answer.keep_new_starts(new);
        }
        answer.rows = rows;
        Ok(Fast::Done(Box::new(answer)))
    }
}

/// Leaves out of the statement what a claim does not need that resumes from a cursor.
fn resumed(
    mut query: Query<'static, Postgres, PgArguments>,
    parts: Parts,
    Context { sql, .. }: Context<'_>,
    is_resumed: bool,
) -> Result<Query<'static, Postgres, PgArguments>, Failure> {
    if !is_resumed {
        return Ok(query);
    }
    let parameters = query.take_arguments().map_err(sqlx::Error::Encode)?.unwrap_or_default();
    Ok(sql.parts(parts.resumed(true)).query_with(parameters))
}

/// Reads the versions of the rows that the statement has locked.
fn versions(row: &PgRow, locked: Vec<WorkerId>) -> Result<Versions, Failure> {
    let versions: Vec<Option<String>> = row.try_get("versions")?;
    Ok(locked.into_iter().zip(versions).filter_map(|(worker, version)| Some((worker, version?))).collect())
}

/// Returns the outcomes of the batch's starts.
async fn started(
    connection: &mut PgConnection,
    Context { sql, clock, .. }: Context<'_>,
    writes: &[Write],
    all_are_new: bool,
) -> Result<Vec<StartOutcome>, Failure> {
    let starts = writes.iter().filter_map(|write| match write {
        Write::Start(run) => Some(run),
        _ => None,
    });
    let starts: Vec<&NewRun> = starts.collect();
    let outcomes = start::outcomes(connection, sql, clock, (&starts, all_are_new)).await;
    outcomes.map_err(Failure::of_unknown_effect)
}
