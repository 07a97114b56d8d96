//! Counts runs again, and compares the statistics with them.

use std::collections::BTreeMap;
use std::time::Duration;

use workflow_sdk::Timestamp;
use workflow_sdk::operate::{ListRuns, ListStats, Moment, Operate, Query, StatisticsSpan};

use crate::Failure;
use crate::clock::span;

use super::Finding;

/// The time before now whose runs are counted. Its minutes are not folded yet.
const RANGE: Duration = Duration::from_secs(3600);

/// How much earlier than its start the id of a run may have been made.
pub(super) const SLACK: Duration = Duration::from_secs(300);

/// The most runs that are read. With more, fewer minutes are counted.
const MOST: usize = 50_000;

/// A difference that says nothing: starts at the edges of the range, or just now.
const FEW: u64 = 10;

/// A difference above this part of the runs is a finding. A process that is killed loses a second.
const PART: u64 = 100;

/// Compares the runs that were started in the last hour with the statistics. Changes nothing.
pub(super) async fn recount(operate: &dyn Operate, now: Timestamp) -> Result<Finding, Failure> {
    let (since, runs) = count(operate, now).await?;
    if since >= StatisticsSpan::Minute.begin(now) {
        return Ok(Finding::ok(format!("more than {MOST} runs were started in the last minutes: too many to recount")));
    }
    let stats = operate.stats(ListStats::new().since(Moment::At(since))).await?;
    let counted: u64 = stats.groups.iter().map(|group| group.total.started).sum();
    let length = span(now.since(since));
    if !stats.complete {
        return Ok(Finding::ok(format!("the statistics of the last {length} have too many rows to compare")));
    }
    Ok(compare(counted, runs, &length))
}

/// Counts the runs that were started since an hour ago, or since a later minute if they are many.
/// Returns that time, too.
async fn count(operate: &dyn Operate, now: Timestamp) -> Result<(Timestamp, u64), Failure> {
    let minute = StatisticsSpan::Minute;
    let mut since = minute.begin(now - RANGE);
    let mut by_minute: BTreeMap<Timestamp, u64> = BTreeMap::new();
    let mut read = 0;
    let mut list = ListRuns::new(Query::new()).limit(ListRuns::MAX_LIMIT);
    loop {
        let page = operate.runs(list.clone()).await?;
        read += page.items.len();
        for run in &page.items {
            *by_minute.entry(minute.begin(run.created_at)).or_default() += 1;
        }
        let (Some(next), Some(last)) = (page.next, page.items.last()) else { break };
        let reached = last.id.time() + SLACK;
        if reached < since {
            break;
        }
        if read >= MOST {
            since = since.max(minute.begin(reached) + minute.length());
            break;
        }
        list = list.cursor(next);
    }
    Ok((since, by_minute.range(since..).map(|(_, runs)| runs).sum()))
}

fn compare(counted: u64, runs: u64, length: &str) -> Finding {
    let starts = if counted == 1 { "started run" } else { "started runs" };
    let fact = format!("the statistics count {counted} {starts} in the last {length}, and the tables have {runs}");
    if counted.abs_diff(runs) <= FEW.max(counted.max(runs) / PART) {
        Finding::ok(fact)
    } else if counted > runs {
        Finding::warn(fact, "nothing, if the others were deleted: workflow audit, or the retention of the workers")
    } else {
        Finding::warn(
            fact,
            "trust the tables: killed processes lose a second of counts, and starts within transactions of the application \
             are not counted",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::Level;
    use super::*;

    #[test]
    fn a_large_difference_is_found() {
        let level = |counted, runs| compare(counted, runs, "1 h").level;
        for (counted, runs) in [(0, 0), (0, 10), (10, 0), (10_000, 9_900), (9_900, 10_000)] {
            assert_eq!(level(counted, runs), Level::Ok, "{counted} and {runs}");
        }
        for (counted, runs) in [(0, 11), (11, 0), (10_000, 9_899), (9_899, 10_000)] {
            assert_eq!(level(counted, runs), Level::Warn, "{counted} and {runs}");
        }
        let more = compare(20, 3, "1 h");
        assert_eq!(more.fact, "the statistics count 20 started runs in the last 1 h, and the tables have 3");
        assert!(more.fix.is_some_and(|fix| fix.contains("deleted")));
        assert!(compare(1, 1, "1 h").fact.starts_with("the statistics count 1 started run in the last 1 h"));
        assert!(compare(3, 20, "1 h").fix.is_some_and(|fix| fix.contains("trust the tables")));
    }
}
