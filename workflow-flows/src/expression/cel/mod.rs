//! CEL, the Common Expression Language, with a meter at each node of a program.

mod convert;
mod fold;
mod format;
mod functions;
mod interpreter;
mod kind;
mod lexer;
mod lists;
mod macros;
mod math;
mod meter;
mod node;
mod operators;
mod parser;
mod reader;
#[cfg(test)]
mod spec_tests;
#[cfg(test)]
mod tests;
mod texts;
mod value;

pub use kind::ResultKind;
pub(super) use meter::Meter;
pub(super) use node::Program;
pub(super) use parser::parse;
