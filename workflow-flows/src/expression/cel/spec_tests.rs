//! Tests against CEL's specification. They compare types, which results in JSON do not show.
//!
//! `CEL_SPEC` may name the conformance suite of CEL, which is not part of this repository: a JSON
//! list of `{file, name, expr, expected}`, made from the tests that need no protocol buffers. Then
//! `conformance` runs it, too; `--nocapture` shows the tests that fail. `scripts/suites` does this.

use serde_json::{Value, json};

use super::super::{ExpressionLimits, Scope};
use super::interpreter::Interpreter;
use super::meter::Meter;
use super::value::{CelValue, Key};

/// Returns whether a value is the expected one, types included.
fn matches(value: &CelValue<'_>, expected: &Value, meter: &mut Meter) -> bool {
    let wanted = &expected["v"];
    match (expected["t"].as_str().unwrap(), value) {
        ("null", CelValue::Null) => true,
        ("bool", CelValue::Bool(value)) => wanted == value,
        ("int", CelValue::Int(value)) => wanted == &value.to_string(),
        ("uint", CelValue::Uint(value)) => wanted == &value.to_string(),
        ("double", CelValue::Double(value)) => {
            let wanted: f64 = wanted.as_str().unwrap().parse().unwrap();
            wanted.to_bits() == value.to_bits() || (wanted.is_nan() && value.is_nan()) || wanted == *value
        }
        ("string", CelValue::Text(text)) => wanted == text.as_str(),
        ("type", CelValue::Type(name)) => wanted == name,
        ("bytes", CelValue::Bytes(bytes)) => {
            let wanted = wanted.as_array().unwrap();
            wanted.len() == bytes.len() && wanted.iter().zip(bytes.iter()).all(|(left, right)| left == right)
        }
        ("list", CelValue::List(list)) => {
            let wanted = wanted.as_array().unwrap();
            let items = list.items(meter).unwrap();
            items.len() == wanted.len() && items.iter().zip(wanted).all(|(item, wanted)| matches(item, wanted, meter))
        }
        ("map", CelValue::Map(map)) => {
            let wanted = wanted.as_array().unwrap();
            map.len() == wanted.len()
                && wanted.iter().all(|entry| {
                    map.keys(meter).unwrap().iter().any(|key| {
                        let value = map.get(&Key::of(key).unwrap()).unwrap().unwrap();
                        matches(key, &entry[0], meter) && matches(&value, &entry[1], meter)
                    })
                })
        }
        _ => false,
    }
}

fn check(expr: &str, expected: &Value) -> Result<(), String> {
    let scope = Scope::new();
    let mut meter = Meter::new(ExpressionLimits::new());
    let found = super::parse(expr).map(|program| {
        let mut interpreter = Interpreter { scope: &scope, meter: &mut meter, names: Vec::new(), is_expr: false };
        interpreter.evaluate(&program.root).map(|value| {
            let is_expected = matches(&value, expected, interpreter.meter);
            if is_expected { Ok(()) } else { Err(format!("{value:?}")) }
        })
    });
    match found {
        Ok(Ok(checked)) => checked,
        Ok(Err(_)) | Err(_) if expected["t"] == "error" => Ok(()),
        Ok(Err(error)) | Err(error) => Err(error.to_string()),
    }
}

fn typed(kind: &str, value: impl Into<Value>) -> Value {
    json!({"t": kind, "v": value.into()})
}

fn list(items: impl IntoIterator<Item = Value>) -> Value {
    typed("list", items.into_iter().collect::<Value>())
}

/// Expressions with the values of the specification.
fn values() -> Vec<(&'static str, Value)> {
    let int = |value: &str| typed("int", value);
    let pair = |key: Value, value: Value| json!([key, value]);
    vec![
        ("7 / -2", int("-3")),
        ("-7 % 3", int("-1")),
        ("-(-5)", int("5")),
        ("1u + 2u", typed("uint", "3")),
        ("0x1Fu", typed("uint", "31")),
        ("2.0 * 3.5", typed("double", "7")),
        ("1e3", typed("double", "1000")),
        ("0.0 / 0.0", typed("double", "NaN")),
        ("type(1u)", typed("type", "uint")),
        ("type(null)", typed("type", "null_type")),
        ("type(type(1))", typed("type", "type")),
        ("type(b'a')", typed("type", "bytes")),
        ("int('-42')", int("-42")),
        ("int(-3.9)", int("-3")),
        ("uint(3.9)", typed("uint", "3")),
        ("double(3)", typed("double", "3")),
        ("string(1.5)", typed("string", "1.5")),
        ("string(12u)", typed("string", "12")),
        ("bytes('é')", typed("bytes", json!([195, 169]))),
        ("size('héllo')", int("5")),
        (r"size(b'\xc3\xa9')", int("2")),
        (r"r'\n'", typed("string", r"\n")),
        (r"'\u00e9'", typed("string", "é")),
        ("'''a'b'''", typed("string", "a'b")),
        ("[1, 2u] + [3.5]", list([int("1"), typed("uint", "2"), typed("double", "3.5")])),
        ("{1: 'a'}", typed("map", json!([pair(int("1"), typed("string", "a"))]))),
        ("{true: null}", typed("map", json!([pair(typed("bool", true), typed("null", Value::Null))]))),
        ("[1, 2, 3].filter(x, x % 2 == 1)", list([int("1"), int("3")])),
        ("[1, 2].map(x, x > 1, x * 10)", list([int("20")])),
        ("[[1, 2], [3]].map(l, l.size())", list([int("2"), int("1")])),
        ("[?optional.none(), 1]", list([int("1")])),
        ("{'a': 1}.?b.orValue(7)", int("7")),
        ("optional.of(1).optMap(x, x + 1).value()", int("2")),
        ("cel.bind(x, 3, x * x)", int("9")),
        ("true ? 1 : 1 / 0", int("1")),
    ]
}

/// Comparisons and conditions, with their values.
const CONDITIONS: [(&str, bool); 16] = [
    ("1 == 1u && 1 == 1.0", true),
    ("[1, 2] == [1.0, 2u]", true),
    ("{'a': 1} == {'a': 1.0}", true),
    ("1 == '1'", false),
    ("0.0 / 0.0 == 0.0 / 0.0", false),
    ("9007199254740993 == 9007199254740992.0", false),
    ("b'a' < b'b' && 'abc' < 'abd' && false < true", true),
    ("3 in [1, 2.0, 3u]", true),
    ("'b' in {'a': 1}", false),
    ("false && 1 / 0 == 1", false),
    ("1 / 0 == 1 || true", true),
    ("[1, 0].exists(x, 1 / x == 1)", true),
    ("[0, 1].all(x, 1 / x == 5)", false),
    ("[1, 2, 2].exists_one(x, x == 2)", false),
    ("has({'a': 1}.b)", false),
    ("[1][?3].hasValue()", false),
];

/// Expressions that are errors.
const FAULTS: [&str; 18] = [
    "1 / 0",
    "1 % 0",
    "9223372036854775807 + 1",
    "0u - 1u",
    "int(1e19)",
    "double('x')",
    r"string(b'\xc3')",
    "[1][1]",
    "{'a': 1, 'a': 2}",
    "{1.5: 1}",
    "true && 1 / 0 == 1",
    "[1, 0].all(x, 1 / x == 1)",
    "1 < 'a'",
    "unknown",
    "1 +",
    "(1",
    "'abc",
    "while",
];

#[test]
fn conformance() {
    let conditions = CONDITIONS.map(|(expr, value)| (expr, typed("bool", value)));
    let faults = FAULTS.map(|expr| (expr, json!({"t": "error"})));
    for (expr, expected) in values().into_iter().chain(conditions).chain(faults) {
        assert_eq!(check(expr, &expected), Ok(()), "{expr}");
    }
    if let Ok(path) = std::env::var("CEL_SPEC") {
        suite(&path);
    }
}

/// Runs the suite of a file. Two in a hundred tests may fail, because we deviate on purpose.
fn suite(path: &str) {
    let tests: Vec<Value> = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let mut failed = 0;
    for test in &tests {
        if let Err(reason) = check(test["expr"].as_str().unwrap(), &test["expected"]) {
            println!("{}/{}: {}: {reason}", test["file"], test["name"], test["expr"]);
            failed += 1;
        }
    }
    println!("{} of {}", tests.len() - failed, tests.len());
    assert!(failed * 50 <= tests.len(), "{failed} of {}", tests.len());
}
