//! What authors hand over, sought where it must not be.

use std::collections::BTreeSet;

use aho_corasick::AhoCorasick;
use serde_json::Value;

use crate::captured::Captured;
use crate::fixture::{Place, url};
use crate::raw::RawConnection;

/// Shorter texts stand in a log for other reasons too.
const SHORTEST: usize = 8;

/// And those without a space, if they are not as long as this.
const LONG: usize = 20;

/// So much is sought of a longer text, in characters: whoever shows it, shows its beginning.
const LONGEST: usize = 60;

/// Where payloads are stored.
const VALUES: &[(&str, &str)] = &[
    ("workflow_runs", "input"),
    ("workflow_runs", "output"),
    ("step_attempts", "output"),
    ("workflow_signals", "payload"),
];

/// Where errors are stored.
const ERRORS: &[(&str, &str)] = &[("workflow_runs", "error"), ("step_attempts", "error")];

/// What is no secret, and may be a value too.
const NAMES: &[(&str, &str)] = &[
    ("workflow_runs", "workflow_name"),
    ("workflow_runs", "key"),
    ("workflow_runs", "queue"),
    ("workflow_runs", "version"),
    ("step_attempts", "step_key"),
    ("workflow_signals", "name"),
];

/// Asserts that what was logged during a test shows nothing that its data holds, and no password.
///
/// # Panics
/// With the lines that do.
pub(crate) async fn nothing_is_shown(place: &Place, captured: &Captured) {
    let secrets = match place {
        Place::Memory(_) => return,
        Place::File(_) | Place::Schema(_) => {
            let url = url(place);
            handed_over(&url, &mut RawConnection::open(&url, place.schema()).await).await
        }
    };
    let text = captured.text();
    let shown = shown(&secrets, &text);
    assert!(shown.is_empty(), "{} lines of the log show what was handed over:\n{}", shown.len(), shown.join("\n"));
}

/// The texts in all that authors handed over and that is stored here: values, and the errors of their code. And the password.
pub async fn handed_over(url: &str, raw: &mut RawConnection) -> BTreeSet<String> {
    let tables = raw.table_names().await;
    let mut found: BTreeSet<String> = password(url).map(str::to_owned).into_iter().collect();
    for (table, column) in VALUES.iter().filter(|(table, _)| tables.contains(*table)) {
        for value in read(raw, table, column).await {
            texts(&serde_json::from_str(&value).unwrap_or(Value::String(value)), &mut found);
        }
    }
    for (table, column) in ERRORS.iter().filter(|(table, _)| tables.contains(*table)) {
        for error in read(raw, table, column).await {
            let error: Value = serde_json::from_str(&error).unwrap_or_default();
            // An author may hand on what the database and its driver say, which is no secret of his.
            let is_own = !["message", "causes"].iter().any(|part| error[*part].to_string().contains("database"));
            if is_own && ["application", "panic"].iter().any(|kind| error["kind"] == *kind) {
                ["message", "causes"].iter().for_each(|part| texts(&error[*part], &mut found));
                let typed = error["payload"]["json"].as_str().and_then(|json| serde_json::from_str(json).ok());
                texts(&typed.unwrap_or_default(), &mut found);
            }
        }
    }
    for (table, column) in NAMES.iter().filter(|(table, _)| tables.contains(*table)) {
        for name in read(raw, table, column).await {
            found.remove(&name);
        }
    }
    found
}

/// The password in the URL, if there is one.
fn password(url: &str) -> Option<&str> {
    let (user, _) = url.split_once("://")?.1.split_once('@')?;
    Some(user.split_once(':')?.1)
}

/// Lines of a text that show one of these.
#[must_use]
pub fn shown<'a>(secrets: &BTreeSet<String>, text: &'a str) -> Vec<&'a str> {
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

/// The texts in a value.
fn texts(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::String(text) if is_telling(text) => {
            found.insert(text.chars().take(LONGEST).collect());
        }
        Value::Array(values) => values.iter().for_each(|value| texts(value, found)),
        Value::Object(values) => values.values().for_each(|value| texts(value, found)),
        _ => {}
    }
}

/// Whether a text stands in a log only if somebody has put it there. A word, a name of another test's or an id comes by itself.
fn is_telling(text: &str) -> bool {
    let is_sentence = text.len() >= SHORTEST && text.contains(' ');
    is_sentence || text.len() >= LONG && uuid::Uuid::try_parse(text).is_err()
}
