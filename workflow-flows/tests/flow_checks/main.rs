//! Documents of flows: what is refused, where and with which repair; what is understood; what fails
//! when it runs; and what hostile documents cost.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod broken;
mod broken_runs;
mod cncf;
#[path = "../common/mod.rs"]
mod common;
mod connected;
mod diagrams;
mod dialects;
mod guide;
mod hostile;
mod lowered;
mod schema;

use serde_json::{Value, json};
use workflow_flows::check::{Catalog, Checked, Options, Presence, Severity, ToolCatalog, check};

/// The worker of the tests.
fn catalog() -> Catalog {
    let fetch = serde_json::json!({
        "type": "object",
        "required": ["url"],
        "properties": { "url": { "type": "string" }, "method": { "enum": ["GET", "POST"] } },
        "additionalProperties": false,
    });
    let any = ["log", "http", "http.post", "http.get", "kb-server/search_nodes", "crypto.hash"];
    let catalog = any.into_iter().fold(Catalog::new(), |catalog, name| catalog.tool(name, true));
    let texts = ["to", "title", "text"].map(|name| (name.to_owned(), json!({ "type": "string" })));
    let mut message = Value::Object(texts.into_iter().collect());
    message["data"] = json!({});
    let mail = json!({ "required": ["to", "text"], "properties": message, "additionalProperties": false });
    let order = json!({ "order": { "type": "string" } });
    let ship = json!({ "type": "object", "required": ["order"], "properties": order, "additionalProperties": false });
    let catalog = catalog.tool("fetch", fetch).tool("mail", mail).recipes(["summarize"]);
    catalog.flows(["sub", "refund"]).flow("ship", ship).workflows(["refund-rust"])
}

/// The worker of the tests, and the answers of its servers.
struct Connected(Catalog);

impl ToolCatalog for Connected {
    fn tool(&self, name: &str) -> Option<Value> {
        ToolCatalog::tool(&self.0, name)
    }

    fn tools(&self) -> Vec<String> {
        ToolCatalog::tools(&self.0)
    }

    fn recipes(&self) -> Option<Vec<String>> {
        ToolCatalog::recipes(&self.0)
    }

    fn flows(&self) -> Option<Vec<String>> {
        ToolCatalog::flows(&self.0)
    }

    fn flow(&self, name: &str, version: Option<&str>) -> Option<Value> {
        ToolCatalog::flow(&self.0, name, version)
    }

    fn workflows(&self) -> Option<Vec<String>> {
        ToolCatalog::workflows(&self.0)
    }

    fn presence(&self, tool: &str) -> Presence {
        let server = tool.split('/').next().unwrap().to_owned();
        match tool {
            "moved/serch" => Presence::Gone { server, tools: vec!["moved/search".to_owned()] },
            "changed/search" => Presence::Present {
                schema: json!({ "properties": { "query": { "type": "string" } }, "additionalProperties": false }),
            },
            _ if server == "away" => Presence::Away { server, reason: "it did not answer".to_owned() },
            _ => Presence::NotAsked,
        }
    }

    fn refused(&self, tool: &str, _args: &Value) -> Option<String> {
        (tool == "shell").then(|| "ann".to_owned())
    }
}

/// Checks a document against the worker of the tests.
fn checked(source: &str) -> Checked {
    let of_servers = ["away/search", "away/find", "moved/search", "moved/serch", "shell"];
    let catalog = of_servers.into_iter().fold(catalog(), |catalog, name| catalog.tool(name, true));
    let known = json!({ "properties": { "qery": { "type": "string" } } });
    let catalog = Connected(catalog.tool("changed/search", known));
    check(source, &Options { catalog: Some(&catalog), ..Options::default() })
}

/// The findings of a kind, as `CODE at LINE:COLUMN`.
fn found(checked: &Checked, severity: Severity) -> Vec<String> {
    let findings = checked.findings.iter().filter(|finding| finding.severity == severity);
    findings.map(|it| format!("{} at {}:{}", it.code, it.line, it.column)).collect()
}

/// All findings as text, for the message of a failed test.
fn told(checked: &Checked) -> String {
    checked.findings.iter().map(|finding| format!("{finding}\n")).collect()
}

/// The text of a file below `tests`.
fn file(path: &str) -> String {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The names of the files in a folder below `tests`, in order.
fn files(folder: &str) -> Vec<String> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(folder);
    let mut names: Vec<String> = std::fs::read_dir(path)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}
