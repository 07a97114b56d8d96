use std::fmt;

use serde::{Deserialize, Serialize};

use crate::document::{Data, Entry, Node};

/// The format of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Dialect {
    /// The format of this crate: it begins with `flow: 1`.
    #[default]
    Native,
    /// The map of steps of the engine with two tables.
    TwoTable,
    /// The definitions of the DAG engine: `steps` with `depends_on`.
    Opcode,
    /// The Serverless Workflow language of the CNCF, version 1.0: `document` with its `dsl`.
    Cncf,
}

impl Dialect {
    /// Returns the dialect in which a document seems to be written.
    #[must_use]
    pub fn detect(root: &Node) -> Self {
        let Some(entries) = root.entries() else { return Self::Native };
        if root.get("document").is_some_and(|document| document.get("dsl").is_some()) {
            return Self::Cncf;
        }
        let has = |key: &str| entries.iter().any(|entry| entry.key == key);
        if has("flow") || has("do") || has("dag") || has("graph") {
            return Self::Native;
        }
        let is_definition = |node: &Node| node.get("steps").is_some_and(|steps| matches!(steps.data, Data::List(_)));
        if is_definition(root) || root.get("definition").is_some_and(is_definition) {
            return Self::Opcode;
        }
        let transitions = ["next", "branch", "parallel", "join", "done", "tool"];
        let is_step = |entry: &Entry| transitions.iter().any(|key| entry.value.get(key).is_some());
        if !entries.is_empty() && entries.iter().all(is_step) { Self::TwoTable } else { Self::Native }
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Native => "native",
            Self::TwoTable => "two-table",
            Self::Opcode => "opcode",
            Self::Cncf => "cncf",
        })
    }
}
