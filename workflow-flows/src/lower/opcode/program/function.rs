//! The functions of Expr that CEL has, too.

use super::Fault;
use super::parser::Parser;

/// Reads the arguments of a call after its parenthesis. `first` is the value that was piped in.
pub(super) fn call(parser: &mut Parser<'_>, name: &str, at: usize, first: Option<String>) -> Result<String, Fault> {
    if arity(name).is_none() {
        return Err(Fault::foreign(at, &format!("the function {name:?}")));
    }
    let list = match first {
        Some(first) => first,
        None if parser.take(")") => return of_values(name, at, &[]),
        None => {
            let first = parser.expression()?;
            if !parser.take(",") {
                parser.expect(")")?;
                return of_values(name, at, &[first]);
            }
            first
        }
    };
    if !takes_predicate(name) {
        let mut values = vec![list];
        values.extend(parser.list(")")?);
        return of_values(name, at, &values);
    }
    if parser.take(")") {
        return of_values(name, at, &[list]);
    }
    let (item, body) = parser.predicate()?;
    let is_sorting = name == "sortBy";
    let order = if is_sorting && parser.take(",") {
        parser.list(")")?
    } else {
        parser.take(",");
        parser.expect(")")?;
        Vec::new()
    };
    let is_descending = match order.first().map(String::as_str) {
        None | Some("'asc'") => false,
        Some("'desc'") => true,
        Some(_) => return Err(Fault::foreign(at, "this order of \"sortBy\"")),
    };
    // The name of a field may stand in the place of a predicate.
    let body = if is_sorting && body.starts_with('\'') { format!("{item}[{body}]") } else { body };
    Ok(of_predicate(name, &list, &item, &body, is_descending))
}

/// The levels of lists that `flatten` takes away: more than a value has.
const FLATTENED: u32 = 1_000;

fn takes_predicate(name: &str) -> bool {
    ["filter", "map", "all", "any", "none", "one", "count", "sum", "find", "sortBy"].contains(&name)
}

fn of_predicate(name: &str, list: &str, item: &str, body: &str, is_descending: bool) -> String {
    match name {
        "any" => format!("{list}.exists({item}, {body})"),
        "none" => format!("!{list}.exists({item}, {body})"),
        "one" => format!("{list}.exists_one({item}, {body})"),
        "count" => format!("size({list}.filter({item}, {body}))"),
        "sum" => format!("{list}.map({item}, {body}).sum()"),
        "find" => format!("{list}.filter({item}, {body}).first().orValue(null)"),
        "sortBy" if is_descending => format!("{list}.sortBy({item}, {body}).reverse()"),
        _ => format!("{list}.{name}({item}, {body})"),
    }
}

/// Returns the least and the most arguments of a function, or `None` if there is no counterpart.
fn arity(name: &str) -> Option<(usize, usize)> {
    Some(match name {
        "max" | "min" | "concat" => (1, 64),
        "len" | "trim" | "upper" | "lower" | "string" | "int" | "float" | "abs" | "ceil" | "floor" | "round"
        | "first" | "last" | "reverse" | "uniq" | "flatten" | "keys" | "values" | "count" | "sum" => (1, 1),
        "join" | "sort" => (1, 2),
        "split" | "hasPrefix" | "hasSuffix" | "indexOf" | "lastIndexOf" | "get" => (2, 2),
        "replace" => (3, 3),
        "filter" | "map" | "all" | "any" | "none" | "one" | "find" | "sortBy" => (2, 2),
        _ => return None,
    })
}

/// Calls a function of values.
fn of_values(name: &str, at: usize, values: &[String]) -> Result<String, Fault> {
    let (least, most) = arity(name).unwrap_or_default();
    if !(least..=most).contains(&values.len()) {
        let wanted = match (least, most) {
            (1, 1) => "1 argument".to_owned(),
            _ if least == most => format!("{least} arguments"),
            _ => format!("{least} to {most} arguments"),
        };
        return Err(Fault::syntax(at, format!("{name:?} takes {wanted}, not {}", values.len())));
    }
    let value = values.first().map_or("", String::as_str);
    let rest = values.get(1..).unwrap_or_default().join(", ");
    Ok(match name {
        "len" => format!("size({value})"),
        "max" => format!("math.greatest({})", values.join(", ")),
        "min" => format!("math.least({})", values.join(", ")),
        "concat" => format!("({})", values.join(" + ")),
        "string" | "int" => format!("{name}({value})"),
        "float" => format!("double({value})"),
        "abs" | "ceil" | "floor" | "round" => format!("math.{name}({value})"),
        "first" => format!("{value}[?0].orValue(null)"),
        "last" => format!("{value}[?-1].orValue(null)"),
        "flatten" => format!("{value}.flatten({FLATTENED})"),
        "indexOf" | "lastIndexOf" | "lower" | "upper" => format!("_expr.{name}({})", values.join(", ")),
        "uniq" => format!("{value}.distinct()"),
        "keys" => format!("{value}.map(k, k)"),
        "values" => format!("cel.bind(m, {value}, m.map(k, m[k]))"),
        "count" => format!("size({value}.filter(k, k))"),
        "hasPrefix" => format!("{value}.startsWith({rest})"),
        "hasSuffix" => format!("{value}.endsWith({rest})"),
        "get" => format!("{value}[?{rest}].orValue(null)"),
        "sort" if rest == "'desc'" => format!("{value}.sort().reverse()"),
        "sort" => format!("{value}.sort()"),
        _ => format!("{value}.{name}({rest})"),
    })
}
