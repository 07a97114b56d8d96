//! Templates, conditions and jq programs of flows.
//!
//! Expressions come from people and agents, so none of them may abort, hang or fill the memory of
//! a worker. An [`Evaluator`] runs them with bounds.

mod cel;
mod error;
mod evaluator;
#[cfg(test)]
mod evaluator_tests;
mod hint;
mod jq;
mod limits;
mod literal;
mod parse;
mod path;
mod pool;
mod programs;
mod reference;
mod render;
mod scan;
mod scope;
mod template;
#[cfg(test)]
mod template_tests;

pub use cel::ResultKind;
pub use error::ExpressionError;
pub use evaluator::{Evaluator, EvaluatorBuilder};
#[cfg(test)]
pub(crate) use hint::CALLS;
pub use hint::nearest;
pub(crate) use hint::operator_repair;
pub use jq::jq_helper;
pub(crate) use jq::{faults as jq_faults, filter_repair};
pub use limits::{ExpressionLimits, InvalidExpressionLimit};
pub use parse::Expression;
pub use path::{Path, Segment};
pub use reference::Reference;
pub use scope::Scope;
pub use template::Template;
pub(crate) use template::bounds;
