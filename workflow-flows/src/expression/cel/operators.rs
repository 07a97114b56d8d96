use std::cmp::Ordering;

use super::super::ExpressionError;
use super::meter::Meter;
use super::node::Binary;
use super::value::{CelValue, Key};

/// Applies an operator. Its errors name types alone.
pub(super) fn binary<'a>(
    operator: Binary,
    left: &CelValue<'a>,
    right: &CelValue<'a>,
    meter: &mut Meter,
) -> Result<CelValue<'a>, ExpressionError> {
    let types = || failed(format!("`{}` cannot take {} and {}", operator.sign(), left.type_name(), right.type_name()));
    match operator {
        Binary::Equal => left.equals(right, meter).map(CelValue::Bool),
        Binary::Unequal => left.equals(right, meter).map(|equal| CelValue::Bool(!equal)),
        Binary::In => contains(left, right, meter),
        Binary::Less | Binary::LessEqual | Binary::Greater | Binary::GreaterEqual => {
            let order = left.order(right, meter)?;
            let is_number =
                |value: &CelValue<'_>| matches!(value, CelValue::Int(_) | CelValue::Uint(_) | CelValue::Double(_));
            // Nothing is less or greater than NaN.
            let Some(order) = order else {
                return if is_number(left) && is_number(right) { Ok(CelValue::Bool(false)) } else { Err(types()) };
            };
            Ok(CelValue::Bool(match operator {
                Binary::Less => order == Ordering::Less,
                Binary::LessEqual => order != Ordering::Greater,
                Binary::Greater => order == Ordering::Greater,
                _ => order != Ordering::Less,
            }))
        }
        Binary::Add => match (left, right) {
            (CelValue::Text(left), CelValue::Text(right)) => {
                let (left, right) = (left.as_str(), right.as_str());
                meter.allocate(left.len().saturating_add(right.len()))?;
                Ok(CelValue::text(&[left, right].concat()))
            }
            (CelValue::Bytes(left), CelValue::Bytes(right)) => {
                meter.allocate(left.len().saturating_add(right.len()))?;
                Ok(CelValue::Bytes([left.as_ref(), right.as_ref()].concat().into()))
            }
            (CelValue::List(left), CelValue::List(right)) => {
                let mut items = left.items(meter)?;
                items.extend(right.items(meter)?);
                Ok(CelValue::list(items))
            }
            _ => arithmetic(operator, left, right).unwrap_or_else(|| Err(types())),
        },
        _ => arithmetic(operator, left, right).unwrap_or_else(|| Err(types())),
    }
}

fn contains<'a>(
    item: &CelValue<'a>,
    within: &CelValue<'a>,
    meter: &mut Meter,
) -> Result<CelValue<'a>, ExpressionError> {
    match within {
        CelValue::List(list) => {
            for index in 0..list.len() {
                if let Some(other) = list.get(index)?
                    && item.equals(&other, meter)?
                {
                    return Ok(CelValue::Bool(true));
                }
            }
            Ok(CelValue::Bool(false))
        }
        CelValue::Map(map) => {
            meter.charge_bytes(item.bytes())?;
            match Key::of(item) {
                Some(key) => Ok(CelValue::Bool(map.get(&key)?.is_some())),
                None if matches!(item, CelValue::Double(_)) => Ok(CelValue::Bool(false)),
                None => Err(failed(format!("a map has no keys of the type {}", item.type_name()))),
            }
        }
        other => Err(failed(format!("`in` needs a list or a map on its right, not {}", other.type_name()))),
    }
}

/// Applies an operator to two integers of one type. `None` if the result does not fit.
macro_rules! checked {
    ($operator:expr, $left:expr, $right:expr) => {
        match $operator {
            Binary::Add => $left.checked_add($right),
            Binary::Subtract => $left.checked_sub($right),
            Binary::Multiply => $left.checked_mul($right),
            Binary::Divide => $left.checked_div($right),
            Binary::Remainder => $left.checked_rem($right),
            _ => return None,
        }
    };
}

/// Applies an operator to two numbers. `None` if the types do not fit.
///
/// An `int` beside a `double` counts as a `double`, because JSON does not tell 2 from 2.0.
fn arithmetic<'a>(
    operator: Binary,
    left: &CelValue<'a>,
    right: &CelValue<'a>,
) -> Option<Result<CelValue<'a>, ExpressionError>> {
    let refused = || {
        let divides = matches!(operator, Binary::Divide | Binary::Remainder);
        failed(match right {
            CelValue::Int(0) | CelValue::Uint(0) if divides => format!("`{}` by zero", operator.sign()),
            _ => format!("`{}` leaves the range of {}", operator.sign(), left.type_name()),
        })
    };
    Some(match (left, right) {
        (CelValue::Int(left), CelValue::Int(right)) => {
            checked!(operator, left, *right).map(CelValue::Int).ok_or_else(refused)
        }
        (CelValue::Uint(left), CelValue::Uint(right)) => {
            checked!(operator, left, *right).map(CelValue::Uint).ok_or_else(refused)
        }
        (CelValue::Double(left), CelValue::Double(right)) => double(operator, *left, *right)?,
        (CelValue::Int(left), CelValue::Double(right)) => double(operator, *left as f64, *right)?,
        (CelValue::Double(left), CelValue::Int(right)) => double(operator, *left, *right as f64)?,
        _ => return None,
    })
}

fn double<'a>(operator: Binary, left: f64, right: f64) -> Option<Result<CelValue<'a>, ExpressionError>> {
    Some(Ok(CelValue::Double(match operator {
        Binary::Add => left + right,
        Binary::Subtract => left - right,
        Binary::Multiply => left * right,
        Binary::Divide => left / right,
        _ => return None,
    })))
}

/// Returns the negative of a number, or what is wrong.
pub(super) fn negate<'a>(value: &CelValue<'a>) -> Result<CelValue<'a>, String> {
    match value {
        CelValue::Int(value) => {
            value.checked_neg().map(CelValue::Int).ok_or_else(|| "`-` leaves the range of int".to_owned())
        }
        CelValue::Double(value) => Ok(CelValue::Double(-value)),
        other => Err(format!("`-` cannot take {}", other.type_name())),
    }
}

fn failed(message: String) -> ExpressionError {
    ExpressionError::Failed(message)
}
