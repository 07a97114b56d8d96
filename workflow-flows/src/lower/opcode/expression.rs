//! Expressions of the dialect `opcode`, as the graph has them.

use std::collections::BTreeSet;

use crate::lower::reference::{Reference, scan};

/// Returns a text with `${{ }}` as a template. Other braces stand for themselves.
pub(crate) fn text(text: &str) -> String {
    if !text.contains("{{") {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(open) = rest.find("{{") {
        let is_template = rest[..open].ends_with('$');
        let before = if is_template { &rest[..open - 1] } else { &rest[..open] };
        out.push_str(before);
        rest = &rest[open + 2..];
        if !is_template {
            out.push_str("{{{{");
            continue;
        }
        out.push_str("{{");
        // What is not closed is reported by the reader of templates.
        let end = rest.find("}}").map_or(rest.len(), |end| end + 2);
        out.push_str(&rest[..end]);
        rest = &rest[end..];
    }
    out.push_str(rest);
    out
}

/// Returns an expression with the roots of the graph: `steps.x.output.f` is `steps.x.f` there,
/// except for the steps of `keeps` alone.
pub(crate) fn expression(text: &str, keeps: &BTreeSet<String>) -> String {
    let Ok(scan) = scan(text) else { return text.to_owned() };
    let mut edits: Vec<(usize, usize, &str)> = Vec::new();
    for reference in &scan.references {
        edits.extend(edit(reference, keeps));
    }
    edits.sort_by_key(|(start, ..)| std::cmp::Reverse(*start));
    let mut resolved = text.to_owned();
    for (start, end, new) in edits {
        resolved.replace_range(start..end, new);
    }
    resolved
}

fn edit(reference: &Reference, keeps: &BTreeSet<String>) -> Option<(usize, usize, &'static str)> {
    let root = &reference.root_range;
    match reference.root.as_str() {
        "steps" if reference.name(1) == Some("output") => {
            let id = reference.name(0)?;
            let output = &reference.segments.get(1)?.range;
            // The dot before the name goes with it.
            (!keeps.contains(id)).then(|| (output.start - 1, output.end, ""))
        }
        "workflow" => match reference.name(0) {
            Some("run_id") => Some((root.start, reference.segments.first()?.range.end, "run.id")),
            _ => Some((root.start, root.end, "run")),
        },
        "context" => match reference.name(0) {
            Some("agent_id") => Some((root.start, reference.segments.first()?.range.end, "run.actor")),
            _ => Some((root.start, root.end, "vars")),
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_begin_with_a_dollar() {
        assert_eq!(text("a ${{inputs.b}} c"), "a {{inputs.b}} c");
        assert_eq!(text("{{no}} $ ${{ yes }}"), "{{{{no}} $ {{ yes }}");
        assert_eq!(text("${{open"), "{{open");
    }

    #[test]
    fn results_have_no_output_between() {
        let keeps = BTreeSet::from(["check".to_owned()]);
        let resolved = |text| expression(text, &keeps);
        assert_eq!(resolved("steps.a-b.output.body.c"), "steps.a-b.body.c");
        assert_eq!(resolved("steps.a.output"), "steps.a");
        assert_eq!(resolved("steps['a'].output.x == 1"), "steps['a'].x == 1");
        assert_eq!(resolved("steps.check.output.x"), "steps.check.output.x");
        assert_eq!(resolved("workflow.run_id"), "run.id");
        assert_eq!(resolved("context.intent == 'x'"), "vars.intent == 'x'");
    }
}
