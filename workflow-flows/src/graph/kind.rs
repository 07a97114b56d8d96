use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Block, ToolUse, millis};
use crate::ErrorClass;
use crate::flows::{DECISION, REPORT};

/// Says what a step does. In the descriptions, *template* is a JSON value whose strings may be
/// templates, and *condition* is CEL that gives a boolean.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Kind {
    /// Calls a tool.
    Tool(ToolUse),
    /// Asks a model and checks its answer.
    Recipe(Recipe),
    /// Takes one of two blocks.
    If {
        /// The condition.
        condition: String,
        /// Runs if it is true.
        then: Block,
        /// Runs otherwise. `None`: the result is null.
        otherwise: Option<Block>,
    },
    /// Takes the block whose name equals a value.
    Switch(Switch),
    /// Repeats a block.
    Loop(Loop),
    /// Runs blocks at once.
    Parallel(Parallel),
    /// Waits until a person agrees or refuses.
    Approval(Approval),
    /// Waits until a person or an agent chooses.
    Decision(Decision),
    /// Writes a document into the knowledge base, in the step's transaction.
    Kb(KbWrite),
    /// Tells people or agents, and goes on.
    Handoff(Handoff),
    /// Waits for a time or an event.
    Wait(Wait),
    /// Emits an event, or signals one run.
    Emit(Emission),
    /// Runs a flow or a Rust workflow as a child.
    Flow(FlowCall),
    /// Sets variables: names and templates. The result is the object.
    Set(BTreeMap<String, Value>),
    /// Runs a jq program on `{input, steps, vars, item}`. Several outputs become a list.
    Jq(String),
    /// Fails the block.
    Fail(Failure),
    /// Does nothing. The result is null.
    Nothing,
}

/// A prompt, a model, and the schema of its answer.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// A named recipe. The other fields are then those of the worker, unless they are given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The model. `None`: the worker's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The template of the system's text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// The template of the prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// The JSON Schema of the answer. `None`: text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    /// The longest answer, in tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// How often an answer that does not fit is sent back with its errors.
    #[serde(default)]
    pub repair: u32,
    /// The template of the values that the prompt sees as `args`.
    #[serde(default)]
    pub args: Value,
}

/// Blocks by name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Switch {
    /// The template of the value. It is compared as text.
    pub value: Value,
    /// The blocks.
    pub cases: BTreeMap<String, Block>,
    /// Runs if no name is equal. `None`: the run fails with F220, unless the switch `tells`.
    pub default: Option<Block>,
    /// Whether the result is `{branch, output}`, as in the dialect `opcode`: the branch that was
    /// taken, and its result. Without a default the result also has `skipped`, which is `true` if
    /// no case matched.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tells: bool,
}

/// A repetition of a block.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Loop {
    /// How long it goes on.
    pub until: Until,
    /// The bound of items or turns.
    pub max: u32,
    /// The effect of the bound.
    #[serde(default)]
    pub at_max: AtMax,
    /// The wait between two turns of [`Until::While`] and [`Until::Until`].
    #[serde(default, with = "millis::option", skip_serializing_if = "Option::is_none")]
    pub every: Option<Duration>,
    /// Items at once, of [`Until::For`].
    pub concurrency: usize,
    /// The effect of a failed item.
    #[serde(default)]
    pub on_item_error: OnItemError,
    /// Whether the result of [`Until::While`] and [`Until::Until`] is the list of the results of
    /// all turns, as in the dialect `opcode`. `false`: the result of the last turn.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub collects: bool,
    /// The steps of one item or turn. They see `item` and `index`.
    pub body: Block,
}

/// Says what happens when a loop has more items or turns than it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AtMax {
    /// The loop fails.
    #[default]
    Fail,
    /// The loop ends, and further items are ignored, as in the dialect `opcode`.
    Stop,
}

/// How long a loop goes on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Until {
    /// Once for each item of this template, which gives a list.
    For(Value),
    /// Once for each output of this jq program.
    Jq(String),
    /// As long as this condition is true, which is asked before each turn.
    While(String),
    /// Until this condition is true, which is asked after each turn and sees `result`.
    Until(String),
}

/// Says what a failed item of a loop does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnItemError {
    /// The first failure ends the loop.
    #[default]
    Fail,
    /// All items end, and the results name the errors.
    Collect,
    /// All items end, and the result of a failed one is null.
    Ignore,
}

/// Blocks that run at once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parallel {
    /// Name and block, in the order of the document.
    pub branches: Vec<(String, Block)>,
    /// When it ends.
    #[serde(default)]
    pub mode: ParallelMode,
    /// Branches at once. `None`: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<usize>,
}

/// When parallel blocks end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ParallelMode {
    /// When all have succeeded or one has failed. The result maps names to results.
    #[default]
    All,
    /// When all have ended. The result maps names to `{ok}` or `{error}`.
    Settle,
    /// When the first has ended. The result is `{winner, result}`.
    Race,
    /// When the first has succeeded, or all have failed, as in the dialect `opcode`. The result is
    /// `{winner, result}`.
    First,
}

/// A gate for a person.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Approval {
    /// The templates of the accounts that may decide.
    pub to: Vec<String>,
    /// The template of the title.
    pub title: String,
    /// The template of what is shown.
    #[serde(default)]
    pub show: Value,
    /// The tools or channels of the worker that notify these people.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notify: Vec<String>,
    /// Runs at the step's timeout; its result stands for the step's. `None`: fails with F230.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_timeout: Option<Block>,
    /// The effect of a refusal.
    #[serde(default)]
    pub on_reject: OnReject,
}

/// Says what a refusal of an approval does.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum OnReject {
    /// The step fails.
    #[default]
    Fail,
    /// The step ends with `approved: false`.
    Continue,
    /// Runs this block; its result stands for the step's.
    Do(Block),
}

/// A choice by a person or an agent, asked once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decision {
    /// The template of the question.
    pub prompt: String,
    /// Names and descriptions. Empty: any JSON is an answer.
    #[serde(default)]
    pub options: BTreeMap<String, String>,
    /// The template of what is shown.
    #[serde(default)]
    pub show: Value,
    /// The template of the account that decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// The choice at the step's timeout. `None`: fails with F230.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<String>,
}

/// A document for the knowledge base.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KbWrite {
    /// The name of the base.
    pub base: String,
    /// The template of the title.
    pub title: String,
    /// The template of the text.
    pub text: String,
    /// The template of the key. A document of this key is replaced. `None`: the run and the step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The templates of the tags.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
}

/// A message that needs no answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Handoff {
    /// The template of the account that gets the message.
    pub to: String,
    /// The template of the text.
    pub text: String,
    /// The channels. Empty: the worker's default.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub via: Vec<String>,
}

/// A wait.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Wait {
    /// For this time.
    For(#[serde(with = "millis")] Duration),
    /// Until this template's time: RFC 3339, or `next 08:00 Europe/Oslo`.
    Until(String),
    /// For an event.
    Event {
        /// The name.
        name: String,
        /// The template of the key.
        key: String,
        /// A condition that sees the payload as `event`. Events that do not match are ignored.
        matches: Option<String>,
    },
}

/// An event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Emission {
    /// The name of the event.
    pub event: String,
    /// The template of the key: reaches all that wait for name and key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The template of a run's id: reaches this run as a signal of the event's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// The template of the payload.
    #[serde(default)]
    pub data: Value,
}

impl Emission {
    /// Returns whether it would answer a step of another run: a decision, or work that was handed
    /// over. Such an answer is an order of an account.
    pub(crate) fn is_answer(&self) -> bool {
        self.to.is_some() && [DECISION, REPORT].iter().any(|prefix| self.event.starts_with(prefix))
    }
}

/// A child run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowCall {
    /// The name of the flow or of the Rust workflow.
    pub name: String,
    /// The version. `None`: of a flow the newest at the start of the child, of a workflow `1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Whether the name is that of a Rust workflow.
    #[serde(default)]
    pub is_workflow: bool,
    /// The template of the input.
    #[serde(default)]
    pub args: Value,
    /// Whether the step ends at the start of the child; its result is then the child's id.
    #[serde(default)]
    pub detach: bool,
    /// The queue. `None`: the parent's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
}

/// A failure that the author wants.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    /// The class.
    pub class: ErrorClass,
    /// The template of the message.
    pub message: String,
}
