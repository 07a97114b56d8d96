//! The difference between two JSON values, place by place.

use serde_json::Value;

/// The most differences that are listed.
const MOST: usize = 20;

/// Returns the places at which a value is not as expected, each as `PLACE: expected .., found ..`.
pub(crate) fn difference(expected: &Value, found: &Value) -> Vec<String> {
    let mut differences = Vec::new();
    compare(expected, found, "", &mut differences);
    let left = differences.len().saturating_sub(MOST);
    if left > 0 {
        differences.truncate(MOST);
        differences.push(format!(": {left} further differences are not shown"));
    }
    differences
}

fn compare(expected: &Value, found: &Value, place: &str, out: &mut Vec<String>) {
    match (expected, found) {
        (Value::Object(expected), Value::Object(found)) => {
            for (name, value) in expected {
                let place = format!("{place}/{name}");
                match found.get(name) {
                    Some(found) => compare(value, found, &place, out),
                    None => out.push(format!("{place}: expected {value}, found nothing")),
                }
            }
            let further = found.iter().filter(|(name, _)| !expected.contains_key(*name));
            out.extend(further.map(|(name, value)| format!("{place}/{name}: not expected: {value}")));
        }
        (Value::Array(expected), Value::Array(found)) if expected.len() == found.len() => {
            for (index, (expected, found)) in expected.iter().zip(found).enumerate() {
                compare(expected, found, &format!("{place}/{index}"), out);
            }
        }
        // Documents do not tell 2 from 2.0.
        (Value::Number(a), Value::Number(b)) if a.is_f64() != b.is_f64() && a.as_f64() == b.as_f64() => {}
        _ if expected == found => {}
        _ => out.push(format!("{place}: expected {expected}, found {found}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_place_is_told() {
        let expected = json!({ "a": 1, "b": [1, 2], "c": { "d": "x" }, "e": [1] });
        let found = json!({ "a": 1.0, "b": [1, 3], "c": { "f": null }, "e": [1, 2] });
        assert_eq!(
            difference(&expected, &found),
            [
                "/b/1: expected 2, found 3",
                "/c/d: expected \"x\", found nothing",
                "/c/f: not expected: null",
                "/e: expected [1], found [1,2]",
            ]
        );
        assert_eq!(difference(&json!(null), &json!(null)), Vec::<String>::new());
        let many: Vec<u32> = (0..30).collect();
        let other: Vec<u32> = (1..31).collect();
        assert_eq!(difference(&json!(many), &json!(other)).len(), MOST + 1);
    }
}
