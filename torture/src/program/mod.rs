//! Random workflows with a known answer: a workflow that interprets its input.

mod generate;
mod interpret;

use serde::{Deserialize, Serialize};
use workflow_sdk::prelude::*;

pub use generate::{Shape, generate, generate_closed};
pub use interpret::program;

/// The input of [`program`], which says what a run does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Program {
    /// The operations, executed in sequence.
    pub ops: Vec<Op>,
    /// How the run ends after them.
    pub end: End,
    /// The initial sum. Each value that the workflow receives is mixed into it.
    pub start: u64,
}

/// One operation. Its number is unique in its generation of its run and is part of the names of its
/// steps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Op {
    /// A step that returns the value after these failures.
    Step(u32, u64, Failing),
    /// A step that returns the value after these failures. Each attempt needs a seat of the limit
    /// under the key of this number.
    Seated(u32, u64, Failing, u32),
    /// A step whose stored value lacks a part that the value in its body had.
    Lossy(u32, u64),
    /// A step whose body takes this many milliseconds.
    Long(u32, u64, u64),
    /// A step of which every attempt fails; the workflow continues.
    Hopeless(u32, Failing),
    /// A sleep of this many milliseconds.
    Sleep(u32, u64),
    /// Waits for these signals, whose values arrive in this order.
    Signals(u32, Vec<u64>),
    /// Waits this many milliseconds for a signal that never comes.
    Lapse(u32, u64),
    /// A child run.
    Child(u32, Box<Program>),
    /// A transaction that inserts a row and returns the value.
    Transaction(u32, u64),
    /// Concurrent branches, each in its own scope.
    Join(u32, Vec<Vec<Op>>),
    /// A race of this many steps that return the same value; the first one to end wins.
    Race(u32, u32, u64),
    /// A step against a sleep that never ends first.
    Beside(u32, u64),
    /// A map over these items with a bound on how many run at a time.
    Map(u32, Vec<u64>, usize),
    /// Arms a compensation.
    Arm(u32),
    /// Publishes a value and emits an item.
    Tell(u32, u64),
}

/// How the first attempts of a step fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Failing {
    /// They do not fail.
    Never,
    /// This many attempts return an error.
    Errors(u32),
    /// This many attempts panic.
    Panics(u32),
}

impl Failing {
    /// Returns the number of attempts that fail.
    #[must_use]
    pub const fn count(self) -> u32 {
        match self {
            Self::Never => 0,
            Self::Errors(count) | Self::Panics(count) => count,
        }
    }
}

/// How a program ends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum End {
    /// Returns the mixed values.
    Value,
    /// Returns an error whose text contains the mixed values.
    Error,
    /// Panics.
    Panic,
    /// Waits until it is canceled.
    Cancel,
    /// Continues as new with this program.
    Continue(Box<Program>),
}

/// The expected end of a run, whatever faults hit it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// It succeeds with this output.
    Value(u64),
    /// It fails with these words in its error.
    Error(String),
    /// It is canceled.
    Canceled,
}

/// Mixes a value into a sum. The generator and the workflow both compute it.
pub(crate) const fn mix(all: u64, value: u64) -> u64 {
    all.wrapping_mul(31).wrapping_add(value)
}

/// The value that a failure counts as.
pub(crate) const FAILED: u64 = 7;
/// The value that an operation without a result counts as.
pub(crate) const NOTHING: u64 = 3;
/// The text of planned panics.
pub const PLANNED: &str = "a planned panic";
/// The maximum number of attempts of a step that succeeds in the end.
pub const ATTEMPTS: u32 = 4;

impl Program {
    /// Returns how a run of the program ends.
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

    /// Returns the names and values of the signals that all generations wait for, in order.
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

    /// Returns `true` if the last generation waits to be canceled.
    #[must_use]
    pub fn is_canceled(&self) -> bool {
        self.answer() == Answer::Canceled
    }
}

/// Calls `look` with every operation of this generation, without those of children.
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

/// Returns the sum after these operations.
fn ops(all: u64, ops: &[Op]) -> u64 {
    ops.iter().fold(all, |all, op| op.values().into_iter().fold(all, mix))
}

impl Op {
    fn values(&self) -> Vec<u64> {
        match self {
            Self::Step(_, value, _)
            | Self::Seated(_, value, ..)
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

/// Returns how a run ended.
///
/// # Errors
/// Returns a text if the run has not ended, or ended as no program does.
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
