//! The runs that a command is about: ids, parts of ids, lines of the standard input, or a query.

use std::io::BufRead;

use workflow_sdk::RunId;
use workflow_sdk::operate::{ListRuns, Operate, OperateErrorCode, Query, RunPage};

use crate::arguments::Selected;
use crate::kit::blocking;
use crate::{Exit, Failure};

/// The number of candidates that a refusal names.
const NEAR: u32 = 5;

/// Returns the run of this id, or of this beginning or end of an id.
pub(crate) async fn find(operate: &dyn Operate, text: &str) -> Result<RunId, Failure> {
    if let Ok(id) = text.parse() {
        return Ok(id);
    }
    let found = operate.find_runs(text, NEAR).await.map_err(|error| match error.code {
        OperateErrorCode::BadInput => {
            let help = or_by_key(&error.help, text);
            Failure::from(error).help(help)
        }
        _ => error.into(),
    })?;
    match &found[..] {
        [] => {
            let failure = Failure::new(Exit::NotFound, format!("no run has an id like {text:?}"));
            Err(failure.help(or_by_key("`workflow runs list` shows the newest runs", text)))
        }
        [run] => Ok(run.id),
        several => {
            let ids: Vec<String> = several.iter().map(|run| run.id.to_string()).collect();
            Err(Failure::usage(
                format!("several runs have an id like {text:?}: {}", ids.join(", ")),
                "write more of the id; ids that begin alike differ at their ends",
            ))
        }
    }
}

/// Adds to a help how to find a run by its key, if this text could be one. A key with other
/// characters would need quotes.
fn or_by_key(help: &str, text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    if text.is_empty() || !text.chars().all(is_plain) {
        return help.to_owned();
    }
    format!("{help}; `workflow runs list key:{text}` finds a run by its key")
}

/// Reads the lines of the standard input.
fn read_lines() -> Result<Vec<String>, Failure> {
    let lines: std::io::Result<Vec<String>> = std::io::stdin().lock().lines().collect();
    lines.map_err(|error| Failure::new(Exit::Error, format!("cannot read ids: {error}")))
}

/// Returns the runs of the command line, each once, in their order.
pub(crate) async fn select(operate: &dyn Operate, selected: &Selected) -> Result<Vec<RunId>, Failure> {
    let mut runs = Vec::new();
    if let Some(query) = &selected.query {
        let query: Query = query.parse()?;
        let mut list = ListRuns::new(query).limit(ListRuns::MAX_LIMIT);
        loop {
            let RunPage { items, next, .. } = operate.runs(list.clone()).await?;
            runs.extend(items.into_iter().map(|run| run.id));
            let Some(next) = next else { break };
            list = list.cursor(next);
        }
        return Ok(runs);
    }
    for text in &selected.runs {
        if text == "-" {
            for line in blocking(read_lines).await? {
                if !line.trim().is_empty() {
                    runs.push(find(operate, line.trim()).await?);
                }
            }
        } else {
            runs.push(find(operate, text).await?);
        }
    }
    let mut seen = std::collections::HashSet::new();
    runs.retain(|run| seen.insert(*run));
    Ok(runs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_by_key_is_named_for_a_text_that_could_be_a_key() {
        assert_eq!(or_by_key("a", "order-42"), "a; `workflow runs list key:order-42` finds a run by its key");
        for text in ["", "order 42", "status:failed", "$(id)"] {
            assert_eq!(or_by_key("a", text), "a");
        }
    }
}
