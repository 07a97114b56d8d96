//! Pages of runs: reads the sources of a list part by part, up to the budget, and merges them.

use crate::model::{RunConditions, RunFilter, RunId, RunSummary, Timestamp};

use super::{DatabaseError, Direction, RunScan, SCAN_BUDGET, ScanSource, Store, first_id_after};

/// The rows of the first part of a scan. Most pages end within it.
const FIRST_PART: u32 = 256;
/// How many times larger each part is than the one before it.
const GROWTH: u32 = 4;

/// Which page of a list to read.
#[derive(Clone, Debug)]
pub struct RunList {
    /// The conditions.
    pub conditions: RunConditions,
    /// The place at which the page begins, exclusive. `None`: the beginning of the list in this
    /// direction.
    pub from: Option<RunId>,
    /// The direction.
    pub direction: Direction,
    /// The largest number of runs. Range: 1 to [`RunFilter::MAX_PAGE_SIZE`].
    pub limit: u32,
    /// The largest number of rows to read. Range: 1 to [`SCAN_BUDGET`].
    pub budget: u32,
    /// The time of the read, for the present states of the runs.
    pub now: Timestamp,
}

/// A page of runs.
#[derive(Debug)]
pub struct ListedRuns {
    /// The runs, in the direction of the list.
    pub runs: Vec<RunSummary>,
    /// Where the list goes on, exclusive. `None` at its end.
    pub next: Option<RunId>,
    /// `true` if the budget ended the page, at `next`.
    pub is_cut: bool,
}

/// One source of a list, and how far it was read.
struct Part {
    found: Vec<RunSummary>,
    /// Where the source goes on. `None`: it was read whole, or has given enough runs.
    at: Option<RunId>,
}

/// Reads one page. Reads at most `list.budget` rows.
///
/// # Errors
/// [`DatabaseError`] if the database fails or does not answer.
pub async fn list_runs<S: Store + ?Sized>(store: &S, list: &RunList) -> Result<ListedRuns, DatabaseError> {
    let sources = ScanSource::of(&list.conditions);
    let budget = list.budget.clamp(1, SCAN_BUDGET) / u32::try_from(sources.len()).unwrap_or(1).max(1);
    let mut parts = Vec::new();
    for source in sources {
        parts.push(read_source(store, list, source, budget.max(1)).await?);
    }
    Ok(merged(parts, list.direction, list.limit))
}

/// Reads every page until `filter.page_size` runs are found, or all.
///
/// # Errors
/// See [`list_runs`].
pub async fn list_filtered<S: Store + ?Sized>(store: &S, filter: &RunFilter) -> Result<Vec<RunSummary>, DatabaseError> {
    let limit = filter.page_size.clamp(1, RunFilter::MAX_PAGE_SIZE);
    let mut list = RunList {
        conditions: RunConditions::of(filter),
        from: filter.after,
        direction: Direction::Older,
        limit,
        budget: SCAN_BUDGET,
        now: store.now().await?,
    };
    let mut found = Vec::new();
    loop {
        let page = list_runs(store, &list).await?;
        found.extend(page.runs);
        list.from = page.next;
        list.limit = limit.saturating_sub(u32::try_from(found.len()).unwrap_or(u32::MAX));
        if !page.is_cut || list.limit == 0 {
            return Ok(found);
        }
    }
}

async fn read_source<S: Store + ?Sized>(
    store: &S,
    list: &RunList,
    source: ScanSource,
    budget: u32,
) -> Result<Part, DatabaseError> {
    let mut scan = RunScan {
        source,
        newer_than: RunId::FIRST,
        older_than: list
            .conditions
            .created
            .before
            .and_then(|time| first_id_after(time, list.now))
            .unwrap_or(RunId::LAST),
        direction: list.direction,
        rows: FIRST_PART.min(budget),
        limit: 0,
        conditions: list.conditions.clone(),
    };
    let wanted = usize::try_from(list.limit).unwrap_or(usize::MAX).saturating_add(1);
    let error = &list.conditions.error;
    let mut at = list.from;
    let mut found = Vec::new();
    let mut left = budget;
    while left > 0 {
        // Errors are compared here, so the store returns every other run of its part.
        let missing = u32::try_from(wanted - found.len()).unwrap_or(u32::MAX);
        scan.limit = if error.is_empty() { missing } else { scan.rows };
        match list.direction {
            Direction::Older => scan.older_than = at.map_or(scan.older_than, |at| at.min(scan.older_than)),
            Direction::Newer => scan.newer_than = at.map_or(scan.newer_than, |at| at.max(scan.newer_than)),
        }
        let scanned = store.scan(&scan).await?;
        let runs = scanned.runs.into_iter().filter(|run| error.holds_for(run.error.as_ref()));
        found.extend(runs.map(|run| RunSummary::of(run, list.now)));
        if found.len() >= wanted || scanned.end.is_none() {
            return Ok(Part { found, at: None });
        }
        at = scanned.end;
        left -= scan.rows.min(left);
        // A part with errors stays small, because it is held in memory.
        let growth = if error.is_empty() { GROWTH } else { 1 };
        scan.rows = scan.rows.saturating_mul(growth).min(left);
    }
    Ok(Part { found, at })
}

/// Merges sources into a page. A source that was cut may have further runs behind its cut, so the
/// page ends at the nearest cut.
fn merged(parts: Vec<Part>, direction: Direction, limit: u32) -> ListedRuns {
    let is_before = |one: RunId, other: RunId| match direction {
        Direction::Older => one > other,
        Direction::Newer => one < other,
    };
    let cut =
        parts.iter().filter_map(|part| part.at).reduce(|one, other| if is_before(one, other) { one } else { other });
    let mut runs: Vec<RunSummary> = parts.into_iter().flat_map(|part| part.found).collect();
    runs.retain(|run| cut.is_none_or(|cut| !is_before(cut, run.id)));
    runs.sort_by_key(|run| run.id);
    // A run that changed its status between two reads stands in two sources.
    runs.dedup_by_key(|run| run.id);
    if direction == Direction::Older {
        runs.reverse();
    }
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    if runs.len() > limit {
        runs.truncate(limit);
        let next = runs.last().map(|run| run.id);
        return ListedRuns { runs, next, is_cut: false };
    }
    ListedRuns { runs, next: cut, is_cut: cut.is_some() }
}
