//! A plain batch as one statement, with all that it binds but for the place where its claim begins. So it can be made while another
//! batch is under way: what it relies on, the statement itself looks at.

use std::collections::BTreeMap;
use std::time::Instant;

use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{PgConnection, Postgres, Row};
use uuid::Uuid;

use workflow_engine::model::{RunId, WorkerId};
use workflow_engine::store::{ClaimRequest, Claimed, ClaimedRun, Outcome, Write};

use super::claim;
use super::claim_start::Place;
use super::commit::{Context, Memory};
use super::error::Failure;
use super::known_claims::KnownClaims;
use super::plain::outcomes;
use super::sql::Statement;

/// See the [module](self).
pub(super) struct Bound {
    pub(super) query: Query<'static, Postgres, PgArguments>,
    /// The same for a claim that does not begin at the beginning, if there is a shorter one.
    pub(super) onward: Option<Statement>,
    /// Whether it claims.
    pub(super) claims: bool,
    /// The workers whose rows it locks.
    pub(super) locked: Vec<WorkerId>,
    /// The runs that it asks for, each with the epoch under which its writer holds it.
    pub(super) asked: BTreeMap<RunId, i64>,
    /// The runs that it ends or parks.
    pub(super) finishing: Vec<RunId>,
}

/// What the database answered to a plain batch, of which all claims hold.
pub(super) struct Applied {
    /// Ends and parks that did not come about, beside others that did.
    pub(super) unfinished: Vec<RunId>,
    rows: Vec<PgRow>,
    /// What its claim found where that began elsewhere than at the beginning, and then there.
    rest: Vec<ClaimedRun>,
    asked: BTreeMap<RunId, i64>,
    /// The rows of the workers, as far as the batch has locked them.
    versions: BTreeMap<WorkerId, String>,
}

impl Bound {
    /// Applies it; these writes are its own. `None`: a claim does not hold, and nothing was changed.
    pub(super) async fn apply(
        self,
        connection: &mut PgConnection,
        context: Context<'_>,
        memory: &Memory,
        writes: &[Write],
    ) -> Result<Option<Applied>, Failure> {
        let request = writes.iter().find_map(Write::as_claim);
        let began = request.and_then(|request| memory.lock().start.of(request, Instant::now()));
        let Some(mut applied) = self.execute(connection, began).await? else { return Ok(None) };
        if let Some(request) = request
            && let Some(rest) = claim::ended(memory, request, began, &applied.rows)?
        {
            let rest = claim::claim(connection, context.sql, context.clock, &rest).await;
            // The others are committed.
            applied.rest = rest.map_err(Failure::of_unknown_effect)?.runs;
        }
        Ok(Some(applied))
    }

    /// Executes it; its claim begins there.
    pub(super) async fn execute(
        self,
        connection: &mut PgConnection,
        began: Option<Place>,
    ) -> Result<Option<Applied>, Failure> {
        let query = match (&self.onward, began) {
            (Some(onward), Some(_)) => onward.with_arguments_of(self.query)?,
            _ => self.query,
        };
        let query = if self.claims { claim::bind_place(query, began) } else { query };
        let rows = match query.fetch_all(connection).await.map_err(Failure::from) {
            Err(failure) if failure.is_recorded() => return Ok(None),
            rows => rows?,
        };
        let first = rows.first().ok_or_else(|| Failure::corrupt("a batch answered nothing"))?;
        if !first.try_get::<bool, _>("holds")? {
            return Ok(None);
        }
        let finished: Option<Vec<Uuid>> = first.try_get("finished")?;
        let is_left = |finished: &[Uuid], run: &RunId| !finished.contains(&run.as_uuid());
        let unfinished = finished.map_or_else(Vec::new, |finished| {
            self.finishing.into_iter().filter(|run| is_left(&finished, run)).collect()
        });
        let versions: Vec<Option<String>> = first.try_get("versions")?;
        let versions = self.locked.into_iter().zip(versions).filter_map(|(worker, version)| Some((worker, version?)));
        let versions = versions.collect();
        Ok(Some(Applied { unfinished, rows, rest: Vec::new(), asked: self.asked, versions }))
    }
}

impl Applied {
    /// Notes that what was asked for holds. It is committed.
    pub(super) fn note_asked(&mut self, known: &mut KnownClaims) {
        known.asked(&self.versions, std::mem::take(&mut self.asked));
    }

    /// Notes that what was claimed with it holds. It is committed.
    pub(super) fn note_claimed(&self, known: &mut KnownClaims, request: &ClaimRequest, claimed: &Claimed) {
        known.claimed(&self.versions, request.worker, &claimed.runs);
    }

    /// What became of each of these writes, which are its own. `None`: it is an end or a park that did not come about.
    pub(super) fn read(mut self, memory: &Memory, writes: &[Write]) -> Result<Vec<Option<Outcome>>, Failure> {
        let mut claimed = Vec::new();
        if let Some(request) = writes.iter().find_map(Write::as_claim) {
            claim::sort(&mut self.rows);
            let mut answer = claim::claimed(&self.rows, request, &[])?;
            answer.runs.extend(self.rest.iter().cloned());
            self.note_claimed(&mut memory.lock().known, request, &answer);
            claimed.push(answer);
        }
        outcomes(writes, Vec::new(), claimed, &self.unfinished)
    }
}
