//! The flows of the guide call the project's own tools with arguments that these take.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use workflow_flows::Tool;
use workflow_flows::check::{Options, ToolCatalog, check};
use workflow_tools::actions::Actions;
use workflow_tools::http::Http;
use workflow_tools::log;

/// Knows the schemas of the project's tools, and takes everything for those of an application.
struct Guide(BTreeMap<String, Value>);

impl ToolCatalog for Guide {
    fn tool(&self, name: &str) -> Option<Value> {
        Some(self.0.get(name).cloned().unwrap_or_else(|| json!({})))
    }

    fn tools(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }
}

#[test]
fn the_flows_of_the_guide_fit_the_schemas_of_their_tools() {
    let http = Http::builder().build().unwrap();
    let actions = Actions::new(&http).tools().into_iter();
    let tools = actions.chain([log::tool(), Arc::new(http) as Arc<dyn Tool>]);
    let guide = Guide(tools.map(|tool| (tool.name().to_owned(), tool.input_schema())).collect());
    let options = Options { catalog: Some(&guide), ..Options::default() };
    let page = concat!(include_str!("../../../docs/guide/flows.md"), include_str!("../../../README.md"));
    let fences = page.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next());
    let (mut flows, mut calls) = (0, 0);
    for source in fences.filter(|text| text.contains("flow: 1")) {
        let findings: Vec<String> = check(source, &options).findings.iter().map(ToString::to_string).collect();
        assert!(findings.is_empty(), "{source}\n{findings:#?}");
        flows += 1;
        calls += guide.0.keys().filter(|tool| source.contains(&format!("tool: {tool}"))).count();
    }
    assert!(flows >= 15 && calls >= 5, "{flows} flows with {calls} calls of the project's tools");
}
