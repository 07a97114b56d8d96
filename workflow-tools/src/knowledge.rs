//! The tools `kb.search` and `kb.get`: they read the knowledge base that flows write.
//!
//! ```
//! use serde_json::json;
//! use workflow_flows::{KbDocument, KbStore, ToolCall};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let kb = KbStore::in_memory();
//! kb.put(&KbDocument::new("support", "t-1", "Printer jam", "Empty the tray.")).await?;
//! let tools = workflow_tools::knowledge::tools(&kb);
//! let search = tools.iter().find(|tool| tool.name() == "kb.search").unwrap();
//! let args = json!({ "base": "support", "query": "printer", "match": "any" });
//! let found = search.call(ToolCall::new(args, "ann", "key")).await?;
//! assert_eq!(found["documents"][0]["key"], "t-1");
//! # Ok(())
//! # }
//! ```

use std::sync::Arc;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};
use workflow_flows::{ErrorClass, KbError, KbSearch, KbStore, Tool, ToolCall, ToolError};

use crate::arguments::{failed, invalid, parse};

/// Returns the tools over a knowledge base.
///
/// Both ask for the base by name, so a policy can decide by their arguments which account reads
/// which base.
#[must_use]
pub fn tools(kb: &KbStore) -> Vec<Arc<dyn Tool>> {
    vec![Arc::new(Search(kb.clone())), Arc::new(Get(kb.clone()))]
}

struct Search(KbStore);

struct Get(KbStore);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SearchArguments {
    base: String,
    query: String,
    #[serde(default, rename = "match")]
    matching: Matching,
    #[serde(default)]
    tags: Vec<String>,
    limit: Option<u32>,
}

#[derive(Deserialize, Clone, Copy, Default, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Matching {
    #[default]
    All,
    Any,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GetArguments {
    base: String,
    key: String,
}

#[async_trait]
impl Tool for Search {
    fn name(&self) -> &str {
        "kb.search"
    }

    fn description(&self) -> &str {
        "Finds documents of a knowledge base by words, \"phrases\", beginnings (print*) and exclusions (-ink)."
    }

    fn input_schema(&self) -> Value {
        json!({
            "type": "object", "required": ["base", "query"], "additionalProperties": false,
            "properties": {
                "base": { "type": "string" },
                "query": { "type": "string", "maxLength": 1024 },
                "match": { "enum": ["all", "any"], "default": "all", "description": "Whether one word is enough." },
                "tags": { "type": "array", "items": { "type": "string" }, "description": "Wanted, all of them." },
                "limit": { "type": "integer", "minimum": 1, "maximum": KbSearch::MAX_LIMIT, "default": 10 },
            },
        })
    }

    async fn call(&self, call: ToolCall) -> Result<Value, ToolError> {
        let search = read_search(parse("kb.search", &call.args)?)?;
        let found = self.0.search(&search).await.map_err(|error| failure("kb.search", &error))?;
        Ok(json!({ "documents": found }))
    }
}

fn read_search(arguments: SearchArguments) -> Result<KbSearch, ToolError> {
    let SearchArguments { base, query, matching, tags, limit } = arguments;
    let mut search = KbSearch::new(&query).map_err(|error| failure("kb.search", &error))?.base(base);
    if let Some(limit) = limit {
        if !(1..=KbSearch::MAX_LIMIT).contains(&limit) {
            return Err(invalid(format!("kb.search: limit is not between 1 and {}", KbSearch::MAX_LIMIT)));
        }
        search = search.limit(limit);
    }
    if matching == Matching::Any {
        search = search.any();
    }
    Ok(tags.into_iter().fold(search, KbSearch::tag))
}

#[async_trait]
impl Tool for Get {
    fn name(&self) -> &str {
        "kb.get"
    }

    fn description(&self) -> &str {
        "Returns a document of a knowledge base with its whole text, or null if there is none."
    }

    fn input_schema(&self) -> Value {
        json!({
            "type": "object", "required": ["base", "key"], "additionalProperties": false,
            "properties": { "base": { "type": "string" }, "key": { "type": "string" } },
        })
    }

    async fn call(&self, call: ToolCall) -> Result<Value, ToolError> {
        let GetArguments { base, key } = parse("kb.get", &call.args)?;
        let found = self.0.find(&base, &key).await.map_err(|error| failure("kb.get", &error))?;
        serde_json::to_value(found).map_err(|_| failed("kb.get: the document is not JSON"))
    }
}

/// Returns the failure of a call. A text of the database is left out.
fn failure(tool: &str, error: &KbError) -> ToolError {
    match error {
        KbError::Query { .. } => invalid(format!("{tool}: {error}")),
        KbError::Unreadable { .. } => failed(format!("{tool}: a document is not understood by this release")),
        _ => ToolError::new(ErrorClass::Unavailable, format!("{tool}: the knowledge base cannot be read now")),
    }
}
