//! The runs that are known outside of the database, from the records of an application or the logs
//! of its workers.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader};

use serde_json::Value;
use workflow_sdk::{RunId, RunStatus};

use crate::Failure;

/// The name under which a run is known outside.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reference {
    Run(RunId),
    Key { key: String, workflow: Option<String> },
}

/// The facts that are known outside about a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Facts {
    /// How the run has ended.
    pub(super) ended: Option<RunStatus>,
    /// The keys of steps that have ended, or that have begun at least. Each has the number of its
    /// last attempt, or [`ANY_ATTEMPT`].
    pub(super) steps: BTreeMap<String, i64>,
}

/// The attempt of a step that the record names without a number. It may be later than every attempt
/// of the backup.
const ANY_ATTEMPT: i64 = i64::MAX;

impl Facts {
    pub(super) fn add(&mut self, other: Self) {
        self.ended = other.ended.or(self.ended);
        for (step, attempt) in other.steps {
            let last = self.steps.entry(step).or_insert(attempt);
            *last = attempt.max(*last);
        }
    }
}

/// The form of a line.
const FORM: &str = "write a run id or a key, alone or with a tab and a status or the key of a step; or a line of JSON, as \
                    {\"key\":\"order 42\"} for a key with spaces, or as the log of a worker with --log json has it";

/// Each run that is known outside, once.
pub(super) type Known = BTreeMap<Reference, Facts>;

/// Reads a file, or the standard input for `-`: one run a line.
///
/// # Errors
/// A file that cannot be read, or a line that is not understood, with its number.
pub(super) fn read(source: &str) -> Result<Known, Failure> {
    let failed = |error: io::Error| {
        Failure::usage(format!("cannot read {source:?}: {error}"), "name a file of run ids or keys, or - for the input")
    };
    let lines: Box<dyn BufRead> = match source {
        "-" => Box::new(io::stdin().lock()),
        path => Box::new(BufReader::new(File::open(path).map_err(failed)?)),
    };
    let mut known = Known::new();
    for (line, number) in lines.lines().zip(1_u64..) {
        let read = parse(line.map_err(failed)?.trim());
        let refused =
            |reason: String| Failure::usage(format!("line {number} of {source:?} is not understood: {reason}"), FORM);
        if let Some((reference, facts)) = read.map_err(refused)? {
            known.entry(reference).or_default().add(facts);
        }
    }
    Ok(known)
}

/// Reads a line. `None`: it is about no run.
fn parse(line: &str) -> Result<Option<(Reference, Facts)>, String> {
    if line.starts_with('{') {
        let value: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
        return parse_json(&value);
    }
    let mut columns = line.split('\t').map(str::trim);
    let (name, fact) = (columns.next().unwrap_or_default(), columns.next().unwrap_or_default());
    if name.is_empty() {
        return Ok(None);
    }
    // A sentence, such as a line of a text log, would be reported as a run that is missing.
    if name.contains(char::is_whitespace) {
        return Err("the text has spaces, so it is neither a run id nor a key".to_owned());
    }
    if columns.next().is_some() {
        return Err("the line has more than one tab".to_owned());
    }
    let reference = match name.parse() {
        Ok(id) => Reference::Run(id),
        Err(_) => Reference::Key { key: name.to_owned(), workflow: None },
    };
    let mut facts = Facts::default();
    match RunStatus::parse(fact) {
        Some(status) => facts.ended = Some(status).filter(|status| status.is_terminal()),
        None if fact.is_empty() => {}
        None => facts.steps.extend([(fact.to_owned(), ANY_ATTEMPT)]),
    }
    Ok(Some((reference, facts)))
}

/// Reads a line of a worker's log, a run as `workflow runs list -o jsonl` prints it, or an object
/// with some of the same fields.
fn parse_json(value: &Value) -> Result<Option<(Reference, Facts)>, String> {
    // A line without an event comes from the application: its fields may have any names, and only
    // the span names the run.
    let fields = match value.get("fields") {
        Some(fields) if fields.get("event").is_none() => value.get("span").unwrap_or(&Value::Null),
        Some(fields) => fields,
        None => value,
    };
    let text = |name: &str| fields.get(name).and_then(Value::as_str);
    let id = text("run_id").or(text("run")).or(text("id"));
    let reference = match (id, text("key")) {
        (Some(id), _) => Reference::Run(id.parse().map_err(|_| format!("{id:?} is not a run id"))?),
        (None, Some(key)) => Reference::Key { key: key.to_owned(), workflow: text("workflow").map(str::to_owned) },
        (None, None) => return Ok(None),
    };
    let ended = text("status").and_then(RunStatus::parse).filter(|status| status.is_terminal());
    // The step of another event, such as the end of a run, may be one of an attempt before.
    let is_of_step = matches!(text("event"), None | Some("step_begun" | "step_ended"));
    // Outside of an event, the number may be that of the run's attempt.
    let attempt = text("event").and_then(|_| fields.get("attempt")?.as_i64()).unwrap_or(ANY_ATTEMPT);
    let steps = text("step").filter(|_| is_of_step).map(|step| (step.to_owned(), attempt)).into_iter().collect();
    Ok(Some((reference, Facts { ended, steps })))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "01900000-0000-7000-8000-000000000001";

    fn facts(ended: Option<RunStatus>, steps: &[&str]) -> Facts {
        Facts { ended, steps: steps.iter().map(|step| ((*step).to_owned(), ANY_ATTEMPT)).collect() }
    }

    fn key(key: &str, workflow: Option<&str>) -> Reference {
        Reference::Key { key: key.into(), workflow: workflow.map(str::to_owned) }
    }

    #[test]
    fn a_line_names_a_run_by_its_id_or_key_and_a_fact() {
        let run = Reference::Run(ID.parse().unwrap());
        for (line, expected) in [
            (ID.to_owned(), (run.clone(), facts(None, &[]))),
            (format!("{ID}\tcanceled"), (run.clone(), facts(Some(RunStatus::Canceled), &[]))),
            (format!("{ID}\tcharge"), (run, facts(None, &["charge"]))),
            ("order-42".to_owned(), (key("order-42", None), facts(None, &[]))),
            ("order-42\trunning".to_owned(), (key("order-42", None), facts(None, &[]))),
        ] {
            assert_eq!(parse(&line), Ok(Some(expected)), "{line}");
        }
        assert_eq!(parse(""), Ok(None));
    }

    #[test]
    fn a_line_of_plain_text_is_no_key() {
        let of_log = format!("2026-11-27T08:00:00Z DEBUG workflow: step ended run_id={ID} step=\"charge\"");
        for line in [of_log.as_str(), "order 42", "(3 rows)", "order 42\tsucceeded"] {
            assert!(parse(line).is_err_and(|reason| reason.contains("has spaces")), "{line}");
        }
        let columns = "order-42\tsucceeded\t2026-11-27";
        assert!(parse(columns).is_err_and(|reason| reason.contains("more than one tab")));
        let quoted = (key("order 42", None), facts(None, &[]));
        assert_eq!(parse(r#"{"key":"order 42"}"#), Ok(Some(quoted)));
    }

    #[test]
    fn a_line_of_a_log_names_the_run_and_the_step_of_its_event() {
        let run = Reference::Run(ID.parse().unwrap());
        let line = |fields: &str| format!(r#"{{"level":"DEBUG","fields":{{{fields}}},"target":"workflow"}}"#);
        for (line, expected) in [
            (line(&format!(r#""event":"step_ended","run_id":"{ID}","step":"charge""#)), facts(None, &["charge"])),
            (line(&format!(r#""event":"step_begun","run_id":"{ID}","step":"mail""#)), facts(None, &["mail"])),
            (
                line(&format!(r#""event":"run_ended","run_id":"{ID}","status":"failed","step":"mail""#)),
                facts(Some(RunStatus::Failed), &[]),
            ),
            (format!(r#"{{"fields":{{"message":"hi"}},"span":{{"run_id":"{ID}"}}}}"#), facts(None, &[])),
            (
                format!(r#"{{"fields":{{"id":"cust-7","status":"failed"}},"span":{{"run_id":"{ID}"}}}}"#),
                facts(None, &[]),
            ),
            (format!(r#"{{"id":"{ID}","status":"parked","key":"order-1"}}"#), facts(None, &[])),
        ] {
            assert_eq!(parse(&line), Ok(Some((run.clone(), expected))), "{line}");
        }
        let mut known = Facts::default();
        for attempt in [2, 3, 1] {
            let event = format!(r#""event":"step_begun","run_id":"{ID}","step":"charge","attempt":{attempt}"#);
            let (_, facts) = parse(&line(&event)).unwrap().unwrap();
            assert_eq!(facts.steps["charge"], attempt);
            known.add(facts);
        }
        assert_eq!(known.steps["charge"], 3, "the last attempt counts");
        let by_key = r#"{"key":"order-1","workflow":"checkout","status":"succeeded"}"#;
        let expected = (key("order-1", Some("checkout")), facts(Some(RunStatus::Succeeded), &[]));
        assert_eq!(parse(by_key), Ok(Some(expected)));
        assert_eq!(parse(r#"{"fields":{"event":"worker_started"}}"#), Ok(None));
        assert_eq!(parse(r#"{"fields":{"id":"cust-7","key":"order-7"}}"#), Ok(None));
        assert!(parse("{not JSON").is_err() && parse(r#"{"run_id":"7"}"#).is_err());
    }
}
