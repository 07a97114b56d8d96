//! Random workflows with a known answer: a workflow that does what its input says.

mod generate;
mod interpret;

use serde::{Deserialize, Serialize};
use workflow_sdk::prelude::*;

pub use generate::{Shape, generate, generate_closed};
pub use interpret::program;

/// What a run of [`program`] does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Program {
    /// One after the other.
    pub ops: Vec<Op>,
    /// And then.
    pub end: End,
    /// What it begins with; all that it is given is mixed into it.
    pub start: u64,
}

/// One thing that it does. The number is unique in its generation of its run, and part of the names of its steps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Op {
    /// A step that gives the value, after so many failures.
    Step(u32, u64, Failing),
    /// A step whose value, once stored, has lost a part that its body still had.
    Lossy(u32, u64),
    /// A step whose body takes so many milliseconds.
    Long(u32, u64, u64),
    /// A step whose every attempt fails; the workflow goes on.
    Hopeless(u32, Failing),
    /// A sleep of so many milliseconds.
    Sleep(u32, u64),
    /// Waits for these signals, whose values come in this order.
    Signals(u32, Vec<u64>),
    /// Waits so many milliseconds for a signal that nobody sends.
    Lapse(u32, u64),
    /// A child.
    Child(u32, Box<Program>),
    /// A transaction that leaves a row and gives the value.
    Transaction(u32, u64),
    /// All at once, each in a scope of its own.
    Join(u32, Vec<Vec<Op>>),
    /// So many steps that give the same value, of which the first to end wins.
    Race(u32, u32, u64),
    /// A step against a sleep of an hour.
    Beside(u32, u64),
    /// Items, so many at a time.
    Map(u32, Vec<u64>, usize),
    /// Arms a compensation.
    Arm(u32),
    /// Publishes and emits.
    Tell(u32, u64),
}

/// How the first attempts of a step fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Failing {
    /// Not at all.
    Never,
    /// So many give an error.
    Errors(u32),
    /// So many panic.
    Panics(u32),
}

impl Failing {
    /// Attempts that fail.
    #[must_use]
    pub const fn count(self) -> u32 {
        match self {
            Self::Never => 0,
            Self::Errors(count) | Self::Panics(count) => count,
        }
    }
}

/// How it ends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum End {
    /// With what was mixed.
    Value,
    /// With an error that says what was mixed.
    Error,
    /// With a panic.
    Panic,
    /// Somebody cancels it: it waits until then.
    Cancel,
    /// As the next generation.
    Continue(Box<Program>),
}

/// How a run ends, whatever befalls it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// With this output.
    Value(u64),
    /// Failed, with these words in its error.
    Error(String),
    /// Canceled.
    Canceled,
}

/// What the generator knows and the workflow must find.
pub(crate) const fn mix(all: u64, value: u64) -> u64 {
    all.wrapping_mul(31).wrapping_add(value)
}

/// What a failure counts.
pub(crate) const FAILED: u64 = 7;
/// What nothing counts.
pub(crate) const NOTHING: u64 = 3;
/// What a panic of the workflow says, which is meant.
pub const PLANNED: &str = "a planned panic";
/// Attempts of every step that fails at first, and of none more.
pub const ATTEMPTS: u32 = 4;

impl Program {
    /// How a run of it ends.
    #[must_use]
    pub fn answer(&self) -> Answer {
        let all = ops(self.start, &self.ops);
        match &self.end {
            End::Value => Answer::Value(all),
            End::Error => Answer::Error(format!("it ends with {all}")),
            End::Panic => Answer::Error(PLANNED.into()),
            End::Cancel => Answer::Canceled,
            End::Continue(next) => next.answer(),
        }
    }

    /// The signals that it waits for, in all generations: name and value, in order.
    #[must_use]
    pub fn signals(&self) -> Vec<(String, u64)> {
        let mut signals = Vec::new();
        each(&self.ops, &mut |op| {
            if let Op::Signals(id, values) = op {
                signals.extend(values.iter().map(|value| (format!("g{id}"), *value)));
            }
        });
        if let End::Continue(next) = &self.end {
            signals.extend(next.signals());
        }
        signals
    }

    /// Whether it waits to be canceled at its end, in the last of its generations.
    #[must_use]
    pub fn is_canceled(&self) -> bool {
        self.answer() == Answer::Canceled
    }
}

/// Every thing that these do themselves, in this generation.
fn each(ops: &[Op], look: &mut dyn FnMut(&Op)) {
    for op in ops {
        look(op);
        if let Op::Join(_, branches) = op {
            for branch in branches {
                each(branch, look);
            }
        }
    }
}

/// What is mixed after these.
fn ops(all: u64, ops: &[Op]) -> u64 {
    ops.iter().fold(all, |all, op| op.values().into_iter().fold(all, mix))
}

impl Op {
    fn values(&self) -> Vec<u64> {
        match self {
            Self::Step(_, value, _)
            | Self::Lossy(_, value)
            | Self::Long(_, value, _)
            | Self::Transaction(_, value)
            | Self::Race(_, _, value)
            | Self::Beside(_, value) => vec![*value],
            Self::Hopeless(..) => vec![FAILED],
            Self::Sleep(..) | Self::Lapse(..) => vec![NOTHING],
            Self::Signals(_, values) | Self::Map(_, values, _) => values.clone(),
            Self::Child(_, child) => match child.answer() {
                Answer::Value(value) => vec![value],
                Answer::Error(_) | Answer::Canceled => vec![FAILED],
            },
            Self::Join(_, branches) => branches.iter().map(|branch| ops(0, branch)).collect(),
            Self::Arm(_) | Self::Tell(..) => Vec::new(),
        }
    }
}

/// How a run that has ended did so.
///
/// # Errors
/// In words, if it has not, or as no program ends.
pub fn ended(run: &workflow_sdk::Run) -> std::result::Result<Answer, String> {
    match (run.status, &run.output, &run.error) {
        (RunStatus::Succeeded, Some(output), _) => {
            output.parse().map(Answer::Value).map_err(|_| format!("its output is {output}"))
        }
        (RunStatus::Failed, _, Some(error)) => Ok(Answer::Error(error.message.clone())),
        (RunStatus::Canceled, ..) => Ok(Answer::Canceled),
        (status, ..) => Err(format!("it is {status}")),
    }
}
