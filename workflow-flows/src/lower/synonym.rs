//! Other names of roots, and what they are written as.

use super::reference::{Reference, scan};

/// Returns the expression with the usual names of its roots.
pub(crate) fn resolve(text: &str) -> String {
    let Ok(scan) = scan(text) else { return text.to_owned() };
    let mut edits: Vec<_> = scan.references.iter().filter_map(edit).collect();
    edits.sort_by_key(|(start, ..)| std::cmp::Reverse(*start));
    let mut resolved = text.to_owned();
    for (start, end, name) in edits {
        resolved.replace_range(start..end, name);
    }
    resolved
}

fn edit(reference: &Reference) -> Option<(usize, usize, &'static str)> {
    let root = &reference.root_range;
    match (reference.root.as_str(), reference.name(0)) {
        ("workflow_input" | "inputs", _) => Some((root.start, root.end, "input")),
        ("step", Some(_)) => Some((root.start, root.end, "steps")),
        ("loop_item", _) => Some((root.start, root.end, "item")),
        ("loop" | "iter", Some(name @ ("item" | "index"))) => {
            let end = reference.segments.first()?.range.end;
            let written_with_brackets = reference.range.end < end;
            (!written_with_brackets).then_some((root.start, end, if name == "item" { "item" } else { "index" }))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::resolve;

    #[test]
    fn other_names_are_written_in_one_way() {
        assert_eq!(resolve("workflow_input.a"), "input.a");
        assert_eq!(resolve("inputs.count > 10 && step.a.b == loop_item.c"), "input.count > 10 && steps.a.b == item.c");
        assert_eq!(resolve("loop.item.name"), "item.name");
        assert_eq!(resolve("iter.index < 5"), "index < 5");
        assert_eq!(resolve("'inputs.x' + input.inputs"), "'inputs.x' + input.inputs");
        assert_eq!(resolve("input.xs.all(step, step.ok)"), "input.xs.all(step, step.ok)");
    }
}
