/// A failure of an expression.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExpressionError {
    /// The text is no expression.
    #[error("{message} (column {column})")]
    Syntax {
        /// What is wrong, and what would be right.
        message: String,
        /// The column in the expression's text, from 1.
        column: usize,
    },
    /// A path leads to something missing.
    #[error("{path} does not exist{hint}")]
    Missing {
        /// The path.
        path: String,
        /// `; did you mean ..?` with the nearest name, or empty.
        hint: String,
    },
    /// The evaluation failed: F240. Names types, never values.
    #[error("{0}")]
    Failed(String),
    /// The evaluation took more than it may: F241.
    #[error("{0}")]
    Budget(String),
}
