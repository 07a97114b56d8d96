//! Generates flows that a check would accept, and whose ends do not depend on the order in which
//! concurrent steps end.

use proptest::prelude::*;
use serde_json::{Value, json};
use workflow_flows::graph::Flow;

use crate::common::{echo, flow_with, step, tool, with};

/// A shape without ids, which are numbered afterwards, so that each is unique.
#[derive(Debug, Clone)]
pub(crate) enum Shape {
    Echo(u8),
    /// Reads the result of the step before it.
    Read,
    /// Computes with CEL.
    Compute(u8),
    /// Reads something that is missing.
    Broken,
    Fail(u8),
    Stop(u8),
    /// Fails once, or always.
    Flaky(bool),
    Set(u8),
    Ask(u8),
    Jq,
    Nap,
    Emit,
    /// One branch waits for the event that the other one sends.
    Meet,
    /// Waits for an event that never comes.
    Unanswered,
    /// Takes longer than it may.
    Late,
    If(u8, Vec<Shape>, Vec<Shape>),
    Switch(Vec<Shape>, Vec<Shape>),
    For(u8, u8, Vec<Shape>),
    While(u8, Vec<Shape>),
    Until(u8, Vec<Shape>),
    Parallel(u8, Vec<Vec<Shape>>),
    Race(Vec<Shape>),
    Dag(Vec<Shape>),
    Graph(u8, Vec<Shape>),
    /// A graph with branches at once and a join.
    Fork(Vec<Vec<Shape>>, Box<Shape>),
    /// A graph with a cycle.
    Cycle(Box<Shape>),
    /// A flow of its own.
    Child(Vec<Shape>),
    When(u8, Box<Shape>),
    Ignored(Box<Shape>),
    Replaced(Box<Shape>),
    Again(Box<Shape>),
    Undone(Box<Shape>),
}

pub(crate) fn shapes() -> impl Strategy<Value = Vec<Shape>> {
    let leaf = prop_oneof![
        12 => any::<u8>().prop_map(Shape::Echo),
        8 => Just(Shape::Read),
        6 => any::<u8>().prop_map(Shape::Compute),
        4 => any::<u8>().prop_map(Shape::Set),
        2 => any::<u8>().prop_map(Shape::Ask),
        2 => Just(Shape::Jq),
        2 => Just(Shape::Nap),
        2 => Just(Shape::Emit),
        2 => Just(Shape::Meet),
        2 => any::<bool>().prop_map(Shape::Flaky),
        2 => any::<u8>().prop_map(Shape::Fail),
        1 => any::<u8>().prop_map(Shape::Stop),
        1 => Just(Shape::Broken),
        1 => Just(Shape::Unanswered),
        1 => Just(Shape::Late),
    ];
    let shape = leaf.prop_recursive(4, 24, 4, |inner| {
        let block = proptest::collection::vec(inner.clone(), 1..4);
        let blocks = proptest::collection::vec(block.clone(), 1..4);
        let one = || inner.clone().prop_map(Box::new);
        prop_oneof![
            (any::<u8>(), block.clone(), block.clone()).prop_map(|(n, a, b)| Shape::If(n, a, b)),
            (block.clone(), block.clone()).prop_map(|(a, b)| Shape::Switch(a, b)),
            (0_u8..4, any::<u8>(), block.clone()).prop_map(|(items, on, body)| Shape::For(items, on, body)),
            (0_u8..5, block.clone()).prop_map(|(turns, body)| Shape::While(turns, body)),
            (0_u8..5, block.clone()).prop_map(|(turns, body)| Shape::Until(turns, body)),
            (any::<u8>(), blocks.clone()).prop_map(|(mode, branches)| Shape::Parallel(mode, branches)),
            block.clone().prop_map(Shape::Race),
            block.clone().prop_map(Shape::Dag),
            (any::<u8>(), block.clone()).prop_map(|(n, steps)| Shape::Graph(n, steps)),
            (blocks, one()).prop_map(|(branches, join)| Shape::Fork(branches, join)),
            one().prop_map(Shape::Cycle),
            block.prop_map(Shape::Child),
            (any::<u8>(), one()).prop_map(|(n, shape)| Shape::When(n, shape)),
            one().prop_map(Shape::Ignored),
            one().prop_map(Shape::Replaced),
            one().prop_map(Shape::Again),
            one().prop_map(Shape::Undone),
        ]
    });
    proptest::collection::vec(shape, 1..5)
}

/// A flow, and the flows that it calls.
#[derive(Debug)]
pub(crate) struct Made {
    pub(crate) flow: Flow,
    pub(crate) children: Vec<Flow>,
}

pub(crate) fn lower(shapes: &[Shape]) -> Made {
    let mut numbered = Numbered::default();
    let body = numbered.block(shapes);
    Made { flow: flow_with(body, json!({})), children: numbered.children }
}

/// Longer than everything else in a flow, and shorter than a flow may take.
const HALF_A_DAY: u64 = 43_200_000;

/// Numbers the steps.
#[derive(Default)]
struct Numbered {
    next: u32,
    /// A step that has certainly run when the next one runs.
    before: Option<String>,
    children: Vec<Flow>,
}

impl Numbered {
    fn id(&mut self) -> String {
        self.next += 1;
        format!("s{}", self.next)
    }

    fn block(&mut self, shapes: &[Shape]) -> Value {
        let outer = self.before.take();
        let mut steps = Vec::new();
        for shape in shapes {
            let step = self.step(shape);
            self.before = step["id"].as_str().map(ToOwned::to_owned);
            steps.push(step);
        }
        self.before = outer;
        json!({ "do": steps })
    }

    /// Makes steps that do not run one after the other.
    fn unordered(&mut self, shapes: &[Shape]) -> Vec<Value> {
        shapes
            .iter()
            .map(|shape| {
                self.before = None;
                self.step(shape)
            })
            .collect()
    }

    fn step(&mut self, shape: &Shape) -> Value {
        let id = self.id();
        match shape {
            // Variables are not read where blocks run at once: their order is not determined.
            Shape::Echo(n) => echo(&id, json!({ "n": n, "text": format!("{n} of {{{{input.n}}}}") })),
            Shape::Read => match self.before.take() {
                Some(before) => echo(&id, json!({ "before": format!("{{{{steps.{before}}}}}") })),
                None => echo(&id, json!("{{input}}")),
            },
            Shape::Compute(n) => {
                let (list, odd) =
                    (format!("{{{{[input.n, {n}].map(x, x * 2)}}}}"), format!("{{{{input.n % 2 == {n} % 2}}}}"));
                echo(&id, json!({ "list": list, "odd": odd }))
            }
            Shape::Broken => echo(&id, json!("{{input.none}}")),
            Shape::Fail(n) => tool(&id, "fail", json!({ "message": format!("{n} fails") })),
            Shape::Stop(n) => {
                step(&id, json!({ "fail": { "class": "failed", "message": format!("{n} stops {{{{input.n}}}}") } }))
            }
            // A death of the worker makes the tool forget one failure, so two attempts may fail.
            Shape::Flaky(always) => with(
                tool(&id, "flaky", json!({ "times": if *always { 200 } else { 1 } })),
                json!({ "retry": { "attempts": 4, "backoff": { "constant": { "delay": 1_000 } } }, "output": "done" }),
            ),
            Shape::Set(n) => step(&id, json!({ "set": { id.clone(): format!("{{{{input.n + {n}}}}}") } })),
            Shape::Ask(n) => {
                step(&id, json!({ "recipe": { "prompt": format!("{n} or {{{{input.n}}}}?"), "output": {} } }))
            }
            Shape::Jq => step(&id, json!({ "jq": ".input.n" })),
            Shape::Nap => step(&id, nap(60_000)),
            Shape::Emit => step(&id, json!({ "emit": { "event": format!("of {id}"), "key": "k", "data": 1 } })),
            Shape::Meet => self.meet(&id),
            Shape::Unanswered => with(step(&id, event(&format!("never {id}"))), json!({ "timeout": 1_000 })),
            Shape::Late => {
                let late = json!({ "do": [step(&self.id(), nap(HALF_A_DAY))] });
                with(step(&id, taken(&late)), json!({ "timeout": 1_000 }))
            }
            Shape::If(n, then, otherwise) => {
                let (then, otherwise) = (self.block(then), self.block(otherwise));
                let condition = format!("input.n < {n}");
                step(&id, json!({ "if": { "condition": condition, "then": then, "otherwise": otherwise } }))
            }
            Shape::Switch(case, default) => {
                let (case, default) = (self.block(case), self.block(default));
                step(&id, json!({ "switch": { "value": "{{input.n}}", "cases": { "100": case }, "default": default } }))
            }
            Shape::For(items, on, body) => {
                let on_item_error = ["fail", "collect", "ignore"][usize::from(on % 3)];
                let list: Vec<u8> = (0..*items).collect();
                // Where a failure ends the loop, it must be clear which item is first.
                let concurrency = if on_item_error == "fail" { 1 } else { 1 + usize::from(on % 4) };
                let until = json!({ "for": list });
                let further = json!({ "concurrency": concurrency, "on_item_error": on_item_error });
                step(&id, json!({ "loop": with(self.repetition(&until, 9, body), further) }))
            }
            Shape::While(turns, body) => {
                let until = json!({ "while": format!("index < {turns}") });
                step(&id, json!({ "loop": with(self.repetition(&until, 3, body), json!({ "every": 1_000 })) }))
            }
            Shape::Until(turns, body) => {
                let until = json!({ "until": format!("index + 1 >= {turns}") });
                step(&id, json!({ "loop": self.repetition(&until, 3, body) }))
            }
            Shape::Parallel(mode, branches) => {
                // Where an end of a branch ends all, it must be clear which one is first.
                let (mode, concurrency) =
                    [("all", Some(1)), ("settle", None), ("first", Some(1))][usize::from(mode % 3)];
                let branches: Vec<Value> =
                    branches.iter().enumerate().map(|(n, block)| json!([format!("b{n}"), self.block(block)])).collect();
                step(&id, json!({ "parallel": { "branches": branches, "mode": mode, "concurrency": concurrency } }))
            }
            Shape::Race(block) => {
                let slow = json!({ "do": [step(&self.id(), nap(HALF_A_DAY))] });
                let branches = json!([["fast", self.block(block)], ["slow", slow]]);
                step(&id, json!({ "parallel": { "branches": branches, "mode": "race" } }))
            }
            Shape::Dag(shapes) => {
                // A chain with every second step beside it, so that order and needs both matter.
                let mut needed = Vec::new();
                let steps: Vec<Value> = self
                    .unordered(shapes)
                    .into_iter()
                    .enumerate()
                    .map(|(number, step)| {
                        let step = with(step, json!({ "needs": needed }));
                        if number % 2 == 0 {
                            needed = vec![step["id"].clone()];
                        }
                        step
                    })
                    .collect();
                step(&id, taken(&json!({ "dag": { "steps": steps, "concurrency": 1 } })))
            }
            Shape::Graph(n, shapes) => {
                let steps = self.unordered(shapes);
                let (second, last) =
                    (steps.get(1).unwrap_or(&steps[0])["id"].clone(), steps[steps.len() - 1]["id"].clone());
                let mut steps = chain(steps, &json!("done"));
                if steps.len() > 1 {
                    let cases = json!([[format!("input.n < {n}"), last]]);
                    steps[0]["next"] = json!({ "branch": { "cases": cases, "otherwise": second } });
                }
                step(&id, graph(&steps))
            }
            Shape::Fork(branches, join) => {
                let (mut steps, mut heads) = (vec![Value::Null], Vec::new());
                for branch in branches {
                    // Of two branches that fail, either may be the first.
                    let ignored = |step: Value| with(step, json!({ "on_error": "ignore" }));
                    let branch: Vec<Value> = self.unordered(branch).into_iter().map(ignored).collect();
                    heads.push(branch[0]["id"].clone());
                    steps.extend(chain(branch, &json!("join")));
                }
                self.before = None;
                let join = self.step(join);
                let next = json!({ "parallel": { "branches": heads, "join": join["id"] } });
                steps[0] = with(step(&self.id(), json!("nothing")), json!({ "next": next }));
                steps.push(with(join, json!({ "next": "done" })));
                step(&id, graph(&steps))
            }
            Shape::Cycle(shape) => {
                let (count, end) = (self.id(), self.id());
                self.before = None;
                let inner = self.step(shape);
                let number = format!("{{{{has(steps.{count}) ? steps.{count} + 1 : 0}}}}");
                let next = json!({ "branch": { "cases": [["result < 2", inner["id"]]], "otherwise": end } });
                let steps = [
                    with(echo(&count, json!(number)), json!({ "next": next })),
                    with(inner, json!({ "next": { "goto": count } })),
                    with(echo(&end, json!(format!("{{{{steps.{count}}}}}"))), json!({ "next": "done" })),
                ];
                step(&id, graph(&steps))
            }
            Shape::Child(shapes) => {
                let name = format!("child-{id}");
                let body = self.block(shapes);
                self.children.push(flow_with(body, json!({ "name": name })));
                step(&id, json!({ "flow": { "name": name, "args": { "n": "{{input.n}}" } } }))
            }
            Shape::When(n, shape) => with(self.step(shape), json!({ "when": format!("input.n > {n}") })),
            Shape::Ignored(shape) => with(self.step(shape), json!({ "on_error": "ignore" })),
            Shape::Replaced(shape) => {
                let instead = echo(&id, json!("{{error.step}}: {{error.message}}"));
                with(self.step(shape), json!({ "on_error": { "do": { "do": [instead] } } }))
            }
            Shape::Again(shape) => {
                let step = self.step(shape);
                let retry = json!({ "attempts": 2, "backoff": { "constant": { "delay": 1_000 } } });
                if step["retry"].is_null() { with(step, json!({ "retry": retry })) } else { step }
            }
            Shape::Undone(shape) => {
                let step = self.step(shape);
                let args = json!({ "id": step["id"], "value": "{{result}}" });
                with(step, json!({ "undo": { "tool": "undone", "args": args } }))
            }
        }
    }

    fn repetition(&mut self, until: &Value, max: u8, body: &[Shape]) -> Value {
        json!({ "until": until, "max": max, "concurrency": 1, "body": self.block(body) })
    }

    /// Makes two branches, of which one waits for the event of the other one. Loops send it several
    /// times at once, so nothing tells how many it has reached.
    fn meet(&mut self, id: &str) -> Value {
        let name = format!("of {id}");
        let emit = json!({ "emit": { "event": name, "key": "k", "data": "{{input.n}}" } });
        let waits = json!({ "do": [step(&self.id(), event(&name))] });
        let sends = json!({ "do": [
            step(&self.id(), nap(60_000)), with(step(&self.id(), emit), json!({ "output": "sent" })),
        ] });
        step(id, json!({ "parallel": { "branches": [["waits", waits], ["sends", sends]] } }))
    }
}

fn nap(millis: u64) -> Value {
    json!({ "wait": { "for": millis } })
}

fn event(name: &str) -> Value {
    json!({ "wait": { "event": { "name": name, "key": "k", "matches": null } } })
}

/// A kind that runs this block.
fn taken(block: &Value) -> Value {
    json!({ "if": { "condition": "true", "then": block } })
}

fn graph(steps: &[Value]) -> Value {
    taken(&json!({ "graph": { "start": steps[0]["id"], "steps": steps } }))
}

/// Lets each step lead to the next one, and the last one to the end.
fn chain(mut steps: Vec<Value>, end: &Value) -> Vec<Value> {
    for number in 0..steps.len() {
        let next = steps.get(number + 1).map_or_else(|| end.clone(), |step| json!({ "goto": step["id"] }));
        steps[number]["next"] = next;
    }
    steps
}
