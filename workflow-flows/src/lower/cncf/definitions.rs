//! The parts of a document that tasks use by their names.

use crate::check::Code;
use crate::document::{Data, Node};
use crate::expression::nearest;
use crate::lower::context::Lowering;
use crate::lower::fields::Fields;

/// The keys of `use` that tasks can use.
const KNOWN: [&str; 5] = ["authentications", "errors", "functions", "retries", "timeouts"];
/// The keys of `use` that do not run here.
const REFUSED: [&str; 2] = ["catalogs", "extensions"];

/// The definitions below `use`.
#[derive(Debug, Default)]
pub(super) struct Definitions<'n>(Vec<(&'static str, &'n Node)>);

impl<'n> Definitions<'n> {
    pub(super) fn read(lowering: &mut Lowering<'_>, node: Option<&'n Node>) -> Self {
        let Some(mut fields) = node.and_then(|node| Fields::read(lowering, node, "use")) else {
            return Self::default();
        };
        for key in REFUSED {
            super::refuse_key(lowering, &mut fields, key, &format!("\"use.{key}\""));
        }
        // The names of secrets are allowed. An expression that reads a secret is refused.
        fields.take("secrets");
        let found = KNOWN.into_iter().filter_map(|key| Some((key, fields.take(key)?))).collect();
        fields.finish(lowering, &KNOWN);
        Self(found)
    }

    fn group(&self, group: &str) -> Option<&'n Node> {
        self.0.iter().find(|(key, _)| *key == group).map(|(_, node)| *node)
    }

    /// Returns a function of the document.
    pub(super) fn function(&self, name: &str) -> Option<&'n Node> {
        self.group("functions")?.get(name)
    }

    /// Returns a definition that stands where it is used, or that a text names.
    fn find<'d>(&self, lowering: &mut Lowering<'_>, node: &'d Node, group: &str) -> Option<&'d Node>
    where
        'n: 'd,
    {
        let Data::Text(name) = &node.data else { return Some(node) };
        let all = self.group(group);
        let found = all.and_then(|all| all.get(name));
        if found.is_none() && !lowering.leaves_out() {
            let names = all.and_then(Node::entries).into_iter().flatten().map(|entry| entry.key.as_str());
            let near = nearest(name, names).map(|near| format!("; did you mean \"{near}\"?")).unwrap_or_default();
            let message = format!("\"use.{group}\" has no \"{name}\"{near}");
            lowering.error(Code::F020, node.span, message);
        }
        found
    }

    pub(super) fn error<'d>(&self, lowering: &mut Lowering<'_>, node: &'d Node) -> Option<&'d Node>
    where
        'n: 'd,
    {
        self.find(lowering, node, "errors")
    }

    pub(super) fn retry<'d>(&self, lowering: &mut Lowering<'_>, node: &'d Node) -> Option<&'d Node>
    where
        'n: 'd,
    {
        self.find(lowering, node, "retries")
    }

    pub(super) fn timeout<'d>(&self, lowering: &mut Lowering<'_>, node: &'d Node) -> Option<&'d Node>
    where
        'n: 'd,
    {
        self.find(lowering, node, "timeouts")
    }

    /// Returns an authentication: the one that stands here, or the one that `use` names.
    pub(super) fn authentication<'d>(&self, lowering: &mut Lowering<'_>, node: &'d Node) -> Option<&'d Node>
    where
        'n: 'd,
    {
        self.find(lowering, node.get("use").unwrap_or(node), "authentications")
    }
}
