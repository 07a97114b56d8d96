//! Drawings of a graph: a Mermaid flowchart and the levels in which its steps can begin.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::graph::{Block, Flow, Kind, Next, OnError, OnReject, Step, Until, Wait};

/// Returns the flow as a Mermaid flowchart.
///
/// ```
/// use workflow_flows::check::{Options, check};
/// use workflow_flows::mermaid;
///
/// let source = "flow: 1\nname: a\ndo: [ { id: a, tool: http }, { id: b, jq: .input } ]\n";
/// let flow = check(source, &Options::default()).flow.ok_or("not valid")?;
/// assert!(mermaid(&flow).starts_with("flowchart TD\n"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn mermaid(flow: &Flow) -> String {
    let mut drawing = Drawing { nodes: 0, text: "flowchart TD\n".to_owned() };
    let start = drawing.node("([", &flow.name, "])");
    let body = drawing.block(&flow.body);
    drawing.edges(&[start], &body.entries, "");
    for (name, block) in [("on error", &flow.on_error), ("on complete", &flow.on_complete)] {
        if let Some(block) = block {
            let hook = drawing.node("([", name, "])");
            let ends = drawing.block(block);
            drawing.edges(&[hook], &ends.entries, "");
        }
    }
    drawing.text
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

/// The steps to which a step of a graph may go, with the reason.
fn targets(step: &Step) -> Vec<(&str, String)> {
    let mut to = Vec::new();
    match &step.next {
        Some(Next::Goto(id)) => to.push((id.as_str(), String::new())),
        Some(Next::Branch { cases, otherwise }) => {
            to.extend(cases.iter().map(|(condition, id)| (id.as_str(), condition.clone())));
            to.extend(otherwise.as_deref().map(|id| (id, "else".to_owned())));
        }
        Some(Next::Parallel { branches, .. }) => to.extend(branches.iter().map(|id| (id.as_str(), String::new()))),
        Some(Next::Join | Next::Done) | None => {}
    }
    if let OnError::Goto(id) = &step.on_error {
        to.push((id, "error".to_owned()));
    }
    to
}

/// The nodes with which a part of a drawing begins and ends.
#[derive(Default, Clone)]
struct Ends {
    entries: Vec<usize>,
    exits: Vec<usize>,
}

struct Drawing {
    nodes: usize,
    text: String,
}

impl Drawing {
    fn node(&mut self, open: &str, label: &str, close: &str) -> usize {
        let number = self.nodes;
        self.nodes += 1;
        // Writing into a text cannot fail.
        let _ = writeln!(self.text, "  n{number}{open}\"{}\"{close}", quoted(label));
        number
    }

    fn edges(&mut self, from: &[usize], to: &[usize], label: &str) {
        let label = if label.is_empty() { String::new() } else { format!("|\"{}\"|", quoted(label)) };
        for from in from {
            for to in to {
                let _ = writeln!(self.text, "  n{from} -->{label} n{to}");
            }
        }
    }

    fn block(&mut self, block: &Block) -> Ends {
        match block {
            Block::Do(steps) => {
                let mut all = Ends::default();
                for (index, step) in steps.iter().enumerate() {
                    let ends = self.step(step);
                    if index == 0 {
                        all.entries.clone_from(&ends.entries);
                    } else {
                        self.edges(&all.exits, &ends.entries, "");
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
                            self.edges(&needed.exits, &ends.entries, "");
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
                    self.edges(&ends.exits, &to.entries, &why);
                }
            }
            match &step.next {
                Some(Next::Done) | None => all.exits.extend(&ends.exits),
                Some(Next::Parallel { join: Some(join), branches }) => {
                    // Each step that joins leads to the join of its own branch.
                    let joining = joining_of(steps, branches);
                    for id in joining {
                        if let (Some(from), Some(to)) = (by_id.get(id), by_id.get(join.as_str())) {
                            self.edges(&from.exits, &to.entries, "");
                        }
                    }
                }
                _ => {}
            }
        }
        all
    }

    fn step(&mut self, step: &Step) -> Ends {
        let label = format!("{}: {}", step.id, described(&step.kind));
        let node = match &step.kind {
            Kind::If { .. } | Kind::Switch(_) => self.node("{", &label, "}"),
            Kind::Approval(_) | Kind::Decision(_) => self.node("{{", &label, "}}"),
            Kind::Wait(_) => self.node("([", &label, "])"),
            Kind::Loop(_) | Kind::Parallel(_) => self.node("[[", &label, "]]"),
            _ => self.node("[", &label, "]"),
        };
        let mut ends = Ends { entries: vec![node], exits: vec![node] };
        for (name, block) in parts(step) {
            let inner = self.block(block);
            self.edges(&[node], &inner.entries, name);
            match &step.kind {
                Kind::Loop(_) if name.is_empty() => self.edges(&inner.exits, &[node], "again"),
                _ => ends.exits.extend(inner.exits),
            }
        }
        let always_enters = match &step.kind {
            Kind::If { otherwise, .. } => otherwise.is_some(),
            Kind::Switch(_) => true,
            Kind::Parallel(_) => ends.exits.len() > 1,
            _ => false,
        };
        if always_enters && ends.exits.len() > 1 {
            ends.exits.retain(|exit| *exit != node);
        }
        ends
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

/// Returns a label that can stand between quotes.
fn quoted(label: &str) -> String {
    let is_short = label.chars().count() <= 60;
    let short = if is_short { label.to_owned() } else { label.chars().take(58).chain("..".chars()).collect() };
    let escaped = short.replace('&', "&amp;").replace('"', "&quot;").replace('<', "&lt;").replace('>', "&gt;");
    escaped.replace(['\n', '\r'], " ")
}
