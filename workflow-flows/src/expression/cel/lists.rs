use std::sync::Arc;

use super::fold;
use super::functions::Refusal;
use super::interpreter::Interpreter;
use super::meter::Meter;
use super::node::{Binary, Node};
use super::operators;
use super::value::{CelValue, List};

type Found<'a> = Result<Option<CelValue<'a>>, Refusal>;

/// Calls a function of lists. `None`: the name is no such function, or it has none of these types.
pub(super) fn call<'a>(
    interpreter: &mut Interpreter<'a, '_>,
    node: &'a Node,
    name: &str,
    values: &[CelValue<'a>],
) -> Found<'a> {
    if let ("lists.range", [CelValue::Int(end)]) = (name, values) {
        interpreter.meter.charge_items(usize::try_from(*end).unwrap_or(0))?;
        return Ok(Some(CelValue::list((0..*end).map(CelValue::Int).collect())));
    }
    if let ("optional.unwrap" | "unwrapOpt", [CelValue::List(list)]) = (name, values) {
        let mut found = Vec::new();
        for item in list.items(interpreter.meter)? {
            match item {
                CelValue::Optional(Some(inner)) => found.push((*inner).clone()),
                CelValue::Optional(None) => {}
                _ => return Err(Refusal::Unfit(": the list has an item that is no optional")),
            }
        }
        return Ok(Some(CelValue::list(found)));
    }
    let Some((CelValue::List(list), rest)) = values.split_first() else { return Ok(None) };
    let meter = &mut *interpreter.meter;
    Ok(Some(match (name, rest) {
        ("first", []) => CelValue::Optional(list.get(0)?.map(Arc::new)),
        ("last", []) => match list.len().checked_sub(1) {
            Some(last) => CelValue::Optional(list.get(last)?.map(Arc::new)),
            None => CelValue::Optional(None),
        },
        ("reverse", []) => CelValue::list(list.items(meter)?.into_iter().rev().collect()),
        ("slice", [CelValue::Int(start), CelValue::Int(end)]) => {
            let index = |at: i64| usize::try_from(at).ok().filter(|at| *at <= list.len());
            let unfit = || Refusal::Unfit(": the bounds do not fit the list");
            let start = index(*start).ok_or_else(unfit)?;
            let length = index(*end).and_then(|end| end.checked_sub(start)).ok_or_else(unfit)?;
            CelValue::list(list.items(meter)?.into_iter().skip(start).take(length).collect())
        }
        ("flatten", []) => flatten(meter, list, 1)?,
        ("flatten", [CelValue::Int(levels)]) => {
            let levels = u64::try_from(*levels).map_err(|_| Refusal::Unfit(": the depth is negative"))?;
            flatten(meter, list, levels)?
        }
        ("distinct", []) => distinct(meter, list)?,
        ("sum", []) => sum(meter, list)?,
        ("sort", []) => {
            let keyed = list.items(meter)?.into_iter().map(|item| (item, ())).collect();
            let sorted = fold::sorted(interpreter, node, keyed)?;
            CelValue::list(sorted.into_iter().map(|(item, ())| item).collect())
        }
        ("join", []) => join(meter, list, "")?,
        ("join", [CelValue::Text(between)]) => join(meter, list, between.as_str())?,
        _ => return Ok(None),
    }))
}

fn flatten<'a>(meter: &mut Meter, list: &List<'a>, levels: u64) -> Result<CelValue<'a>, Refusal> {
    let mut found = Vec::new();
    flatten_into(meter, list, levels, &mut found)?;
    Ok(CelValue::list(found))
}

fn flatten_into<'a>(
    meter: &mut Meter,
    list: &List<'a>,
    levels: u64,
    found: &mut Vec<CelValue<'a>>,
) -> Result<(), Refusal> {
    for item in list.items(meter)? {
        match item {
            CelValue::List(inner) if levels > 0 => flatten_into(meter, &inner, levels - 1, found)?,
            other => found.push(other),
        }
    }
    Ok(())
}

/// Keeps the first of equal items.
fn distinct<'a>(meter: &mut Meter, list: &List<'a>) -> Result<CelValue<'a>, Refusal> {
    let mut found: Vec<CelValue<'a>> = Vec::new();
    for item in list.items(meter)? {
        let mut is_new = true;
        for known in &found {
            if item.equals(known, meter)? {
                is_new = false;
                break;
            }
        }
        if is_new {
            found.push(item);
        }
    }
    Ok(CelValue::list(found))
}

/// Adds the numbers of a list. The sum of none is 0.
fn sum<'a>(meter: &mut Meter, list: &List<'a>) -> Result<CelValue<'a>, Refusal> {
    let mut total = CelValue::Int(0);
    for item in list.items(meter)? {
        if !matches!(item, CelValue::Int(_) | CelValue::Uint(_) | CelValue::Double(_)) {
            return Err(Refusal::Unfit(": only numbers can be added"));
        }
        total = operators::binary(Binary::Add, &total, &item, meter)?;
    }
    Ok(total)
}

fn join<'a>(meter: &mut Meter, list: &List<'a>, between: &str) -> Result<CelValue<'a>, Refusal> {
    let items = list.items(meter)?;
    let mut texts = Vec::with_capacity(items.len());
    for item in &items {
        match item {
            CelValue::Text(text) => texts.push(text.as_str()),
            _ => return Err(Refusal::Unfit(": only strings can be joined")),
        }
    }
    let bytes = texts.iter().map(|text| text.len() + between.len()).fold(0, usize::saturating_add);
    meter.allocate(bytes)?;
    Ok(CelValue::text(&texts.join(between)))
}
