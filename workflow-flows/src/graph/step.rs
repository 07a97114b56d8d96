use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Block, Kind, Next, millis};
use crate::ErrorClass;

/// One step of a flow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// The name of the recorded step: `[A-Za-z_][A-Za-z0-9_-]{0,63}`, unique in the whole flow.
    pub id: String,
    /// Its kind: says what it does.
    pub kind: Kind,
    /// CEL. If it gives `false`, the step is skipped and its result is null.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// In [`Block::Dag`]: the ids of the steps that must have ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<String>,
    /// In [`Block::Graph`]: where it goes next. `None` elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Next>,
    /// In [`Block::Graph`]: how often the step may be visited. `None`: 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_visits: Option<u32>,
    /// How often a failed attempt is repeated. `None`: one attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryRule>,
    /// The time of one attempt; of an approval, a decision or a wait: of the whole wait.
    #[serde(default, with = "millis::option", skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
    /// The breaker of a tool or a recipe.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub breaker: Option<BreakerRule>,
    /// The limit over all workers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<LimitRule>,
    /// The effect of a failure of the last attempt.
    #[serde(default)]
    pub on_error: OnError,
    /// Undone in reverse order when the run fails or is canceled. Armed after success.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undo: Option<ToolUse>,
    /// The template of what `steps.<id>` becomes; it sees the result as `result`. `None`: the
    /// whole result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    /// Further names of the result under `steps`, such as those of nested steps in the dialect
    /// `opcode`. In the body of a loop, `{index}` in a name stands for the loop's index.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<String>,
}

impl Step {
    /// Creates a step that has only an id and a kind.
    #[must_use]
    pub fn new(id: impl Into<String>, kind: Kind) -> Self {
        Self {
            id: id.into(),
            kind,
            when: None,
            needs: Vec::new(),
            next: None,
            max_visits: None,
            retry: None,
            timeout: None,
            breaker: None,
            limit: None,
            on_error: OnError::Fail,
            undo: None,
            output: None,
            aliases: Vec::new(),
        }
    }
}

/// A tool and its arguments.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolUse {
    /// The name of the tool.
    pub tool: String,
    /// The template of the arguments.
    #[serde(default)]
    pub args: Value,
    /// Whether the call only hands the work over, and a report from outside ends the step.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub external: bool,
    /// Whether a template that is a whole text gives a text also for a number, a boolean and null,
    /// as in the dialect `opcode`. Lists and objects stay.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub texts: bool,
}

/// How a failed attempt is repeated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetryRule {
    /// The number of attempts, the first one counted. Range: 1 or more.
    pub attempts: u32,
    /// The waits between them.
    pub backoff: Backoff,
    /// Whether a random part is taken off each wait.
    #[serde(default)]
    pub jitter: bool,
    /// A random time that is added to each wait, as in the dialect `cncf`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub added: Option<AddedDelay>,
    /// The classes that are tried again. Empty: all. [`ErrorClass::Invalid`] never is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub on: Vec<ErrorClass>,
}

/// The bounds of a random time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AddedDelay {
    /// The shortest time.
    #[serde(with = "millis")]
    pub from: Duration,
    /// The longest time.
    #[serde(with = "millis")]
    pub to: Duration,
}

/// The waits between attempts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Backoff {
    /// No wait.
    None,
    /// Equal waits.
    Constant {
        /// The wait.
        #[serde(with = "millis")]
        delay: Duration,
    },
    /// The first wait, twice, three times ..
    Linear {
        /// The first wait.
        #[serde(with = "millis")]
        delay: Duration,
        /// The longest wait.
        #[serde(with = "millis")]
        max_delay: Duration,
    },
    /// Each wait is twice the one before.
    Exponential {
        /// The first wait.
        #[serde(with = "millis")]
        delay: Duration,
        /// The longest wait.
        #[serde(with = "millis")]
        max_delay: Duration,
    },
    /// These waits. The last one repeats.
    Delays(#[serde(with = "millis::list")] Vec<Duration>),
}

/// Stops calls of something that keeps failing, in one worker process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BreakerRule {
    /// Steps with one name share the breaker.
    pub name: String,
    /// Opens after this many failures ..
    pub failures: u32,
    /// .. within this time.
    #[serde(with = "millis")]
    pub within: Duration,
    /// Lets the next call through after this time.
    #[serde(with = "millis")]
    pub open_for: Duration,
}

/// At most `max` attempts at once over all workers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LimitRule {
    /// The name of the limit.
    pub name: String,
    /// The template of the key. Each key is limited on its own.
    pub key: String,
    /// The number. Range: 1 or more.
    pub max: u32,
}

/// Says what happens when the last attempt of a step has failed.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum OnError {
    /// The block fails.
    #[default]
    Fail,
    /// The result is null, and the block goes on.
    Ignore,
    /// In [`Block::Graph`]: goes to this step, which sees the error as `error`.
    Goto(String),
    /// Runs these steps, which see the error as `error`; their result stands for the step's.
    Do(Box<Block>),
}
