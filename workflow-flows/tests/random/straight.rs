//! A straight interpreter of flows: a plain recursive function without a database, in which one
//! thing happens after the other.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

use serde_json::{Map, Value, json};
use workflow_flows::expression::Scope;
use workflow_flows::graph::{
    Block, Flow, Kind, Loop, MissingPath, Next, OnError, OnItemError, Parallel, ParallelMode, Step, ToolUse, Until,
    Wait,
};

use crate::common::InPlace;

/// A failure, as expressions see it.
pub(crate) type Failed = Value;

/// The state of one run.
#[derive(Clone)]
pub(crate) struct World {
    evaluator: InPlace,
    children: Rc<BTreeMap<String, Flow>>,
    input: Value,
    steps: BTreeMap<String, Value>,
    vars: Map<String, Value>,
    item: Option<(Value, usize)>,
    error: Option<Value>,
    /// The arguments of the undos that a failure of the run would call.
    armed: Vec<Value>,
    /// The arguments of the undos that failed children have called.
    undone: Vec<Value>,
    /// The number of steps that ran, those of children counted.
    ran: Rc<Cell<u32>>,
}

fn failed(step: &str, code: &str, class: &str, message: &str) -> Failed {
    json!({ "code": code, "class": class, "message": message, "step": step })
}

impl World {
    pub(crate) fn new(evaluator: &InPlace, children: &[Flow], input: Value) -> Self {
        let children = children.iter().map(|child| (child.name.clone(), child.clone())).collect();
        Self {
            evaluator: evaluator.clone(),
            children: Rc::new(children),
            input,
            steps: BTreeMap::new(),
            vars: Map::new(),
            item: None,
            error: None,
            armed: Vec::new(),
            undone: Vec::new(),
            ran: Rc::default(),
        }
    }

    /// Returns the number of steps that ran, which rises during the run.
    pub(crate) fn counter(&self) -> Rc<Cell<u32>> {
        Rc::clone(&self.ran)
    }

    /// Runs a flow. Returns its end, and the arguments of the undos that were called.
    pub(crate) fn run(mut self, body: &Block) -> (Result<Value, Failed>, Vec<Value>) {
        let ended = self.block(body);
        if ended.is_err() {
            self.undone.append(&mut self.armed);
        }
        (ended, self.undone)
    }

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

    fn render(&self, id: &str, what: &str, template: &Value, scope: &Scope) -> Result<Value, Failed> {
        let rendered = self.evaluator.render_now(template, scope, MissingPath::Error);
        rendered.map_err(|error| failed(id, "F240", "invalid", &format!("{what}: {error}")))
    }

    /// Renders a template that gives text.
    fn text(&self, id: &str, what: &str, template: &str) -> Result<String, Failed> {
        let rendered = self.render(id, what, &template.into(), &self.scope())?;
        Ok(rendered.as_str().map_or_else(|| rendered.to_string(), ToOwned::to_owned))
    }

    fn holds(&self, id: &str, what: &str, source: &str, scope: &Scope) -> Result<bool, Failed> {
        let value = self.evaluator.value_now(source, scope, MissingPath::Error);
        let value = value.map_err(|error| failed(id, "F240", "invalid", &format!("{what}: {error}")))?;
        Ok(value.as_bool().expect("each condition of the generator gives a boolean"))
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
            Block::Graph { start, steps } => self.walk(steps, start),
        }
    }

    /// Goes from this step to the end of the graph or of a branch.
    fn walk(&mut self, steps: &[Step], from: &str) -> Result<Value, Failed> {
        let mut current = from.to_owned();
        loop {
            let step = steps.iter().find(|step| step.id == current).unwrap();
            let result = self.step(step)?;
            current = match &step.next {
                Some(Next::Goto(id)) => id.clone(),
                Some(Next::Branch { cases, otherwise }) => {
                    let scope = self.scope().with("result", result);
                    let mut taken = otherwise.clone().unwrap();
                    for (condition, id) in cases {
                        if self.holds(&step.id, "branch", condition, &scope)? {
                            taken.clone_from(id);
                            break;
                        }
                    }
                    taken
                }
                Some(Next::Parallel { branches, join }) => {
                    for branch in branches {
                        self.walk(steps, branch)?;
                    }
                    join.clone().unwrap()
                }
                None | Some(Next::Join | Next::Done) => return Ok(result),
            };
        }
    }

    fn step(&mut self, step: &Step) -> Result<Value, Failed> {
        self.ran.set(self.ran.get() + 1);
        if let Some(when) = &step.when
            && !self.holds(&step.id, "when", when, &self.scope())?
        {
            self.steps.insert(step.id.clone(), Value::Null);
            return Ok(Value::Null);
        }
        let result = match (self.attempts(step), &step.on_error) {
            (Ok(result), _) => {
                self.steps.insert(step.id.clone(), result.clone());
                if let Some(undo) = &step.undo {
                    let scope = self.scope().with("result", result.clone());
                    self.armed.push(self.render(&step.id, "args", &undo.args, &scope)?);
                }
                return Ok(result);
            }
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

    /// Runs a step as often as it may be tried, and makes its output.
    fn attempts(&mut self, step: &Step) -> Result<Value, Failed> {
        let most = step.retry.as_ref().map_or(1, |rule| rule.attempts);
        let mut attempt = 1;
        let result = loop {
            match self.kind(step, attempt) {
                Err(error) if attempt < most && error["class"] != "invalid" => attempt += 1,
                ended => break ended?,
            }
        };
        match &step.output {
            None => Ok(result),
            Some(template) => self.render(&step.id, "output", template, &self.scope().with("result", result)),
        }
    }

    fn kind(&mut self, step: &Step, attempt: u32) -> Result<Value, Failed> {
        let id = step.id.as_str();
        match &step.kind {
            Kind::Tool(call) => self.tool(id, call, attempt),
            Kind::Recipe(recipe) => {
                let prompt = self.text(id, "prompt", recipe.prompt.as_deref().unwrap_or_default())?;
                Ok(json!({ "asked": prompt }))
            }
            Kind::If { condition, then, otherwise } => match self.holds(id, "if", condition, &self.scope())? {
                // The generator limits the time of one block, which waits for longer.
                true if step.timeout.is_some() => {
                    Err(failed(id, "F250", "timeout", &format!("it had not ended after {:?}", step.timeout.unwrap())))
                }
                true => self.block(then),
                false => otherwise.as_ref().map_or(Ok(Value::Null), |block| self.block(block)),
            },
            Kind::Switch(switch) => {
                let value = self.render(id, "switch", &switch.value, &self.scope())?;
                let text = value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned);
                self.block(switch.cases.get(&text).or(switch.default.as_ref()).unwrap())
            }
            Kind::Set(values) => {
                let scope = self.scope();
                let rendered: Result<Map<String, Value>, Failed> = values
                    .iter()
                    .map(|(name, value)| Ok((name.clone(), self.render(id, "set", value, &scope)?)))
                    .collect();
                let rendered = rendered?;
                self.vars.extend(rendered.clone());
                Ok(Value::Object(rendered))
            }
            Kind::Loop(repetition) => self.repeat(id, repetition),
            Kind::Parallel(parallel) => self.parallel(parallel),
            Kind::Emit(_) => Ok(json!({ "reached": 0 })),
            // Each event that comes carries the number of the input.
            Kind::Wait(Wait::Event { .. }) => match step.timeout {
                None => Ok(self.input["n"].clone()),
                Some(timeout) => Err(failed(id, "F230", "timeout", &format!("no answer came within {timeout:?}"))),
            },
            Kind::Flow(call) => {
                let input = self.render(id, "args", &call.args, &self.scope())?;
                let child = Self {
                    input,
                    steps: BTreeMap::new(),
                    vars: Map::new(),
                    item: None,
                    error: None,
                    armed: Vec::new(),
                    undone: Vec::new(),
                    ..self.clone()
                };
                let (ended, undone) = child.run(&self.children[&call.name].body);
                self.undone.extend(undone);
                ended
            }
            // The generator has one program.
            Kind::Jq(_) => Ok(self.input["n"].clone()),
            Kind::Fail(failure) => {
                let class = serde_json::to_value(failure.class).unwrap();
                Err(json!({
                    "code": "F251", "class": class, "message": self.text(id, "message", &failure.message)?, "step": id,
                }))
            }
            _ => Ok(Value::Null),
        }
    }

    fn tool(&self, id: &str, call: &ToolUse, attempt: u32) -> Result<Value, Failed> {
        let args = self.render(id, "args", &call.args, &self.scope())?;
        match call.tool.as_str() {
            "fail" => Err(failed(id, "F250", "failed", args["message"].as_str().unwrap())),
            "flaky" if u64::from(attempt) <= args["times"].as_u64().unwrap() => {
                Err(failed(id, "F250", "unavailable", "not yet"))
            }
            _ => Ok(args),
        }
    }

    fn parallel(&mut self, parallel: &Parallel) -> Result<Value, Failed> {
        let (mut results, mut failure) = (Map::new(), None);
        for (name, block) in &parallel.branches {
            match (parallel.mode, self.block(block)) {
                (ParallelMode::All, result) => drop(results.insert(name.clone(), result?)),
                (ParallelMode::Settle, Ok(value)) => drop(results.insert(name.clone(), json!({ "ok": value }))),
                (ParallelMode::Settle, Err(error)) => drop(results.insert(name.clone(), json!({ "error": error }))),
                // The generator writes the branch that ends first before the other one.
                (ParallelMode::Race, result) => return Ok(json!({ "winner": name, "result": result? })),
                (ParallelMode::First, Ok(value)) => return Ok(json!({ "winner": name, "result": value })),
                (ParallelMode::First, Err(error)) => failure = failure.or(Some(error)),
            }
        }
        failure.map_or(Ok(Value::Object(results)), Err)
    }

    fn repeat(&mut self, id: &str, repetition: &Loop) -> Result<Value, Failed> {
        match &repetition.until {
            Until::For(template) => {
                let items = self.render(id, "for", template, &self.scope())?;
                self.items(repetition, items.as_array().unwrap())
            }
            Until::Jq(_) => unreachable!("the generator has no such loop"),
            Until::While(condition) | Until::Until(condition) => {
                let is_while = matches!(repetition.until, Until::While(_));
                let (mut turn, mut last) = (0_u32, Value::Null);
                loop {
                    let asked = self.scope().with("result", last.clone()).with("index", json!(turn));
                    if is_while && !self.holds(id, "while", condition, &asked)? {
                        return Ok(last);
                    }
                    if turn >= repetition.max {
                        let message = format!(
                            "it took {} turns, which is the loop's max; end it earlier, or allow more",
                            repetition.max
                        );
                        return Err(failed(id, "F222", "invalid", &message));
                    }
                    let outer = self.item.replace((Value::Null, turn as usize));
                    let result = self.block(&repetition.body);
                    self.item = outer;
                    last = result?;
                    let asked = self.scope().with("result", last.clone()).with("index", json!(turn));
                    if !is_while && self.holds(id, "until", condition, &asked)? {
                        return Ok(last);
                    }
                    turn += 1;
                }
            }
        }
    }

    fn items(&mut self, repetition: &Loop, items: &[Value]) -> Result<Value, Failed> {
        let mut results = Vec::new();
        for (index, item) in items.iter().enumerate() {
            let (armed, undone) = (std::mem::take(&mut self.armed), std::mem::take(&mut self.undone));
            // The results of an item end with it.
            let mut inner = Self { item: Some((item.clone(), index)), armed, undone, ..self.clone() };
            let result = inner.block(&repetition.body);
            (self.armed, self.undone) = (inner.armed, inner.undone);
            results.push(match (result, repetition.on_item_error) {
                (Ok(result), _) => json!({ "index": index, "item": item, "result": result }),
                (Err(error), OnItemError::Fail) => return Err(error),
                (Err(error), OnItemError::Collect) => {
                    json!({ "index": index, "item": item, "result": null, "error": error })
                }
                (Err(_), OnItemError::Ignore) => json!({ "index": index, "item": item, "result": null }),
            });
        }
        Ok(Value::Array(results))
    }
}
