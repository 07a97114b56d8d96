//! Finds the step of a flow to which a record of its run belongs.

use std::collections::HashMap;

use crate::graph::{Flow, Kind};

/// The steps of a flow, by the keys of the records that the runs of the flow write.
///
/// ```
/// use workflow_flows::check::{Options, check};
/// use workflow_flows::{RecordPart, RecordedSteps};
///
/// let turn = "{ id: a, loop: { for: \"{{input.list}}\" }, do: [ { id: b, tool: http } ] }";
/// let source = format!("flow: 1\nname: f\ndo: [ {turn} ]\n");
/// let flow = check(&source, &Options::default()).flow.ok_or("not valid")?;
/// let steps = RecordedSteps::of(&flow);
/// assert_eq!(steps.find("a/3/b"), Some(("b", RecordPart::Step)));
/// assert_eq!(steps.find("a/3/b?"), Some(("b", RecordPart::Decision)));
/// assert_eq!(steps.find("other"), None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct RecordedSteps<'f> {
    holds: HashMap<&'f str, Holds>,
}

/// Which part of a step a record is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecordPart {
    /// The step itself: its effect or its wait.
    Step,
    /// A decision, such as that of `when`, `if` or `branch`.
    Decision,
    /// A value that the step needs before it waits, starts a child or continues as new, or the
    /// messages about its wait.
    Preparation,
    /// The output that is made of the result.
    Output,
    /// A wait between attempts, or the timeout of a block.
    Timer,
    /// The undo of the step.
    Undo,
}

/// The meaning of the keys below the id of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Holds {
    /// Parts of the step itself.
    Parts,
    /// Items or turns, then steps.
    Turns,
    /// Branches, then steps.
    Branches,
}

impl<'f> RecordedSteps<'f> {
    /// Returns the steps of a flow.
    #[must_use]
    pub fn of(flow: &'f Flow) -> Self {
        let mut holds = HashMap::new();
        flow.for_each_step(|step| {
            let held = match &step.kind {
                Kind::Loop(_) => Holds::Turns,
                Kind::Parallel(_) => Holds::Branches,
                _ => Holds::Parts,
            };
            holds.insert(step.id.as_str(), held);
        });
        Self { holds }
    }

    /// Returns the id of the step that wrote a record with this key, and the part of the step.
    /// `None`: no step wrote it, as for the output of the flow.
    #[must_use]
    pub fn find(&self, key: &str) -> Option<(&'f str, RecordPart)> {
        let mut rest = key;
        loop {
            let (first, behind) = rest.split_once('/').unwrap_or((rest, ""));
            let (id, part) = part_of(first);
            let (id, holds) = self.holds.get_key_value(id)?;
            // A turn or a branch, and behind it a step.
            let inner = behind.split_once('/').filter(|(turn, _)| match holds {
                Holds::Parts => false,
                Holds::Turns => turn.bytes().all(|byte| byte.is_ascii_digit()),
                Holds::Branches => true,
            });
            match inner {
                Some((_, inner)) if self.holds.contains_key(part_of(inner.split('/').next().unwrap_or(inner)).0) => {
                    rest = inner;
                }
                _ => return Some((id, part)),
            }
        }
    }
}

/// Splits the first part of a key into the id of a step and what is recorded of that.
fn part_of(text: &str) -> (&str, RecordPart) {
    let text = text.strip_prefix("decision:").unwrap_or(text);
    // The second record of one name is `name:1`.
    let text = match text.rsplit_once(':') {
        Some((name, number)) if !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => text,
    };
    let suffixes = [
        ("?", RecordPart::Decision),
        ("!", RecordPart::Preparation),
        ("=", RecordPart::Output),
        ("~", RecordPart::Undo),
        (".told", RecordPart::Preparation),
        (".next", RecordPart::Preparation),
        (".again", RecordPart::Timer),
        (".time", RecordPart::Timer),
    ];
    let found = suffixes.into_iter().find_map(|(suffix, part)| Some((text.strip_suffix(suffix)?, part)));
    found.unwrap_or((text, RecordPart::Step))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{Options, check};

    const FLOW: &str = "flow: 1\nname: f\ndo:\n  - { id: each, loop: { for: \"{{input.list}}\" }, do: [ { id: sleep, wait: { for: 1s } }, { id: ask, decision: { prompt: x } } ] }\n  - { id: both, parallel: { a: [ { id: left, tool: log } ], b: [ { id: right, tool: log } ] } }\n";

    #[test]
    fn every_key_leads_to_its_step() {
        let checked = check(FLOW, &Options::default());
        let Some(flow) = checked.flow else { unreachable!("{:?}", checked.findings) };
        let steps = RecordedSteps::of(&flow);
        for (key, step, part) in [
            ("each", "each", RecordPart::Step),
            ("each/0/sleep/sleep", "sleep", RecordPart::Step),
            ("each/1/decision:each/1/ask", "ask", RecordPart::Step),
            ("each/12/ask!", "ask", RecordPart::Preparation),
            ("each/12/ask!:1", "ask", RecordPart::Preparation),
            ("each/0/sleep", "sleep", RecordPart::Step),
            ("each.again/sleep", "each", RecordPart::Timer),
            ("each.next:1", "each", RecordPart::Preparation),
            ("both/a/left", "left", RecordPart::Step),
            ("both/b/right?:2", "right", RecordPart::Decision),
            ("both.time/timeout", "both", RecordPart::Timer),
            ("both/a", "both", RecordPart::Step),
            ("left~", "left", RecordPart::Undo),
            ("left=", "left", RecordPart::Output),
            ("each/12/ask.told:1", "ask", RecordPart::Preparation),
        ] {
            assert_eq!(steps.find(key), Some((step, part)), "{key}");
        }
        for key in ["output=", "", "/", "none/each", "timeout!", "on_error!"] {
            assert_eq!(steps.find(key), None, "{key}");
        }
    }
}
