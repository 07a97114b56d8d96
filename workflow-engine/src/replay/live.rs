//! What a run shows while it runs: published values and streams. Replay publishes and emits nothing again: the code does it
//! in the same order each time, and its rows are committed in that order, so a number says what is there already.

use serde::Deserialize;

use crate::model::{AttemptStatus, StepAttempt, StepKind, StoredError, Timestamp};

use super::Machine;
use super::records::Note;

/// How often a generation of the run had published when it published this.
#[derive(Debug, Deserialize)]
pub(super) struct Recorded {
    pub(super) generation: i64,
    pub(super) count: i64,
}

impl Recorded {
    pub(super) fn of(row: &StepAttempt) -> Option<Self> {
        serde_json::from_str(row.output.as_deref()?).ok()
    }
}

/// How far a stream has come. Its items are numbered from 1, through all generations of the run.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RecordedStream {
    /// The last number.
    last: i64,
    /// The last number of earlier generations, where this one is known to have begun to emit.
    base: Option<i64>,
}

impl RecordedStream {
    /// The number 0 is no item: it says where a generation began.
    pub(super) fn add(&mut self, row: &StepAttempt, generation: i64) {
        if row.attempt > 0 {
            self.last = self.last.max(row.attempt);
        } else if let Some(begun) = Recorded::of(row).filter(|begun| begun.generation == generation) {
            self.base = Some(begun.count);
        }
    }

    /// How many items there were before this generation.
    fn base(&self, generation: i64) -> i64 {
        self.base.unwrap_or(if generation == 0 { 0 } else { self.last })
    }

    /// How many items this generation has.
    pub(super) fn len(&self, generation: i64) -> u64 {
        u64::try_from(self.last - self.base(generation)).unwrap_or(0)
    }
}

impl Machine {
    /// Publishes a value, JSON text, under this name; not if that was recorded. From the body of a step it is published
    /// whenever the body does, for no replay runs it.
    ///
    /// # Errors
    /// Kind [`ErrorKind::Refused`](crate::model::ErrorKind::Refused) if a step has the key.
    pub fn publish(
        &mut self,
        name: &str,
        value: Result<String, StoredError>,
        in_body: bool,
        now: Timestamp,
    ) -> Result<(), StoredError> {
        let key = StepKind::Published.key_of(name);
        self.check_free(&key)?;
        let recorded = self.history.published.get(&key).copied().unwrap_or(0);
        self.keys.reserve(&key);
        let count = self.counts.entry(key.clone()).or_default();
        *count += i64::from(!in_body);
        let is_new = in_body || *count > recorded;
        let count = recorded.max(*count);
        let value = value?;
        if is_new && self.divergence.is_none() {
            let output = format!("{{\"generation\":{},\"count\":{count},\"value\":{value}}}", self.generation);
            let (at, status) = (self.tick(now), AttemptStatus::Running);
            self.note(&key, Note { kind: StepKind::Published, attempt: 1, status, output, at });
        }
        Ok(())
    }

    /// Appends an item, JSON text, to the stream of this name; not if that was recorded.
    ///
    /// An item that is refused has a number too: whether it is depends on a limit that may be another one on replay, and the
    /// numbers of those after it must not.
    ///
    /// # Errors
    /// Kind [`ErrorKind::Refused`](crate::model::ErrorKind::Refused) if a step has the key.
    pub fn emit(&mut self, name: &str, item: Result<String, StoredError>, now: Timestamp) -> Result<(), StoredError> {
        let key = StepKind::Emitted.key_of(name);
        self.check_free(&key)?;
        let recorded = self.history.emitted.get(&key).copied().unwrap_or_default();
        self.keys.reserve(&key);
        let count = self.counts.entry(key.clone()).or_default();
        *count += 1;
        let base = recorded.base(self.generation);
        let attempt = base + *count;
        let item = item?;
        if attempt <= recorded.last || self.divergence.is_some() {
            return Ok(());
        }
        let at = self.tick(now);
        let kind = StepKind::Emitted;
        // Later generations begin where earlier ones ended; a replay must know where that was.
        if self.generation > 0 && recorded.base.is_none() {
            let output = format!("{{\"generation\":{},\"count\":{base}}}", self.generation);
            self.note(&key, Note { kind, attempt: 0, status: AttemptStatus::Running, output, at });
            let recorded = self.history.emitted.entry(key.clone()).or_default();
            recorded.base = Some(base);
        }
        self.note(&key, Note { kind, attempt, status: AttemptStatus::Succeeded, output: item, at });
        self.size.steps += 1;
        Ok(())
    }

    /// Whether the code has published and emitted all that is recorded.
    pub(super) fn has_published_all(&self) -> bool {
        let count = |key: &str| self.counts.get(key).copied().unwrap_or(0);
        let published = self.history.published.iter().all(|(key, recorded)| *recorded <= count(key));
        let emitted =
            |(key, stream): (&String, &RecordedStream)| stream.last <= stream.base(self.generation) + count(key);
        published && self.history.emitted.iter().all(emitted)
    }
}
