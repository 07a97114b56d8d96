//! Templates, conditions and jq programs of flows.
//!
//! Expressions come from people and agents, so none of them may abort, hang or fill the memory of
//! a worker. An [`Evaluator`] runs them with bounds.

mod error;
mod evaluator;
mod path;
mod scope;

pub use error::ExpressionError;
pub use evaluator::Evaluator;
pub use path::Path;
pub use scope::Scope;
