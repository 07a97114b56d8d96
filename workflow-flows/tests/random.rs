//! Random flows against a straight interpreter, which is a plain recursive function: under crashes
//! at every commit and in other orders of the steps, each flow has the same output.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};

use common::{Calls, echo, flow_with, render_mini, runtime, step, tool, value_mini, with};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Map, Value, json};
use workflow_flows::expression::Scope;
use workflow_flows::graph::{
    Block, Flow, Kind, Loop, MissingPath, Next, OnError, OnItemError, ParallelMode, Step, Until,
};
use workflow_flows::{ErrorClass, FlowStart, flow};
use workflow_testing::{TestEnv, TestError};

/// The number of flows in CI. `WORKFLOW_CASES=10000` runs more.
fn cases() -> u32 {
    std::env::var("WORKFLOW_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(60)
}

// -- The straight interpreter -------------------------------------------------------------------

#[derive(Clone, Default)]
struct World {
    input: Value,
    steps: BTreeMap<String, Value>,
    vars: Map<String, Value>,
    item: Option<(Value, usize)>,
    error: Option<Value>,
}

type Failed = Value;

impl World {
    fn scope(&self) -> Scope {
        let mut scope = Scope::new()
            .with("input", self.input.clone())
            .with("steps", serde_json::to_value(&self.steps).unwrap())
            .with("vars", Value::Object(self.vars.clone()));
        if let Some((item, index)) = &self.item {
            scope = scope.with("item", item.clone()).with("index", json!(index));
        }
        match &self.error {
            Some(error) => scope.with("error", error.clone()),
            None => scope,
        }
    }

    fn render(&self, id: &str, template: &Value) -> Result<Value, Failed> {
        render_mini(template, &self.scope(), MissingPath::Error).map_err(|error| expression(id, &error.to_string()))
    }

    fn holds(&self, id: &str, source: &str, result: &Value) -> Result<bool, Failed> {
        let scope = self.scope().with("result", result.clone());
        let value = value_mini(source, &scope).map_err(|error| expression(id, &error.to_string()))?;
        value.as_bool().ok_or_else(|| expression(id, "no boolean"))
    }

    fn block(&mut self, block: &Block) -> Result<Value, Failed> {
        match block {
            Block::Do(steps) => {
                let mut last = Value::Null;
                for step in steps {
                    last = self.step(step)?;
                }
                Ok(last)
            }
            Block::Dag { steps, .. } => {
                let mut results = Map::new();
                // The generator writes needs before those that need them.
                for step in steps {
                    results.insert(step.id.clone(), self.step(step)?);
                }
                results.retain(|id, _| !steps.iter().any(|step| step.needs.contains(id)));
                Ok(Value::Object(results))
            }
            Block::Graph { start, steps } => {
                let mut current = start.clone();
                loop {
                    let step = steps.iter().find(|step| step.id == current).unwrap();
                    let result = self.step(step)?;
                    match step.next.as_ref() {
                        Some(Next::Goto(id)) => current = id.clone(),
                        Some(Next::Branch { cases, otherwise }) => {
                            let mut taken = otherwise.clone().unwrap();
                            for (condition, id) in cases {
                                if self.holds(&step.id, condition, &result)? {
                                    taken = id.clone();
                                    break;
                                }
                            }
                            current = taken;
                        }
                        _ => return Ok(result),
                    }
                }
            }
        }
    }

    fn step(&mut self, step: &Step) -> Result<Value, Failed> {
        if let Some(when) = &step.when
            && !self.holds(&step.id, when, &Value::Null)?
        {
            self.steps.insert(step.id.clone(), Value::Null);
            return Ok(Value::Null);
        }
        let result = match (self.kind(step), &step.on_error) {
            (Ok(result), _) => result,
            (Err(_), OnError::Ignore) => Value::Null,
            (Err(error), OnError::Do(block)) => {
                let outer = self.error.replace(error);
                let result = self.block(block);
                self.error = outer;
                result?
            }
            (Err(error), _) => return Err(error),
        };
        self.steps.insert(step.id.clone(), result.clone());
        Ok(result)
    }

    fn kind(&mut self, step: &Step) -> Result<Value, Failed> {
        match &step.kind {
            Kind::Tool(call) if call.tool == "fail" => {
                let args = self.render(&step.id, &call.args)?;
                Err(json!({ "code": "F250", "class": "failed", "message": args["message"], "step": step.id }))
            }
            Kind::Tool(call) => self.render(&step.id, &call.args),
            Kind::If { condition, then, otherwise } => {
                match (self.holds(&step.id, condition, &Value::Null)?, otherwise) {
                    (true, _) => self.block(then),
                    (false, Some(block)) => self.block(block),
                    (false, None) => Ok(Value::Null),
                }
            }
            Kind::Switch(switch) => {
                let value = self.render(&step.id, &switch.value)?;
                let text = value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned);
                let block = switch.cases.get(&text).or(switch.default.as_ref()).unwrap();
                self.block(block)
            }
            Kind::Set(values) => {
                let mut rendered = Map::new();
                for (name, value) in values {
                    rendered.insert(name.clone(), self.render(&step.id, value)?);
                }
                self.vars.extend(rendered.clone());
                Ok(Value::Object(rendered))
            }
            Kind::Loop(repetition) => self.repeat(step, repetition),
            Kind::Parallel(parallel) => {
                let mut results = Map::new();
                let mut failed = None;
                for (name, block) in &parallel.branches {
                    let result = self.block(block);
                    match (parallel.mode, result) {
                        (ParallelMode::Settle, Ok(value)) => drop(results.insert(name.clone(), json!({ "ok": value }))),
                        (ParallelMode::Settle, Err(error)) => {
                            results.insert(name.clone(), json!({ "error": error }));
                        }
                        (_, Ok(value)) => drop(results.insert(name.clone(), value)),
                        (_, Err(error)) => failed = failed.or(Some(error)),
                    }
                }
                failed.map_or(Ok(Value::Object(results)), Err)
            }
            _ => Ok(Value::Null),
        }
    }

    fn repeat(&mut self, step: &Step, repetition: &Loop) -> Result<Value, Failed> {
        let outer = self.item.clone();
        let result = match &repetition.until {
            Until::For(template) => {
                let items = self.render(&step.id, template)?;
                let (mut results, mut failed) = (Vec::new(), None);
                for (index, item) in items.as_array().unwrap().iter().enumerate() {
                    let mut inner = Self { item: Some((item.clone(), index)), ..self.clone() };
                    match inner.block(&repetition.body) {
                        Ok(result) => results.push(json!({ "index": index, "item": item, "result": result })),
                        Err(error) => {
                            let mut row = json!({ "index": index, "item": item, "result": null });
                            if repetition.on_item_error == OnItemError::Collect {
                                row["error"] = error.clone();
                            }
                            results.push(row);
                            failed = failed.or(Some(error));
                        }
                    }
                }
                match failed.filter(|_| repetition.on_item_error == OnItemError::Fail) {
                    Some(error) => Err(error),
                    None => Ok(Value::Array(results)),
                }
            }
            Until::Until(condition) => {
                let mut turn = 0;
                loop {
                    self.item = Some((Value::Null, turn));
                    let result = self.block(&repetition.body);
                    self.item.clone_from(&outer);
                    let result = result?;
                    turn += 1;
                    if self.holds(&step.id, condition, &result)? || turn >= repetition.max as usize {
                        break Ok(result);
                    }
                }
            }
            _ => Ok(Value::Null),
        };
        self.item = outer;
        result
    }
}

fn expression(step: &str, message: &str) -> Failed {
    json!({ "code": "F240", "class": ErrorClass::Invalid, "message": message, "step": step })
}

// -- The generator ------------------------------------------------------------------------------

/// A shape without ids, which are numbered afterwards, so that each is unique.
#[derive(Debug, Clone)]
enum Shape {
    Echo(u8),
    Fail(u8),
    Set(u8),
    If(u8, Vec<Shape>, Vec<Shape>),
    Switch(Vec<Shape>, Vec<Shape>),
    For(u8, u8, Vec<Shape>),
    Until(u8, Vec<Shape>),
    Parallel(bool, Vec<Vec<Shape>>),
    Dag(Vec<Shape>),
    Graph(u8, Vec<Shape>),
    When(u8, Box<Shape>),
    Ignored(Box<Shape>),
    Replaced(Box<Shape>),
}

fn shapes() -> impl Strategy<Value = Vec<Shape>> {
    let leaf = prop_oneof![
        6 => any::<u8>().prop_map(Shape::Echo), 1 => any::<u8>().prop_map(Shape::Fail),
            2 => any::<u8>().prop_map(Shape::Set),
    ];
    let shape = leaf.prop_recursive(3, 24, 4, |inner| {
        let block = proptest::collection::vec(inner.clone(), 1..4);
        prop_oneof![
            (any::<u8>(), block.clone(), block.clone()).prop_map(|(n, a, b)| Shape::If(n, a, b)),
            (block.clone(), block.clone()).prop_map(|(a, b)| Shape::Switch(a, b)),
            (0_u8..4, any::<u8>(), block.clone()).prop_map(|(items, on, body)| Shape::For(items, on, body)),
            (1_u8..4, block.clone()).prop_map(|(turns, body)| Shape::Until(turns, body)),
            (any::<bool>(), proptest::collection::vec(block.clone(), 1..4)).prop_map(|(s, b)| Shape::Parallel(s, b)),
            block.clone().prop_map(Shape::Dag),
            (any::<u8>(), block).prop_map(|(n, steps)| Shape::Graph(n, steps)),
            (any::<u8>(), inner.clone()).prop_map(|(n, shape)| Shape::When(n, Box::new(shape))),
            inner.clone().prop_map(|shape| Shape::Ignored(Box::new(shape))),
            inner.prop_map(|shape| Shape::Replaced(Box::new(shape))),
        ]
    });
    proptest::collection::vec(shape, 1..5)
}

/// Numbers the steps, and lets each read the value of a step that has certainly run before it.
struct Numbered {
    next: u32,
}

impl Numbered {
    fn id(&mut self) -> String {
        self.next += 1;
        format!("s{}", self.next)
    }

    fn block(&mut self, shapes: &[Shape]) -> Value {
        json!({ "do": shapes.iter().map(|shape| self.step(shape)).collect::<Vec<_>>() })
    }

    fn step(&mut self, shape: &Shape) -> Value {
        let id = self.id();
        match shape {
            // Variables are not read where blocks run at once: their order is not determined.
            Shape::Echo(n) => echo(&id, json!({ "n": n, "text": format!("{n} of {{{{input.n}}}}") })),
            Shape::Fail(n) => tool(&id, "fail", json!({ "message": format!("{n} fails") })),
            Shape::Set(n) => step(&id, json!({ "set": { id.clone(): format!("{{{{input.n + {n}}}}}") } })),
            Shape::If(n, then, otherwise) => step(
                &id,
                json!({ "if": {
                "condition": format!("input.n < {n}"), "then": self.block(then), "otherwise": self.block(otherwise),
            } }),
            ),
            Shape::Switch(case, default) => step(
                &id,
                json!({ "switch": {
                "value": "{{input.n}}", "cases": { "100": self.block(case) }, "default": self.block(default),
            } }),
            ),
            Shape::For(items, on, body) => {
                let on_item_error = ["fail", "collect", "ignore"][usize::from(on % 3)];
                let list: Vec<u8> = (0..*items).collect();
                // Where a failure ends the loop, it must be clear which item is first.
                let concurrency = if on_item_error == "fail" { 1 } else { 1 + usize::from(on % 4) };
                step(
                    &id,
                    json!({ "loop": {
                    "until": { "for": list }, "max": 9, "concurrency": concurrency, "on_item_error": on_item_error,
                    "body": self.block(body),
                } }),
                )
            }
            Shape::Until(turns, body) => step(
                &id,
                json!({ "loop": {
                "until": { "until": "input.n == 1000" }, "max": turns, "concurrency": 1, "at_max": "stop",
                    "body": self.block(body),
            } }),
            ),
            Shape::Parallel(settles, branches) => {
                let branches: Vec<Value> =
                    branches.iter().enumerate().map(|(n, block)| json!([format!("b{n}"), self.block(block)])).collect();
                let concurrency = if *settles { json!(null) } else { json!(1) };
                let mode = if *settles { "settle" } else { "all" };
                step(&id, json!({ "parallel": { "branches": branches, "mode": mode, "concurrency": concurrency } }))
            }
            Shape::Dag(shapes) => {
                // A chain with every second step beside it, so that order and needs both matter.
                let steps: Vec<Value> = shapes.iter().map(|shape| self.step(shape)).collect();
                let mut needed = Vec::new();
                let steps: Vec<Value> = steps
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
                step(
                    &id,
                    json!({ "if": { "condition": "true", "then": { "dag": { "steps": steps, "concurrency": 1 } } } }),
                )
            }
            Shape::Graph(n, shapes) => {
                let steps: Vec<Value> = shapes.iter().map(|shape| self.step(shape)).collect();
                let ids: Vec<Value> = steps.iter().map(|step| step["id"].clone()).collect();
                let last = ids.len() - 1;
                let steps: Vec<Value> = steps
                    .into_iter()
                    .enumerate()
                    .map(|(number, step)| {
                        let next = match number {
                            number if number == last => json!("done"),
                            0 => json!({ "branch": {
                                "cases": [[format!("input.n < {n}"), ids[last]]], "otherwise": ids[1],
                            } }),
                            number => json!({ "goto": ids[number + 1] }),
                        };
                        with(step, json!({ "next": next }))
                    })
                    .collect();
                let graph = json!({ "graph": { "start": ids[0], "steps": steps } });
                step(&id, json!({ "if": { "condition": "true", "then": graph } }))
            }
            Shape::When(n, shape) => with(self.step(shape), json!({ "when": format!("input.n > {n}") })),
            Shape::Ignored(shape) => with(self.step(shape), json!({ "on_error": "ignore" })),
            Shape::Replaced(shape) => {
                let instead = echo(&id, json!("{{error.step}}: {{error.message}}"));
                with(self.step(shape), json!({ "on_error": { "do": { "do": [instead] } } }))
            }
        }
    }
}

fn lower(shapes: &[Shape]) -> Flow {
    flow_with(Numbered { next: 0 }.block(shapes), json!({}))
}

// -- The comparison -----------------------------------------------------------------------------

/// The end of a run: its output, or the step and the message of its failure.
fn outcome(ended: Result<Value, TestError>) -> Result<Value, Value> {
    ended.map_err(|error| match error {
        TestError::Client(workflow_sdk::ClientError::RunFailed { error, .. }) => {
            error.downcast::<workflow_flows::FlowError>().unwrap().to_value()
        }
        other => panic!("{other}"),
    })
}

async fn agrees(definition: Flow, n: u8, crash: bool) {
    let input = json!({ "n": n });
    let mut world = World { input: input.clone(), ..World::default() };
    let expected = world.block(&definition.body);
    let env = TestEnv::with_state(|| runtime(&Calls::default()).build()).register(flow).await.unwrap();
    let start = FlowStart::new(definition).input(input);
    let run = env.start(flow, start.clone()).await.unwrap();
    assert_eq!(outcome(run.finish().await), expected);
    if crash {
        env.crash_everywhere(flow, start.clone()).await.unwrap();
        env.interleave(flow, start, [1, 2]).await.unwrap();
    }
}

#[test]
fn random_flows_agree_with_a_straight_interpreter() {
    let mut runner = TestRunner::new(Config { cases: cases(), max_shrink_iters: 200, ..Config::default() });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let number = AtomicU32::new(0);
    let ran = runner.run(&(shapes(), any::<u8>()), |(shapes, n)| {
        let number = number.fetch_add(1, Ordering::Relaxed);
        // Every tenth flow is killed at each of its commits too.
        runtime.block_on(agrees(lower(&shapes), n, number.is_multiple_of(10)));
        Ok(())
    });
    ran.unwrap();
}
