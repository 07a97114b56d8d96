use std::time::Duration;

use comfy_table::Cell;
use workflow_sdk::operate::{ListStats, Operate, Stats, StatsGroup, StatsPage};

use crate::clock::{Clock, span};
use crate::output::{Output, Rows, maybe, number};
use crate::{Exit, Failure, arguments};

/// The longest bar, and the most columns of a small chart.
const WIDTH: usize = 24;

pub(super) async fn show(operate: &dyn Operate, output: &Output, stats: arguments::Stats) -> Result<Exit, Failure> {
    let arguments::Stats { since, until, step, by, queue, workflow, version } = stats;
    let mut list = ListStats::new().since(since);
    (list.until, list.step) = (until, step.map(Into::into));
    list.by = by.map(Into::into).unwrap_or_default();
    (list.queue, list.workflow, list.version) = (queue, workflow, version);
    let page = operate.stats(list).await?;
    let is_grouped = by.is_some();
    output.list(&page, &page.groups, name_of, |clock| {
        if is_grouped { groups(&page, output.is_ascii()) } else { steps(&page, clock, output.is_ascii()) }
    })?;
    if output.is_for_people() {
        if page.groups.iter().all(|group| group.steps.is_empty()) {
            output.note("nothing was counted in this time");
        }
        if !page.complete {
            let since = output.clock().at(page.since);
            output.note(format!("only since {since}: ask for a shorter time, or for fewer runs with --workflow"));
        }
    }
    Ok(Exit::Ok)
}

fn name_of(group: &StatsGroup) -> String {
    let StatsGroup { queue, workflow, version, .. } = group;
    let parts: Vec<&str> = [queue, workflow, version].into_iter().flatten().map(String::as_str).collect();
    if parts.is_empty() { "all".to_owned() } else { parts.join(" ") }
}

/// Returns a table without rows, whose first column has this head.
fn rows(first: &'static str) -> Rows {
    Rows::new(&[first, "STARTED", "SUCCEEDED", "FAILED", "CANCELED", "RETRIES", "WAIT", "P50", "P95", "P99", "ENDED"])
}

/// A row per step, and one for the whole.
fn steps(page: &StatsPage, clock: &Clock, is_ascii: bool) -> Rows {
    let mut rows = rows("FROM");
    for group in page.groups.iter().filter(|group| !group.steps.is_empty()) {
        let most = group.steps.iter().map(|step| step.stats.ended()).max().unwrap_or(0);
        for step in &group.steps {
            let mut cells = vec![Cell::new(clock.at(step.begins_at))];
            cells.extend(columns(&step.stats));
            cells.push(Cell::new(bar(step.stats.ended(), most, is_ascii)));
            rows.push(cells);
        }
        let mut cells = vec![Cell::new("total")];
        cells.extend(columns(&group.total));
        cells.push(Cell::new(group.total.ended()));
        rows.push(cells);
    }
    rows
}

/// A row per group, with a small chart of its ends.
fn groups(page: &StatsPage, is_ascii: bool) -> Rows {
    let mut rows = rows("GROUP");
    for group in &page.groups {
        let mut cells = vec![Cell::new(name_of(group))];
        cells.extend(columns(&group.total));
        cells.push(Cell::new(chart(&ends(page, group), is_ascii)));
        rows.push(cells);
    }
    rows
}

fn columns(stats: &Stats) -> Vec<Cell> {
    let time = |micros: Option<u64>| maybe(micros.map(|micros| span(Duration::from_micros(micros))));
    let counts = [stats.started, stats.succeeded, stats.failed, stats.canceled, stats.retries];
    let times = [stats.mean_wait_us, stats.p50_us, stats.p95_us, stats.p99_us];
    counts.map(number).into_iter().chain(times.map(time)).collect()
}

/// Returns how many runs of a group ended in each part of the range.
fn ends(page: &StatsPage, group: &StatsGroup) -> Vec<u64> {
    let length = page.until.since(page.since).as_micros().max(1);
    let mut ends = vec![0; WIDTH];
    for step in &group.steps {
        let at = step.begins_at.since(page.since).as_micros() * WIDTH as u128 / length;
        let index = usize::try_from(at).unwrap_or(usize::MAX).min(WIDTH - 1);
        ends[index] += step.stats.ended();
    }
    ends
}

/// Draws a bar. Each count above 0 can be seen.
fn bar(count: u64, most: u64, is_ascii: bool) -> String {
    let width = (u128::from(count) * WIDTH as u128).div_ceil(u128::from(most.max(1)));
    let full = if is_ascii { "#" } else { "█" };
    format!("{} {count}", full.repeat(usize::try_from(width).unwrap_or(WIDTH)))
}

/// Draws a column per count. Each count above 0 can be seen.
fn chart(counts: &[u64], is_ascii: bool) -> String {
    let levels: Vec<char> = if is_ascii { "_.:-=+*#" } else { "▁▂▃▄▅▆▇█" }.chars().collect();
    let most = counts.iter().copied().max().unwrap_or(0).max(1);
    let level = |count: &u64| match count {
        0 => levels.first(),
        count => {
            let top = levels.len() as u128 - 1;
            levels.get(usize::try_from((u128::from(*count) * top).div_ceil(u128::from(most))).unwrap_or(0))
        }
    };
    counts.iter().filter_map(level).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_above_0_can_be_seen() {
        assert_eq!(chart(&[0, 1, 50, 100], false), "▁▂▅█");
        assert_eq!(chart(&[0, 1, 50, 100], true), "_.=#");
        assert_eq!(chart(&[0, 0], true), "__");
        assert_eq!((bar(1, 1000, true), bar(0, 0, true)), ("# 1".into(), " 0".into()));
        assert_eq!(bar(1000, 1000, false), format!("{} 1000", "█".repeat(WIDTH)));
    }
}
