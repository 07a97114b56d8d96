//! Expressions of the dialect `opcode`, as the graph has them.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::expression::Expression;
use crate::lower::reference::{Read, reads, rewrite};

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
        // An expression without `}}` is reported by the reader of templates.
        let end = rest.find("}}").map_or(rest.len(), |end| end + 2);
        out.push_str(&rest[..end]);
        rest = &rest[end..];
    }
    out.push_str(rest);
    out
}

/// Returns the bytes of an expression to replace for the graph, and the new text. There,
/// `steps.x.output.f` is `steps.x.f`, except for the steps of `keeps`.
pub(crate) fn edit(read: &Read, keeps: &BTreeSet<String>) -> Option<(Range<usize>, &'static str)> {
    let root = read.root.clone();
    match read.path.root() {
        "steps" if read.name(1) == Some("output") => {
            let output = read.end_of(0)?..read.end_of(1)?;
            (!keeps.contains(read.name(0)?)).then_some((output, ""))
        }
        "workflow" => match read.name(0) {
            Some("run_id") => Some((root.start..read.end_of(0)?, "run.id")),
            _ => Some((root, "run")),
        },
        "context" => match read.name(0) {
            Some("agent_id") => Some((root.start..read.end_of(0)?, "run.actor")),
            _ => Some((root, "vars")),
        },
        _ => None,
    }
}

/// Returns an expression of the graph with the results of all steps without `output`.
pub(super) fn without_output(text: &str) -> String {
    let Ok(expression) = Expression::compile(text) else { return text.to_owned() };
    rewrite(text, &reads(text, &expression), |read| edit(read, &BTreeSet::new()))
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
        let resolved = |text: &str| {
            let reads = reads(text, &Expression::compile(text).unwrap());
            rewrite(text, &reads, |read| edit(read, &keeps))
        };
        assert_eq!(resolved("steps.a-b.output.body.c"), "steps.a-b.body.c");
        assert_eq!(resolved("steps.a.output"), "steps.a");
        assert_eq!(resolved("steps['a'].output.x == 1"), "steps['a'].x == 1");
        assert_eq!(resolved("step.a['output'].x"), "steps.a.x");
        assert_eq!(resolved("steps.check.output.x"), "steps.check.output.x");
        assert_eq!(resolved("workflow.run_id"), "run.id");
        assert_eq!(resolved("context.intent == 'x'"), "vars.intent == 'x'");
    }
}
