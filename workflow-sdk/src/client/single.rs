use std::time::Duration;

use workflow_engine::model::{
    KeyReuse, MovedRun, NameSubject, NewRun, NewSingle, RunId, SingleKey, SingleUntil, StartTime, Timestamp, WhenTaken,
    busy_event_delay, check_name,
};
use workflow_engine::store::{DatabaseError, DatabaseErrorKind, Outcome, StartOutcome};

use super::{Client, ClientError, Start};

/// The longest delay and `max_wait` of a debounced start, and the longest period of a throttled
/// one: 3660 days.
pub const MAX_SINGLE_TIME: Duration = Duration::from_secs(3660 * 24 * 3600);

/// How long a start is retried while another transaction holds its single key.
const PATIENCE: Duration = Duration::from_secs(30);

/// How often a debounced start is tried while the run that it is to move changes.
const TRIES: u32 = 50;

/// The effect of a start if another run has its single key: see [`Start::single`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Single {
    /// The start returns a handle of that run, whatever its input is.
    #[default]
    Existing,
    /// The start fails with [`ClientError::SingleTaken`].
    Refuse,
    /// That run is asked to cancel and loses the key, and the new run starts at once. The two
    /// overlap while the old one cleans up.
    Replace,
}

/// Options of a single, debounced or throttled start that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidSingle {
    /// Two options exclude each other.
    #[error("a start cannot have both {one} and {other}; leave one of them out")]
    Together {
        /// The one option.
        one: &'static str,
        /// The other option.
        other: &'static str,
    },
    /// An option has no effect without another one.
    #[error("{option} says nothing without {needs}; add that, or leave it out")]
    Alone {
        /// The option.
        option: &'static str,
        /// The option that it belongs to.
        needs: &'static str,
    },
    /// A time is 0 or too long.
    #[error("{what} is {time:?}; use more than 0 and at most 3660 days")]
    Time {
        /// The name of the option.
        what: &'static str,
        /// The time.
        time: Duration,
    },
    /// A debounced start would have to begin before its own delay is over.
    #[error("max_wait {max_wait:?} is shorter than the delay {delay:?}; make it at least as long, or leave it out")]
    ShortMaxWait {
        /// The longest time from the first call to the start.
        max_wait: Duration,
        /// The time from the last call to the start.
        delay: Duration,
    },
}

/// The options of a start that look for other runs of a key.
#[derive(Clone, Debug, Default)]
pub(super) struct SingleOptions {
    single: Option<String>,
    on_conflict: Option<Single>,
    debounce: Option<(String, Duration)>,
    max_wait: Option<Duration>,
    once_per: Option<(Duration, String)>,
}

impl SingleOptions {
    /// Checks the options, and gives the run its single key.
    pub(super) fn apply(&self, run: &mut NewRun) -> Result<(), ClientError> {
        self.check_combination(run)?;
        for key in [&self.single, &self.debounce.as_ref().map(|(key, _)| key.clone())].into_iter().flatten() {
            check_name(NameSubject::SingleKey, key)?;
        }
        if let Some(key) = &self.single {
            let taken = if self.on_conflict == Some(Single::Replace) { WhenTaken::Replace } else { WhenTaken::Keep };
            run.single = Some(NewSingle { key: SingleKey { key: key.clone(), until: SingleUntil::End }, taken });
        }
        if let Some((key, delay)) = &self.debounce {
            check_time("the delay of a debounced start", *delay)?;
            if let Some(max_wait) = self.max_wait {
                check_time("max_wait of a debounced start", max_wait)?;
                if max_wait < *delay {
                    return Err(InvalidSingle::ShortMaxWait { max_wait, delay: *delay }.into());
                }
            }
            run.start = StartTime::After(*delay);
            let key = SingleKey { key: key.clone(), until: SingleUntil::Begin };
            run.single = Some(NewSingle { key, taken: WhenTaken::Keep });
        }
        if let Some((period, key)) = &self.once_per {
            check_name(NameSubject::SingleKey, key)?;
            check_time("the period of a throttled start", *period)?;
        }
        Ok(())
    }

    fn check_combination(&self, run: &NewRun) -> Result<(), InvalidSingle> {
        let options = [
            (".key(..)", run.key.is_some()),
            (".single(..)", self.single.is_some()),
            (".debounce(..)", self.debounce.is_some()),
            (".once_per(..)", self.once_per.is_some()),
            (".key_reuse(..)", self.once_per.is_some() && run.key_reuse != KeyReuse::Never),
            (".delay(..) or .at(..)", self.debounce.is_some() && run.start != StartTime::Now),
        ];
        let mut given = options.into_iter().filter(|(_, is_given)| *is_given).map(|(option, _)| option);
        if let (Some(one), Some(other)) = (given.next(), given.next()) {
            return Err(InvalidSingle::Together { one, other });
        }
        let alone = |option, needs| Err(InvalidSingle::Alone { option, needs });
        match self {
            Self { on_conflict: Some(_), single: None, .. } => alone(".on_conflict(..)", ".single(..)"),
            Self { max_wait: Some(_), debounce: None, .. } => alone(".max_wait(..)", ".debounce(..)"),
            _ => Ok(()),
        }
    }

    /// Gives a throttled run its idempotency key, which contains the number of the present period.
    /// The database's clock decides, so all processes agree about the number.
    pub(super) async fn number(&self, client: &Client, run: &mut NewRun) -> Result<(), ClientError> {
        let Some((period, key)) = &self.once_per else { return Ok(()) };
        let now = client.now().await?;
        let key = throttle_key(key, *period, now);
        check_name(NameSubject::SingleKey, &key)?;
        run.key = Some(key);
        Ok(())
    }

    /// Returns `true` if the start accepts a run with another input.
    pub(super) fn accepts_any_input(&self) -> bool {
        self.once_per.is_some()
    }

    /// Returns `true` if the start fails while another run has the single key.
    pub(super) fn refuses(&self) -> bool {
        self.on_conflict == Some(Single::Refuse)
    }
}

fn check_time(what: &'static str, time: Duration) -> Result<(), InvalidSingle> {
    let is_usable = time.as_micros() > 0 && time <= MAX_SINGLE_TIME;
    if is_usable { Ok(()) } else { Err(InvalidSingle::Time { what, time }) }
}

/// Returns the idempotency key of a throttled start at this time.
fn throttle_key(key: &str, period: Duration, now: Timestamp) -> String {
    let period = period.as_micros().max(1);
    let number = u128::try_from(now.as_micros()).unwrap_or_default() / period;
    format!("{key}#{period}/{number}")
}

impl<O> Start<O> {
    /// Lets at most one run of this workflow have this key until it ends. While one has it, the
    /// start returns a handle of that run and changes nothing, whatever the input is:
    /// [`RunHandle::existed`](crate::RunHandle::existed) tells. [`Start::on_conflict`] chooses
    /// otherwise. Default: none. Range: 1 to 255 bytes, no control characters.
    ///
    /// The run gives the key up by its end, whatever that is. A pause, a wait, a retry and
    /// [`Ctx::continue_as_new`](crate::Ctx::continue_as_new) keep it. Not together with
    /// [`Start::key`], [`Start::debounce`] or [`Start::once_per`].
    ///
    /// ```
    /// # use workflow_sdk::prelude::*;
    /// # #[workflow]
    /// # async fn reindex(ctx: &Ctx, document: u64) -> Result<()> { Ok(()) }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let client = Client::connect("sqlite::memory:").await?;
    /// let first = client.start(reindex, 7).single("doc-7").await?;
    /// let second = client.start(reindex, 7).single("doc-7").await?;
    /// assert!(second.existed() && second.id() == first.id());
    /// # Ok(())
    /// # }
    /// ```
    pub fn single(mut self, key: impl Into<String>) -> Self {
        self.single.single = Some(key.into());
        self
    }

    /// Sets what this start does if another run has its [single key](Start::single). Default:
    /// [`Single::Existing`].
    ///
    /// ```
    /// # use workflow_sdk::prelude::*;
    /// # #[workflow]
    /// # async fn reindex(ctx: &Ctx, document: u64) -> Result<()> { Ok(()) }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use workflow_sdk::Single;
    ///
    /// let client = Client::connect("sqlite::memory:").await?;
    /// let old = client.start(reindex, 7).single("doc-7").await?;
    /// let refused = client.start(reindex, 7).single("doc-7").on_conflict(Single::Refuse).await;
    /// let error = refused.unwrap_err();
    /// assert!(matches!(error, ClientError::SingleTaken { run_id, .. } if run_id == old.id()));
    /// let new = client.start(reindex, 7).single("doc-7").on_conflict(Single::Replace).await?;
    /// assert_eq!(old.status().await?, RunStatus::Canceled);
    /// # let _ = new;
    /// # Ok(())
    /// # }
    /// ```
    pub fn on_conflict(mut self, single: Single) -> Self {
        self.single.on_conflict = Some(single);
        self
    }

    /// Starts the run once no further call with this key has come for `delay`, which counts from
    /// the commit of the last call. Until a worker begins the run, each further call for this
    /// workflow and key changes that run instead of starting one: it gets the input, queue,
    /// version, tags, deadline and priority of the last call. The next call after the run has begun
    /// starts a new run. Default: none. Range of the key: 1 to 255 bytes, no control characters; of
    /// the delay: more than 0, at most [`MAX_SINGLE_TIME`].
    ///
    /// Not together with [`Start::key`], [`Start::single`], [`Start::once_per`], [`Start::delay`]
    /// or [`Start::at`].
    ///
    /// ```
    /// # use workflow_sdk::prelude::*;
    /// # #[workflow]
    /// # async fn digest(ctx: &Ctx, messages: u64) -> Result<u64> { Ok(messages) }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let client = Client::connect("sqlite::memory:").await?;
    /// let (delay, most) = (Duration::from_secs(30), Duration::from_secs(300));
    /// let first = client.start(digest, 1).debounce("user-9", delay).max_wait(most).await?;
    /// let last = client.start(digest, 2).debounce("user-9", delay).max_wait(most).await?;
    /// assert_eq!((last.id(), last.run().await?.input.as_str()), (first.id(), "2"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn debounce(mut self, key: impl Into<String>, delay: Duration) -> Self {
        self.single.debounce = Some((key.into(), delay));
        self
    }

    /// Starts a [debounced](Start::debounce) run at most this long after its first call, however
    /// often further calls come. Each call sets it anew. Default: no such limit. Range: at least
    /// the delay, at most [`MAX_SINGLE_TIME`].
    pub fn max_wait(mut self, max_wait: Duration) -> Self {
        self.single.max_wait = Some(max_wait);
        self
    }

    /// Starts at most one run of this workflow per key and period. Another start in the same period
    /// returns a handle of the period's run, whatever its input is and however it ended:
    /// [`RunHandle::existed`](crate::RunHandle::existed) tells. Default: none. Range of the key: 1
    /// to 235 bytes, no control characters; of the period: more than 0, at most
    /// [`MAX_SINGLE_TIME`].
    ///
    /// Periods are counted from 1970-01-01 UTC on the database's clock, so a period of a day is a
    /// day of UTC. Two starts may come right after each other if a period ends between them. The
    /// run's idempotency key is the key with the number of the period. So this option cannot be
    /// used together with [`Start::key`] or [`KeyReuse::AfterFailure`].
    ///
    /// ```
    /// # use workflow_sdk::prelude::*;
    /// # #[workflow]
    /// # async fn report(ctx: &Ctx, account: u64) -> Result<()> { Ok(()) }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let client = Client::connect("sqlite::memory:").await?;
    /// let day = Duration::from_secs(24 * 3600);
    /// let run = client.start(report, 42).once_per(day, "acct-42").await?;
    /// # let _ = run;
    /// # Ok(())
    /// # }
    /// ```
    pub fn once_per(mut self, period: Duration, key: impl Into<String>) -> Self {
        self.single.once_per = Some((period, key.into()));
        self
    }
}

/// The tries of one start. Other starts of its key may come before each.
pub(super) struct Tries {
    max_wait: Option<Duration>,
    count: u32,
    waited: Duration,
}

impl Tries {
    pub(super) fn of(options: &SingleOptions) -> Self {
        Self { max_wait: options.max_wait, count: 0, waited: Duration::ZERO }
    }

    /// Returns the outcome if it is the last one. Otherwise waits as long as needed, and changes
    /// the run for the next try. The first try of a debounced start assumes that the key is free.
    /// If a run has it, the next try moves that run, because only then is it known to which run a
    /// codec has to bind the input.
    pub(super) async fn next(&mut self, run: &mut NewRun, outcome: Outcome) -> Result<Option<Outcome>, ClientError> {
        self.count += 1;
        let debounced = run.single.as_mut().filter(|single| single.key.until == SingleUntil::Begin);
        match (outcome, debounced) {
            (Outcome::Busy, _) if self.waited < PATIENCE => {
                let delay = busy_event_delay(self.count);
                tokio::time::sleep(delay).await;
                self.waited += delay;
                Ok(None)
            }
            (Outcome::Busy, _) => Err(ClientError::SingleBusy {
                workflow: run.lane.workflow.clone(),
                key: key_of(run),
                after: self.waited,
            }),
            (Outcome::Started(StartOutcome::Held { id }), Some(single)) if self.count < TRIES => {
                let moved = MovedRun { id, input: run.input.clone(), max_wait: self.max_wait };
                single.taken = WhenTaken::Move(moved);
                Ok(None)
            }
            (Outcome::Started(StartOutcome::Held { .. }), Some(_)) => {
                let why = "another program changed the runs of its key each time; try again";
                Err(DatabaseError::new(DatabaseErrorKind::Busy, "start a debounced run", why).into())
            }
            (outcome, _) => Ok(Some(outcome)),
        }
    }
}

/// Returns the refusal of a start whose single key another run has.
pub(super) fn taken(run: &NewRun, run_id: RunId) -> ClientError {
    ClientError::SingleTaken { workflow: run.lane.workflow.clone(), key: key_of(run), run_id }
}

fn key_of(run: &NewRun) -> String {
    run.single.as_ref().map(|single| single.key.key.clone()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_follow_each_other_from_1970() {
        let hour = Duration::from_secs(3600);
        let at = |micros| throttle_key("k", hour, Timestamp::from_micros(micros));
        assert_eq!((at(0), at(3_599_999_999)), ("k#3600000000/0".into(), "k#3600000000/0".into()));
        assert_eq!(at(3_600_000_000), "k#3600000000/1");
    }
}
