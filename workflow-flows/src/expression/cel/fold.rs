use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::ExpressionError;
use super::interpreter::{Interpreter, failed, is_absorbable};
use super::node::{Fold, FoldKind, Node};
use super::value::{CelValue, Key, Map};

type Found<'a> = Result<CelValue<'a>, ExpressionError>;

/// Runs a macro over the items of a list, or the keys of a map.
pub(super) fn run<'a>(interpreter: &mut Interpreter<'a, '_>, node: &'a Node, fold: &'a Fold) -> Found<'a> {
    let turns = turns(interpreter, node, fold)?;
    match fold.kind {
        FoldKind::All => any(interpreter, fold, turns, false),
        FoldKind::Exists => any(interpreter, fold, turns, true),
        FoldKind::ExistsOne => exists_one(interpreter, fold, turns),
        FoldKind::List | FoldKind::Filter => list(interpreter, fold, turns),
        FoldKind::Map | FoldKind::MapEntry => map(interpreter, fold, node, turns),
        FoldKind::SortBy => sort_by(interpreter, fold, node, turns),
    }
}

/// The values that the names of one turn stand for.
type Turn<'a> = (CelValue<'a>, Option<CelValue<'a>>);

fn turns<'a>(
    interpreter: &mut Interpreter<'a, '_>,
    node: &Node,
    fold: &'a Fold,
) -> Result<Vec<Turn<'a>>, ExpressionError> {
    let over = interpreter.evaluate(&fold.over)?;
    let pairs = fold.second.is_some();
    match &over {
        CelValue::List(list) => {
            let items = list.items(interpreter.meter)?.into_iter();
            Ok(if pairs {
                (0..).map(CelValue::Int).zip(items).map(|(index, item)| (index, Some(item))).collect()
            } else {
                items.map(|item| (item, None)).collect()
            })
        }
        CelValue::Map(map) if fold.kind != FoldKind::SortBy => {
            let keys = map.keys(interpreter.meter)?;
            let mut found = Vec::with_capacity(keys.len());
            for key in keys {
                let value = match (pairs, Key::of(&key)) {
                    (true, Some(key)) => map.get(&key)?,
                    _ => None,
                };
                found.push((key, value));
            }
            Ok(found)
        }
        other => Err(failed(node, format_args!("a loop needs a list or a map, not {}", other.type_name()))),
    }
}

/// Evaluates a node in which the names of the macro stand for one turn.
fn turn<'a>(interpreter: &mut Interpreter<'a, '_>, fold: &'a Fold, body: &'a Node, turn: Turn<'a>) -> Found<'a> {
    let known = interpreter.names.len();
    interpreter.names.push((&fold.first, turn.0));
    if let (Some(name), Some(value)) = (&fold.second, turn.1) {
        interpreter.names.push((name, value));
    }
    let found = interpreter.evaluate(body);
    interpreter.names.truncate(known);
    found
}

/// Returns whether the condition of a macro holds in one turn.
fn holds<'a>(
    interpreter: &mut Interpreter<'a, '_>,
    fold: &'a Fold,
    condition: &'a Node,
    values: Turn<'a>,
) -> Result<bool, ExpressionError> {
    match turn(interpreter, fold, condition, values)? {
        CelValue::Bool(value) => Ok(value),
        other => Err(failed(condition, format_args!("a condition is needed here, not {}", other.type_name()))),
    }
}

/// `exists` looks for a turn that is true, `all` for one that is false. A turn that is found
/// decides, whatever failed before it.
fn any<'a>(interpreter: &mut Interpreter<'a, '_>, fold: &'a Fold, turns: Vec<Turn<'a>>, wanted: bool) -> Found<'a> {
    let mut first_error = None;
    for values in turns {
        match holds(interpreter, fold, &fold.body, values) {
            Ok(found) if found == wanted => return Ok(CelValue::Bool(wanted)),
            Ok(_) => {}
            Err(error) if is_absorbable(&error) => {
                first_error.get_or_insert(error);
            }
            Err(error) => return Err(error),
        }
    }
    first_error.map_or(Ok(CelValue::Bool(!wanted)), Err)
}

fn exists_one<'a>(interpreter: &mut Interpreter<'a, '_>, fold: &'a Fold, turns: Vec<Turn<'a>>) -> Found<'a> {
    let mut found = 0_usize;
    for values in turns {
        found += usize::from(holds(interpreter, fold, &fold.body, values)?);
    }
    Ok(CelValue::Bool(found == 1))
}

fn list<'a>(interpreter: &mut Interpreter<'a, '_>, fold: &'a Fold, turns: Vec<Turn<'a>>) -> Found<'a> {
    interpreter.meter.charge_items(turns.len())?;
    let mut found = Vec::new();
    for values in turns {
        let condition = if fold.kind == FoldKind::Filter { Some(&fold.body) } else { fold.filter.as_ref() };
        if let Some(condition) = condition
            && !holds(interpreter, fold, condition, values.clone())?
        {
            continue;
        }
        found.push(match fold.kind {
            FoldKind::Filter => values.0,
            _ => turn(interpreter, fold, &fold.body, values)?,
        });
    }
    Ok(CelValue::list(found))
}

fn map<'a>(interpreter: &mut Interpreter<'a, '_>, fold: &'a Fold, node: &'a Node, turns: Vec<Turn<'a>>) -> Found<'a> {
    interpreter.meter.charge_items(turns.len().saturating_mul(3))?;
    let mut found = BTreeMap::new();
    for values in turns {
        if let Some(condition) = &fold.filter
            && !holds(interpreter, fold, condition, values.clone())?
        {
            continue;
        }
        let key = Key::of(&values.0);
        let value = turn(interpreter, fold, &fold.body, values)?;
        let entries = match (fold.kind, key, value) {
            (FoldKind::Map, Some(key), value) => vec![(key, value)],
            (_, _, CelValue::Map(map)) => {
                let mut entries = Vec::new();
                for key in map.keys(interpreter.meter)? {
                    if let Some(key) = Key::of(&key)
                        && let Some(value) = map.get(&key)?
                    {
                        entries.push((key, value));
                    }
                }
                entries
            }
            (_, _, other) => {
                return Err(failed(node, format_args!("an entry must be a map, not {}", other.type_name())));
            }
        };
        for (key, value) in entries {
            if found.insert(key, value).is_some() {
                return Err(failed(node, "the map has a key twice"));
            }
        }
    }
    Ok(CelValue::Map(Map::Shared(Arc::new(found))))
}

fn sort_by<'a>(
    interpreter: &mut Interpreter<'a, '_>,
    fold: &'a Fold,
    node: &'a Node,
    turns: Vec<Turn<'a>>,
) -> Found<'a> {
    let mut keyed = Vec::with_capacity(turns.len());
    for values in turns {
        let item = values.0.clone();
        keyed.push((turn(interpreter, fold, &fold.body, values)?, item));
    }
    let sorted = sorted(interpreter, node, keyed)?;
    Ok(CelValue::list(sorted.into_iter().map(|(_, item)| item).collect()))
}

/// Sorts by keys, which have one type. Equal keys keep their order.
pub(super) fn sorted<'a, T>(
    interpreter: &mut Interpreter<'a, '_>,
    node: &Node,
    mut keyed: Vec<(CelValue<'a>, T)>,
) -> Result<Vec<(CelValue<'a>, T)>, ExpressionError> {
    if let Some((first, rest)) = keyed.split_first() {
        let wanted = first.0.type_name();
        let fits = |value: &CelValue<'_>| value.type_name() == wanted;
        let is_sortable = matches!(
            first.0,
            CelValue::Bool(_)
                | CelValue::Int(_)
                | CelValue::Uint(_)
                | CelValue::Double(_)
                | CelValue::Text(_)
                | CelValue::Bytes(_)
        );
        if !is_sortable || !rest.iter().all(|(key, _)| fits(key)) {
            return Err(failed(node, "only numbers, strings, bytes or bools of one type can be sorted"));
        }
    }
    // The whole sort is paid for before it begins: a comparison that fails half-way has no order.
    let rounds = keyed.len().checked_ilog2().unwrap_or(0) as usize + 1;
    let bytes: usize = keyed.iter().map(|(key, _)| key.bytes()).sum();
    interpreter.meter.charge(keyed.len().saturating_mul(rounds) as u64)?;
    interpreter.meter.charge_bytes(bytes.saturating_mul(rounds))?;
    keyed.sort_by(|(left, _), (right, _)| order(left, right));
    Ok(keyed)
}

/// Orders two keys of one type, totally.
fn order(left: &CelValue<'_>, right: &CelValue<'_>) -> Ordering {
    match (left, right) {
        (CelValue::Bool(left), CelValue::Bool(right)) => left.cmp(right),
        (CelValue::Int(left), CelValue::Int(right)) => left.cmp(right),
        (CelValue::Uint(left), CelValue::Uint(right)) => left.cmp(right),
        (CelValue::Double(left), CelValue::Double(right)) => left.total_cmp(right),
        (CelValue::Text(left), CelValue::Text(right)) => left.as_str().cmp(right.as_str()),
        (CelValue::Bytes(left), CelValue::Bytes(right)) => left.cmp(right),
        _ => Ordering::Equal,
    }
}
