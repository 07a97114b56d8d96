//! Examples of values, for tools and models that have no stub.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use workflow_flows::expression::{Expression, Path, Segment, Template};
use workflow_flows::graph::{Flow, Kind, Next, Step, Until};

/// The deepest level of an example. A schema may refer to itself.
const DEEPEST: usize = 16;

/// Returns a value that fits a JSON Schema of the usual kind.
pub(crate) fn of_schema(schema: &Value) -> Value {
    example(schema, schema, 0)
}

fn example(root: &Value, schema: &Value, depth: usize) -> Value {
    if depth > DEEPEST {
        return Value::Null;
    }
    if let Some(found) = schema.get("$ref").and_then(Value::as_str).and_then(|place| root.pointer(place.get(1..)?)) {
        return example(root, found, depth + 1);
    }
    for key in ["const", "default"] {
        if let Some(value) = schema.get(key) {
            return value.clone();
        }
    }
    for key in ["examples", "enum"] {
        if let Some(first) = schema.get(key).and_then(|list| list.get(0)) {
            return first.clone();
        }
    }
    for key in ["oneOf", "anyOf", "allOf"] {
        if let Some(first) = schema.get(key).and_then(|list| list.get(0)) {
            return example(root, first, depth + 1);
        }
    }
    let number = |key: &str, otherwise: i64| schema.get(key).cloned().unwrap_or_else(|| otherwise.into());
    match type_of(schema) {
        "object" => {
            let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
            properties.map(|(name, schema)| (name.clone(), example(root, schema, depth + 1))).collect()
        }
        "array" => schema.get("items").map_or_else(|| json!([]), |items| json!([example(root, items, depth + 1)])),
        "string" => json!("text"),
        "integer" | "number" => number("minimum", 1),
        "boolean" => json!(true),
        _ => Value::Null,
    }
}

fn type_of(schema: &Value) -> &str {
    let stated = match schema.get("type") {
        Some(Value::Array(types)) => types.first().and_then(Value::as_str),
        other => other.and_then(Value::as_str),
    };
    stated.unwrap_or(if schema.get("properties").is_some() { "object" } else { "" })
}

/// The results that a flow reads of its steps: each field holds its own path as text.
#[derive(Debug, Default)]
pub(crate) struct Placeholders(BTreeMap<String, Value>);

impl Placeholders {
    pub(crate) fn of(flow: &Flow) -> Self {
        let mut found = Self::default();
        flow.for_each_step(|step| {
            if let Some(read) = own_reads(step) {
                found.add_texts(&read, &mut |found, path| {
                    if path.root() == "result" {
                        found.add(&step.id, path.segments());
                    }
                });
            }
        });
        // A step with an `output` of its own gives what that says, not what others read of it.
        let mut shaped = Vec::new();
        flow.for_each_step(|step| shaped.extend(step.output.is_some().then(|| step.id.clone())));
        let text = serde_json::to_value(flow).unwrap_or_default();
        found.add_texts(&text, &mut |found, path| {
            if let ("steps", Some((Segment::Name(id), rest))) = (path.root(), path.segments().split_first())
                && !shaped.contains(id)
            {
                found.add(id, rest);
            }
        });
        found
    }

    /// Returns the result of a step. Null if nothing reads it.
    pub(crate) fn of_step(&self, id: &str) -> Value {
        self.0.get(id).cloned().unwrap_or_default()
    }

    fn add_texts(&mut self, value: &Value, add: &mut dyn FnMut(&mut Self, &Path)) {
        match value {
            Value::String(text) => {
                if let Ok(template) = Template::parse(text) {
                    template.references().iter().for_each(|reference| add(self, &reference.path));
                }
                if let Ok(expression) = Expression::compile(text) {
                    expression.references().iter().for_each(|reference| add(self, &reference.path));
                }
            }
            Value::Array(items) => items.iter().for_each(|item| self.add_texts(item, add)),
            Value::Object(entries) => entries.values().for_each(|value| self.add_texts(value, add)),
            _ => {}
        }
    }

    fn add(&mut self, id: &str, segments: &[Segment]) {
        let place = self.0.entry(id.to_owned()).or_default();
        insert(place, segments, &format!("steps.{id}"));
    }
}

fn insert(place: &mut Value, segments: &[Segment], path: &str) {
    let Some((first, rest)) = segments.split_first() else {
        if place.is_null() {
            *place = path.into();
        }
        return;
    };
    match first {
        Segment::Name(name) => {
            if !place.is_object() {
                *place = Value::Object(Map::new());
            }
            insert(&mut place[name.as_str()], rest, &format!("{path}.{name}"));
        }
        Segment::Index(_) => {
            if !place.is_array() {
                *place = json!([null]);
            }
            insert(&mut place[0], rest, &format!("{path}[0]"));
        }
        _ => {}
    }
}

/// The texts of a step that read its own result.
fn own_reads(step: &Step) -> Option<Value> {
    let branches = match &step.next {
        Some(Next::Branch { cases, .. }) => json!(cases),
        _ => Value::Null,
    };
    let until = match &step.kind {
        Kind::Loop(repetition) => match &repetition.until {
            Until::Until(condition) => json!(condition),
            _ => Value::Null,
        },
        _ => Value::Null,
    };
    let texts = json!([step.output, branches, until]);
    texts.to_string().contains("result").then_some(texts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use workflow_flows::check::{Options, check};

    #[test]
    fn an_example_fits_its_schema() {
        let schema = json!({
            "type": "object",
            "properties": {
                "id": { "type": "string" }, "count": { "type": "integer", "minimum": 3 },
                "kind": { "enum": ["a", "b"] }, "maybe": { "type": ["boolean", "null"] },
                "items": { "type": "array", "items": { "$ref": "#/$defs/item" } },
            },
            "$defs": { "item": { "properties": { "next": { "$ref": "#/$defs/item" } } } },
        });
        let found = of_schema(&schema);
        assert_eq!((&found["id"], &found["count"], &found["kind"]), (&json!("text"), &json!(3), &json!("a")));
        assert_eq!(found["maybe"], json!(true));
        assert!(found["items"][0]["next"].is_object());
    }

    #[test]
    fn a_placeholder_has_the_fields_that_the_flow_reads() {
        let source = "flow: 1\nname: a\ndo:\n  - { id: get, tool: http, args: {} }\n  - { id: raw, tool: http, output: \
                      { x: \"{{result.body.x}}\" } }\n  - { id: tell, tool: log, when: \"steps.get.body.n > 1\", args: \
                      { id: \"{{steps.get.body.items[2].id}} {{steps.raw.x}}\" } }\n";
        let flow = check(source, &Options::default()).flow.unwrap();
        let found = Placeholders::of(&flow);
        assert_eq!(
            found.of_step("get"),
            json!({ "body": { "n": "steps.get.body.n", "items": [{ "id": "steps.get.body.items[0].id" }] } })
        );
        assert_eq!(found.of_step("raw"), json!({ "body": { "x": "steps.raw.body.x" } }));
        assert_eq!(found.of_step("tell"), Value::Null);
    }
}
