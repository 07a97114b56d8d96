use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::super::ExpressionError;

/// One line of a helper process.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Answer {
    Outputs(Vec<Value>),
    Syntax { message: String, column: usize },
    Failed(String),
    Budget(String),
}

impl Answer {
    pub(super) fn into_result(self) -> Result<Vec<Value>, ExpressionError> {
        match self {
            Self::Outputs(outputs) => Ok(outputs),
            Self::Syntax { message, column } => Err(ExpressionError::Syntax { message, column }),
            Self::Failed(message) => Err(ExpressionError::Failed(message)),
            Self::Budget(message) => Err(ExpressionError::Budget(message)),
        }
    }
}
