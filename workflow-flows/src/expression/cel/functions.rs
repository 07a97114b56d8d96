use std::sync::Arc;

use super::super::{ExpressionError, nearest};
use super::interpreter::{Interpreter, failed};
use super::node::Node;
use super::value::CelValue;
use super::{convert, lists, math, texts};

type Found<'a> = Result<CelValue<'a>, ExpressionError>;

/// The failure of a function: a message without values, or an error of the meter.
pub(super) enum Refusal {
    /// The types or values do not fit.
    Unfit(&'static str),
    Error(ExpressionError),
}

impl From<ExpressionError> for Refusal {
    fn from(error: ExpressionError) -> Self {
        Self::Error(error)
    }
}

/// Evaluates a program that was translated from Expr, by the rules of Expr.
pub(super) const OF_EXPR: &str = "_expr.eval";

/// The functions of texts that give false for nil in Expr.
const NIL_TESTS: [&str; 4] = ["contains", "endsWith", "matches", "startsWith"];

/// The name, whether a call writes it after a dot, and the fewest and most arguments. Only programs
/// that were translated from Expr call the `_expr` functions.
const FUNCTIONS: [(&str, bool, usize, usize); 85] = [
    (OF_EXPR, false, 1, 1),
    ("_expr.indexOf", false, 2, 2),
    ("_expr.lastIndexOf", false, 2, 2),
    ("_expr.lower", false, 1, 1),
    ("_expr.upper", false, 1, 1),
    ("base64.decode", false, 1, 1),
    ("base64.encode", false, 1, 1),
    ("bool", false, 1, 1),
    ("bytes", false, 1, 1),
    ("charAt", true, 1, 1),
    ("contains", true, 1, 1),
    ("distinct", true, 0, 0),
    ("double", false, 1, 1),
    ("dyn", false, 1, 1),
    ("endsWith", true, 1, 1),
    ("first", true, 0, 0),
    ("flatten", true, 0, 1),
    ("format", true, 1, 1),
    ("hasValue", true, 0, 0),
    ("indexOf", true, 1, 2),
    ("int", false, 1, 1),
    ("join", true, 0, 1),
    ("last", true, 0, 0),
    ("lastIndexOf", true, 1, 2),
    ("lists.range", false, 1, 1),
    ("lowerAscii", true, 0, 0),
    ("matches", true, 1, 1),
    ("matches", false, 2, 2),
    ("math.abs", false, 1, 1),
    ("math.bitAnd", false, 2, 2),
    ("math.bitNot", false, 1, 1),
    ("math.bitOr", false, 2, 2),
    ("math.bitShiftLeft", false, 2, 2),
    ("math.bitShiftRight", false, 2, 2),
    ("math.bitXor", false, 2, 2),
    ("math.ceil", false, 1, 1),
    ("math.floor", false, 1, 1),
    ("math.greatest", false, 1, 64),
    ("math.isFinite", false, 1, 1),
    ("math.isInf", false, 1, 1),
    ("math.isNaN", false, 1, 1),
    ("math.least", false, 1, 64),
    ("math.round", false, 1, 1),
    ("math.sign", false, 1, 1),
    ("math.sqrt", false, 1, 1),
    ("math.trunc", false, 1, 1),
    ("optional.none", false, 0, 0),
    ("optional.of", false, 1, 1),
    ("optional.ofNonZeroValue", false, 1, 1),
    ("optional.unwrap", false, 1, 1),
    ("or", true, 1, 1),
    ("orValue", true, 1, 1),
    ("replace", true, 2, 3),
    ("reverse", true, 0, 0),
    ("size", true, 0, 0),
    ("size", false, 1, 1),
    ("slice", true, 2, 2),
    ("sort", true, 0, 0),
    ("split", true, 1, 2),
    ("startsWith", true, 1, 1),
    ("string", false, 1, 1),
    ("strings.quote", false, 1, 1),
    ("substring", true, 1, 2),
    ("sum", true, 0, 0),
    ("trim", true, 0, 0),
    ("type", false, 1, 1),
    ("uint", false, 1, 1),
    ("unwrapOpt", true, 0, 0),
    ("upperAscii", true, 0, 0),
    ("url.encode", false, 1, 1),
    ("value", true, 0, 0),
    // Macros, for their numbers of arguments.
    ("all", true, 2, 3),
    ("cel.bind", false, 3, 3),
    ("exists", true, 2, 3),
    ("existsOne", true, 2, 3),
    ("exists_one", true, 2, 3),
    ("filter", true, 2, 2),
    ("has", false, 1, 1),
    ("map", true, 2, 3),
    ("optFlatMap", true, 2, 2),
    ("optMap", true, 2, 2),
    ("sortBy", true, 2, 2),
    ("transformList", true, 3, 4),
    ("transformMap", true, 3, 4),
    ("transformMapEntry", true, 3, 4),
];

/// Says what is wrong with a call, if that is known without its arguments.
pub(super) fn check(name: &str, is_member: bool, arguments: usize) -> Result<(), String> {
    let same_name: Vec<_> = FUNCTIONS.iter().filter(|known| known.0 == name).collect();
    if same_name.is_empty() {
        let hint = nearest(name, FUNCTIONS.iter().map(|known| known.0).filter(|known| !known.starts_with('_')))
            .map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
        return Err(format!("there is no function `{name}`{hint}"));
    }
    let fits = |known: &&&(&str, bool, usize, usize)| known.1 == is_member && (known.2..=known.3).contains(&arguments);
    if same_name.iter().find(fits).is_some() {
        return Ok(());
    }
    Err(match same_name.iter().find(|known| known.1 == is_member) {
        Some(known) if known.2 == known.3 => format!("`{name}` takes {} arguments, not {arguments}", known.2),
        Some(known) => format!("`{name}` takes {} to {} arguments, not {arguments}", known.2, known.3),
        None if is_member => format!("`{name}` takes its value in parentheses: {name}(value)"),
        None => format!("`{name}` stands after its value: value.{name}(..)"),
    })
}

/// Returns the name of the type that a word stands for.
pub(super) fn type_name(word: &str) -> Option<&'static str> {
    Some(match word {
        "bool" => "bool",
        "bytes" => "bytes",
        "double" => "double",
        "int" => "int",
        "list" => "list",
        "map" => "map",
        "null_type" => "null_type",
        "optional_type" => "optional_type",
        "string" => "string",
        "type" => "type",
        "uint" => "uint",
        _ => return None,
    })
}

/// Calls a function.
pub(super) fn call<'a>(
    interpreter: &mut Interpreter<'a, '_>,
    node: &'a Node,
    name: &'a str,
    target: Option<&'a Node>,
    arguments: &'a [Node],
) -> Found<'a> {
    if let (OF_EXPR, [program]) = (name, arguments) {
        let around = std::mem::replace(&mut interpreter.is_expr, true);
        let found = interpreter.evaluate(program);
        interpreter.is_expr = around;
        return found;
    }
    let mut values = Vec::with_capacity(arguments.len() + 1);
    if let Some(target) = target {
        values.push(interpreter.evaluate(target)?);
        // The alternative of an optional is evaluated if it is needed.
        if let ("or" | "orValue", Some(CelValue::Optional(Some(inner)))) = (name, values.first()) {
            return Ok(if name == "or" { CelValue::Optional(Some(Arc::clone(inner))) } else { (**inner).clone() });
        }
    }
    for argument in arguments {
        values.push(interpreter.evaluate(argument)?);
    }
    let is_nil = |value: &CelValue<'_>| matches!(value, CelValue::Null);
    if interpreter.is_expr && NIL_TESTS.contains(&name) && values.iter().any(is_nil) {
        return Ok(CelValue::Bool(false));
    }
    match apply(interpreter, node, name, &values) {
        Ok(found) => Ok(found),
        Err(Refusal::Error(ExpressionError::Failed(message))) => Err(failed(node, message)),
        Err(Refusal::Error(error)) => Err(error),
        Err(Refusal::Unfit(reason)) => {
            let types: Vec<_> = values.iter().map(CelValue::type_name).collect();
            Err(failed(node, format_args!("`{name}` cannot take ({}){reason}", types.join(", "))))
        }
    }
}

fn apply<'a>(
    interpreter: &mut Interpreter<'a, '_>,
    node: &'a Node,
    name: &str,
    values: &[CelValue<'a>],
) -> Result<CelValue<'a>, Refusal> {
    Ok(match (name, values) {
        ("size", [CelValue::Text(text)]) => {
            interpreter.meter.charge_bytes(text.as_str().len())?;
            CelValue::Int(text.as_str().chars().count() as i64)
        }
        ("size", [CelValue::Bytes(bytes)]) => CelValue::Int(bytes.len() as i64),
        ("size", [CelValue::List(list)]) => CelValue::Int(list.len() as i64),
        ("size", [CelValue::Map(map)]) => CelValue::Int(map.len() as i64),
        ("type", [value]) => CelValue::Type(value.type_name()),
        ("dyn", [value]) => value.clone(),
        ("optional.of", [value]) => CelValue::Optional(Some(Arc::new(value.clone()))),
        ("optional.none", []) => CelValue::Optional(None),
        ("optional.ofNonZeroValue", [value]) => CelValue::Optional((!is_zero(value)).then(|| Arc::new(value.clone()))),
        ("hasValue", [CelValue::Optional(inner)]) => CelValue::Bool(inner.is_some()),
        ("value", [CelValue::Optional(Some(inner))]) => (**inner).clone(),
        ("value", [CelValue::Optional(None)]) => return Err(Refusal::Unfit(": the optional has no value")),
        ("or", [CelValue::Optional(None), other @ CelValue::Optional(_)]) => other.clone(),
        ("orValue", [CelValue::Optional(None), other]) => other.clone(),
        _ => {
            if let Some(found) = convert::call(interpreter.meter, name, values)? {
                return Ok(found);
            }
            if let Some(found) = math::call(interpreter.meter, name, values)? {
                return Ok(found);
            }
            if let Some(found) = texts::call(interpreter.meter, name, values)? {
                return Ok(found);
            }
            return lists::call(interpreter, node, name, values)?.ok_or(Refusal::Unfit(""));
        }
    })
}

fn is_zero(value: &CelValue<'_>) -> bool {
    match value {
        CelValue::Null => true,
        CelValue::Bool(value) => !value,
        CelValue::Int(value) => *value == 0,
        CelValue::Uint(value) => *value == 0,
        CelValue::Double(value) => *value == 0.0,
        CelValue::Text(text) => text.as_str().is_empty(),
        CelValue::Bytes(bytes) => bytes.is_empty(),
        CelValue::List(list) => list.len() == 0,
        CelValue::Map(map) => map.len() == 0,
        CelValue::Type(_) => false,
        CelValue::Optional(inner) => inner.is_none(),
    }
}
