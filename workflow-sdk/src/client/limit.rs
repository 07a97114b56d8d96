use std::collections::{BTreeMap, HashMap};

use workflow_engine::model::{
    LimitChange, LimitRecord, LimitRule, NameSubject, Run, RunStatus, SeatLine, SeatWait, check_name,
};
use workflow_engine::store::{DatabaseError, LimitWrite, LineRate, MOST_WAITING, OpenLine, Outcome, Store, Write};

use super::{Client, ClientError, Explanation, timeout};

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

    /// Declares the given limits that have no rule yet, in one batch. Only the start that follows
    /// leaves an audit row.
    pub(super) async fn declare_missing(&self, limits: BTreeMap<String, LimitRule>) -> Result<(), ClientError> {
        if limits.is_empty() {
            return Ok(());
        }
        let known = self.limits().await?;
        let has_rule = |name: &str| known.iter().any(|record| record.name == name && record.rule().is_some());
        let (limit, mut declared) = (self.call_limit(), Vec::new());
        for (name, rule) in limits.into_iter().filter(|(name, _)| !has_rule(name)) {
            declared.push(self.enqueue(limit, write_of(name, LimitChange::Declare(rule))?).await?);
        }
        for pending in declared {
            // The run was not sent yet.
            let outcome = timeout::outcome(limit, pending).await.map_err(|error| match error {
                ClientError::TimedOut { after, .. } => ClientError::TimedOut { after, effect_unknown: false },
                error => error,
            })?;
            expect_applied(outcome)?;
        }
        Ok(())
    }

    /// Calls the steps that may take free seats of the lines after this one. Workers look for free
    /// seats themselves, once per second. This look is sooner.
    pub(super) async fn look_for_seats(&self, after: Option<SeatLine>) {
        if let Err(error) = self.read(call_waiting_seats(self, after)).await {
            tracing::debug!(error = &error as &dyn std::error::Error, "cannot look for free seats; a worker will");
        }
    }

    /// Explains which limit keeps a step of a run from beginning; `None` if none does.
    pub(super) async fn seat_awaited(&self, run: &Run) -> Result<Option<Explanation>, ClientError> {
        let waits = self.read(self.0.store.seat_waits(run.id)).await?;
        let Some(SeatWait { step_key, line, asked_at }) = waits.into_iter().min_by_key(|wait| wait.asked_at) else {
            return Ok(None);
        };
        // A parked run of a paused queue is not among those that get seats.
        if run.status == RunStatus::Parked
            && let Some(queue) = self.queue(&run.lane.queue).record().await?
            && let Some(pause) = queue.pause
        {
            return Ok(Some(Explanation::QueuePaused { since: asked_at, queue: queue.name, pause }));
        }
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

    /// Declares a rule, as a worker does when it starts: it takes the place of the rule that was
    /// declared before. A rule that was [set](LimitHandle::set) holds in its place.
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
    /// llm.declare(LimitRule::none().concurrency(9)).await?;
    /// let record = llm.record().await?.expect("it was declared");
    /// assert_eq!(record.rule(), Some(LimitRule::none().concurrency(2)));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// See [`LimitHandle::set`].
    ///
    /// # Cancel safety
    /// If the future is dropped, the rule may or may not be declared. Declaring it again is safe.
    pub async fn declare(&self, rule: LimitRule) -> Result<(), ClientError> {
        rule.check()?;
        self.change(LimitChange::Declare(rule)).await
    }

    /// Sets a rule that holds in place of the declared one, until it is
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

    /// Removes the rule that was [set](LimitHandle::set), so that the declared rule holds again. If
    /// none was declared, steps that name the limit fail, also those that wait for a seat of it.
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
        expect_applied(self.client.commit(write_of(self.name.clone(), change)?).await?)?;
        // No line has an empty key, so the look begins with the lines of this limit.
        self.client.look_for_seats(Some(SeatLine { limit: self.name.clone(), key: String::new() })).await;
        Ok(())
    }
}

/// Returns the write of a change of this limit.
fn write_of(limit: String, change: LimitChange) -> Result<Write, ClientError> {
    check_name(NameSubject::Limit, &limit)?;
    Ok(Write::Limit(LimitWrite { limit, change }))
}

/// Refuses the outcome of a change that was not made.
fn expect_applied(outcome: Outcome) -> Result<(), ClientError> {
    match outcome {
        Outcome::Applied => Ok(()),
        other => Err(ClientError::unexpected(other)),
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
/// these steps. Of a line whose limit is not declared any more, it calls all steps, so that each is
/// refused. Returns where the next look begins: `None` for the first line.
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
    let rule_of = |line: &SeatLine| rules.get(line.limit.as_str()).copied().unwrap_or_default();
    let ruled: Vec<(&SeatLine, LimitRule)> = lines.iter().map(|line| (line, rule_of(line))).collect();
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
