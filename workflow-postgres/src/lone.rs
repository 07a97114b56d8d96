//! What is one statement, and so its own transaction: starts, with the claim that waits for them; a lone claim; a lone attempt without
//! an effect; a lone end without a family. A lone step, which waits for each way to the server and back, waits for one in place of four.
//! An attempt or an end changes its rows only if its claim holds. Where it changed nothing the batch goes the long way, which says
//! why. Of several, some could be changed and the others not, and the long way would find their run claimed by others since.

use sqlx::{PgConnection, Row};

use workflow_engine::model::{Clock, Effect, NewRun, StartTime};
use workflow_engine::store::{AttemptWrite, ClaimRequest, Claimed, EndWrite, Outcome, StartOutcome, Write};

use super::error::Failure;
use super::finish::Finishes;
use super::sql::Sql;
use super::{attempt, claim, start};

/// A batch that is one statement, and so its own transaction.
pub(super) enum Lone<'w> {
    Starts(Vec<&'w NewRun>),
    /// The claim comes last, as an offer does that a start calls in.
    StartsAndClaim(Vec<&'w NewRun>, &'w ClaimRequest),
    Claim(&'w ClaimRequest),
    Attempt(&'w AttemptWrite),
    End(&'w EndWrite),
}

impl<'w> Lone<'w> {
    /// The batch, if it is one.
    pub(super) fn of(writes: &'w [Write]) -> Option<Self> {
        match writes {
            [Write::Start(_), ..] => Self::of_starts(writes),
            [Write::Claim(request)] => Some(Self::Claim(request)),
            [Write::Attempt(write)] if matches!(write.effect, Effect::None) => Some(Self::Attempt(write)),
            [Write::End(write)] if !write.has_family() => Some(Self::End(write)),
            _ => None,
        }
    }

    fn of_starts(writes: &'w [Write]) -> Option<Self> {
        let (last, others) = writes.split_last()?;
        let started = |write: &'w Write| match write {
            Write::Start(run) => Some(run),
            _ => None,
        };
        match last {
            // With room beside them, for runs that have been due for longer must not wait behind whatever is started.
            Write::Claim(request) if others.len() < request.limit as usize => {
                let starts = all(others, started)?;
                let is_known = |run: &&NewRun| !request.lanes.contains(&run.lane) || is_due_at_once(run).is_some();
                starts.iter().all(is_known).then_some(Self::StartsAndClaim(starts, request))
            }
            _ => all(writes, started).map(Self::Starts),
        }
    }

    /// Applies it. `None`: it changed nothing, and must go the long way.
    pub(super) async fn apply(
        self,
        connection: &mut PgConnection,
        sql: &Sql,
        clock: &Clock,
    ) -> Result<Option<Vec<Outcome>>, Failure> {
        match self {
            Self::Starts(runs) => Ok(Some(started(start::start(connection, sql, clock, &runs).await?))),
            Self::StartsAndClaim(runs, request) => {
                let (outcomes, claimed) = start_and_claim(connection, sql, clock, &runs, request).await?;
                let mut outcomes = started(outcomes);
                outcomes.push(Outcome::Claimed(claimed));
                Ok(Some(outcomes))
            }
            Self::Claim(request) => {
                let claimed = claim::claim(connection, sql, clock, request).await?;
                Ok(Some(vec![Outcome::Claimed(claimed)]))
            }
            Self::Attempt(write) => {
                let held = attempt::record_held(connection, sql, write).await?;
                Ok(held.then(|| vec![Outcome::Applied]))
            }
            Self::End(write) => {
                let mut finishes = Finishes::default();
                finishes.end(write)?;
                let held = finishes.apply(connection, sql, clock).await? == 1;
                Ok(held.then(|| vec![Outcome::Applied]))
            }
        }
    }
}

/// Whether the run is due in the transaction that starts it. `None`: only the database's clock can tell.
fn is_due_at_once(run: &NewRun) -> Option<bool> {
    let is_later = |time| matches!(time, StartTime::After(delay) if delay > std::time::Duration::ZERO);
    match run.start {
        StartTime::Now => Some(true),
        start if is_later(start) && run.deadline.is_none_or(is_later) => Some(false),
        _ => None,
    }
}

fn all<'w>(writes: &'w [Write], start: impl Fn(&'w Write) -> Option<&'w NewRun>) -> Option<Vec<&'w NewRun>> {
    writes.iter().map(start).collect()
}

fn started(outcomes: Vec<StartOutcome>) -> Vec<Outcome> {
    outcomes.into_iter().map(Outcome::Started).collect()
}

/// Starts runs, claims those of them that the claim would, and what else is due.
async fn start_and_claim(
    connection: &mut PgConnection,
    sql: &Sql,
    clock: &Clock,
    runs: &[&NewRun],
    request: &ClaimRequest,
) -> Result<(Vec<StartOutcome>, Claimed), Failure> {
    let ordered = start::in_order_of_keys(runs);
    let takes = |run: &&NewRun| matches!(run.start, StartTime::Now) && request.lanes.contains(&run.lane);
    let taken: Vec<bool> = ordered.iter().map(takes).collect();
    let beside = request.limit - taken.iter().map(|taken| u32::from(*taken)).sum::<u32>();
    let query = start::bind(&sql.start_and_claim_runs, clock, &ordered)?.bind(taken);
    let rows = claim::bind(query, request, beside).fetch_all(&mut *connection).await?;
    let claimed = claim::claimed(&rows, request, runs)?;
    let new = rows.first().map_or(Ok(0), |row| row.try_get::<i64, _>("started"))?;
    let outcomes = start::outcomes(connection, sql, runs, u64::try_from(new).unwrap_or(0)).await?;
    Ok((outcomes, claimed))
}
