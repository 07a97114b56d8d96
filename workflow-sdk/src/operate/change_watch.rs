//! Reads what is watched whenever the database has changed, once for all readers of a process.
//!
//! No task does it: the readers that wait take turns. So nothing is read while no reader waits, and
//! a reader that is dropped leaves its turn to the next one.

use std::collections::HashMap;
use std::fmt;
use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Mutex as Turn, watch};
use tokio::time::{Instant, sleep_until};

use workflow_engine::model::{RunId, RunSummary, StepAttempt};
use workflow_engine::store::{HistoryPlace, HistoryRows, HistoryScan};

use crate::Client;

use super::change_feed::{ChangeLog, ChangePlace, WatchedRun, WatchedRuns};
use super::{
    Change, ChangePage, ChangesOf, Cursor, ListChanges, ListRuns, OperateError, OperateErrorCode, OperateRuns, run,
};

/// How often the version of the data is read without a hint.
const POLL_INTERVAL: Duration = Duration::from_millis(800);

/// The shortest time between two reads of the version, because hints can come at any rate.
const SHORTEST_PAUSE: Duration = Duration::from_millis(400);

/// How many different queries and runs a process watches. Each keeps its last changes for readers
/// that come back.
const MOST_FEEDS: usize = 256;

/// The rows of a history that one read returns. The database looks at up to five times as many.
const HISTORY_PART: u32 = 4_000;

/// The feeds that the readers of a process watch.
#[derive(Default)]
pub(crate) struct ChangeWatch {
    pulse: Pulse,
    feeds: Mutex<HashMap<String, Arc<Feed>>>,
}

impl ChangeWatch {
    /// See [`OperateChanges::changes`](super::OperateChanges::changes).
    pub(super) async fn changes(&self, client: &Client, list: ListChanges) -> Result<ChangePage, OperateError> {
        let subject = list.subject()?;
        let place = list.cursor.as_ref().map(|cursor| cursor.place::<ChangePlace>(&subject)).transpose()?;
        let feed = self.feed(&subject, &list)?;
        let (changes, place) = self.follow(client, &feed, list.longest_wait(), place).await?;
        let reset = changes.is_none();
        Ok(ChangePage { cursor: Cursor::at_place(&place, &subject)?, reset, items: changes.unwrap_or_default() })
    }

    /// Returns the feed of this subject. If there are too many, those that no reader has at the
    /// moment are dropped; a reader that comes back to one has to read anew.
    fn feed(&self, subject: &str, list: &ListChanges) -> Result<Arc<Feed>, OperateError> {
        let mut feeds = lock(&self.feeds);
        if let Some(feed) = feeds.get(subject) {
            return Ok(Arc::clone(feed));
        }
        if feeds.len() >= MOST_FEEDS {
            feeds.retain(|_, feed| Arc::strong_count(feed) > 1);
        }
        if feeds.len() >= MOST_FEEDS {
            let message = format!("{MOST_FEEDS} different queries and runs are followed already");
            return Err(OperateError::new(OperateErrorCode::Full, message, "follow one that others follow, or wait"));
        }
        let feed = Arc::new(Feed::new(list));
        feeds.insert(subject.to_owned(), Arc::clone(&feed));
        Ok(feed)
    }

    /// Returns the changes after a place, and the place after them. `None` in place of the changes:
    /// some are not known. Without a place, returns the present one.
    async fn follow(
        &self,
        client: &Client,
        feed: &Feed,
        wait: Duration,
        place: Option<ChangePlace>,
    ) -> Result<(Option<Vec<Change>>, ChangePlace), OperateError> {
        let ends_at = Instant::now() + wait;
        // A reader that does not wait gets all changes that were committed before its call.
        let is_to_be_exact = place.is_some() && wait.is_zero();
        self.pulse.read_after(client, if is_to_be_exact { Duration::ZERO } else { SHORTEST_PAUSE }).await?;
        loop {
            let seen = feed.catch_up(client, &self.pulse).await?;
            {
                let log = lock(&feed.log);
                let Some(place) = &place else { return Ok((Some(Vec::new()), log.end())) };
                let changes = log.since(place);
                let is_over = Instant::now() >= ends_at;
                if changes.as_ref().is_none_or(|changes| !changes.is_empty()) || is_over {
                    return Ok((changes, log.end()));
                }
            }
            tokio::select! {
                biased;
                beaten = self.pulse.beat(client, seen) => beaten?,
                () = sleep_until(ends_at) => {}
            }
        }
    }
}

/// The changes of one query or run.
struct Feed {
    log: Mutex<ChangeLog>,
    looking: Turn<Looking>,
}

/// The result of the last look, with which the next one is compared. A look changes it after its
/// last wait, so a look that is dropped changes nothing.
struct Looking {
    /// The count of the pulse before the last look. `None`: there was no look yet.
    seen: Option<u64>,
    watched: Watched,
}

enum Watched {
    Runs(ListRuns, WatchedRuns),
    Run(RunId, WatchedRun),
    All,
}

impl Feed {
    fn new(list: &ListChanges) -> Self {
        let (_, id) = RunId::generate().as_uuid().as_u64_pair();
        let looking = Looking { seen: None, watched: Watched::of(list) };
        Self { log: Mutex::new(ChangeLog::new(id)), looking: Turn::new(looking) }
    }

    /// Looks if the database has changed since the last look. Returns the count of the pulse before
    /// the look.
    async fn catch_up(&self, client: &Client, pulse: &Pulse) -> Result<u64, OperateError> {
        let mut looking = self.looking.lock().await;
        // Read before the look, so that a commit during it leads to another look.
        let count = pulse.count();
        if looking.seen == Some(count) {
            return Ok(count);
        }
        let is_first = looking.seen.is_none();
        let changes = looking.watched.look(client, is_first).await?;
        looking.seen = Some(count);
        let mut log = lock(&self.log);
        match changes {
            // The first look finds what was there before.
            Some(_) if is_first => {}
            Some(changes) => log.add(changes),
            None => log.begin_anew(),
        }
        Ok(count)
    }
}

impl Watched {
    fn of(list: &ListChanges) -> Self {
        match &list.of {
            ChangesOf::Runs(query) => {
                Self::Runs(ListRuns::new(query.clone()).limit(list.limit), WatchedRuns::default())
            }
            ChangesOf::Run(run) => Self::Run(*run, WatchedRun::new(*run)),
            ChangesOf::All => Self::All,
        }
    }

    /// Returns the changes since the last look. `None`: they are not known.
    async fn look(&mut self, client: &Client, is_first: bool) -> Result<Option<Vec<Change>>, OperateError> {
        match self {
            Self::Runs(list, watched) => {
                let page = client.runs(list.clone()).await?;
                Ok(Some(watched.take(&page.items)))
            }
            Self::Run(id, watched) => {
                let run = match run::found(client, *id).await {
                    Ok(run) => run,
                    Err(error) if error.code == OperateErrorCode::NotFound && !is_first => {
                        return Ok(watched.take(None, &[]));
                    }
                    Err(error) => return Err(error),
                };
                // No change shows the time.
                let created_at = run.created_at;
                let run = RunSummary::of(run, created_at);
                let attempts = attempts(client, *id, watched.read_after(&run)).await?;
                Ok(watched.take(Some(&run), &attempts))
            }
            Self::All => Ok(Some(vec![Change::Committed])),
        }
    }
}

/// Reads the attempts of a run behind a place, without their payloads.
async fn attempts(
    client: &Client,
    run: RunId,
    mut after: Option<HistoryPlace>,
) -> Result<Vec<StepAttempt>, OperateError> {
    let mut attempts: Vec<StepAttempt> = Vec::new();
    loop {
        let rows = HistoryRows::Delivered { after, limit: HISTORY_PART };
        let scan = HistoryScan { run, rows, payload_bytes: 0 };
        let read = client.read(client.store().history_page(&scan)).await?;
        let is_last = read.len() < usize::try_from(HISTORY_PART).unwrap_or(usize::MAX);
        attempts.extend(read.into_iter().map(|row| row.row));
        if is_last {
            return Ok(attempts);
        }
        after = attempts.last().map(HistoryPlace::of);
    }
}

/// Counts how often the database was seen to have changed.
struct Pulse {
    /// Held by the reader that waits for all.
    waiting: Turn<()>,
    last: Turn<LastRead>,
    count: watch::Sender<u64>,
}

#[derive(Default)]
struct LastRead {
    version: Option<String>,
    at: Option<Instant>,
    commits: Option<watch::Receiver<u64>>,
}

impl Pulse {
    fn count(&self) -> u64 {
        *self.count.borrow()
    }

    /// Returns when the count is above this one.
    async fn beat(&self, client: &Client, seen: u64) -> Result<(), OperateError> {
        let mut counts = self.count.subscribe();
        while *counts.borrow_and_update() <= seen {
            tokio::select! {
                biased;
                // The sender is here, so this ends only by a change.
                _ = counts.changed() => {}
                looked = self.look(client) => looked?,
            }
        }
        Ok(())
    }

    /// Waits for the time of the next read, or a hint, and reads.
    async fn look(&self, client: &Client) -> Result<(), OperateError> {
        let _waiting = self.waiting.lock().await;
        let (at, commits) = {
            let last = self.last.lock().await;
            (last.at.unwrap_or_else(Instant::now), last.commits.clone())
        };
        let hinted = async {
            let Some(mut commits) = commits else { return };
            if commits.changed().await.is_err() {
                // The executor has ended, so nothing of this process is committed any more.
                pending::<()>().await;
            }
            sleep_until(at + SHORTEST_PAUSE).await;
        };
        tokio::select! {
            biased;
            () = hinted => {}
            () = sleep_until(at + POLL_INTERVAL) => {}
        }
        self.read_after(client, Duration::ZERO).await
    }

    /// Reads the version of the data, unless that was done within this time.
    async fn read_after(&self, client: &Client, pause: Duration) -> Result<(), OperateError> {
        let mut last = self.last.lock().await;
        if last.at.is_some_and(|at| at.elapsed() < pause) {
            return Ok(());
        }
        if last.commits.is_none() {
            let notifier = client.executor().notifier();
            notifier.listen().await;
            last.commits = Some(notifier.commits());
        }
        // Marked before the read, so that a commit during it is a hint for the next one.
        last.commits.iter_mut().for_each(watch::Receiver::mark_unchanged);
        let version = client.read(client.store().data_version()).await?;
        last.at = Some(Instant::now());
        if last.version.as_ref() != Some(&version) {
            last.version = Some(version);
            self.count.send_modify(|count| *count += 1);
        }
        Ok(())
    }
}

impl Default for Pulse {
    fn default() -> Self {
        Self { waiting: Turn::default(), last: Turn::default(), count: watch::Sender::new(0) }
    }
}

impl fmt::Debug for ChangeWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChangeWatch").field("feeds", &lock(&self.feeds).len()).finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
