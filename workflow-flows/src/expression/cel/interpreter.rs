use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::{ExpressionError, Path, Scope, nearest};
use super::fold;
use super::functions;
use super::meter::Meter;
use super::node::{Binary, Form, Node, Program};
use super::operators;
use super::value::{CelValue, Key, List, Map};

type Found<'a> = Result<CelValue<'a>, ExpressionError>;

/// Evaluates programs. Each node takes fuel, so every evaluation ends.
pub(super) struct Interpreter<'a, 'm> {
    pub(super) scope: &'a Scope,
    pub(super) meter: &'m mut Meter,
    /// The values that macros have named, the innermost last.
    pub(super) names: Vec<(&'a str, CelValue<'a>)>,
    /// Whether members, indices and nil follow the rules of Expr.
    pub(super) is_expr: bool,
}

impl Program {
    /// Evaluates the program. The thread needs a stack of some MiB.
    pub(crate) fn evaluate(&self, scope: &Scope, meter: &mut Meter) -> Result<serde_json::Value, ExpressionError> {
        let value = Interpreter { scope, meter, names: Vec::new(), is_expr: false }.evaluate(&self.root)?;
        let mut json = value.to_json(meter)?;
        if is_of_expr(&self.root) {
            write_whole(&mut json);
        }
        Ok(json)
    }
}

/// Returns whether the value of this node is that of a program of Expr.
fn is_of_expr(node: &Node) -> bool {
    match &node.form {
        Form::Bind { body, .. } => is_of_expr(body),
        Form::Call { name, .. } => name == functions::OF_EXPR,
        _ => false,
    }
}

/// The bound below which each whole number is exact as a double.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// Writes whole numbers without a fraction, as the engine of Expr does.
fn write_whole(json: &mut serde_json::Value) {
    match json {
        serde_json::Value::Number(number) if number.is_f64() => {
            let whole = number.as_f64().filter(|double| double.fract() == 0.0 && double.abs() < EXACT);
            if let Some(double) = whole {
                *number = serde_json::Number::from(double as i64);
            }
        }
        serde_json::Value::Array(items) => items.iter_mut().for_each(write_whole),
        serde_json::Value::Object(members) => members.values_mut().for_each(write_whole),
        _ => {}
    }
}

/// Returns whether `&&`, `||`, `all` and `exists` may absorb an error.
pub(super) fn is_absorbable(error: &ExpressionError) -> bool {
    !matches!(error, ExpressionError::Budget(_))
}

/// Describes a failure of a node.
pub(super) fn failed(node: &Node, message: impl std::fmt::Display) -> ExpressionError {
    ExpressionError::Failed(format!("{message} (column {})", node.column))
}

impl<'a> Interpreter<'a, '_> {
    pub(super) fn evaluate(&mut self, node: &'a Node) -> Found<'a> {
        self.meter.tick()?;
        match &node.form {
            Form::Literal(value) => Ok(value.clone()),
            Form::Name(name) => self.name(name),
            Form::Select { of, field, optional } => self.select(node, of, field, *optional),
            Form::Has { of, field } => self.has(node, of, field),
            Form::Index { of, at, optional } => self.index(node, of, at, *optional),
            Form::Call { name, target, arguments } => functions::call(self, node, name, target.as_deref(), arguments),
            Form::Not(of) => match self.evaluate(of)? {
                CelValue::Bool(value) => Ok(CelValue::Bool(!value)),
                other => Err(failed(node, format_args!("`!` cannot take {}", other.type_name()))),
            },
            Form::Negate(of) => {
                let value = self.evaluate(of)?;
                operators::negate(&value).map_err(|message| failed(node, message))
            }
            Form::Binary(operator, left, right) => self.binary(node, *operator, left, right),
            Form::Logic { all, parts } => self.logic(node, *all, parts),
            Form::If(condition, then, otherwise) => match self.evaluate(condition)? {
                CelValue::Bool(true) => self.evaluate(then),
                CelValue::Bool(false) => self.evaluate(otherwise),
                other => Err(failed(node, format_args!("`?` needs a bool, not {}", other.type_name()))),
            },
            Form::List(items) => self.list(items),
            Form::Map(entries) => self.map(node, entries),
            Form::Fold(fold) => fold::run(self, node, fold),
            Form::Bind { name, value, body } => {
                let value = self.evaluate(value)?;
                self.with(name, value, body)
            }
            Form::OptionalMap { of, name, body, flat } => match self.evaluate(of)? {
                CelValue::Optional(None) => Ok(CelValue::Optional(None)),
                CelValue::Optional(Some(inner)) => match (self.with(name, (*inner).clone(), body)?, flat) {
                    (mapped, false) => Ok(CelValue::Optional(Some(Arc::new(mapped)))),
                    (mapped @ CelValue::Optional(_), true) => Ok(mapped),
                    (other, true) => {
                        Err(failed(node, format_args!("`optFlatMap` needs an optional, not {}", other.type_name())))
                    }
                },
                other => Err(failed(node, format_args!("`optMap` needs an optional, not {}", other.type_name()))),
            },
        }
    }

    /// Evaluates a node in which a name stands for a value.
    pub(super) fn with(&mut self, name: &'a str, value: CelValue<'a>, body: &'a Node) -> Found<'a> {
        self.names.push((name, value));
        let found = self.evaluate(body);
        self.names.pop();
        found
    }

    fn name(&mut self, name: &str) -> Found<'a> {
        if let Some((_, value)) = self.names.iter().rev().find(|(known, _)| *known == name) {
            return Ok(value.clone());
        }
        if let Some(value) = self.scope.get(name) {
            return CelValue::of(value);
        }
        if let Some(type_name) = functions::type_name(name) {
            return Ok(CelValue::Type(type_name));
        }
        // The path's own error names the nearest root.
        let hinted = if self.meter.take_hint() { Path::of(name, Vec::new()).resolve(self.scope).err() } else { None };
        Err(hinted.unwrap_or_else(|| ExpressionError::Missing { path: name.to_owned(), hint: String::new() }))
    }

    fn select(&mut self, node: &'a Node, of: &'a Node, field: &str, optional: bool) -> Found<'a> {
        let (of_value, was_optional) = match self.evaluate(of)? {
            CelValue::Optional(None) => return Ok(CelValue::Optional(None)),
            CelValue::Optional(Some(inner)) => ((*inner).clone(), true),
            plain => (plain, false),
        };
        let optional = optional || was_optional;
        let found = match &of_value {
            CelValue::Map(map) => match map.get(&Key::Text(field.into()))? {
                Some(found) => Ok(found),
                None if optional => return Ok(CelValue::Optional(None)),
                None if self.is_expr => Ok(CelValue::Null),
                None => Err(self.missing(node, map, field)),
            },
            CelValue::Null if self.is_expr && optional => return Ok(CelValue::Optional(None)),
            other => Err(failed(node, format_args!(".{field} needs a map, not {}", other.type_name()))),
        };
        optional_result(found, optional)
    }

    fn has(&mut self, node: &'a Node, of: &'a Node, field: &str) -> Found<'a> {
        let value = match self.evaluate(of)? {
            CelValue::Optional(None) => return Ok(CelValue::Bool(false)),
            CelValue::Optional(Some(inner)) => (*inner).clone(),
            plain => plain,
        };
        match value {
            CelValue::Map(map) => Ok(CelValue::Bool(map.get(&Key::Text(field.into()))?.is_some())),
            other => Err(failed(node, format_args!("`has` needs a map, not {}", other.type_name()))),
        }
    }

    fn index(&mut self, node: &'a Node, of: &'a Node, at: &'a Node, optional: bool) -> Found<'a> {
        let (of_value, was_optional) = match self.evaluate(of)? {
            CelValue::Optional(None) => return Ok(CelValue::Optional(None)),
            CelValue::Optional(Some(inner)) => ((*inner).clone(), true),
            plain => (plain, false),
        };
        let optional = optional || was_optional;
        let at = self.evaluate(at)?;
        // A key is a copy.
        self.meter.charge_bytes(at.bytes())?;
        let found = match &of_value {
            CelValue::Map(map) => match Key::of(&at) {
                Some(key) => match (map.get(&key)?, key) {
                    (Some(found), _) => Ok(found),
                    (None, _) if self.is_expr && !optional => Ok(CelValue::Null),
                    (None, Key::Text(name)) if !optional => Err(self.missing(node, map, &name)),
                    (None, _) => Err(ExpressionError::Missing {
                        path: format!("the key at column {}", node.column),
                        hint: String::new(),
                    }),
                },
                None => Err(failed(node, format_args!("a map has no keys of the type {}", at.type_name()))),
            },
            CelValue::List(list) => item(node, list, &at, self.is_expr),
            CelValue::Null if self.is_expr && optional => return Ok(CelValue::Optional(None)),
            other => Err(failed(
                node,
                format_args!("`[{}]` needs a list or a map, not {}", at.type_name(), other.type_name()),
            )),
        };
        optional_result(found, optional)
    }

    fn binary(&mut self, node: &'a Node, operator: Binary, left: &'a Node, right: &'a Node) -> Found<'a> {
        let left = self.evaluate(left)?;
        let right = self.evaluate(right)?;
        if self.is_expr && operator == Binary::In && matches!(right, CelValue::Null) {
            return Ok(CelValue::Bool(false));
        }
        operators::binary(operator, &left, &right, self.meter).map_err(|error| match error {
            ExpressionError::Failed(message) => failed(node, message),
            other => other,
        })
    }

    /// `false && error` is false, in both orders; `true || error` is true.
    fn logic(&mut self, node: &'a Node, all: bool, parts: &'a [Node]) -> Found<'a> {
        let mut first_error = None;
        for part in parts {
            let error = match self.evaluate(part) {
                Ok(CelValue::Bool(value)) if value != all => return Ok(CelValue::Bool(value)),
                Ok(CelValue::Bool(_)) => continue,
                Ok(other) => {
                    let sign = if all { "&&" } else { "||" };
                    failed(node, format_args!("`{sign}` needs bools, not {}", other.type_name()))
                }
                Err(error) if is_absorbable(&error) => error,
                Err(error) => return Err(error),
            };
            first_error.get_or_insert(error);
        }
        first_error.map_or(Ok(CelValue::Bool(all)), Err)
    }

    fn list(&mut self, items: &'a [(bool, Node)]) -> Found<'a> {
        self.meter.charge_items(items.len())?;
        let mut found = Vec::with_capacity(items.len());
        for (optional, item) in items {
            match (self.evaluate(item)?, optional) {
                (CelValue::Optional(None), true) => {}
                (CelValue::Optional(Some(inner)), true) => found.push((*inner).clone()),
                (_, true) => return Err(failed(item, "an item after `?` must be an optional")),
                (value, false) => found.push(value),
            }
        }
        Ok(CelValue::list(found))
    }

    fn map(&mut self, node: &'a Node, entries: &'a [(bool, Node, Node)]) -> Found<'a> {
        self.meter.charge_items(entries.len().saturating_mul(3))?;
        let mut found = BTreeMap::new();
        for (optional, key_node, value) in entries {
            let key = self.evaluate(key_node)?;
            self.meter.allocate(key.bytes())?;
            let key = match (Key::of(&key), &key) {
                (Some(key), CelValue::Bool(_) | CelValue::Int(_) | CelValue::Uint(_) | CelValue::Text(_)) => key,
                _ => return Err(failed(key_node, format_args!("{} cannot be a key", key.type_name()))),
            };
            let value = match (self.evaluate(value)?, optional) {
                (CelValue::Optional(None), true) => continue,
                (CelValue::Optional(Some(inner)), true) => (*inner).clone(),
                (_, true) => return Err(failed(key_node, "an entry after `?` must have an optional value")),
                (value, false) => value,
            };
            if found.insert(key, value).is_some() {
                return Err(failed(node, "the map has a key twice"));
            }
        }
        Ok(CelValue::Map(Map::Shared(Arc::new(found))))
    }

    /// Describes that a map has no member of this name.
    fn missing(&mut self, node: &Node, map: &Map<'_>, name: &str) -> ExpressionError {
        let near = match map {
            _ if !self.meter.take_hint() => None,
            Map::Document(members) => nearest(name, members.keys().map(String::as_str)),
            Map::Shared(entries) => nearest(name, entries.keys().filter_map(Key::as_text)),
        };
        ExpressionError::Missing {
            path: path_text(node).unwrap_or_else(|| format!("{name} (column {})", node.column)),
            hint: near.map_or_else(String::new, |name| format!("; did you mean {name:?}?")),
        }
    }
}

/// Wraps the value that an optional access finds. A missing one gives an empty optional.
fn optional_result(found: Found<'_>, optional: bool) -> Found<'_> {
    match found {
        Ok(found) if optional => Ok(CelValue::Optional(Some(Arc::new(found)))),
        Err(ExpressionError::Missing { .. }) if optional => Ok(CelValue::Optional(None)),
        found => found,
    }
}

/// Returns an item of a list. In Expr a negative index counts from the end, and one with a fraction
/// is cut.
fn item<'a>(node: &Node, list: &List<'a>, at: &CelValue<'_>, is_expr: bool) -> Found<'a> {
    let index = match (Key::of(at), at) {
        (Some(Key::Number(index)), _) if is_expr && index < 0 => index + list.len() as i128,
        (Some(Key::Number(index)), _) => index,
        (_, CelValue::Double(index)) if is_expr => *index as i128,
        _ => return Err(failed(node, format_args!("a list has no items at the type {}", at.type_name()))),
    };
    let found = usize::try_from(index).ok().map(|index| list.get(index)).transpose()?.flatten();
    found.ok_or_else(|| ExpressionError::Missing {
        path: format!("the item at column {}", node.column),
        hint: format!("; the list has {} items", list.len()),
    })
}

/// Returns the text of a node that is a path.
fn path_text(node: &Node) -> Option<String> {
    match &node.form {
        Form::Name(name) => Some(name.clone()),
        Form::Select { of, field, .. } => Some(format!("{}.{field}", path_text(of)?)),
        Form::Index { of, at, .. } => match &at.form {
            Form::Literal(CelValue::Int(index)) => Some(format!("{}[{index}]", path_text(of)?)),
            Form::Literal(CelValue::Text(text)) => Some(format!("{}['{}']", path_text(of)?, text.as_str())),
            _ => None,
        },
        _ => None,
    }
}
