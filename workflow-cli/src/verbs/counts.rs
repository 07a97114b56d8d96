use workflow_sdk::operate::{Count, Counts, Operate};

use crate::output::{Output, Rows, number};
use crate::{Exit, Failure};

pub(super) async fn show(operate: &dyn Operate, output: &Output) -> Result<Exit, Failure> {
    let counts = operate.counts().await?;
    let lines = lines(&counts);
    let text = |_: &crate::clock::Clock| {
        let mut rows = Rows::new(&["STATE", "RUNS"]);
        for (name, count) in &lines {
            rows.push(vec![(*name).into(), number(shown(*count))]);
        }
        output.table_text(rows)
    };
    output.one(&counts, String::new, text)?;
    Ok(Exit::Ok)
}

fn lines(counts: &Counts) -> [(&'static str, Count); 9] {
    [
        ("pending", counts.pending),
        ("due", counts.due),
        ("delayed", counts.delayed),
        ("running", counts.running),
        ("parked", counts.parked),
        ("paused", counts.paused),
        ("stuck", counts.stuck),
        ("failed", counts.failed),
        ("canceled", counts.canceled),
    ]
}

/// Returns a count, with a sign if there may be more.
pub(super) fn shown(Count { runs, at_least, .. }: Count) -> String {
    if at_least { format!("{runs}+") } else { runs.to_string() }
}
