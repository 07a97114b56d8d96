//! The part of a long timeline that has a step.

use workflow_sdk::RunId;
use workflow_sdk::operate::{ListHistory, ListTimeline, Operate, Timeline};

/// The most steps of a timeline that stand in one page.
pub(super) const WINDOW: u32 = 300;
/// The windows before the last one that may have steps without an outcome: a timeline has at most
/// 2,000 of these.
const OPEN_WINDOWS: u32 = 2_000 / WINDOW + 1;
/// The most attempts of the step among which its outcome is looked for.
const ATTEMPTS: u32 = 200;

/// Reads the part of a timeline that has this step. `None`: no part has it, or it cannot be read.
pub(super) async fn window_of(operate: &dyn Operate, run: RunId, step: &str) -> Option<Timeline> {
    // The attempts of the step itself stand before those of its repetitions.
    let list = ListHistory::new(run).step(step).limit(ATTEMPTS);
    let attempts = operate.history(list).await.ok()?.items;
    let own: Vec<Option<i64>> =
        attempts.into_iter().filter(|item| item.step == step).map(|item| item.position).collect();
    if own.is_empty() {
        return None;
    }
    let windows = match own.into_iter().flatten().next() {
        Some(position) => {
            let number = u32::try_from(position.saturating_sub(1)).ok()? / WINDOW;
            number..=number
        }
        // Steps without an outcome are numbered from the last outcome on.
        None => {
            let last = last_window(operate, run).await?;
            last.saturating_sub(OPEN_WINDOWS)..=last
        }
    };
    for number in windows.rev() {
        let list = ListTimeline::new(run).from(number.saturating_mul(WINDOW)).limit(WINDOW);
        let window = operate.timeline_window(list).await.ok()?;
        if window.rows.iter().any(|row| row.step == step) {
            return Some(window);
        }
    }
    None
}

/// Returns the number of the last part of a timeline that has a step.
async fn last_window(operate: &dyn Operate, run: RunId) -> Option<u32> {
    let (mut used, mut unused) = (0, 1);
    while is_used(operate, run, unused).await? {
        (used, unused) = (unused, unused.checked_mul(2)?);
    }
    while unused - used > 1 {
        let middle = used + (unused - used) / 2;
        if is_used(operate, run, middle).await? { used = middle } else { unused = middle }
    }
    Some(used)
}

/// Returns whether a timeline has steps in its part of this number, or behind it.
async fn is_used(operate: &dyn Operate, run: RunId, number: u32) -> Option<bool> {
    let list = ListTimeline::new(run).from(number.saturating_mul(WINDOW)).limit(1);
    let window = operate.timeline_window(list).await.ok()?;
    Some(!window.rows.is_empty() || !window.complete)
}
