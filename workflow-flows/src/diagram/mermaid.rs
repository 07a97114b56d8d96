//! A diagram as a text for Mermaid.

use std::fmt::Write;

use super::{Diagram, DiagramNode, Shape};
use crate::graph::Flow;

/// Returns the flow as a Mermaid flowchart.
///
/// ```
/// use workflow_flows::check::{Options, check};
/// use workflow_flows::mermaid;
///
/// let source = "flow: 1\nname: a\ndo: [ { id: a, tool: http }, { id: b, jq: .input } ]\n";
/// let flow = check(source, &Options::default()).flow.ok_or("not valid")?;
/// assert!(mermaid(&flow).starts_with("flowchart TD\n"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn mermaid(flow: &Flow) -> String {
    let Diagram { nodes, edges } = Diagram::of(flow);
    let mut text = "flowchart TD\n".to_owned();
    // Writing into a text cannot fail.
    for (number, node) in nodes.iter().enumerate() {
        let (open, close) = brackets(node.shape);
        let _ = writeln!(text, "  n{number}{open}\"{}\"{close}", quoted(&label(node)));
    }
    for edge in &edges {
        let label = if edge.label.is_empty() { String::new() } else { format!("|\"{}\"|", quoted(&edge.label)) };
        let _ = writeln!(text, "  n{} -->{label} n{}", edge.from, edge.to);
    }
    text
}

fn label(node: &DiagramNode) -> String {
    match &node.step {
        Some(step) => format!("{step}: {}", node.text),
        None => node.text.clone(),
    }
}

const fn brackets(shape: Shape) -> (&'static str, &'static str) {
    match shape {
        Shape::Start | Shape::Wait => ("([", "])"),
        Shape::Work => ("[", "]"),
        Shape::Choice => ("{", "}"),
        Shape::Question => ("{{", "}}"),
        Shape::Group => ("[[", "]]"),
    }
}

/// Returns a label that can stand between quotes.
fn quoted(label: &str) -> String {
    let is_short = label.chars().count() <= 60;
    let short = if is_short { label.to_owned() } else { label.chars().take(58).chain("..".chars()).collect() };
    let escaped = short.replace('&', "&amp;").replace('"', "&quot;").replace('<', "&lt;").replace('>', "&gt;");
    escaped.replace(['\n', '\r'], " ")
}
