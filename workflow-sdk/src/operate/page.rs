use serde::{Deserialize, Serialize};

use workflow_engine::model::{RunFilter, RunSummary, Timestamp};
use workflow_engine::store::Direction;

use super::{Cursor, Query};

/// Asks for one page of runs: see [`OperateRuns::runs`](super::OperateRuns::runs).
///
/// ```
/// use workflow_sdk::operate::ListRuns;
///
/// let failed = ListRuns::new("status:failed".parse()?).limit(20);
/// let text = serde_json::to_string(&failed)?;
/// assert_eq!(text, r#"{"query":"status:failed","limit":20,"direction":"older"}"#);
/// let short = r#"{"query":"status:failed","limit":20}"#;
/// assert_eq!(serde_json::from_str::<ListRuns>(short)?, failed);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ListRuns {
    /// The runs to list. Default: all.
    #[serde(default)]
    pub query: Query,
    /// The place at which the page begins: [`RunPage::next`] or [`RunPage::previous`] of a page of
    /// this query. Default: the beginning of the list in the direction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<Cursor>,
    /// The largest number of runs. Default: [`ListRuns::DEFAULT_LIMIT`]. Range: 1 to
    /// [`ListRuns::MAX_LIMIT`].
    #[serde(default = "default_limit")]
    pub limit: u32,
    /// The direction: older with [`RunPage::next`], newer with [`RunPage::previous`]. Default:
    /// older.
    #[serde(default)]
    pub direction: Direction,
}

const fn default_limit() -> u32 {
    ListRuns::DEFAULT_LIMIT
}

impl ListRuns {
    /// The limit that applies by default.
    pub const DEFAULT_LIMIT: u32 = 50;
    /// The largest limit. It is bounded because a whole page is held in memory.
    pub const MAX_LIMIT: u32 = RunFilter::MAX_PAGE_SIZE;

    /// Asks for the newest runs that the query finds.
    #[must_use]
    pub fn new(query: Query) -> Self {
        Self { query, cursor: None, limit: Self::DEFAULT_LIMIT, direction: Direction::Older }
    }

    /// Begins the page at this place. Default: the beginning of the list in the direction.
    #[must_use]
    pub fn cursor(mut self, cursor: Cursor) -> Self {
        self.cursor = Some(cursor);
        self
    }

    /// Sets the largest number of runs. Default: [`ListRuns::DEFAULT_LIMIT`]. Range: 1 to
    /// [`ListRuns::MAX_LIMIT`]; another value is refused where the page is read.
    #[must_use]
    pub fn limit(mut self, runs: u32) -> Self {
        self.limit = runs;
        self
    }

    /// Sets the direction. Default: older.
    #[must_use]
    pub fn direction(mut self, direction: Direction) -> Self {
        self.direction = direction;
        self
    }
}

impl Default for ListRuns {
    fn default() -> Self {
        Self::new(Query::new())
    }
}

/// One page of runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct RunPage {
    /// The runs, the newest first, in both directions.
    pub items: Vec<RunSummary>,
    /// The place at which the list goes on to older runs. `None` at the end of the list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Cursor>,
    /// The place at which the list goes on to newer runs. There may be none yet: runs that are
    /// started later appear there. `None` if nothing was found and no place was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<Cursor>,
    /// Up to which time the runs were searched, if the search ended because it had read as many
    /// rows as one page may read. The cursor in the direction goes on from there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub searched_to: Option<Timestamp>,
    /// `true` if no further run of the list lies in the direction of the page.
    pub complete: bool,
}
