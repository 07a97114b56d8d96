//! The values that the steps of a flow see: the results before them, the variables, the items of
//! loops.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Map, Value, json};
use workflow_sdk::Ctx;

use super::mentions::Mentions;
use super::siblings::Siblings;
use super::start::{Attempt, FlowStart, Position, Resume, Turn};
use super::visits::Visits;
use crate::FlowRuntime;
use crate::expression::Scope;
use crate::graph::{Flow, Step};

/// The things that all steps of one run share.
pub(super) struct RunState {
    /// Without its input.
    pub(super) start: FlowStart,
    input: Arc<Value>,
    run: Arc<Value>,
    vars: Mutex<Arc<Value>>,
    /// The number of compensations that are armed. A run that has some cannot continue as new.
    armed: Mutex<u32>,
    /// The number of decisions of this generation.
    decisions: AtomicU32,
    /// Whether a decision was refused, because there were too many.
    has_decided_enough: AtomicBool,
    /// Whether the timeout of the flow has paused or canceled the run, in any generation.
    is_timed_out: AtomicBool,
    turn: Mutex<Option<Turn>>,
}

impl RunState {
    pub(super) fn new(ctx: &Ctx<FlowRuntime>, mut start: FlowStart) -> (Self, Option<Box<Resume>>) {
        let resume = start.resume.take();
        let created = jiff::Timestamp::try_from(ctx.created_at()).unwrap_or_default();
        let run = json!({
            "id": ctx.run_id().to_string(), "flow": start.name, "version": start.version, "actor": start.actor,
            "started_at": created.to_string(), "attempt": ctx.attempt(), "generation": ctx.generation(),
        });
        let vars = resume.as_ref().map_or_else(|| json!({}), |resume| resume.vars.clone());
        let state = Self {
            input: Arc::new(start.input.take()),
            run: Arc::new(run),
            vars: Mutex::new(Arc::new(vars)),
            armed: Mutex::new(0),
            decisions: AtomicU32::new(0),
            has_decided_enough: AtomicBool::new(false),
            is_timed_out: AtomicBool::new(resume.as_ref().is_some_and(|resume| resume.is_timed_out)),
            turn: Mutex::new(resume.as_ref().and_then(|resume| resume.turn.clone())),
            start,
        };
        (state, resume)
    }

    pub(super) fn flow(&self) -> &Flow {
        &self.start.definition
    }

    /// Counts a compensation that is armed, and returns its number, from 1.
    pub(super) fn count_armed(&self) -> u32 {
        let mut armed = lock(&self.armed);
        *armed += 1;
        *armed
    }

    /// Counts a decision of this generation, and returns its number, from 1. Call it outside of the
    /// bodies of steps, so that a replay counts as the first run did.
    pub(super) fn count_decision(&self) -> u32 {
        self.decisions.fetch_add(1, Ordering::Relaxed).saturating_add(1)
    }

    /// Notes that a decision was refused, because there were too many.
    pub(super) fn end_decisions(&self) {
        self.has_decided_enough.store(true, Ordering::Relaxed);
    }

    /// Returns whether a decision of this generation was refused, because there were too many.
    pub(super) fn has_decided_enough(&self) -> bool {
        self.has_decided_enough.load(Ordering::Relaxed)
    }

    /// Notes that the timeout of the flow has paused or canceled the run.
    pub(super) fn time_out(&self) {
        self.is_timed_out.store(true, Ordering::Relaxed);
    }

    /// Returns whether the timeout of the flow has paused or canceled the run.
    pub(super) fn is_timed_out(&self) -> bool {
        self.is_timed_out.load(Ordering::Relaxed)
    }

    /// Returns whether this generation has not come to the loop at which it begins.
    pub(super) fn is_resuming(&self) -> bool {
        lock(&self.turn).is_some()
    }

    /// Returns the attempt of the loop at which this generation begins, or the first one.
    pub(super) fn attempt(&self) -> Attempt {
        lock(&self.turn).as_ref().map_or_else(Attempt::default, |turn| turn.attempt)
    }

    /// Takes the state of the loop at which this generation begins.
    pub(super) fn take_turn(&self) -> Option<Turn> {
        lock(&self.turn).take()
    }
}

/// The results of the steps of one block, and of the blocks around it.
#[derive(Default)]
pub(super) struct Results {
    own: Mutex<BTreeMap<String, Arc<Value>>>,
    around: Option<Arc<Results>>,
}

impl Results {
    pub(super) fn resumed(steps: BTreeMap<String, Value>) -> Self {
        let own = steps.into_iter().map(|(id, value)| (id, Arc::new(value))).collect();
        Self { own: Mutex::new(own), around: None }
    }

    fn set(&self, name: &str, value: &Arc<Value>) {
        lock(&self.own).insert(name.to_owned(), Arc::clone(value));
    }

    fn outermost(&self) -> &Self {
        self.around.as_deref().map_or(self, Self::outermost)
    }

    /// Returns the results that these expressions mention, as one object.
    fn select(&self, mentions: &Mentions) -> Map<String, Value> {
        let mut selected = self.around.as_ref().map_or_else(Map::new, |around| around.select(mentions));
        for (id, value) in lock(&self.own).iter().filter(|(id, _)| mentions.step(id)) {
            selected.insert(id.clone(), Value::clone(value));
        }
        selected
    }
}

/// The place of a step: its context, and what it sees.
#[derive(Clone)]
pub(super) struct Frame<'a> {
    pub(super) ctx: &'a Ctx<FlowRuntime>,
    pub(super) run: &'a RunState,
    results: Arc<Results>,
    item: Option<(Arc<Value>, usize)>,
    loops: Arc<Value>,
    error: Option<Arc<Value>>,
    visits: Arc<Visits>,
    /// The state of the blocks that run beside this one.
    pub(super) siblings: Option<Arc<Siblings>>,
    /// The scopes of the context, with a `/` behind each.
    pub(super) path: Arc<str>,
    /// Where the run would go on if it continued as new now. `None` inside of blocks.
    pub(super) position: Option<Position>,
}

impl<'a> Frame<'a> {
    pub(super) fn new(ctx: &'a Ctx<FlowRuntime>, run: &'a RunState, results: Results) -> Self {
        Self {
            ctx,
            run,
            results: Arc::new(results),
            item: None,
            loops: Arc::new(json!({})),
            error: None,
            visits: Arc::default(),
            siblings: None,
            path: "".into(),
            position: None,
        }
    }

    /// Returns the frame of a block in a scope of this context.
    pub(super) fn scoped<'b>(&self, ctx: &'b Ctx<FlowRuntime>, names: &[&str]) -> Frame<'b>
    where
        'a: 'b,
    {
        let path = names.iter().fold(self.path.to_string(), |path, name| format!("{path}{name}/"));
        Frame { ctx, path: path.into(), position: None, ..self.clone() }
    }

    /// Returns the frame of a block of this step.
    pub(super) fn inner(&self) -> Self {
        Self { position: None, ..self.clone() }
    }

    /// Returns the frame of the flow's own block.
    pub(super) fn top(&self) -> Self {
        Self { position: Some(Position::Do(0)), ..self.clone() }
    }

    /// Returns the frame at a step of the flow's own block.
    pub(super) fn at(&self, position: impl FnOnce() -> Position) -> Self {
        Self { position: self.position.as_ref().map(|_| position()), ..self.clone() }
    }

    /// Returns the frame of one item of a loop.
    pub(super) fn with_item(self, loop_id: &str, item: Value, index: usize) -> Self {
        let mut loops = Value::clone(&self.loops);
        loops[loop_id] = json!({ "item": item, "index": index });
        Self { item: Some((Arc::new(item), index)), loops: Arc::new(loops), ..self }
    }

    /// Returns this frame with results of its own, which end with it.
    pub(super) fn with_own_results(self) -> Self {
        let results = Results { own: Mutex::default(), around: Some(self.results) };
        Self { results: Arc::new(results), ..self }
    }

    /// Returns the frame of blocks that run at once.
    pub(super) fn with_siblings(&self) -> Self {
        Self { siblings: Some(Siblings::inside(self.siblings.as_ref())), ..self.clone() }
    }

    /// Returns the frame of a step that may have further attempts.
    pub(super) fn repeated(&self) -> Self {
        Self { visits: Visits::of_block(&self.visits), ..self.clone() }
    }

    /// Begins a further attempt of the step of this frame.
    pub(super) fn begin_attempt(&self) {
        self.visits.begin_attempt();
    }

    /// Returns the idempotency key of the next call of a step: the generation of the run, the path
    /// of the step, and the number of the call if it is not the first one. It is equal in each
    /// attempt of a block. Call it outside of the bodies of steps, so that a replay counts as the
    /// first run did.
    pub(super) fn call_key(&self, step: &str) -> String {
        let path = format!("{}{step}", self.path);
        // Outside of a body it is the key of the generation.
        let run = self.ctx.idempotency_key();
        match self.visits.next(&path) {
            0 => format!("{run}/{path}"),
            number => format!("{run}/{path}:{number}"),
        }
    }

    pub(super) fn with_error(&self, error: Value) -> Self {
        Self { error: Some(Arc::new(error)), ..self.clone() }
    }

    pub(super) fn runtime(&self) -> &'a FlowRuntime {
        self.ctx.state()
    }

    /// Sets the result of a step, under its id and its further names. A name with the loop's index
    /// is seen after the loop, too.
    pub(super) fn set(&self, step: &Step, value: &Arc<Value>) {
        self.results.set(&step.id, value);
        for name in &step.aliases {
            match (&self.item, name.contains("{index}")) {
                (Some((_, index)), true) => {
                    self.results.outermost().set(&name.replace("{index}", &index.to_string()), value);
                }
                _ => self.results.set(name, value),
            }
        }
    }

    pub(super) fn set_vars(&self, values: &Value) {
        let mut vars = lock(&self.run.vars);
        if let (Value::Object(vars), Value::Object(values)) = (Arc::make_mut(&mut vars), values) {
            vars.extend(values.clone());
        }
    }

    /// Returns the values that these expressions see, as they are now.
    pub(super) fn scope(&self, mentions: &Mentions) -> Scope {
        let mut scope = Scope::new()
            .with("input", Arc::clone(&self.run.input))
            .with("steps", Value::Object(self.results.select(mentions)))
            .with("vars", Arc::clone(&lock(&self.run.vars)))
            .with("run", Arc::clone(&self.run.run));
        if let Some((item, index)) = &self.item {
            scope = scope.with("item", Arc::clone(item)).with("index", json!(index));
        }
        if mentions.root("loops") {
            scope = scope.with("loops", Arc::clone(&self.loops));
        }
        match &self.error {
            Some(error) => scope.with("error", Arc::clone(error)),
            None => scope,
        }
    }

    /// Returns the state with which the run continues as new at this step, if it can. It has the
    /// results that an expression of the flow may read.
    pub(super) fn to_resume(&self, turn: Turn) -> Option<FlowStart> {
        let at = self.position.clone().filter(|_| *lock(&self.run.armed) == 0)?;
        let mentions = Mentions::of_flow(self.run.flow());
        let own = lock(&self.results.own);
        let kept = own.iter().filter(|(id, _)| mentions.step(id));
        let steps = kept.map(|(id, value)| (id.clone(), Value::clone(value))).collect();
        let vars = Value::clone(&lock(&self.run.vars));
        let resume = Resume { steps, vars, at, turn: Some(turn), is_timed_out: self.run.is_timed_out() };
        let input = Value::clone(&self.run.input);
        Some(FlowStart { input, resume: Some(Box::new(resume)), ..self.run.start.clone() })
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
