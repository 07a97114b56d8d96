use serde::{Deserialize, Serialize};

use super::Step;

/// An order of steps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Block {
    /// One step after the other. The result is that of the last step.
    Do(Vec<Step>),
    /// Each step begins when the steps that it [needs](Step::needs) have ended. The result maps the
    /// steps that no other step needs to their results.
    Dag {
        /// The steps, in the order of the document.
        steps: Vec<Step>,
        /// At most this many steps run at once. `None`: all whose needs are met.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        concurrency: Option<usize>,
    },
    /// A program counter goes from step to step by [`Step::next`]. Cycles are allowed. The result
    /// is that of the step that ends it.
    Graph {
        /// The id of the first step.
        start: String,
        /// The steps, in the order of the document.
        steps: Vec<Step>,
    },
}

/// Where a graph goes after a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Next {
    /// To this step.
    Goto(String),
    /// To the step of the first condition that is true, which sees the step's result as `result`.
    Branch {
        /// Condition and id, in order.
        cases: Vec<(String, String)>,
        /// The id if no condition is true. `None`: the run fails with F221.
        otherwise: Option<String>,
    },
    /// To all of these at once. Each branch goes on until the one step at which all of them join.
    Parallel {
        /// The first step of each branch.
        branches: Vec<String>,
        /// The step that begins when all branches have come to it. `None`: the branches end the
        /// graph, and its result maps the ids of `branches` to their results.
        join: Option<String>,
    },
    /// The branch ends here: the step is the last before the join. Outside of a branch it is the
    /// end of the graph, as [`Next::Done`] is; a check refuses such a document.
    Join,
    /// The graph ends here.
    Done,
}
