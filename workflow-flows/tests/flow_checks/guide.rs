//! Every flow of the guide and of README is valid.

use crate::{checked, told};

/// The documents in the fences of the page about flows, and of README.
pub(crate) fn documents() -> Vec<String> {
    let page = concat!(include_str!("../../../docs/guide/flows.md"), include_str!("../../../README.md"));
    let fences = page.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next());
    fences.filter(|text| text.contains("flow: 1")).map(str::to_owned).collect()
}

#[test]
fn every_flow_of_the_guide_is_valid() {
    let documents = documents();
    assert!(documents.len() >= 15, "{} documents", documents.len());
    for source in documents {
        let checked = checked_with_any_tool(&source);
        assert!(checked.findings.is_empty(), "{source}\n{}", told(&checked));
    }
}

#[test]
fn the_guide_shows_the_flow_of_the_example() {
    let example = include_str!("../../../examples/data/support_triage.yaml");
    assert!(documents().iter().any(|document| document == example), "docs/guide/flows.md shows another flow");
}

/// The guide's tools are those of an application.
fn checked_with_any_tool(source: &str) -> workflow_flows::check::Checked {
    workflow_flows::check::check(source, &workflow_flows::check::Options::default())
}

#[test]
fn the_guide_names_every_code_and_every_kind() {
    let page = include_str!("../../../docs/guide/flows.md");
    for code in [
        "F001", "F010", "F011", "F012", "F013", "F020", "F021", "F022", "F023", "F024", "F025", "F026", "F027", "F030",
        "F031", "F032", "F033", "F034", "F035", "F040", "F041", "F050", "F060", "F070", "F071", "F072",
    ] {
        assert!(page.contains(code), "{code}");
    }
    let all = documents().concat();
    for kind in [
        "approval:",
        "decision:",
        "emit:",
        "fail:",
        "flow:",
        "handoff:",
        "if:",
        "jq:",
        "kb:",
        "loop:",
        "parallel:",
        "recipe:",
        "set:",
        "switch:",
        "tool:",
        "wait:",
        "workflow:",
    ] {
        assert!(all.contains(kind), "{kind}");
    }
    assert!(checked("").findings.len() == 1);
}
