//! Nothing in the shipped code chooses by chance what it polls first.

use crate::sources::all_shipped;

/// Without `biased`, tokio draws which branch it polls first, and not from the numbers that a test
/// seeds. Then equal seeds of the simulated cluster would give different traces.
#[test]
fn every_select_polls_its_branches_in_order() {
    for source in all_shipped() {
        for (number, line) in source.text.lines().enumerate() {
            let next = source.text.lines().nth(number + 1).unwrap_or_default().trim();
            let is_ordered = !line.contains("select! {") || next == "biased;" || line.trim_start().starts_with("//");
            assert!(is_ordered, "{}: line {}: `biased;` is missing", source.shown(), number + 1);
        }
    }
}
