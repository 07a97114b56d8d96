//! Diagrams name every step and lead to each of them.

use crate::{checked, told};

#[test]
fn a_diagram_has_every_step_and_every_way() {
    let source = "flow: 1\nname: order\ndag:\n  - { id: a, tool: log }\n  - { id: b, tool: log }\n  - id: c\n    needs: [a, b]\n    if: steps.a.n > 1\n    then: [ { id: d, tool: log } ]\n    else: [ { id: e, wait: { for: 5m } } ]\n  - { id: f, needs: [c], approval: { to: ops } }\n";
    let checked = checked(source);
    let flow = checked.flow.as_ref().unwrap_or_else(|| panic!("{}", told(&checked)));
    let expected = "flowchart TD
  n0([\"order\"])
  n1[\"a: log\"]
  n2[\"b: log\"]
  n3{\"c: if steps.a.n &gt; 1\"}
  n4[\"d: log\"]
  n5([\"e: wait\"])
  n6{{\"f: approval\"}}
  n3 -->|\"then\"| n4
  n3 -->|\"else\"| n5
  n1 --> n3
  n2 --> n3
  n4 --> n6
  n5 --> n6
  n0 --> n1
  n0 --> n2
";
    assert_eq!(workflow_flows::mermaid(flow), expected);
    assert_eq!(workflow_flows::levels(&flow.body), [vec!["a", "b"], vec!["c"], vec!["f"]]);
}

#[test]
fn a_graph_is_drawn_with_its_joins_and_cycles() {
    let source = "flow: 1\nname: g\ngraph:\n  fan: { parallel: [a, b] }\n  a: { tool: log, join: m }\n  b: { tool: log, join: m }\n  m: { tool: log, max_visits: 3, branch: [ { if: result.ok, then: end } ], else: fan }\n  end: { tool: log }\n";
    let checked = checked(source);
    let flow = checked.flow.as_ref().unwrap_or_else(|| panic!("{}", told(&checked)));
    let drawn = workflow_flows::mermaid(flow);
    for edge in ["n1 --> n2", "n1 --> n3", "n2 --> n4", "n3 --> n4", "n4 -->|\"result.ok\"| n5", "n4 -->|\"else\"| n1"]
    {
        assert!(drawn.contains(edge), "{edge}\n{drawn}");
    }
    assert_eq!(workflow_flows::levels(&flow.body), [vec!["fan"], vec!["a", "b"], vec!["m"], vec!["end"]]);
}

#[test]
fn an_edge_says_whether_a_decision_takes_it() {
    let source = "flow: 1\nname: g\ngraph:\n  a: { tool: log, branch: [ { if: result.ok, then: b } ], else: c, on_error: { goto: c } }\n  b: { if: input.n > 1, then: [ { id: d, tool: log } ], next: c }\n  c: { tool: log }\n";
    let checked = checked(source);
    let flow = checked.flow.as_ref().unwrap_or_else(|| panic!("{}", told(&checked)));
    let diagram = workflow_flows::Diagram::of(flow);
    let id = |node: usize| diagram.nodes[node].step.as_deref().unwrap_or("start");
    let edges: Vec<(&str, &str, &str, bool)> =
        diagram.edges.iter().map(|edge| (id(edge.from), id(edge.to), edge.label.as_str(), edge.is_decided)).collect();
    for edge in [
        ("a", "b", "result.ok", true),
        ("a", "c", "else", true),
        ("a", "c", "error", false),
        ("b", "d", "then", true),
        ("b", "c", "", false),
        ("d", "c", "", false),
        ("start", "a", "", false),
    ] {
        assert!(edges.contains(&edge), "{edge:?} in {edges:?}");
    }
}
