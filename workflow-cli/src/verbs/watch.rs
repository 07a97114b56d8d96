//! Shows something again whenever it has changed.

use std::time::Duration;

use workflow_sdk::operate::{ListChanges, Operate};

use crate::output::Output;
use crate::{Exit, Failure};

/// How long one request waits for a change.
const WAIT: Duration = Duration::from_secs(20);

/// Shows what a command shows, and again after each change, until `show` returns `true` or the
/// process is ended.
pub(super) async fn watch(
    operate: &dyn Operate,
    output: &Output,
    list: ListChanges,
    mut show: impl AsyncFnMut() -> Result<bool, Failure>,
) -> Result<Exit, Failure> {
    // Read before the first show, so that no change between the two is missed.
    let mut cursor = operate.changes(list.clone()).await?.cursor;
    loop {
        output.clear()?;
        if show().await? {
            return Ok(Exit::Ok);
        }
        loop {
            let page = operate.changes(list.clone().cursor(cursor).wait(WAIT)).await?;
            cursor = page.cursor;
            if page.reset || !page.items.is_empty() {
                break;
            }
        }
    }
}
