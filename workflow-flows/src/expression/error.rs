/// A failure of an expression.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExpressionError {
    /// The text is no expression.
    #[error("{message} (column {column})")]
    Syntax {
        /// The fault, and the remedy.
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

impl ExpressionError {
    /// Moves the column of a syntax error, for an expression that stands in a longer text.
    ///
    /// ```
    /// use workflow_flows::expression::Expression;
    ///
    /// let error = Expression::compile("").unwrap_err().moved(20);
    /// assert_eq!(error.to_string(), "an expression is missing here (column 21)");
    /// ```
    #[must_use]
    pub fn moved(self, columns: usize) -> Self {
        match self {
            Self::Syntax { message, column } => Self::Syntax { message, column: column + columns },
            other => other,
        }
    }
}
