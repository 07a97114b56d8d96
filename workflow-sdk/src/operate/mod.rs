//! Everything that an operator does, as requests and answers that can be serialized.

mod query;

pub use query::{Fact, Moment, Pattern, Query, QueryError, QueryErrorKind, Term, Test, TimeTest};
