//! The conformance suite of CEL, which is not part of this repository.
//!
//! `CEL_SPEC` names a JSON file: a list of `{file, section, name, expr, expected}`, made from the
//! tests of the suite that need no protocol buffers. `cargo test -p workflow-flows -- --ignored
//! conformance --nocapture` prints the counts and the tests that fail.

use std::collections::BTreeMap;

use serde_json::Value;

use super::super::{ExpressionError, Scope};
use super::interpreter::Interpreter;
use super::meter::{Bounds, Meter};
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

fn check(test: &Value) -> Result<(), String> {
    let expected = &test["expected"];
    let scope = Scope::new();
    let mut meter = Meter::new(Bounds::default());
    let expr = test["expr"].as_str().unwrap();
    let found: Result<(), ExpressionError> = match super::parse(expr) {
        Ok(program) => {
            let mut interpreter = Interpreter { scope: &scope, meter: &mut meter, names: Vec::new() };
            match interpreter.evaluate(&program.root) {
                Ok(value) if expected["t"] == "error" => return Err(format!("no error: {value:?}")),
                Ok(value) if matches(&value, expected, interpreter.meter) => return Ok(()),
                Ok(value) => return Err(format!("{value:?}")),
                Err(error) => Err(error),
            }
        }
        Err(error) => Err(error),
    };
    match found {
        Err(_) if expected["t"] == "error" => Ok(()),
        Err(error) => Err(error.to_string()),
        Ok(()) => Ok(()),
    }
}

#[test]
#[ignore = "needs the suite"]
fn conformance() {
    let path = std::env::var("CEL_SPEC").expect("CEL_SPEC names the tests");
    let tests: Vec<Value> = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let mut counts: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for test in &tests {
        let count = counts.entry(test["file"].as_str().unwrap().to_owned()).or_default();
        count.1 += 1;
        match check(test) {
            Ok(()) => count.0 += 1,
            Err(reason) => println!("{}/{}: {}: {reason}", test["file"], test["name"], test["expr"]),
        }
    }
    println!("{counts:#?}");
    let passed: usize = counts.values().map(|count| count.0).sum();
    println!("{passed} of {}", tests.len());
    assert!(passed * 100 >= tests.len() * 98, "{passed} of {}", tests.len());
}
