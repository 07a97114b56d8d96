use serde_json::Value;

use super::parse::{Alternative, Form};
use super::template::{Part, Template};
use super::{Expression, ExpressionError, Scope};
use crate::graph::MissingPath;

/// Renders templates and evaluates expressions; CEL is left to `cel`.
pub(super) struct Renderer<'a, F> {
    pub(super) scope: &'a Scope,
    pub(super) missing: MissingPath,
    pub(super) cel: F,
    /// Bytes that one rendering may produce.
    pub(super) most: usize,
    /// Bytes that may still be produced.
    pub(super) room: usize,
}

impl<F: FnMut(&str) -> Result<Value, ExpressionError>> Renderer<'_, F> {
    /// Renders each string of a value, at any depth.
    pub(super) fn render(&mut self, template: &Value) -> Result<Value, ExpressionError> {
        match template {
            Value::String(text) if text.contains("{{") => self.text(&Template::split(text)?),
            Value::Array(items) => {
                self.spend(items.len())?;
                items.iter().map(|item| self.render(item)).collect::<Result<_, _>>().map(Value::Array)
            }
            Value::Object(members) => {
                let rendered = members.iter().map(|(name, member)| {
                    self.spend(name.len())?;
                    Ok((name.clone(), self.render(member)?))
                });
                rendered.collect::<Result<_, ExpressionError>>().map(Value::Object)
            }
            _ => {
                self.spend(size(template, self.room))?;
                Ok(template.clone())
            }
        }
    }

    fn text(&mut self, template: &Template) -> Result<Value, ExpressionError> {
        if let [Part::Expression(expression)] = template.parts.as_slice() {
            return self.expression(expression);
        }
        let mut joined = String::new();
        for part in &template.parts {
            match part {
                Part::Text(text) => {
                    self.spend(text.len())?;
                    joined.push_str(text);
                }
                Part::Expression(expression) => match self.expression(expression)? {
                    Value::String(text) => joined.push_str(&text),
                    other => joined.push_str(&other.to_string()),
                },
            }
        }
        Ok(Value::String(joined))
    }

    /// Returns the value of the first alternative that is there and not null.
    pub(super) fn expression(&mut self, expression: &Expression) -> Result<Value, ExpressionError> {
        let (last, others) = expression.alternatives.split_last().ok_or_else(|| ExpressionError::Syntax {
            message: "an expression is missing here".to_owned(),
            column: 1,
        })?;
        let scope = self.scope;
        for alternative in others.iter().filter(|alternative| !is_missing(alternative, scope)) {
            match self.alternative(alternative) {
                Ok(Value::Null) | Err(ExpressionError::Missing { .. }) => {}
                decided => return decided,
            }
        }
        if self.missing == MissingPath::Empty && is_missing(last, scope) {
            return Ok(Value::String(String::new()));
        }
        self.alternative(last)
    }

    fn alternative(&mut self, alternative: &Alternative) -> Result<Value, ExpressionError> {
        match &alternative.form {
            Form::Path(path) => {
                let value = path.resolve(self.scope)?;
                self.spend(size(value, self.room))?;
                Ok(value.clone())
            }
            Form::Literal(value) => Ok(value.clone()),
            Form::Cel(source) => {
                let value = (self.cel)(source).map_err(|error| error.moved(alternative.column - 1))?;
                self.spend(size(&value, self.room))?;
                Ok(value)
            }
        }
    }

    fn spend(&mut self, bytes: usize) -> Result<(), ExpressionError> {
        self.room = self
            .room
            .checked_sub(bytes.max(1))
            .ok_or_else(|| ExpressionError::Budget(format!("the values are larger than {} bytes", self.most)))?;
        Ok(())
    }
}

/// Returns whether an alternative is a path that leads nowhere, without the error and its hint.
fn is_missing(alternative: &Alternative, scope: &Scope) -> bool {
    matches!(&alternative.form, Form::Path(path) if path.find(scope).is_none())
}

/// Returns the bytes of a value as JSON, nearly. Stops to count once they are more than `limit`.
pub(super) fn size(value: &Value, limit: usize) -> usize {
    let mut total = 0_usize;
    let mut open = vec![value];
    while let Some(next) = open.pop() {
        total += match next {
            Value::String(text) => text.len() + 2,
            Value::Array(items) => {
                open.extend(items);
                items.len() + 2
            }
            Value::Object(members) => {
                open.extend(members.values());
                members.keys().map(|name| name.len() + 4).sum::<usize>() + 2
            }
            _ => 8,
        };
        if total > limit {
            break;
        }
    }
    total
}
