use std::cmp::Ordering;

use super::functions::Refusal;
use super::meter::Meter;
use super::value::CelValue;

type Found<'a> = Result<Option<CelValue<'a>>, Refusal>;

/// Calls a function of `math`. `None`: the name is no such function, or it has none of these types.
pub(super) fn call<'a>(meter: &mut Meter, name: &str, values: &[CelValue<'a>]) -> Found<'a> {
    let Some(name) = name.strip_prefix("math.") else { return Ok(None) };
    Ok(match (name, values) {
        ("greatest", _) => extreme(meter, values, Ordering::Greater)?,
        ("least", _) => extreme(meter, values, Ordering::Less)?,
        (_, [CelValue::Double(value)]) => double(name, *value),
        (_, [CelValue::Int(value)]) => int(name, *value)?,
        (_, [CelValue::Uint(value)]) => match name {
            "abs" => Some(CelValue::Uint(*value)),
            "sign" => Some(CelValue::Uint((*value).min(1))),
            "bitNot" => Some(CelValue::Uint(!value)),
            "sqrt" => Some(CelValue::Double((*value as f64).sqrt())),
            _ => None,
        },
        (_, [CelValue::Int(left), CelValue::Int(right)]) => match name {
            "bitAnd" => Some(CelValue::Int(left & right)),
            "bitOr" => Some(CelValue::Int(left | right)),
            "bitXor" => Some(CelValue::Int(left ^ right)),
            "bitShiftLeft" => Some(CelValue::Int(left.checked_shl(shift(*right)?).unwrap_or(0))),
            // A shift to the right fills with zeros.
            "bitShiftRight" => {
                Some(CelValue::Int(left.cast_unsigned().checked_shr(shift(*right)?).unwrap_or(0).cast_signed()))
            }
            _ => None,
        },
        (_, [CelValue::Uint(left), CelValue::Uint(right)]) => match name {
            "bitAnd" => Some(CelValue::Uint(left & right)),
            "bitOr" => Some(CelValue::Uint(left | right)),
            "bitXor" => Some(CelValue::Uint(left ^ right)),
            _ => None,
        },
        (_, [CelValue::Uint(left), CelValue::Int(right)]) => match name {
            "bitShiftLeft" => Some(CelValue::Uint(left.checked_shl(shift(*right)?).unwrap_or(0))),
            "bitShiftRight" => Some(CelValue::Uint(left.checked_shr(shift(*right)?).unwrap_or(0))),
            _ => None,
        },
        _ => None,
    })
}

fn shift(bits: i64) -> Result<u32, Refusal> {
    if bits < 0 {
        return Err(Refusal::Unfit(": the shift is negative"));
    }
    Ok(u32::try_from(bits).unwrap_or(u32::MAX))
}

fn double<'a>(name: &str, value: f64) -> Option<CelValue<'a>> {
    Some(match name {
        "abs" => CelValue::Double(value.abs()),
        "ceil" => CelValue::Double(value.ceil()),
        "floor" => CelValue::Double(value.floor()),
        "round" => CelValue::Double(value.round()),
        "trunc" => CelValue::Double(value.trunc()),
        "sqrt" => CelValue::Double(value.sqrt()),
        "sign" if value == 0.0 || value.is_nan() => CelValue::Double(value),
        "sign" => CelValue::Double(value.signum()),
        "isFinite" => CelValue::Bool(value.is_finite()),
        "isInf" => CelValue::Bool(value.is_infinite()),
        "isNaN" => CelValue::Bool(value.is_nan()),
        _ => return None,
    })
}

fn int<'a>(name: &str, value: i64) -> Found<'a> {
    Ok(Some(match name {
        "ceil" | "floor" | "round" | "trunc" => CelValue::Int(value),
        "isFinite" => CelValue::Bool(true),
        "isInf" | "isNaN" => CelValue::Bool(false),
        "abs" => CelValue::Int(value.checked_abs().ok_or(Refusal::Unfit(": the result leaves the range of int"))?),
        "sign" => CelValue::Int(value.signum()),
        "bitNot" => CelValue::Int(!value),
        "sqrt" => CelValue::Double((value as f64).sqrt()),
        _ => return Ok(None),
    }))
}

/// Returns the greatest or least of some numbers, or of those in one list.
fn extreme<'a>(meter: &mut Meter, values: &[CelValue<'a>], wanted: Ordering) -> Found<'a> {
    let listed = match values {
        [CelValue::List(list)] => list.items(meter)?,
        _ => values.to_vec(),
    };
    let mut found: Option<CelValue<'a>> = None;
    for value in listed {
        if !matches!(value, CelValue::Int(_) | CelValue::Uint(_) | CelValue::Double(_)) {
            return Ok(None);
        }
        found = Some(match found {
            Some(best) if value.order(&best, meter)? != Some(wanted) => best,
            _ => value,
        });
    }
    found.map(Some).ok_or(Refusal::Unfit(": the list is empty"))
}
