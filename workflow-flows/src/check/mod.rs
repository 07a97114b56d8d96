//! Preflight: everything that can be known about a flow before it starts.
//!
//! [`check`] reads a document in any [`Dialect`], lowers it to the graph and applies every rule.
//! All findings are reported at once, each with its place, and with a [`Fix`] where the repair is
//! known. A document with a finding of [`Severity::Error`] gives no flow.

mod bounds;
mod catalog;
mod channels;
mod conditions;
mod cycles;
mod expressions;
mod finding;
mod fix;
mod format;
mod input;
mod jq;
mod needs;
mod options;
mod order;
mod references;
pub(crate) mod schema;
mod secrets;
mod server;
mod targets;
mod tools;
mod unreachable;
mod variables;

pub use catalog::{Catalog, Presence, ToolCatalog};
pub use finding::{Code, Finding, Severity};
pub use fix::{Edit, Fix, FixError};
pub use format::format;
pub use input::check_input;
pub use options::{Limits, Options};
use serde::{Deserialize, Serialize};
use server::Servers;

pub use crate::lower::Dialect;

use crate::document::{Bounds, Fault, Lines, parse};
use crate::graph::Flow;
use crate::lower::{Lowering, MOST_FINDINGS, lower};

/// The outcome of [`check`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Checked {
    /// The dialect of the document.
    pub dialect: Dialect,
    /// The findings, in the order of their places.
    pub findings: Vec<Finding>,
    /// The number of further findings that are not told, because there are too many.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub untold: usize,
    /// The digest of the graph: SHA-256 of its canonical JSON, in hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The graph. `None` if a finding is an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<Flow>,
}

#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

impl Checked {
    /// Returns `true` if the flow can start: no finding is an error.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.flow.is_some()
    }
}

/// Checks a document and lowers it to the graph.
///
/// ```
/// use workflow_flows::check::{Code, Options, check};
///
/// let source = "flow: 1\nname: a\ndo:\n  - { id: a, set: { x: \"{{input.nme}}\" } }\n";
/// let checked = check(source, &Options::default());
/// assert!(checked.is_valid(), "the input has no schema, so it may have any field");
///
/// let source = format!("{source}input: {{ properties: {{ name: {{ type: string }} }} }}\n");
/// let checked = check(&source, &Options::default());
/// assert_eq!(checked.findings[0].code, Code::F032);
/// assert_eq!((checked.findings[0].line, checked.findings[0].column), (4, 33));
/// ```
#[must_use]
pub fn check(source: &str, options: &Options<'_>) -> Checked {
    let bounds = Bounds { bytes: options.limits.bytes, ..Bounds::default() };
    let source = source.strip_prefix('\u{feff}').unwrap_or(source);
    let parsed = parse(source, bounds);
    let root = parsed.root.as_ref();
    let dialect = options.dialect.unwrap_or_else(|| root.map(Dialect::detect).unwrap_or_default());
    let mut findings: Vec<Finding> = Vec::new();
    let lines = Lines::new(source);
    let told = parsed.faults.iter().take(MOST_FINDINGS);
    let code = if source.len() > bounds.bytes { Code::F050 } else { Code::F001 };
    findings.extend(told.map(|fault| syntax(code, fault, &lines, root)));
    let untold = parsed.faults.len() - findings.len();
    let Some(root) = root else {
        return Checked { dialect, findings, untold, digest: None, flow: None };
    };
    let mut lowering = Lowering::new(source, root, options, dialect);
    lowering.findings = findings;
    lowering.untold = untold;
    let flow = lower(&mut lowering, root);
    run_rules(&mut lowering, flow.as_ref());
    let Lowering { mut findings, untold, .. } = lowering;
    let key = |finding: &Finding| (finding.line, finding.column, finding.code, finding.message.clone());
    findings.sort_by_key(key);
    findings.dedup();
    let has_error = untold > 0 || findings.iter().any(|finding| finding.severity == Severity::Error);
    let flow = flow.filter(|_| !has_error);
    let digest = flow.as_ref().map(Flow::digest);
    Checked { dialect, findings, untold, digest, flow }
}

fn run_rules(lowering: &mut Lowering<'_>, flow: Option<&Flow>) {
    if !bounds::check(lowering) {
        return;
    }
    targets::check(lowering);
    needs::check(lowering);
    unreachable::check(lowering);
    cycles::check(lowering);
    expressions::check(lowering);
    references::check(lowering);
    variables::check(lowering);
    conditions::check(lowering);
    secrets::check(lowering);
    input::check_references(lowering, flow);
    input::check_triggers(lowering, flow);
    let mut servers = Servers::default();
    tools::check(lowering, flow, &mut servers);
    channels::check(lowering, &mut servers);
    jq::check(lowering, flow);
}

fn syntax(code: Code, fault: &Fault, lines: &Lines<'_>, root: Option<&crate::document::Node>) -> Finding {
    let place = lines.place(fault.span.start);
    let edit = |text: &String| Edit::Text { start: fault.span.start, end: fault.span.end, text: text.clone() };
    let path = root.map(|root| root.pointer(fault.span)).unwrap_or_default();
    let mut finding = Finding {
        code,
        severity: Severity::Error,
        path,
        line: place.line,
        column: place.column,
        message: fault.message.clone(),
        help: fault.help.clone(),
        fix: None,
    };
    finding.fix = fault.repair.as_ref().map(|text| Fix::new("repair the syntax", edit(text)));
    finding
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::expression::CALLS;

    /// Each line of these documents has one fault, whose hint compares names.
    #[test]
    fn a_finding_that_is_not_told_has_no_hint() {
        let lines = |head: &str, line: &str| -> String {
            let lines = (0..200).map(|number| line.replace('#', &number.to_string()));
            format!("{head}\n{}\n", lines.collect::<Vec<_>>().join("\n"))
        };
        let native = |keys: &str| lines("flow: 1\nname: a\ndo:", &format!("  - {{ id: s#, {keys} }}"));
        let reads = |path: &str| native(&format!("tool: x, args: {{ a: \"{{{{{path}}}}}\" }}"));
        let keys = lines("flow: 1\nname: a\ndo:\n  - id: a\n    tool: x\n    args:", "      k#: 1");
        let action = |keys: &str| lines("steps:", &format!("  - {{ id: s#, type: action, {keys} }}"));
        let raise = "document: { dsl: '1.0.3', namespace: n, name: a, version: '1.0.0' }\ndo:";
        let (native_alone, opcode, cncf) = (Dialect::Native, Dialect::Opcode, Dialect::Cncf);
        let closed = json!({ "properties": { "url": true }, "additionalProperties": false });
        let (empty, with_tool) = (Catalog::new(), Catalog::new().tool("x", closed));
        let documents: [(String, Dialect, Option<&dyn ToolCatalog>); 13] = [
            (reads("steps.t#.b"), native_alone, None),
            (reads("inptu.b"), native_alone, None),
            (reads("vars.b"), native_alone, None),
            (reads("input.nme") + "input: { properties: { name: true } }\n", native_alone, None),
            (native("tool: x, on_error: fial"), native_alone, None),
            (native("decision: { prompt: p, options: { left: l } }, fallback: lft"), native_alone, None),
            (lines("flow: 1\nname: a\ndag:", "  - { id: s#, tool: x, needs: [t#] }"), native_alone, None),
            (native("tool: x"), native_alone, Some(&empty)),
            (keys, native_alone, Some(&with_tool)),
            (action("action: http.gett"), opcode, None),
            (action("action: http.get, params: { urll: u }"), opcode, None),
            (action("action: a, on_error: { strategy: fallback_step, fallback_step: t# }"), opcode, None),
            (lines(raise, "  - s#: { raise: { error: t# } }"), cncf, None),
        ];
        for (source, dialect, catalog) in &documents {
            let options = Options { dialect: Some(*dialect), catalog: *catalog, ..Options::default() };
            let before = CALLS.get();
            let checked = check(source, &options);
            let (hints, shown) = (CALLS.get() - before, &source[..source.len().min(200)]);
            assert!(checked.untold >= 100, "{} of {shown}: {:?}", checked.untold, checked.findings.first());
            assert!((1..=MOST_FINDINGS).contains(&hints), "{hints} hints of {shown}");
        }
    }
}
