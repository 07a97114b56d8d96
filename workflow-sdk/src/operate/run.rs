//! One run, and the search for runs by a part of their ids.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use workflow_engine::model::{Run, RunConditions, RunId, RunSummary, StoredError};
use workflow_engine::store::{Direction, HistoryRows, HistoryScan, RunScan, SCAN_BUDGET, ScanSource};

use crate::{Client, ClientError, Explanation};

use super::{OperateError, OperateErrorCode, PayloadOf, SHOWN_BYTES, StoredPayload};

/// The fewest digits of an id by which runs can be found.
const FEWEST_DIGITS: usize = 6;
/// The digits of an id.
const DIGITS: usize = 32;
/// The most runs that [`OperateRuns::find_runs`](super::OperateRuns::find_runs) returns.
const MOST_FOUND: u32 = 100;
/// The rows of one part of a search by the end of an id.
const PART: u32 = 2_000;

/// One run, with everything about it except its history.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct RunDetail {
    /// The run as a list has it. Its [`error`](RunSummary::error) is `None`: the whole error stands
    /// beside it.
    #[serde(flatten)]
    pub summary: RunSummary,
    /// The input. `None` if the run had none before a release that records it.
    pub input: Option<StoredPayload>,
    /// The output, once the run has succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<StoredPayload>,
    /// The error of a failed run, or the reason why a parked run could not continue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<StoredError>,
    /// The reason why the run waits, or its work at the moment.
    pub explanation: Explanation,
    /// The explanation as a sentence. Its wording may change.
    pub why: String,
}

/// See [`OperateRuns::run`](super::OperateRuns::run).
pub(super) async fn run(client: &Client, id: RunId) -> Result<RunDetail, OperateError> {
    let run = found(client, id).await?;
    let explanation = client.explain_read(&run).await?;
    let now = client.now().await?;
    let why = explanation.to_string();
    let payload = |text: &String| StoredPayload::of(text.clone(), u64::from(SHOWN_BYTES));
    let (input, output, error) = (payload(&run.input), run.output.as_ref().map(payload), run.error.clone());
    let mut summary = RunSummary::of(run, now);
    summary.error = None;
    Ok(RunDetail { summary, input: Some(input), output, error, explanation, why })
}

/// See [`OperateRuns::payload`](super::OperateRuns::payload).
pub(super) async fn payload(client: &Client, id: RunId, of: PayloadOf) -> Result<StoredPayload, OperateError> {
    let run = found(client, id).await?;
    let text = match &of {
        PayloadOf::Input => Some(run.input),
        PayloadOf::Output => run.output,
        PayloadOf::Step { step, attempt } => {
            let rows = HistoryRows::Attempt { step_key: step.clone(), attempt: *attempt };
            let scan = HistoryScan { run: id, rows, payload_bytes: u32::MAX };
            client.read(client.store().history_page(&scan)).await?.pop().and_then(|row| row.row.output)
        }
    };
    let unknown = || OperateError::not_found(format!("run {id} has no {of}"), "read its history");
    Ok(StoredPayload::of(text.ok_or_else(unknown)?, u64::MAX))
}

/// Reads a run.
///
/// # Errors
/// [`NotFound`](OperateErrorCode::NotFound), with the ids of the runs that stand beside this id.
pub(super) async fn found(client: &Client, id: RunId) -> Result<Run, OperateError> {
    match client.run(id).await {
        Ok(run) => Ok(run),
        Err(ClientError::UnknownRun { .. }) => Err(unknown(id, &neighbours(client, id).await?)),
        Err(error) => Err(error.into()),
    }
}

fn unknown(id: RunId, near: &[RunId]) -> OperateError {
    let near: Vec<String> = near.iter().map(RunId::to_string).collect();
    let help = match near.is_empty() {
        true => "list the runs; an ended run may have been deleted".to_owned(),
        false => format!("near ids are {}; an ended run may have been deleted", near.join(", ")),
    };
    OperateError::not_found(format!("there is no run {id}"), help)
}

/// Returns the runs right before and right behind an id.
async fn neighbours(client: &Client, id: RunId) -> Result<Vec<RunId>, OperateError> {
    let mut near = Vec::new();
    for (direction, newer_than, older_than) in
        [(Direction::Newer, id, RunId::LAST), (Direction::Older, RunId::FIRST, id)]
    {
        let scan = RunScan { direction, ..scan_of((newer_than, older_than), 2) };
        near.extend(client.read(client.store().scan(&scan)).await?.runs.iter().map(|run| run.id));
    }
    Ok(near)
}

fn scan_of((newer_than, older_than): (RunId, RunId), rows: u32) -> RunScan {
    RunScan {
        source: ScanSource::All,
        newer_than,
        older_than,
        direction: Direction::Older,
        rows,
        limit: rows,
        conditions: RunConditions::none(),
    }
}

/// See [`OperateRuns::find_runs`](super::OperateRuns::find_runs).
pub(super) async fn find(client: &Client, id: &str, limit: u32) -> Result<Vec<RunSummary>, OperateError> {
    let digits = digits(id)?;
    OperateError::check_limit(limit, MOST_FOUND, "runs")?;
    let now = client.now().await?;
    let scan = scan_of(range(&digits), limit);
    let mut found = client.read(client.store().scan(&scan)).await?.runs;
    if found.is_empty() {
        found = find_by_end(client, &digits, limit).await?;
    }
    Ok(found.into_iter().map(|run| RunSummary::of(run, now)).collect())
}

/// Returns the newest runs whose ids end with these digits, among the newest [`SCAN_BUDGET`] runs.
async fn find_by_end(client: &Client, digits: &str, limit: u32) -> Result<Vec<Run>, OperateError> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut found = Vec::new();
    let mut scan = scan_of((RunId::FIRST, RunId::LAST), PART);
    for _ in 0..SCAN_BUDGET / PART {
        let scanned = client.read(client.store().scan(&scan)).await?;
        let ends = |run: &Run| run.id.as_uuid().simple().to_string().ends_with(digits);
        found.extend(scanned.runs.into_iter().filter(ends));
        match scanned.end {
            Some(end) if found.len() < limit => scan.older_than = end,
            _ => break,
        }
    }
    found.truncate(limit);
    Ok(found)
}

/// Returns the digits of a part of an id, in lower case and without hyphens.
fn digits(id: &str) -> Result<String, OperateError> {
    let digits: String = id.trim().chars().filter(|c| *c != '-').map(|c| c.to_ascii_lowercase()).collect();
    let is_refused = digits.len() > DIGITS || !digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    let refused = |message: String, help: &str| Err(OperateError::new(OperateErrorCode::BadInput, message, help));
    match digits.len() {
        _ if is_refused => refused(format!("{id:?} is not a part of an id"), "an id has 32 digits of 0-9 and a-f"),
        0..FEWEST_DIGITS => refused(format!("{id:?} is too short"), "give at least 6 digits of the id"),
        _ => Ok(digits),
    }
}

/// Returns the bounds, both exclusive, of the ids that begin with these digits.
fn range(digits: &str) -> (RunId, RunId) {
    let id = |padding: char| {
        let padded: String = digits.chars().chain(std::iter::repeat(padding)).take(DIGITS).collect();
        RunId::from(Uuid::from_u128(u128::from_str_radix(&padded, 16).unwrap_or_default()))
    };
    (id('0').before(), id('f').after())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_part_of_an_id_needs_six_digits_and_nothing_else() {
        assert_eq!(digits(" 018F-0000-Ab ").unwrap(), "018f0000ab");
        for text in ["", "018f0", "018f-0", "018f000g", "018f00é", &"0".repeat(33)] {
            assert_eq!(digits(text).unwrap_err().code, OperateErrorCode::BadInput, "{text}");
        }
    }

    #[test]
    fn the_range_has_every_id_that_begins_so_and_no_other() {
        let id = |text: &str| text.parse::<RunId>().unwrap();
        let (from, to) = range("018f0000ab");
        assert_eq!(from.after(), id("018f0000-ab00-0000-0000-000000000000"));
        assert_eq!(to.before(), id("018f0000-abff-ffff-ffff-ffffffffffff"));
        let whole = id("018f0000-0000-7000-8000-000000000001");
        let (from, to) = range(&whole.as_uuid().simple().to_string());
        assert_eq!((from.after(), to.before()), (whole, whole));
    }
}
