//! The nodes and edges of a block.

use std::collections::BTreeMap;

use super::{Diagram, DiagramEdge, DiagramNode, Shape, Why, joining_of, targets};
use crate::graph::{Block, Kind, Next, OnError, OnReject, Step, Until, Wait};

/// The nodes with which a part of a drawing begins and ends.
#[derive(Default, Clone)]
pub(super) struct Ends {
    pub(super) entries: Vec<usize>,
    pub(super) exits: Vec<usize>,
}

impl Diagram {
    /// Adds a node. Returns its index.
    pub(super) fn add(&mut self, node: DiagramNode) -> usize {
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    /// Adds an edge from each of some nodes to each of others.
    pub(super) fn connect(&mut self, from: &[usize], to: &[usize], why: Why<'_>) {
        let Why { label, is_decided } = why;
        for from in from {
            let edges = to.iter().map(|to| DiagramEdge { from: *from, to: *to, label: label.to_owned(), is_decided });
            self.edges.extend(edges);
        }
    }

    /// Adds a block.
    pub(super) fn block(&mut self, block: &Block) -> Ends {
        match block {
            Block::Do(steps) => {
                let mut all = Ends::default();
                for (index, step) in steps.iter().enumerate() {
                    let ends = self.step(step);
                    if index == 0 {
                        all.entries.clone_from(&ends.entries);
                    } else {
                        self.connect(&all.exits, &ends.entries, Why::NONE);
                    }
                    all.exits = ends.exits;
                }
                all
            }
            Block::Dag { steps, .. } => {
                let drawn: Vec<Ends> = steps.iter().map(|step| self.step(step)).collect();
                let by_id: BTreeMap<&str, &Ends> = steps.iter().map(|step| step.id.as_str()).zip(&drawn).collect();
                let mut all = Ends::default();
                for (step, ends) in steps.iter().zip(&drawn) {
                    for need in &step.needs {
                        if let Some(needed) = by_id.get(need.as_str()) {
                            self.connect(&needed.exits, &ends.entries, Why::NONE);
                        }
                    }
                    if step.needs.is_empty() {
                        all.entries.extend(&ends.entries);
                    }
                    if !steps.iter().any(|other| other.needs.contains(&step.id)) {
                        all.exits.extend(&ends.exits);
                    }
                }
                all
            }
            Block::Graph { start, steps } => self.graph(start, steps),
        }
    }

    fn graph(&mut self, start: &str, steps: &[Step]) -> Ends {
        let drawn: Vec<Ends> = steps.iter().map(|step| self.step(step)).collect();
        let by_id: BTreeMap<&str, &Ends> = steps.iter().map(|step| step.id.as_str()).zip(&drawn).collect();
        let mut all =
            Ends { entries: by_id.get(start).map(|ends| ends.entries.clone()).unwrap_or_default(), ..Ends::default() };
        for (step, ends) in steps.iter().zip(&drawn) {
            for (to, why) in targets(step) {
                if let Some(to) = by_id.get(to) {
                    self.connect(&ends.exits, &to.entries, why);
                }
            }
            match &step.next {
                Some(Next::Done) | None => all.exits.extend(&ends.exits),
                Some(Next::Parallel { join: Some(join), branches }) => {
                    // Each step that joins leads to the join of its own branch.
                    let joining = joining_of(steps, branches);
                    for id in joining {
                        if let (Some(from), Some(to)) = (by_id.get(id), by_id.get(join.as_str())) {
                            self.connect(&from.exits, &to.entries, Why::NONE);
                        }
                    }
                }
                _ => {}
            }
        }
        all
    }

    fn step(&mut self, step: &Step) -> Ends {
        let shape = shape(&step.kind);
        let node = self.add(DiagramNode { step: Some(step.id.clone()), shape, text: described(&step.kind) });
        let mut ends = Ends { entries: vec![node], exits: vec![node] };
        for (name, block) in parts(step) {
            let inner = self.block(block);
            let why = if shape == Shape::Choice && name != "error" { Why::decided(name) } else { Why::event(name) };
            self.connect(&[node], &inner.entries, why);
            match &step.kind {
                Kind::Loop(_) if name.is_empty() => self.connect(&inner.exits, &[node], Why::event("again")),
                _ => ends.exits.extend(inner.exits),
            }
        }
        if always_enters(&step.kind, ends.exits.len()) {
            ends.exits.retain(|exit| *exit != node);
        }
        ends
    }
}

const fn shape(kind: &Kind) -> Shape {
    match kind {
        Kind::If { .. } | Kind::Switch(_) => Shape::Choice,
        Kind::Approval(_) | Kind::Decision(_) => Shape::Question,
        Kind::Wait(_) => Shape::Wait,
        Kind::Loop(_) | Kind::Parallel(_) => Shape::Group,
        _ => Shape::Work,
    }
}

/// Returns whether every exit of a step leads out of its blocks. `exits` counts those of the step
/// and of its blocks.
const fn always_enters(kind: &Kind, exits: usize) -> bool {
    let has_blocks = exits > 1;
    match kind {
        Kind::If { otherwise, .. } => otherwise.is_some() && has_blocks,
        Kind::Switch(_) | Kind::Parallel(_) => has_blocks,
        _ => false,
    }
}

/// Returns the blocks of a step by the names of their edges.
fn parts(step: &Step) -> Vec<(&str, &Block)> {
    let mut parts: Vec<(&str, &Block)> = match &step.kind {
        Kind::If { then, otherwise, .. } => {
            std::iter::once(("then", then)).chain(otherwise.as_ref().map(|block| ("else", block))).collect()
        }
        Kind::Switch(switch) => {
            let cases = switch.cases.iter().map(|(name, block)| (name.as_str(), block));
            cases.chain(switch.default.as_ref().map(|block| ("default", block))).collect()
        }
        Kind::Loop(repeat) => vec![("", &repeat.body)],
        Kind::Parallel(parallel) => parallel.branches.iter().map(|(name, block)| (name.as_str(), block)).collect(),
        Kind::Approval(approval) => {
            let timeout = approval.on_timeout.as_ref().map(|block| ("timeout", block));
            let reject = match &approval.on_reject {
                OnReject::Do(block) => Some(("rejected", block)),
                _ => None,
            };
            timeout.into_iter().chain(reject).collect()
        }
        _ => Vec::new(),
    };
    if let OnError::Do(block) = &step.on_error {
        parts.push(("error", block));
    }
    parts
}

fn described(kind: &Kind) -> String {
    match kind {
        Kind::Tool(tool) => tool.tool.clone(),
        Kind::Recipe(recipe) => format!("recipe {}", recipe.name.as_deref().unwrap_or_default()).trim_end().to_owned(),
        Kind::If { condition, .. } => format!("if {condition}"),
        Kind::Switch(switch) => format!("switch {}", switch.value.as_str().unwrap_or_default()),
        Kind::Loop(repeat) => match &repeat.until {
            Until::For(list) => format!("for each of {}", list.as_str().unwrap_or("a list")),
            Until::Jq(program) => format!("for each of {program}"),
            Until::While(condition) => format!("while {condition}"),
            Until::Until(condition) => format!("until {condition}"),
        },
        Kind::Parallel(_) => "parallel".to_owned(),
        Kind::Approval(_) => "approval".to_owned(),
        Kind::Decision(_) => "decision".to_owned(),
        Kind::Kb(write) => format!("write to {}", write.base),
        Kind::Handoff(handoff) => format!("tell {}", handoff.to),
        Kind::Wait(Wait::For(_)) => "wait".to_owned(),
        Kind::Wait(Wait::Until(until)) => format!("wait until {until}"),
        Kind::Wait(Wait::Event { name, .. }) => format!("wait for {name}"),
        Kind::Emit(emission) => format!("emit {}", emission.event),
        Kind::Flow(call) => format!("{} {}", if call.is_workflow { "workflow" } else { "flow" }, call.name),
        Kind::Set(values) => format!("set {}", values.keys().cloned().collect::<Vec<_>>().join(", ")),
        Kind::Jq(_) => "jq".to_owned(),
        Kind::Fail(_) => "fail".to_owned(),
        Kind::Nothing => "-".to_owned(),
    }
}
