//! A flow as a drawing: its steps and the ways between them.

mod block;
mod mermaid;

use std::collections::BTreeMap;

use crate::graph::{Block, Flow, Next, OnError, Step};

pub use mermaid::mermaid;

/// A flow as nodes and edges, without places: what every drawing of it shows.
///
/// ```
/// use workflow_flows::Diagram;
/// use workflow_flows::check::{Options, check};
///
/// let source = "flow: 1\nname: a\ndo: [ { id: b, tool: http }, { id: c, jq: .input } ]\n";
/// let flow = check(source, &Options::default()).flow.ok_or("not valid")?;
/// let diagram = Diagram::of(&flow);
/// assert_eq!(diagram.nodes[1].step.as_deref(), Some("b"));
/// assert_eq!((diagram.edges[0].from, diagram.edges[0].to), (1, 2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Diagram {
    /// The start of the flow, its steps at any depth, and the hooks for its end.
    pub nodes: Vec<DiagramNode>,
    /// The ways between the nodes.
    pub edges: Vec<DiagramEdge>,
}

/// A step, the start of a flow, or a hook for its end.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DiagramNode {
    /// The id of the step. `None`: the start or a hook.
    pub step: Option<String>,
    /// The form of the node.
    pub shape: Shape,
    /// Says what the step does, such as `if input.n > 1`; else the name of the flow or of the hook.
    pub text: String,
}

/// The form of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Shape {
    /// The start of the flow, or a hook.
    Start,
    /// A step that does something.
    Work,
    /// A step that takes one of several ways.
    Choice,
    /// A question for a person.
    Question,
    /// A wait.
    Wait,
    /// A step that repeats or runs blocks.
    Group,
}

/// A way from one node to another.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DiagramEdge {
    /// The index of the node at its beginning.
    pub from: usize,
    /// The index of the node at its end.
    pub to: usize,
    /// The reason for taking it. Empty: there is no other way.
    pub label: String,
    /// `true` if a recorded decision of the first node says whether it is taken.
    pub is_decided: bool,
}

impl Diagram {
    /// Returns the drawing of a flow: the start, then the steps in the order of the document.
    #[must_use]
    pub fn of(flow: &Flow) -> Self {
        let mut diagram = Self::default();
        let start = diagram.add(DiagramNode { step: None, shape: Shape::Start, text: flow.name.clone() });
        let body = diagram.block(&flow.body);
        diagram.connect(&[start], &body.entries, Why::NONE);
        for (name, block) in [("on error", &flow.on_error), ("on complete", &flow.on_complete)] {
            if let Some(block) = block {
                let hook = diagram.add(DiagramNode { step: None, shape: Shape::Start, text: name.to_owned() });
                let ends = diagram.block(block);
                diagram.connect(&[hook], &ends.entries, Why::NONE);
            }
        }
        diagram
    }
}

/// Why a way is taken.
#[derive(Clone, Copy)]
struct Why<'w> {
    label: &'w str,
    is_decided: bool,
}

impl<'w> Why<'w> {
    const NONE: Self = Self { label: "", is_decided: false };

    const fn decided(label: &'w str) -> Self {
        Self { label, is_decided: true }
    }

    const fn event(label: &'w str) -> Self {
        Self { label, is_decided: false }
    }
}

/// Returns the levels of the top block: the ids that can begin at once, in their order. The
/// levels of a graph are the distances from its start.
///
/// ```
/// use workflow_flows::check::{Options, check};
/// use workflow_flows::levels;
///
/// let steps = "[ { id: a, tool: x }, { id: b, tool: x }, { id: c, tool: x, needs: [a, b] } ]";
/// let source = format!("flow: 1\nname: a\ndag: {steps}\n");
/// let flow = check(&source, &Options::default()).flow.ok_or("not valid")?;
/// assert_eq!(levels(&flow.body), [vec!["a", "b"], vec!["c"]]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn levels(block: &Block) -> Vec<Vec<&str>> {
    let mut found: BTreeMap<&str, usize> = BTreeMap::new();
    let steps = match block {
        Block::Do(steps) => {
            found.extend(steps.iter().enumerate().map(|(level, step)| (step.id.as_str(), level)));
            steps
        }
        Block::Dag { steps, .. } => {
            // A checked dag has no cycle, so each turn places one step or more.
            for _ in 0..steps.len() {
                for step in steps.iter().filter(|step| !found.contains_key(step.id.as_str())).collect::<Vec<_>>() {
                    let needs: Vec<Option<usize>> =
                        step.needs.iter().map(|id| found.get(id.as_str()).copied()).collect();
                    if needs.iter().all(Option::is_some) {
                        let level = needs.into_iter().flatten().max().map_or(0, |level| level + 1);
                        found.insert(&step.id, level);
                    }
                }
            }
            steps
        }
        Block::Graph { start, steps } => {
            let joins = joins(steps);
            let mut open = vec![start.as_str()];
            let mut level = 0;
            while !open.is_empty() {
                let fresh: Vec<&str> = open.into_iter().filter(|id| !found.contains_key(id)).collect();
                found.extend(fresh.iter().map(|id| (*id, level)));
                let beginning = steps.iter().filter(|step| fresh.contains(&step.id.as_str()));
                open = beginning
                    .flat_map(|step| {
                        let join = joins.get(step.id.as_str()).copied();
                        targets(step).into_iter().map(|(to, _)| to).chain(join)
                    })
                    .collect();
                level += 1;
            }
            steps
        }
    };
    let depth = found.values().max().map_or(0, |level| level + 1);
    let mut levels = vec![Vec::new(); depth];
    for step in steps {
        if let Some(level) = found.get(step.id.as_str()) {
            levels[*level].push(step.id.as_str());
        }
    }
    levels
}

/// Returns the steps to which a step of a graph may go, with the reasons.
fn targets(step: &Step) -> Vec<(&str, Why<'_>)> {
    let mut to = Vec::new();
    match &step.next {
        Some(Next::Goto(id)) => to.push((id.as_str(), Why::NONE)),
        Some(Next::Branch { cases, otherwise }) => {
            to.extend(cases.iter().map(|(condition, id)| (id.as_str(), Why::decided(condition))));
            to.extend(otherwise.as_deref().map(|id| (id, Why::decided("else"))));
        }
        Some(Next::Parallel { branches, .. }) => to.extend(branches.iter().map(|id| (id.as_str(), Why::NONE))),
        Some(Next::Join | Next::Done) | None => {}
    }
    if let OnError::Goto(id) = &step.on_error {
        to.push((id, Why::event("error")));
    }
    to
}

/// The joins of a graph, by the steps that end branches.
fn joins(steps: &[Step]) -> BTreeMap<&str, &str> {
    let mut joins = BTreeMap::new();
    for step in steps {
        if let Some(Next::Parallel { join: Some(join), branches }) = &step.next {
            joins.extend(joining_of(steps, branches).into_iter().map(|id| (id, join.as_str())));
        }
    }
    joins
}

/// The steps that join, of these branches.
fn joining_of<'s>(steps: &'s [Step], branches: &'s [String]) -> Vec<&'s str> {
    let mut seen: Vec<&str> = Vec::new();
    let mut open: Vec<&str> = branches.iter().map(String::as_str).collect();
    let mut joining = Vec::new();
    while let Some(id) = open.pop() {
        let Some(step) = steps.iter().find(|step| step.id == id).filter(|_| !seen.contains(&id)) else { continue };
        seen.push(&step.id);
        match &step.next {
            Some(Next::Join) => joining.push(step.id.as_str()),
            Some(Next::Parallel { join: Some(join), .. }) => open.push(join),
            _ => open.extend(targets(step).into_iter().map(|(to, _)| to)),
        }
    }
    joining.sort_unstable();
    joining
}
