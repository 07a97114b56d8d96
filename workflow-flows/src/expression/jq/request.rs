use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::super::parse::MOST_SOURCE_BYTES;
use super::super::{ExpressionError, ExpressionLimits};

/// Bytes of a request that every helper takes: the input, above all.
const LEAST_REQUEST_BYTES: usize = 4 << 20;

/// Bytes of a request beside the largest rendered value: the program and the names around it.
const ROOM_BYTES: usize = 64 << 10;

/// One line for a helper process.
#[derive(Debug)]
pub(in super::super) struct Request {
    pub(super) line: Vec<u8>,
    pub(super) limits: ExpressionLimits,
}

#[derive(Serialize)]
struct Written<'a> {
    program: &'a str,
    check: bool,
    outputs: usize,
    output_bytes: usize,
    input: &'a Value,
}

/// A request as the helper reads it.
#[derive(Deserialize)]
pub(super) struct Read<'a> {
    pub(super) program: String,
    /// Whether the program is compiled only.
    pub(super) check: bool,
    /// The most outputs.
    pub(super) outputs: usize,
    /// The bytes of all outputs as JSON.
    pub(super) output_bytes: usize,
    #[serde(borrow)]
    pub(super) input: &'a RawValue,
}

impl Request {
    /// Describes one evaluation.
    pub(in super::super) fn new(
        program: &str,
        input: &Value,
        limits: ExpressionLimits,
    ) -> Result<Self, ExpressionError> {
        Self::write(program, false, input, limits)
    }

    /// Describes a check of the syntax.
    pub(in super::super) fn check(program: &str, limits: ExpressionLimits) -> Result<Self, ExpressionError> {
        Self::write(program, true, &Value::Null, limits)
    }

    fn write(program: &str, check: bool, input: &Value, limits: ExpressionLimits) -> Result<Self, ExpressionError> {
        if program.len() > MOST_SOURCE_BYTES {
            let message = format!("the program has {} bytes; {MOST_SOURCE_BYTES} is the limit", program.len());
            return Err(ExpressionError::Syntax { message, column: 1 });
        }
        let ExpressionLimits { jq_outputs: outputs, jq_output_bytes: output_bytes, .. } = limits;
        let written = Written { program, check, outputs, output_bytes, input };
        let mut line = serde_json::to_vec(&written)
            .map_err(|error| ExpressionError::Failed(format!("the input has no JSON: {error}")))?;
        // A value that may be rendered is one that jq takes, too.
        let most = LEAST_REQUEST_BYTES.max(limits.rendered_bytes.saturating_add(ROOM_BYTES));
        if line.len() > most {
            let message = format!("the input has {} bytes; {most} is the limit", line.len());
            return Err(ExpressionError::Budget(message));
        }
        line.push(b'\n');
        Ok(Self { line, limits })
    }
}
