use std::collections::HashMap;

use workflow_engine::model::{LimitChange, LimitRecord, LimitRule, NameSubject, Run, SeatLine, SeatWait, check_name};
use workflow_engine::store::{DatabaseError, LimitWrite, LineRate, MOST_WAITING, OpenLine, Outcome, Store, Write};

use super::{Client, ClientError, Explanation};

/// The most lines that one search for free seats reads. The next search begins after them.
const LINES: u32 = 500;

/// A handle of a limit for steps, which reads and changes its rule. Made by [`Client::limit`].
///
/// A change takes effect in every process within 2 s. Running bodies are never stopped.
///
/// ```
/// # use workflow_sdk::prelude::*;
/// use workflow_sdk::LimitRule;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let client = Client::connect("sqlite::memory:").await?;
/// let llm = client.limit("llm");
/// llm.set(LimitRule::none().concurrency(2)).await?;
///
/// let record = llm.record().await?.expect("it was set");
/// assert_eq!((record.declared, record.rule().unwrap().concurrency), (None, Some(2)));
/// llm.clear().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct LimitHandle {
    client: Client,
    name: String,
}

impl Client {
    /// Returns a handle to a limit for steps. The limit need not be known yet.
    #[must_use]
    pub fn limit(&self, name: impl Into<String>) -> LimitHandle {
        LimitHandle { client: self.clone(), name: name.into() }
    }

    /// Returns the limits for steps that were declared or set, in the order of their names.
    ///
    /// # Errors
    /// [`ClientError::Database`], [`ClientError::TimedOut`].
    pub async fn limits(&self) -> Result<Vec<LimitRecord>, ClientError> {
        self.read(self.0.store.limits()).await
    }

    /// Explains which limit keeps a step of a run from beginning; `None` if none does.
    pub(super) async fn seat_awaited(&self, run: &Run) -> Result<Option<Explanation>, ClientError> {
        let waits = self.read(self.0.store.seat_waits(run.id)).await?;
        let Some(SeatWait { step_key, line, asked_at }) = waits.into_iter().min_by_key(|wait| wait.asked_at) else {
            return Ok(None);
        };
        let Some(rule) = self.limit(&line.limit).record().await?.and_then(|record| record.rule()) else {
            return Ok(None);
        };
        let rows = self.read(self.0.store.seats(&[(&line, MOST_WAITING)])).await?.pop().unwrap_or_default();
        let rate = self.read(read_rates(&*self.0.store, &[(&line, rule)])).await?.pop().flatten();
        let open = OpenLine::of(rule, rate, rows);
        let ahead = open.ahead_of(run.id, &step_key).unwrap_or(MOST_WAITING as usize);
        Ok(Some(Explanation::WaitsForSeat {
            since: asked_at,
            step: step_key,
            limit: line.limit,
            key: line.key,
            concurrency: rule.concurrency,
            rate: rule.rate,
            begins_at: open.begins_at(ahead),
            taken: u32::try_from(open.taken()).unwrap_or(u32::MAX),
            ahead: u32::try_from(ahead).unwrap_or(u32::MAX),
        }))
    }
}

impl LimitHandle {
    /// Returns the name of the limit.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns what is declared and set for the limit; `None` if nothing ever was.
    ///
    /// # Errors
    /// [`ClientError::Database`], [`ClientError::TimedOut`].
    pub async fn record(&self) -> Result<Option<LimitRecord>, ClientError> {
        Ok(self.client.limits().await?.into_iter().find(|record| record.name == self.name))
    }

    /// Sets a rule that holds in place of the one that workers declare, until it is
    /// [cleared](LimitHandle::clear). If more bodies run than the rule allows, no further one
    /// begins until enough have ended.
    ///
    /// # Errors
    /// [`ClientError::Name`] for the name of the limit, [`ClientError::Rate`],
    /// [`ClientError::Database`], [`ClientError::TimedOut`].
    ///
    /// # Cancel safety
    /// If the future is dropped, the rule may or may not be set. Setting it again is safe.
    pub async fn set(&self, rule: LimitRule) -> Result<(), ClientError> {
        rule.check()?;
        self.change(LimitChange::Override(Some(rule))).await
    }

    /// Removes the rule that was [set](LimitHandle::set), so that the rule that workers declare
    /// holds again. If no worker declares one, steps that name the limit fail.
    ///
    /// # Errors
    /// See [`LimitHandle::set`].
    ///
    /// # Cancel safety
    /// See [`LimitHandle::set`].
    pub async fn clear(&self) -> Result<(), ClientError> {
        self.change(LimitChange::Override(None)).await
    }

    async fn change(&self, change: LimitChange) -> Result<(), ClientError> {
        check_name(NameSubject::Limit, &self.name)?;
        match self.client.commit(Write::Limit(LimitWrite { limit: self.name.clone(), change })).await? {
            Outcome::Applied => {}
            other => return Err(ClientError::unexpected(other)),
        }
        // Workers look for free seats themselves, once per second. This look is sooner.
        if let Err(error) = call_waiting_seats(&self.client, None).await {
            tracing::debug!(error = &error as &dyn std::error::Error, "cannot look for free seats; a worker will");
        }
        Ok(())
    }
}

/// Returns the state of the rate of each of these lines; `None` for one without a rate.
async fn read_rates(
    store: &dyn Store,
    lines: &[(&SeatLine, LimitRule)],
) -> Result<Vec<Option<LineRate>>, DatabaseError> {
    let rated: Vec<&SeatLine> = lines.iter().filter(|(_, rule)| rule.rate.is_some()).map(|(line, _)| *line).collect();
    if rated.is_empty() {
        return Ok(vec![None; lines.len()]);
    }
    let read = store.line_rates(&rated).await?;
    let mut used_until = read.used_until.into_iter();
    let state = |rule: &LimitRule| Some(LineRate::new(rule.rate?, used_until.next()?, read.now));
    Ok(lines.iter().map(|(_, rule)| rule).map(state).collect())
}

/// Looks for lines, after this one, with free seats that steps wait for, and has the executor call
/// these steps. Returns where the next look begins: `None` for the first line.
///
/// # Errors
/// [`DatabaseError`] if the database fails or does not answer.
pub async fn call_waiting_seats(client: &Client, after: Option<SeatLine>) -> Result<Option<SeatLine>, DatabaseError> {
    let store = &client.0.store;
    let lines = store.waiting_lines(after.as_ref(), LINES).await?;
    if lines.is_empty() {
        return Ok(None);
    }
    let records = store.limits().await?;
    let rules: HashMap<&str, LimitRule> =
        records.iter().filter_map(|record| Some((record.name.as_str(), record.rule()?))).collect();
    let ruled: Vec<(&SeatLine, LimitRule)> =
        lines.iter().filter_map(|line| Some((line, *rules.get(line.limit.as_str())?))).collect();
    let asked: Vec<(&SeatLine, u32)> = ruled.iter().map(|(line, rule)| (*line, OpenLine::known(*rule))).collect();
    let rows = store.seats(&asked).await?;
    let rates = read_rates(&**store, &ruled).await?;
    for (((line, rule), rows), rate) in ruled.into_iter().zip(rows).zip(rates) {
        if !OpenLine::of(rule, rate, rows).call().is_empty() {
            // The commit decides anew. An executor that has stopped ends the process's workers.
            let _ = client.executor().send(Write::CallSeats(line.clone())).await;
        }
    }
    Ok(if lines.len() < LINES as usize { None } else { lines.into_iter().last() })
}
