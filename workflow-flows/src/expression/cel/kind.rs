use serde_json::Value;

use super::node::{Binary, FoldKind, Form, Node, Program};
use super::value::CelValue;

/// The kind of value that an expression gives, where that is known without an evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResultKind {
    /// A boolean.
    Boolean,
    /// A number.
    Number,
    /// A text.
    Text,
    /// A list.
    List,
    /// An object.
    Object,
    /// Null.
    Null,
    /// The sum of two values of unknown kinds: a number, a text or a list.
    Sum,
}

impl ResultKind {
    /// Returns the kind of a JSON value.
    #[must_use]
    pub fn of(value: &Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(_) => Self::Boolean,
            Value::Number(_) => Self::Number,
            Value::String(_) => Self::Text,
            Value::Array(_) => Self::List,
            Value::Object(_) => Self::Object,
        }
    }

    /// Returns the name of the kind, with its article, for messages that must not show values.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Boolean => "a boolean",
            Self::Number => "a number",
            Self::Text => "a text",
            Self::List => "a list",
            Self::Object => "an object",
            Self::Sum => "a number, a text or a list",
        }
    }
}

impl Program {
    /// Returns what the program gives, where that is known without an evaluation.
    pub(crate) fn kind(&self) -> Option<ResultKind> {
        kind(&self.root)
    }
}

fn kind(node: &Node) -> Option<ResultKind> {
    Some(match &node.form {
        Form::Literal(value) => match value {
            CelValue::Null => ResultKind::Null,
            CelValue::Bool(_) => ResultKind::Boolean,
            CelValue::Int(_) | CelValue::Uint(_) | CelValue::Double(_) => ResultKind::Number,
            CelValue::Text(_) | CelValue::Bytes(_) => ResultKind::Text,
            _ => return None,
        },
        Form::Not(_) | Form::Logic { .. } | Form::Has { .. } => ResultKind::Boolean,
        Form::Negate(_) => ResultKind::Number,
        Form::Binary(operator, left, right) => match operator {
            Binary::Add => {
                let mut sides = [kind(left), kind(right)].into_iter().flatten();
                sides.find(|side| *side != ResultKind::Sum).unwrap_or(ResultKind::Sum)
            }
            Binary::Subtract | Binary::Multiply | Binary::Divide | Binary::Remainder => ResultKind::Number,
            _ => ResultKind::Boolean,
        },
        Form::If(_, then, otherwise) => kind(then).filter(|found| kind(otherwise) == Some(*found))?,
        Form::List(_) => ResultKind::List,
        Form::Map(_) => ResultKind::Object,
        Form::Fold(fold) => match fold.kind {
            FoldKind::All | FoldKind::Exists | FoldKind::ExistsOne => ResultKind::Boolean,
            FoldKind::List | FoldKind::Filter | FoldKind::SortBy => ResultKind::List,
            FoldKind::Map | FoldKind::MapEntry => ResultKind::Object,
        },
        Form::Bind { body, .. } => kind(body)?,
        Form::Call { name, .. } => match name.as_str() {
            "bool" | "contains" | "endsWith" | "hasValue" | "matches" | "startsWith" | "math.isFinite"
            | "math.isInf" | "math.isNaN" => ResultKind::Boolean,
            "double" | "int" | "size" | "sum" | "uint" | "indexOf" | "lastIndexOf" => ResultKind::Number,
            "charAt" | "format" | "join" | "lowerAscii" | "replace" | "string" | "strings.quote" | "substring"
            | "trim" | "upperAscii" | "url.encode" => ResultKind::Text,
            "distinct" | "flatten" | "lists.range" | "slice" | "sort" | "split" => ResultKind::List,
            _ => return None,
        },
        Form::Name(_) | Form::Select { .. } | Form::Index { .. } | Form::OptionalMap { .. } => return None,
    })
}
