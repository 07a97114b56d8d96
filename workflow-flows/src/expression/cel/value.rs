use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Number, Value};

use super::super::ExpressionError;
use super::meter::Meter;

/// A value of CEL. Documents are borrowed, so a clone copies nothing.
#[derive(Debug, Clone)]
pub(super) enum CelValue<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Text(Text<'a>),
    Bytes(Arc<[u8]>),
    List(List<'a>),
    Map(Map<'a>),
    Type(&'static str),
    Optional(Option<Arc<CelValue<'a>>>),
}

#[derive(Debug, Clone)]
pub(super) enum Text<'a> {
    Borrowed(&'a str),
    Shared(Arc<str>),
}

#[derive(Debug, Clone)]
pub(super) enum List<'a> {
    Document(&'a [Value]),
    Shared(Arc<Vec<CelValue<'a>>>),
}

#[derive(Debug, Clone)]
pub(super) enum Map<'a> {
    Document(&'a serde_json::Map<String, Value>),
    Shared(Arc<BTreeMap<Key, CelValue<'a>>>),
}

/// The key of a map. Integers of both types are equal, so they have one form.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    Bool(bool),
    Number(i128),
    Text(Arc<str>),
}

impl Text<'_> {
    pub(super) fn as_str(&self) -> &str {
        match self {
            Self::Borrowed(text) => text,
            Self::Shared(text) => text,
        }
    }
}

impl<'a> List<'a> {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Document(items) => items.len(),
            Self::Shared(items) => items.len(),
        }
    }

    pub(super) fn get(&self, index: usize) -> Result<Option<CelValue<'a>>, ExpressionError> {
        match self {
            Self::Document(items) => items.get(index).map(CelValue::of).transpose(),
            Self::Shared(items) => Ok(items.get(index).cloned()),
        }
    }

    /// Returns the items, each for one unit of fuel.
    pub(super) fn items(&self, meter: &mut Meter) -> Result<Vec<CelValue<'a>>, ExpressionError> {
        meter.charge_items(self.len())?;
        (0..self.len()).filter_map(|index| self.get(index).transpose()).collect()
    }
}

impl<'a> Map<'a> {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Document(members) => members.len(),
            Self::Shared(entries) => entries.len(),
        }
    }

    pub(super) fn get(&self, key: &Key) -> Result<Option<CelValue<'a>>, ExpressionError> {
        match (self, key) {
            (Self::Document(members), Key::Text(name)) => members.get(&**name).map(CelValue::of).transpose(),
            (Self::Document(_), _) => Ok(None),
            (Self::Shared(entries), key) => Ok(entries.get(key).cloned()),
        }
    }

    /// Returns the keys, each for one unit of fuel, and for that of its copy as a [`Key`].
    pub(super) fn keys(&self, meter: &mut Meter) -> Result<Vec<CelValue<'a>>, ExpressionError> {
        meter.charge_items(self.len())?;
        let keys: Vec<_> = match self {
            Self::Document(members) => members.keys().map(|name| CelValue::Text(Text::Borrowed(name))).collect(),
            Self::Shared(entries) => entries.keys().map(Key::to_value).collect(),
        };
        keys.iter().try_for_each(|key| meter.charge_bytes(key.bytes()))?;
        Ok(keys)
    }
}

impl Key {
    pub(super) fn of(value: &CelValue<'_>) -> Option<Self> {
        Some(match value {
            CelValue::Bool(value) => Self::Bool(*value),
            CelValue::Int(value) => Self::Number((*value).into()),
            CelValue::Uint(value) => Self::Number((*value).into()),
            CelValue::Double(value) if value.fract() == 0.0 && value.abs() < 9e18 => Self::Number(*value as i128),
            CelValue::Text(text) => Self::Text(text.as_str().into()),
            _ => return None,
        })
    }

    pub(super) fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    fn to_value<'a>(&self) -> CelValue<'a> {
        match self {
            Self::Bool(value) => CelValue::Bool(*value),
            Self::Number(value) => match i64::try_from(*value) {
                Ok(value) => CelValue::Int(value),
                Err(_) => CelValue::Uint(u64::try_from(*value).unwrap_or(u64::MAX)),
            },
            Self::Text(text) => CelValue::Text(Text::Shared(Arc::clone(text))),
        }
    }
}

impl<'a> CelValue<'a> {
    /// Shows a JSON value. An integer becomes an `int`, any other number a `double`.
    pub(super) fn of(value: &'a Value) -> Result<Self, ExpressionError> {
        Ok(match value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Bool(*value),
            Value::Number(number) => match (number.as_i64(), number.is_u64(), number.as_f64()) {
                (Some(value), _, _) => Self::Int(value),
                (None, false, Some(value)) => Self::Double(value),
                _ => return Err(ExpressionError::Failed("an integer is above 2^63 - 1".to_owned())),
            },
            Value::String(text) => Self::Text(Text::Borrowed(text)),
            Value::Array(items) => Self::List(List::Document(items)),
            Value::Object(members) => Self::Map(Map::Document(members)),
        })
    }

    pub(super) fn text(text: &str) -> Self {
        Self::Text(Text::Shared(text.into()))
    }

    pub(super) fn list(items: Vec<Self>) -> Self {
        Self::List(List::Shared(Arc::new(items)))
    }

    /// Returns the bytes of a text, or 0.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Text(text) => text.as_str().len(),
            Self::Bytes(bytes) => bytes.len(),
            _ => 0,
        }
    }

    /// Returns the name of the type, as CEL has it.
    pub(super) fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint",
            Self::Double(_) => "double",
            Self::Text(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::Type(_) => "type",
            Self::Optional(_) => "optional_type",
        }
    }

    /// Returns whether two values are equal. Numbers of all types are compared by value.
    pub(super) fn equals(&self, other: &Self, meter: &mut Meter) -> Result<bool, ExpressionError> {
        meter.tick()?;
        Ok(match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::Bool(left), Self::Bool(right)) => left == right,
            (Self::Text(left), Self::Text(right)) => {
                let (left, right) = (left.as_str(), right.as_str());
                meter.charge_bytes(left.len().min(right.len()))?;
                left == right
            }
            (Self::Bytes(left), Self::Bytes(right)) => {
                meter.charge_bytes(left.len().min(right.len()))?;
                left == right
            }
            (Self::List(left), Self::List(right)) if left.len() == right.len() => {
                for index in 0..left.len() {
                    match (left.get(index)?, right.get(index)?) {
                        (Some(left), Some(right)) if left.equals(&right, meter)? => {}
                        _ => return Ok(false),
                    }
                }
                true
            }
            (Self::Map(left), Self::Map(right)) if left.len() == right.len() => {
                for key in left.keys(meter)? {
                    let Some(key) = Key::of(&key) else { return Ok(false) };
                    match (left.get(&key)?, right.get(&key)?) {
                        (Some(left), Some(right)) if left.equals(&right, meter)? => {}
                        _ => return Ok(false),
                    }
                }
                true
            }
            (Self::Type(left), Self::Type(right)) => left == right,
            (Self::Optional(left), Self::Optional(right)) => match (left, right) {
                (None, None) => true,
                (Some(left), Some(right)) => left.equals(right, meter)?,
                _ => false,
            },
            _ => self.compare_numbers(other) == Some(Ordering::Equal),
        })
    }

    /// Returns the order of two values, or `None` if they have none.
    pub(super) fn order(&self, other: &Self, meter: &mut Meter) -> Result<Option<Ordering>, ExpressionError> {
        meter.tick()?;
        Ok(match (self, other) {
            (Self::Bool(left), Self::Bool(right)) => Some(left.cmp(right)),
            (Self::Text(left), Self::Text(right)) => {
                let (left, right) = (left.as_str(), right.as_str());
                meter.charge_bytes(left.len().min(right.len()))?;
                Some(left.cmp(right))
            }
            (Self::Bytes(left), Self::Bytes(right)) => {
                meter.charge_bytes(left.len().min(right.len()))?;
                Some(left.cmp(right))
            }
            _ => self.compare_numbers(other),
        })
    }

    fn compare_numbers(&self, other: &Self) -> Option<Ordering> {
        let whole = |value: &Self| match value {
            Self::Int(value) => Some(i128::from(*value)),
            Self::Uint(value) => Some(i128::from(*value)),
            _ => None,
        };
        match (self, other) {
            (Self::Double(left), Self::Double(right)) => left.partial_cmp(right),
            (Self::Double(left), right) => compare_whole(whole(right)?, *left).map(Ordering::reverse),
            (left, Self::Double(right)) => compare_whole(whole(left)?, *right),
            (left, right) => Some(whole(left)?.cmp(&whole(right)?)),
        }
    }

    /// Returns the value as JSON.
    pub(super) fn to_json(&self, meter: &mut Meter) -> Result<Value, ExpressionError> {
        meter.tick()?;
        let failed = |message: &str| Err(ExpressionError::Failed(message.to_owned()));
        Ok(match self {
            Self::Null | Self::Optional(None) => Value::Null,
            Self::Bool(value) => Value::Bool(*value),
            Self::Int(value) => Value::from(*value),
            Self::Uint(value) => Value::from(*value),
            Self::Double(value) => match Number::from_f64(*value) {
                Some(number) => Value::Number(number),
                None => return failed("the result has a number that is not finite; JSON has none"),
            },
            Self::Text(text) => {
                meter.allocate(text.as_str().len())?;
                Value::String(text.as_str().to_owned())
            }
            Self::Bytes(bytes) => {
                meter.allocate(bytes.len().saturating_mul(2))?;
                Value::String(STANDARD.encode(bytes))
            }
            Self::List(list) => {
                meter.allocate(list.len().saturating_mul(size_of::<Value>()))?;
                let mut items = Vec::with_capacity(list.len());
                for item in list.items(meter)? {
                    items.push(item.to_json(meter)?);
                }
                Value::Array(items)
            }
            Self::Map(map) => {
                let mut members = serde_json::Map::new();
                for key in map.keys(meter)? {
                    let Some(name) = Key::of(&key) else { continue };
                    let Some(value) = map.get(&name)? else { continue };
                    let name = match name {
                        Key::Bool(value) => value.to_string(),
                        Key::Number(value) => value.to_string(),
                        Key::Text(text) => text.to_string(),
                    };
                    meter.allocate(name.len() + 2 * size_of::<Value>())?;
                    members.insert(name, value.to_json(meter)?);
                }
                Value::Object(members)
            }
            Self::Optional(Some(value)) => value.to_json(meter)?,
            Self::Type(_) => return failed("the result is a type; string(..) of a value is none, compare it"),
        })
    }
}

/// Compares an integer with a double, exactly.
fn compare_whole(whole: i128, double: f64) -> Option<Ordering> {
    if double.is_nan() {
        return None;
    }
    if double.abs() >= 1e30 {
        return Some(if double > 0.0 { Ordering::Less } else { Ordering::Greater });
    }
    let floor = double.floor();
    let order = whole.cmp(&(floor as i128));
    Some(if order == Ordering::Equal && double > floor { Ordering::Less } else { order })
}
