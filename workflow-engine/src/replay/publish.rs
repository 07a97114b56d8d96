//! Published values and streams: the data that a run shows while it runs. The code publishes and
//! emits in an equal order on every replay, and the rows are committed in that order. A count
//! therefore says which rows exist already, and a replay writes none of them again.

use std::collections::HashMap;

use serde::Deserialize;

use crate::model::StepAttempt;

/// The published values and the streams of a run, by key.
#[derive(Debug)]
pub(super) struct Publications {
    generation: i64,
    /// How often this generation has published, according to the history.
    published: HashMap<String, i64>,
    /// The recorded streams of all generations.
    streams: HashMap<String, RecordedStream>,
    /// How often the code has published or emitted.
    counts: HashMap<String, i64>,
}

/// The number of times that a generation of the run had published when it published this value.
#[derive(Debug, Deserialize)]
struct PublishedNote {
    generation: i64,
    count: i64,
}

impl PublishedNote {
    fn of(row: &StepAttempt) -> Option<Self> {
        serde_json::from_str(row.output.as_deref()?).ok()
    }
}

/// The recorded end of a stream. Its items are numbered from 1 through all generations of the run.
#[derive(Clone, Copy, Debug, Default)]
struct RecordedStream {
    /// The number of the last item.
    last: i64,
    /// The number of the last item of earlier generations, if this generation is known to have
    /// begun to emit.
    base: Option<i64>,
}

impl RecordedStream {
    /// Returns the number of items before this generation.
    fn base(&self, generation: i64) -> i64 {
        self.base.unwrap_or(if generation == 0 { 0 } else { self.last })
    }

    /// Returns the number of items of this generation.
    fn len(&self, generation: i64) -> u64 {
        u64::try_from(self.last - self.base(generation)).unwrap_or(0)
    }
}

/// The next item of a stream.
pub(super) struct NextItem {
    /// The item's number.
    pub(super) number: i64,
    /// Whether the history has the item.
    pub(super) is_recorded: bool,
}

impl Publications {
    /// Creates the publications of a run in this generation.
    pub(super) fn new(generation: i64) -> Self {
        Self { generation, published: HashMap::new(), streams: HashMap::new(), counts: HashMap::new() }
    }

    /// Adds the row of a published value. Clients see the values of earlier generations, but a
    /// replay of this generation ignores them.
    pub(super) fn add_published(&mut self, row: &StepAttempt) {
        if let Some(note) = PublishedNote::of(row).filter(|note| note.generation == self.generation) {
            self.published.insert(row.step_key.clone(), note.count);
        }
    }

    /// Adds the row of an item. The row with number 0 is not an item: it records where a generation
    /// began.
    pub(super) fn add_item(&mut self, row: &StepAttempt) {
        let stream = self.streams.entry(row.step_key.clone()).or_default();
        if row.attempt > 0 {
            stream.last = stream.last.max(row.attempt);
        } else if let Some(begun) = PublishedNote::of(row).filter(|begun| begun.generation == self.generation) {
            stream.base = Some(begun.count);
        }
    }

    /// Returns the number of recorded items of this generation.
    pub(super) fn recorded_items(&self) -> u64 {
        self.streams.values().map(|stream| stream.len(self.generation)).sum()
    }

    /// Returns whether the code has published or emitted under this key.
    pub(super) fn have(&self, key: &str) -> bool {
        self.counts.contains_key(key)
    }

    /// Counts a value that the code publishes. Returns the count to record, or `None` if the value
    /// is recorded. A body publishes every time, because no replay runs the body.
    pub(super) fn publish(&mut self, key: &str, in_body: bool) -> Option<i64> {
        let recorded = self.published.get(key).copied().unwrap_or(0);
        let count = self.counts.entry(key.to_owned()).or_default();
        *count += i64::from(!in_body);
        (in_body || *count > recorded).then_some(recorded.max(*count))
    }

    /// Counts an item that the code emits.
    pub(super) fn emit(&mut self, key: &str) -> NextItem {
        let recorded = self.streams.get(key).copied().unwrap_or_default();
        let count = self.counts.entry(key.to_owned()).or_default();
        *count += 1;
        let number = recorded.base(self.generation) + *count;
        NextItem { number, is_recorded: number <= recorded.last }
    }

    /// Returns the number of items of earlier generations if it must be recorded before the first
    /// item of this generation. A replay must know that number.
    pub(super) fn begin_stream(&mut self, key: &str) -> Option<i64> {
        if self.generation == 0 {
            return None;
        }
        let stream = self.streams.entry(key.to_owned()).or_default();
        if stream.base.is_some() {
            return None;
        }
        let base = stream.base(self.generation);
        stream.base = Some(base);
        Some(base)
    }

    /// Returns whether the code has published and emitted everything that is recorded.
    pub(super) fn are_complete(&self) -> bool {
        let count = |key: &str| self.counts.get(key).copied().unwrap_or(0);
        let published = self.published.iter().all(|(key, recorded)| *recorded <= count(key));
        let emitted =
            |(key, stream): (&String, &RecordedStream)| stream.last <= stream.base(self.generation) + count(key);
        published && self.streams.iter().all(emitted)
    }
}
