//! The outline: where the steps and expressions of a flow stand, for the checks.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use super::reference::Read;
use crate::document::Span;
use crate::expression::ResultKind;

/// The order of the steps of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Do,
    Dag,
    Graph,
}

/// The part of a step in which a block stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Part {
    /// One of several that exclude each other: `then`, `else`, a case.
    Choice(String),
    /// A branch that runs beside others.
    Branch(String),
    /// The body of a loop.
    Body,
    /// Instead of the step's own result: after an error, a timeout or a refusal.
    Instead(&'static str),
}

/// The part of the document in which a block at the top stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Section {
    Body,
    OnError,
    OnComplete,
}

#[derive(Debug, Clone)]
pub(crate) struct BlockOutline {
    pub(crate) shape: Shape,
    pub(crate) section: Section,
    pub(crate) parent: Option<(usize, Part)>,
    pub(crate) steps: Vec<usize>,
    /// The step with which a graph begins.
    pub(crate) start: Option<usize>,
}

/// A step that another one names.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Named {
    pub(crate) id: String,
    pub(crate) span: Span,
}

/// The steps to which a step of a graph leads.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Transition {
    /// `next`, `branch` and `else`: to one of these.
    Goto(Vec<Named>),
    /// To all of these.
    Parallel(Vec<Named>),
    Join(Named),
    Done,
}

#[derive(Debug, Clone)]
pub(crate) struct StepOutline {
    pub(crate) id: String,
    /// The place of the id, or of the step if it has none.
    pub(crate) id_span: Span,
    pub(crate) span: Span,
    pub(crate) block: usize,
    /// The key of the kind. Empty if the step has no usable kind.
    pub(crate) kind: &'static str,
    pub(crate) has_when: bool,
    /// Whether the step repeats its body until a condition, so that an earlier turn may have run.
    pub(crate) is_turning: bool,
    pub(crate) needs: Vec<Named>,
    pub(crate) transition: Option<Transition>,
    pub(crate) goto: Option<Named>,
    pub(crate) max_visits: Option<u32>,
    /// The members of the result, if the step's `output` is a map of them.
    pub(crate) output: Option<Vec<String>>,
    pub(crate) aliases: Vec<String>,
}

impl StepOutline {
    /// The steps that may come next in its graph, a join included.
    pub(crate) fn targets(&self) -> impl Iterator<Item = &Named> {
        let named: &[Named] = match &self.transition {
            Some(Transition::Goto(to) | Transition::Parallel(to)) => to,
            Some(Transition::Join(to)) => std::slice::from_ref(to),
            Some(Transition::Done) | None => &[],
        };
        named.iter().chain(&self.goto)
    }
}

/// In which key an expression stands. It decides what the expression may read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Arguments of a tool: the only place for secrets.
    ToolArgs,
    /// Arguments of an undo: as [`Role::ToolArgs`], and sees what the step became, after its
    /// `output`.
    Undo,
    /// A condition before the step.
    When,
    /// Sees the step's result: `output`, `branch`, `until`.
    After,
    /// As [`Role::After`], and is a condition.
    AfterCondition,
    /// Sees an event.
    Match,
    /// A condition before a turn of a loop.
    While,
    /// Any other template of a step.
    Plain,
    /// The output of the flow.
    FlowOutput,
    /// Of a trigger: sees a request or an event, and a secret that checks it.
    Trigger,
}

impl Role {
    pub(crate) fn is_condition(self) -> bool {
        matches!(self, Self::When | Self::AfterCondition | Self::Match | Self::While)
    }

    pub(crate) fn sees_result(self) -> bool {
        matches!(self, Self::After | Self::AfterCondition | Self::Undo)
    }
}

/// The language of an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Syntax {
    /// A path, else CEL.
    Cel,
    Jq,
    /// CEL that was translated from Expr. No edit of it fits the document.
    Expr,
}

/// One expression of the document.
#[derive(Debug, Clone)]
pub(crate) struct Use {
    /// The step in which it stands.
    pub(crate) step: Option<usize>,
    pub(crate) section: Section,
    pub(crate) role: Role,
    pub(crate) syntax: Syntax,
    /// The key in which it stands, for messages.
    pub(crate) key: String,
    /// The text in the graph, with synonyms resolved.
    pub(crate) text: String,
    /// The text as the document has it, without braces.
    pub(crate) original: String,
    /// The whole text of the scalar, and the byte of the expression in it.
    pub(crate) scalar: Rc<str>,
    pub(crate) offset: usize,
    /// The place of the scalar.
    pub(crate) span: Span,
    /// The byte of the expression in the source.
    pub(crate) start: usize,
    /// Whether the text of the scalar is this expression alone, without braces.
    pub(crate) is_bare: bool,
    /// The paths that it reads. Empty if it has a fault.
    pub(crate) reads: Vec<Read>,
    /// The kind of its result, where that is known.
    pub(crate) kind: Option<ResultKind>,
    /// The byte of the first fault of its syntax, and the message.
    pub(crate) fault: Option<(usize, String)>,
}

/// One call of something that the worker must have.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) kind: CallKind,
    pub(crate) name: String,
    pub(crate) span: Span,
    /// The place of the arguments and their template.
    pub(crate) args: Option<(Span, serde_json::Value)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallKind {
    Tool,
    Recipe,
    Flow,
    Workflow,
    /// The model that answers a recipe.
    Model,
    /// A write to the knowledge base.
    Knowledge,
}

impl CallKind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Recipe => "recipe",
            Self::Flow => "flow",
            Self::Workflow => "workflow",
            Self::Model => "model",
            Self::Knowledge => "knowledge base",
        }
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Outline {
    pub(crate) blocks: Vec<BlockOutline>,
    pub(crate) steps: Vec<StepOutline>,
    pub(crate) uses: Vec<Use>,
    pub(crate) calls: Vec<Call>,
    /// The names that `set` steps give.
    pub(crate) variables: Vec<String>,
    /// The number of each limit, and where it stands first.
    pub(crate) limits: BTreeMap<String, (u32, Span)>,
    /// The first step of each id and of each further name.
    names: HashMap<String, usize>,
}

impl Outline {
    /// Adds a step. Returns the step that has its id already.
    pub(crate) fn add(&mut self, step: StepOutline) -> Option<usize> {
        let index = self.steps.len();
        let first = self.find(&step.id);
        self.names.entry(step.id.clone()).or_insert(index);
        self.blocks[step.block].steps.push(index);
        self.steps.push(step);
        first
    }

    /// Gives a step a further name.
    pub(crate) fn add_alias(&mut self, step: usize, alias: &str) {
        self.names.entry(alias.to_owned()).or_insert(step);
        self.steps[step].aliases.push(alias.to_owned());
    }

    /// Returns the step of an id or a further name.
    pub(crate) fn find(&self, id: &str) -> Option<usize> {
        self.names.get(id).copied()
    }

    /// Returns the step of an id in one block.
    pub(crate) fn find_in(&self, block: usize, id: &str) -> Option<usize> {
        self.find(id).filter(|step| self.steps[*step].block == block)
    }

    /// Returns the steps around a step and itself, from the outside, each with its block.
    pub(crate) fn chain(&self, step: usize) -> Vec<usize> {
        let mut chain = vec![step];
        let mut block = self.steps[step].block;
        while let Some((parent, _)) = &self.blocks[block].parent {
            chain.push(*parent);
            block = self.steps[*parent].block;
        }
        chain.reverse();
        chain
    }
}
