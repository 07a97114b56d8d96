//! Published values and streams: the data that a run shows while it runs. The code publishes and
//! emits in an equal order on every replay, and the rows are committed in that order. A count
//! therefore says which rows exist already, and a replay writes none of them again.

use serde::Deserialize;

use crate::model::{AttemptStatus, StepAttempt, StepKind, StoredError, Timestamp};

use super::Machine;
use super::records::Note;

/// The number of times that a generation of the run had published when it published this value.
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

/// The recorded end of a stream. Its items are numbered from 1 through all generations of the run.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RecordedStream {
    /// The number of the last item.
    last: i64,
    /// The number of the last item of earlier generations, if this generation is known to have
    /// begun to emit.
    base: Option<i64>,
}

impl RecordedStream {
    /// Adds a row. The row with number 0 is not an item: it records where a generation began.
    pub(super) fn add(&mut self, row: &StepAttempt, generation: i64) {
        if row.attempt > 0 {
            self.last = self.last.max(row.attempt);
        } else if let Some(begun) = Recorded::of(row).filter(|begun| begun.generation == generation) {
            self.base = Some(begun.count);
        }
    }

    /// Returns the number of items before this generation.
    fn base(&self, generation: i64) -> i64 {
        self.base.unwrap_or(if generation == 0 { 0 } else { self.last })
    }

    /// Returns the number of items of this generation.
    pub(super) fn len(&self, generation: i64) -> u64 {
        u64::try_from(self.last - self.base(generation)).unwrap_or(0)
    }
}

impl Machine {
    /// Publishes a value, JSON text, under this name, unless that is recorded. The body of a step
    /// publishes every time, because no replay runs the body.
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

    /// Appends an item, JSON text, to the stream with this name, unless that is recorded.
    ///
    /// A refused item also takes a number. Whether it is refused depends on a limit that may differ
    /// on replay, and the numbers of later items must not differ.
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
        // A later generation begins where the earlier ones ended. A replay must know that number.
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

    /// Returns whether the code has published and emitted everything that is recorded.
    pub(super) fn has_published_all(&self) -> bool {
        let count = |key: &str| self.counts.get(key).copied().unwrap_or(0);
        let published = self.history.published.iter().all(|(key, recorded)| *recorded <= count(key));
        let emitted =
            |(key, stream): (&String, &RecordedStream)| stream.last <= stream.base(self.generation) + count(key);
        published && self.history.emitted.iter().all(emitted)
    }
}
