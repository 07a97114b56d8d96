//! Searches logs for the values of authors, which must not appear there.

use std::collections::BTreeSet;
use std::ops::Range;

use aho_corasick::AhoCorasick;
use serde_json::Value;
use workflow_sdk::{RunFilter, StoredError};
use workflow_testing::MemoryDatabase;

use crate::fixture::{DataLocation, url};
use crate::log_capture::LogCapture;
use crate::raw_connection::RawConnection;

/// Shorter texts are not searched, because they appear in logs for other reasons.
const SHORTEST: usize = 8;

/// Texts without a space are searched only from this length on.
const LONG: usize = 20;

/// The number of characters of a longer text that are searched: a log that shows the text shows its
/// beginning.
const LONGEST: usize = 60;

/// Smaller numbers are not searched, because they appear in logs for other reasons. Workflows of
/// tests get numbers above it.
pub const SMALLEST_SECRET: u64 = 1_000_000_000_000;

/// The times in which tests run, in microseconds: the years 2001 to 2286.
const TIMES: Range<u64> = 1_000_000_000_000_000..10_000_000_000_000_000;

/// The last time that there is, in microseconds. Statements name it.
const FAR_FUTURE: u64 = 253_402_300_799_999_999;

/// The columns that store payloads.
const VALUES: &[(&str, &str)] = &[
    ("workflow_runs", "input"),
    ("workflow_runs", "output"),
    ("step_attempts", "output"),
    ("workflow_signals", "payload"),
];

/// The columns that store errors.
const ERRORS: &[(&str, &str)] = &[("workflow_runs", "error"), ("step_attempts", "error")];

/// Texts that are not secret, although they may be values.
const NAMES: &[(&str, &str)] = &[
    ("workflow_runs", "workflow_name"),
    ("workflow_runs", "key"),
    ("workflow_lanes", "queue"),
    ("workflow_lanes", "version"),
    ("step_attempts", "step_key"),
    ("workflow_signals", "name"),
];

/// Asserts that the log of a test shows none of its stored values, and no password.
///
/// # Panics
/// With the lines that do.
pub(crate) async fn assert_no_stored_secret(location: &DataLocation, captured: &LogCapture) {
    let secrets = match location {
        DataLocation::Memory(database) => stored_secrets_in_memory(database).await,
        DataLocation::File(_) | DataLocation::Schema(_) => {
            let url = url(location);
            stored_secrets(&url, &mut RawConnection::open(&url, location.schema()).await).await
        }
    };
    assert_no_secret(&secrets, &captured.text());
}

/// Asserts that a log shows none of these texts.
///
/// # Panics
/// With the lines that do.
pub fn assert_no_secret(secrets: &BTreeSet<String>, log: &str) {
    let shown = lines_with_secrets(secrets, log);
    assert!(shown.is_empty(), "{} lines of the log show stored values:\n{}", shown.len(), shown.join("\n"));
}

/// Returns the texts in all stored values of authors and errors of their code, and the password.
pub async fn stored_secrets(url: &str, raw: &mut RawConnection) -> BTreeSet<String> {
    let tables = raw.table_names().await;
    let mut stored = Stored::default();
    for (columns, found) in [(VALUES, &mut stored.values), (ERRORS, &mut stored.errors), (NAMES, &mut stored.names)] {
        for (table, column) in columns.iter().filter(|(table, _)| tables.contains(*table)) {
            found.extend(read(raw, table, column).await);
        }
    }
    let mut secrets = stored.secrets();
    secrets.extend(password(url).map(str::to_owned));
    secrets
}

/// Returns the texts that a database in memory holds, as far as its contract shows them: it does
/// not show signals that were not consumed.
async fn stored_secrets_in_memory(database: &MemoryDatabase) -> BTreeSet<String> {
    let (store, mut stored) = (database.handle(), Stored::default());
    let mut filter = RunFilter::new().page_size(RunFilter::MAX_PAGE_SIZE);
    loop {
        let page = store.list(&filter).await.expect("list runs");
        let Some(last) = page.last() else { return stored.secrets() };
        filter = filter.after(last.id);
        for listed in page {
            let Some(run) = store.run(listed.id).await.expect("read a run") else { continue };
            for attempt in store.history(run.id).await.expect("read a history") {
                stored.values.extend(attempt.output);
                stored.errors.extend(attempt.error.iter().map(in_json));
                stored.names.insert(attempt.step_key);
            }
            stored.values.extend([run.input].into_iter().chain(run.output));
            stored.errors.extend(run.error.iter().map(in_json));
            stored.names.extend([run.lane.workflow, run.lane.queue, run.lane.version].into_iter().chain(run.key));
        }
    }
}

fn in_json(error: &StoredError) -> String {
    serde_json::to_string(error).expect("an error as JSON")
}

/// The contents of a database.
#[derive(Default)]
struct Stored {
    values: BTreeSet<String>,
    errors: BTreeSet<String>,
    names: BTreeSet<String>,
}

impl Stored {
    /// Returns the texts that no log may show.
    fn secrets(self) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        for value in self.values {
            texts(&serde_json::from_str(&value).unwrap_or(Value::String(value)), &mut found);
        }
        for error in self.errors {
            let error: Value = serde_json::from_str(&error).unwrap_or_default();
            // An author may pass on the words of the database and its driver, which are not secret.
            let is_own = !["message", "causes"].iter().any(|part| error[*part].to_string().contains("database"));
            if is_own && ["application", "panic"].iter().any(|kind| error["kind"] == *kind) {
                ["message", "causes"].iter().for_each(|part| texts(&error[*part], &mut found));
                let typed = error["payload"]["json"].as_str().and_then(|json| serde_json::from_str(json).ok());
                texts(&typed.unwrap_or_default(), &mut found);
            }
        }
        let words: BTreeSet<&str> = self.names.iter().flat_map(|name| name.split([' ', '/'])).collect();
        found.retain(|text| !self.names.contains(text) && !words.contains(text.as_str()));
        found
    }
}

/// Returns the password in the URL, if there is one.
fn password(url: &str) -> Option<&str> {
    let (user, _) = url.split_once("://")?.1.split_once('@')?;
    Some(user.split_once(':')?.1)
}

/// Returns the lines of a text that show one of these texts.
#[must_use]
pub fn lines_with_secrets<'a>(secrets: &BTreeSet<String>, text: &'a str) -> Vec<&'a str> {
    let secrets = AhoCorasick::new(secrets).expect("texts to seek");
    let mut lines: Vec<&str> = secrets
        .find_iter(text)
        .map(|found| {
            let begin = text[..found.start()].rfind('\n').map_or(0, |at| at + 1);
            let end = text[found.end()..].find('\n').map_or(text.len(), |at| found.end() + at);
            &text[begin..end]
        })
        .collect();
    lines.dedup();
    lines
}

async fn read(raw: &mut RawConnection, table: &str, column: &str) -> Vec<String> {
    raw.lines(format!("SELECT DISTINCT {column} AS found FROM {table} WHERE {column} IS NOT NULL"), "found").await
}

/// Returns the texts in a value, and its large numbers.
fn texts(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Number(number) if number.as_u64().is_some_and(is_secret_number) => {
            found.insert(number.to_string());
        }
        Value::String(text) if is_secret_text(text) => {
            found.insert(text.chars().take(LONGEST).collect());
        }
        Value::Array(values) => values.iter().for_each(|value| texts(value, found)),
        Value::Object(values) => values.values().for_each(|value| texts(value, found)),
        _ => {}
    }
}

/// `true` if a number appears in a log only if code logs it: it is neither small nor a time in
/// microseconds.
fn is_secret_number(number: u64) -> bool {
    number >= SMALLEST_SECRET && !TIMES.contains(&number) && number != FAR_FUTURE
}

/// `true` if a text appears in a log only if code logs it. A word, a name of another test or an id
/// appears by itself.
fn is_secret_text(text: &str) -> bool {
    let is_sentence = text.len() >= SHORTEST && text.contains(' ');
    is_sentence || text.len() >= LONG && uuid::Uuid::try_parse(text).is_err()
}
