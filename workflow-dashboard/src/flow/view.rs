//! The drawing of a flow.

use std::collections::{BTreeMap, BTreeSet};

use maud::{Markup, html};
use workflow_flows::graph::{Flow, Kind};
use workflow_flows::{Diagram, DiagramEdge, DiagramNode, Shape};
use workflow_sdk::operate::{Timeline, TimelineRow};

use super::RunFlow;
use super::layout::{DrawnEdge, HEIGHT, Layout, layout};
use super::state::{StepState, states};
use crate::clock;
use crate::icons::Icon;

/// The room around the drawing, for lines at its border.
const BORDER: f64 = 10.0;
/// The longest texts of a box and of an edge, in characters.
const LONGEST_NAME: usize = 28;
const LONGEST_TEXT: usize = 34;
const LONGEST_LABEL: usize = 22;

/// A flow with its run, ready to be drawn.
pub(crate) struct View<'v> {
    diagram: Diagram,
    states: BTreeMap<&'v str, StepState<'v>>,
    /// The steps that do nothing, by their ids.
    idle: BTreeSet<&'v str>,
    has_begun: bool,
    /// `true` if there is a run. Without one, no step has a state.
    has_run: bool,
}

/// All edges between one node and another.
#[derive(Debug)]
struct Line {
    from: usize,
    to: usize,
    label: String,
    is_taken: bool,
}

impl<'v> View<'v> {
    pub(crate) fn new(run: &'v RunFlow, timeline: &'v Timeline) -> Self {
        let states = states(&run.flow, &timeline.rows, &run.history);
        let mut idle = BTreeSet::new();
        run.flow.for_each_step(|step| {
            if matches!(step.kind, Kind::Nothing) {
                idle.insert(step.id.as_str());
            }
        });
        let has_begun = !timeline.rows.is_empty();
        Self { diagram: Diagram::of(&run.flow), states, idle, has_begun, has_run: true }
    }

    /// Returns the view of a flow without a run.
    pub(crate) fn of_flow(flow: &Flow) -> Self {
        let (states, idle) = (BTreeMap::new(), BTreeSet::new());
        Self { diagram: Diagram::of(flow), states, idle, has_begun: false, has_run: false }
    }

    /// Returns how many steps there are, and how many the run has come to.
    pub(crate) fn summary(&self) -> String {
        let steps = self.diagram.nodes.iter().filter(|node| node.step.is_some()).count();
        let steps = clock::counted(steps as u64, "step");
        let reached = self.states.values().filter(|state| state.is_reached()).count();
        if self.has_run { format!("{steps} · {} reached", clock::grouped(reached as u64)) } else { steps }
    }

    /// Draws the flow. `link` returns the address that opens the panel of a row.
    pub(crate) fn draw(&self, link: &dyn Fn(&str) -> String, selected: Option<&str>) -> Markup {
        let (nodes, lines) = (&self.diagram.nodes, self.lines());
        let widths: Vec<f64> = nodes.iter().map(|node| self.width(node)).collect();
        let pairs: Vec<(usize, usize)> = lines.iter().map(|line| (line.from, line.to)).collect();
        let Layout { boxes, edges, width, height } = layout(&widths, &pairs);
        let (width, height) = (width + 2.0 * BORDER, height + 2.0 * BORDER);
        let area = format!("{} {} {width:.0} {height:.0}", -BORDER, -BORDER);
        html! {
            svg.flow data-key="graph" role="group" aria-label="Graph of the flow" width=(format!("{width:.0}"))
                height=(format!("{height:.0}")) viewBox=(area) {
                g aria-hidden="true" { @for (line, edge) in lines.iter().zip(&edges) { (arrow(line, edge)) } }
                @for ((node, place), width) in nodes.iter().zip(boxes).zip(widths) {
                    g transform=(format!("translate({:.1} {:.1})", place.0, place.1)) {
                        (self.node(node, width, link, selected))
                    }
                }
                g aria-hidden="true" { @for (line, edge) in lines.iter().zip(&edges) { (label(line, edge)) } }
            }
        }
    }

    /// Returns the keys of all records of the step that has one with this key, and the place of
    /// that among them.
    pub(crate) fn repeats(&self, key: &str) -> Option<(usize, Vec<&'v str>)> {
        self.states.values().find_map(|state| {
            let place = state.rows.iter().position(|row| row.step == key)?;
            Some((place, state.rows.iter().map(|row| row.step.as_str()).collect()))
        })
    }

    fn state(&self, node: &DiagramNode) -> Option<&StepState<'v>> {
        self.states.get(node.step.as_deref()?).filter(|state| state.is_reached())
    }

    /// Returns whether the run came to a node. A step that does nothing, and a hook, leave no
    /// record: the run came to them if it came to a node after them.
    fn is_reached(&self, index: usize) -> bool {
        let node = &self.diagram.nodes[index];
        let behind = || self.diagram.edges.iter().filter(move |edge| edge.from == index && edge.to != index);
        let came_behind = || behind().any(|edge| self.state(&self.diagram.nodes[edge.to]).is_some());
        match node.step.as_deref() {
            None if index == 0 => self.has_begun,
            None => came_behind(),
            Some(step) => self.state(node).is_some() || self.idle.contains(step) && came_behind(),
        }
    }

    fn is_taken(&self, edge: &DiagramEdge) -> bool {
        let decided: Vec<&str> = self
            .diagram
            .edges
            .iter()
            .filter(|other| other.from == edge.from && other.is_decided)
            .map(|other| other.label.as_str())
            .collect();
        let state = self.state(&self.diagram.nodes[edge.from]);
        let takes = state.is_none_or(|state| state.has_taken(&edge.label, edge.is_decided, &decided));
        takes && self.is_reached(edge.from) && self.is_reached(edge.to)
    }

    /// Returns one line for each pair of nodes, with the labels of all its edges. If one of the
    /// edges has no label, the line has none: it is also taken without a reason.
    fn lines(&self) -> Vec<Line> {
        let mut lines: Vec<Line> = Vec::new();
        for edge in &self.diagram.edges {
            let is_taken = self.is_taken(edge);
            match lines.iter_mut().find(|line| (line.from, line.to) == (edge.from, edge.to)) {
                Some(line) => {
                    line.is_taken |= is_taken;
                    line.label = match line.label.is_empty() || edge.label.is_empty() {
                        true => String::new(),
                        false => [line.label.as_str(), &edge.label].join(", "),
                    };
                }
                None => {
                    lines.push(Line { from: edge.from, to: edge.to, label: edge.label.clone(), is_taken });
                }
            }
        }
        lines
    }

    fn width(&self, node: &DiagramNode) -> f64 {
        let name = node.step.as_deref().map_or(0, |step| shortened(step, LONGEST_NAME).chars().count());
        let text = shortened(&node.text, LONGEST_TEXT).chars().count();
        let slant = if node.shape == Shape::Choice { 22.0 } else { 0.0 };
        let times = if self.state(node).is_some_and(|state| state.rows.len() > 1) { 30.0 } else { 0.0 };
        match node.step {
            Some(_) => (46.0 + slant + (name as f64 * 7.6 + times).max(text as f64 * 6.4)).clamp(124.0, 290.0),
            None => (34.0 + text as f64 * 7.2).clamp(84.0, 290.0),
        }
    }

    fn node(&self, node: &DiagramNode, width: f64, link: &dyn Fn(&str) -> String, selected: Option<&str>) -> Markup {
        let Some(step) = &node.step else {
            return html! {
                g.box.start { (outline(node.shape, width)) text x=(half(width)) y="28" text-anchor="middle" {
                    (shortened(&node.text, LONGEST_TEXT))
                } }
            };
        };
        let Some(state) = self.state(node) else {
            let icon = if self.has_run { Icon::PENDING } else { icon_of(node.shape) };
            return html! { g.box.open[self.has_run] { (content(node, step, width, (icon, "idle"), "")) } };
        };
        let Some((row, look)) = state.shown else { return html! {} };
        let times = if state.rows.len() > 1 { format!("×{}", state.rows.len()) } else { String::new() };
        let is_on = is_of(row, state, selected);
        let class = format!("box {}{}", look.color, if is_on { " on" } else { "" });
        let words = format!("{step}: {}, {}{}", node.text, look.word.to_lowercase(), spoken(state.rows.len()));
        html! {
            a class=(class) href=(link(&row.step)) aria-current=[is_on.then_some("true")] data-step {
                title { (words) }
                (content(node, step, width, (look.icon, look.color), &times))
            }
        }
    }
}

/// Returns whether the open panel is one of this step.
fn is_of(shown: &TimelineRow, state: &StepState<'_>, selected: Option<&str>) -> bool {
    selected.is_some_and(|key| shown.step == key || state.rows.iter().any(|row| row.step == key))
}

fn spoken(times: usize) -> String {
    if times > 1 { format!(", {times} times") } else { String::new() }
}

/// Returns the icon of a step that has no state.
fn icon_of(shape: Shape) -> Icon {
    match shape {
        Shape::Choice => Icon::WORKFLOWS,
        Shape::Question => Icon::APPROVALS,
        Shape::Wait => Icon::WAITING,
        Shape::Group => Icon::QUEUES,
        _ => Icon::RUNS,
    }
}

/// Draws the content of a box: the state, the name, how often it ran, and what it does.
fn content(node: &DiagramNode, step: &str, width: f64, (icon, color): (Icon, &str), times: &str) -> Markup {
    let slant = if node.shape == Shape::Choice { 8 } else { 0 };
    html! {
        (outline(node.shape, width))
        g class=(color) { (icon.draw_at(11 + slant, 9)) }
        text.name x=(32 + slant) y="20.5" { (shortened(step, LONGEST_NAME)) }
        text.what x=(32 + slant) y="36" { (shortened(&node.text, LONGEST_TEXT)) }
        @if !times.is_empty() {
            text.what x=(format!("{:.1}", width - 10.0 - f64::from(slant))) y="20" text-anchor="end" { (times) }
        }
    }
}

/// Draws the border of a box: a choice has slanted ends, a wait round ones, a group a second one
/// behind it.
fn outline(shape: Shape, width: f64) -> Markup {
    let radius = match shape {
        Shape::Start | Shape::Wait => HEIGHT / 2.0,
        _ => 8.0,
    };
    let right = width - 12.0;
    let slanted = format!("M12 0H{right:.1}L{width:.1} {}L{right:.1} {HEIGHT}H12L0 {}z", HEIGHT / 2.0, HEIGHT / 2.0);
    html! {
        @if shape == Shape::Group {
            rect x="5" y="-5" width=(format!("{width:.1}")) height=(HEIGHT) rx=(radius) {}
        }
        @if shape == Shape::Choice { path d=(slanted) {} }
        @else { rect width=(format!("{width:.1}")) height=(HEIGHT) rx=(radius) {} }
    }
}

fn half(width: f64) -> String {
    format!("{:.1}", width / 2.0)
}

fn arrow(line: &Line, edge: &DrawnEdge) -> Markup {
    let class = match (line.is_taken, edge.is_back) {
        (true, _) => "edge taken",
        (false, true) => "edge back",
        (false, false) => "edge",
    };
    html! { g class=(class) { path d=(curve(&edge.points)) {} path.head d=(head(&edge.points)) {} } }
}

/// Draws the label of an edge beside its first part, near the end of that.
fn label(line: &Line, edge: &DrawnEdge) -> Markup {
    let [(from, top), (to, bottom), ..] = edge.points[..] else { return html! {} };
    let (x, y) = (from + (to - from) * 0.8, top + (bottom - top) * 0.64 + 4.0);
    html! {
        @if !line.label.is_empty() {
            text.reason.taken[line.is_taken] x=(format!("{x:.1}")) y=(format!("{y:.1}")) text-anchor="middle" {
                title { (line.label) }
                (shortened(&line.label, LONGEST_LABEL))
            }
        }
    }
}

/// Returns the path of an edge: curves between layers, and lines through those that it passes.
fn curve(points: &[(f64, f64)]) -> String {
    let [(x, y), rest @ ..] = points else { return String::new() };
    let mut path = format!("M{x:.1} {y:.1}");
    // Around its own box.
    if let [(out, _), (x, end)] = rest {
        return format!("{path}C{out:.1} {y:.1} {out:.1} {end:.1} {x:.1} {end:.1}");
    }
    let mut before = (*x, *y);
    for (index, (x, y)) in rest.iter().enumerate() {
        let middle = (before.1 + y) / 2.0;
        path.push_str(&match index % 2 {
            0 => format!("C{:.1} {middle:.1} {x:.1} {middle:.1} {x:.1} {y:.1}", before.0),
            _ => format!("L{x:.1} {y:.1}"),
        });
        before = (*x, *y);
    }
    path
}

/// Returns the path of the tip at the end of an edge.
fn head(points: &[(f64, f64)]) -> String {
    let [.., before, (x, y)] = points else { return String::new() };
    match points.len() {
        3 => format!("M{:.1} {:.1}L{x:.1} {y:.1}L{:.1} {:.1}", x + 6.0, y - 4.0, x + 6.0, y + 4.0),
        _ => {
            let back = if before.1 > *y { y + 6.0 } else { y - 6.0 };
            format!("M{:.1} {back:.1}L{x:.1} {y:.1}L{:.1} {back:.1}", x - 4.0, x + 4.0)
        }
    }
}

fn shortened(text: &str, longest: usize) -> String {
    let line = text.lines().next().unwrap_or_default();
    if line.chars().count() <= longest && line.len() == text.len() {
        return line.to_owned();
    }
    line.chars().take(longest - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const FLOW: &str = r#"{"language":1,"name":"f","input":true,"timeout":60000,"on_timeout":"fail","body":{"do":[
        {"id":"named","kind":{"tool":{"tool":"-"}}},{"id":"first","kind":{"tool":{"tool":"echo"}}},
        {"id":"join","kind":"nothing"},{"id":"last","kind":{"tool":{"tool":"echo"}}}]}}"#;
    const TIMELINE: &str = r#"{"run":"01a2179e-6563-77f9-814a-e7a8f1ed3d63","status":"running","from":1,"to":9,"spans":[],
        "rows":[{"step":"first","kind":"step","bars":[{"state":"succeeded","attempt":1,"from":1,"to":2}]},
            {"step":"last","kind":"step","bars":[{"state":"running","attempt":1,"from":2}]}],
        "marks":[],"left_out":0,"complete":true}"#;

    #[test]
    fn a_flow_without_a_run_has_no_states() {
        let flow: Flow = serde_json::from_str(FLOW).unwrap();
        let view = View::of_flow(&flow);
        let drawn = view.draw(&|_| String::new(), None).into_string();
        assert_eq!(drawn.matches("<g class=\"box\">").count(), 4, "{drawn}");
        assert!(!drawn.contains("<a ") && !drawn.contains("taken"), "{drawn}");
    }

    #[test]
    fn a_step_that_does_nothing_is_reached_with_the_step_behind_it() {
        let run = RunFlow { flow: serde_json::from_str(FLOW).unwrap(), history: Vec::new() };
        let timeline: Timeline = serde_json::from_str(TIMELINE).unwrap();
        let view = View::new(&run, &timeline);
        let reached: Vec<&str> = (0..view.diagram.nodes.len())
            .filter(|index| view.is_reached(*index))
            .map(|index| view.diagram.nodes[index].step.as_deref().unwrap_or("the start"))
            .collect();
        // The tool of `named` has the name that stands for a step without one.
        assert_eq!(reached, ["the start", "first", "join", "last"]);
    }
}
