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

/// The channels, which `notify` and `via` name.
#[cfg(all(feature = "mail", feature = "notify"))]
fn channels() -> [Arc<dyn Tool>; 4] {
    use workflow_tools::{mail, notify};

    let mail = mail::Mail::builder("127.0.0.1", "Flows <flows@a.test>").encryption(mail::Encryption::None);
    let inbox = notify::InApp::new(workflow_flows::InboxStore::in_memory());
    let webhook = notify::Webhook::builder("secret").build().unwrap();
    let pushover = notify::Pushover::builder("token").build().unwrap();
    [Arc::new(mail.build().unwrap()), Arc::new(inbox), Arc::new(webhook), Arc::new(pushover)]
}

#[test]
fn every_channel_takes_the_messages_of_approvals_and_handoffs() {
    #[cfg(all(feature = "mail", feature = "notify"))]
    {
        let schemas = Guide(channels().iter().map(|tool| (tool.name().to_owned(), tool.input_schema())).collect());
        let options = Options { catalog: Some(&schemas), ..Options::default() };
        let names = schemas.tools().join(", ");
        let source = format!(
            "flow: 1\nname: tells\ndo:\n  - {{ id: a, approval: {{ to: [ops, bob], show: {{ n: 1 }}, notify: [{names}] }} }}\n  - \
             {{ id: b, handoff: {{ to: ops, text: hi, via: [{names}] }} }}\n"
        );
        let checked = check(&source, &options);
        assert!(checked.is_valid() && checked.findings.is_empty(), "{:#?}", checked.findings);
    }
}

#[test]
fn the_flows_of_the_guide_fit_the_schemas_of_their_tools() {
    let http = Http::builder().build().unwrap();
    let actions = Actions::new(&http).tools().into_iter();
    let tools: Vec<Arc<dyn Tool>> = actions.chain([log::tool(), Arc::new(http) as Arc<dyn Tool>]).collect();
    #[cfg(all(feature = "mail", feature = "notify"))]
    let tools = tools.into_iter().chain(channels());
    let tools = tools.into_iter();
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
