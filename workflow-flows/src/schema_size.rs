//! The size of a JSON Schema, on which the time and the memory of its checks depend.
//!
//! Documents, servers and models bring schemas of others, and a check cannot be stopped. So its
//! bound is computed before it begins.

use std::collections::HashMap;

use jsonschema::{ValidationError, Validator};
use serde_json::Value;

/// The largest schema with the target in place of each reference, in values.
const MOST_NODES: usize = 10_000;
/// The deepest such schema, because a check calls itself at each level.
const DEEPEST: usize = 128;
/// The longest pattern, in bytes.
const LONGEST_PATTERN: usize = 1024;
/// The bytes of a text that count as one further value.
const BYTES_OF_VALUE: usize = 64;
/// The most patterns of a schema, each of which may take 1 MiB once compiled.
const MOST_PATTERNS: usize = 64;
/// The most values of the schema times values of what is checked.
const MOST_STEPS: usize = 100_000_000;
/// As [`MOST_STEPS`], if all mistakes are looked for, which are all kept in memory.
const MOST_STEPS_FOR_ALL: usize = 1_000_000;

/// The size of a schema with the target in place of each reference. A target that contains a
/// reference to itself counts once: a check steps into the value before it comes back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SchemaSize {
    /// The values of the schema.
    pub nodes: usize,
    /// The patterns.
    pub patterns: usize,
    /// Whether the schema has references.
    pub has_references: bool,
    /// Whether a target contains a reference to itself.
    pub is_recursive: bool,
    /// Whether the schema asks for unevaluated parts: each level of that checks the levels below it
    /// twice.
    pub has_unevaluated: bool,
    /// The most references to a target that contains them which apply to one value below it. Each
    /// level of a value multiplies the checks by this.
    repeats: usize,
    height: usize,
}

impl SchemaSize {
    /// Returns the size of a schema.
    ///
    /// # Errors
    /// The JSON Pointer in the schema, if it is known, and why checks against it have no bound.
    pub fn of(schema: &Value) -> Result<Self, (String, String)> {
        if let Some(pointer) = endless(schema) {
            return Err((pointer, "the reference leads back to itself without a step into the value".to_owned()));
        }
        let mut unfolding = Unfolding { root: schema, targets: HashMap::new(), has_base: false };
        let mut size = unfolding.size(schema, 0).map_err(|message| (String::new(), message))?;
        size.repeats = unfolding.repeats().max(size.repeats);
        if size.has_references && unfolding.has_base {
            let message = "only the whole schema may have an $id if there are references";
            return Err((String::new(), message.to_owned()));
        }
        Ok(size)
    }

    /// Returns at most this number of mistakes of a value by its compiled schema. Of a large value
    /// it returns the first one, because the library keeps all of them in memory. `None`: the
    /// value is too large for a check.
    #[must_use]
    pub fn mistakes<'v>(
        &self,
        schema: &'v Validator,
        value: &'v Value,
        most: usize,
    ) -> Option<Vec<ValidationError<'v>>> {
        match self.nodes.saturating_mul(checks(value, 1, self.repeats.max(1))) {
            steps if steps <= MOST_STEPS_FOR_ALL => Some(schema.iter_errors(value).take(most).collect()),
            steps if steps <= MOST_STEPS => Some(schema.validate(value).err().into_iter().collect()),
            _ => None,
        }
    }

    /// Adds a part that applies to the same values as the parts before it, as far as is known.
    fn add(&mut self, part: Self) {
        self.repeats = self.repeats.saturating_add(part.repeats);
        self.add_nodes(part);
    }

    /// Adds a part that applies to other values than the parts before it.
    fn add_beside(&mut self, part: Self) {
        self.repeats = self.repeats.max(part.repeats);
        self.add_nodes(part);
    }

    fn add_nodes(&mut self, part: Self) {
        self.nodes = self.nodes.saturating_add(part.nodes);
        self.patterns = self.patterns.saturating_add(part.patterns);
        self.has_references |= part.has_references;
        self.is_recursive |= part.is_recursive;
        self.has_unevaluated |= part.has_unevaluated;
        self.height = self.height.max(part.height + 1);
    }

    fn add_pattern(&mut self, pattern: &str) -> Result<(), String> {
        self.patterns = self.patterns.saturating_add(1);
        if pattern.len() > LONGEST_PATTERN {
            return Err(format!("a pattern has more than {LONGEST_PATTERN} bytes"));
        }
        Ok(())
    }

    fn within_bounds(self) -> Result<Self, String> {
        if self.height > DEEPEST {
            return Err(too_deep());
        }
        if self.patterns > MOST_PATTERNS {
            return Err(format!("with its references in place, the schema has more than {MOST_PATTERNS} patterns"));
        }
        if self.nodes > MOST_NODES {
            return Err(format!("with its references in place, the schema is larger than {MOST_NODES} values"));
        }
        Ok(self)
    }
}

fn too_deep() -> String {
    format!("with its references in place, the schema has more than {DEEPEST} levels")
}

/// Returns how often the values in a value are checked, if each level multiplies the checks by
/// `repeats`. Long texts count by their length.
fn checks(value: &Value, times: usize, repeats: usize) -> usize {
    let below = times.saturating_mul(repeats);
    let text = |text: &str| times.saturating_mul(text.len() / BYTES_OF_VALUE);
    let parts: usize = match value {
        Value::String(value) => text(value),
        Value::Array(items) => saturating_sum(items.iter().map(|item| checks(item, below, repeats))),
        Value::Object(map) => {
            saturating_sum(map.iter().map(|(name, value)| text(name).saturating_add(checks(value, below, repeats))))
        }
        _ => 0,
    };
    parts.saturating_add(times)
}

/// Returns the size of a value that is no schema, whatever its fields are called.
fn size_of_data(value: &Value) -> SchemaSize {
    SchemaSize { nodes: checks(value, 1, 1), ..SchemaSize::default() }
}

fn saturating_sum(numbers: impl Iterator<Item = usize>) -> usize {
    numbers.fold(0, usize::saturating_add)
}

struct Unfolding<'a> {
    root: &'a Value,
    /// The sizes of targets by their references. `None`: the target is being measured.
    targets: HashMap<&'a str, Option<SchemaSize>>,
    /// Whether a part of the schema may have an address of its own.
    has_base: bool,
}

impl<'a> Unfolding<'a> {
    fn size(&mut self, value: &'a Value, depth: usize) -> Result<SchemaSize, String> {
        if depth > DEEPEST {
            return Err(too_deep());
        }
        let mut all = SchemaSize { nodes: 1, ..SchemaSize::default() };
        match value {
            Value::String(text) => all.nodes += text.len() / BYTES_OF_VALUE,
            Value::Array(items) => {
                for item in items {
                    all.add(self.size(item, depth + 1)?);
                }
            }
            Value::Object(fields) => {
                for (name, field) in fields {
                    all.nodes += name.len() / BYTES_OF_VALUE;
                    self.add_keyword(&mut all, name, field, depth)?;
                    all.add(match name.as_str() {
                        "const" | "enum" | "default" | "examples" => size_of_data(field),
                        "properties" | "$defs" | "definitions" => {
                            self.named(field, SchemaSize::add_beside, depth + 1)?
                        }
                        "patternProperties" | "dependentSchemas" => self.named(field, SchemaSize::add, depth + 1)?,
                        _ => self.size(field, depth + 1)?,
                    });
                }
                if fields.contains_key("unevaluatedItems") || fields.contains_key("unevaluatedProperties") {
                    all.has_unevaluated = true;
                    all.nodes = all.nodes.saturating_mul(2);
                    all.repeats = all.repeats.saturating_mul(2);
                }
            }
            _ => {}
        }
        all.within_bounds()
    }

    /// Returns the size of schemas by their names, which are no keywords.
    fn named(
        &mut self,
        value: &'a Value,
        add: fn(&mut SchemaSize, SchemaSize),
        depth: usize,
    ) -> Result<SchemaSize, String> {
        let Value::Object(schemas) = value else { return self.size(value, depth) };
        let mut all = SchemaSize { nodes: 1, ..SchemaSize::default() };
        for (name, schema) in schemas {
            all.nodes += name.len() / BYTES_OF_VALUE;
            add(&mut all, self.size(schema, depth + 1)?);
        }
        all.within_bounds()
    }

    fn add_keyword(&mut self, all: &mut SchemaSize, name: &str, field: &'a Value, depth: usize) -> Result<(), String> {
        match (name, field) {
            ("$ref", Value::String(reference)) => {
                all.add(self.target(reference, depth + 1)?);
                all.has_references = true;
            }
            ("$dynamicRef" | "$recursiveRef", _) => return Err(format!("{name} is not allowed; write $ref")),
            ("$id" | "id", Value::String(_)) if depth > 0 => self.has_base = true,
            ("pattern", Value::String(pattern)) => all.add_pattern(pattern)?,
            ("patternProperties", Value::Object(patterns)) => {
                patterns.keys().try_for_each(|pattern| all.add_pattern(pattern))?;
            }
            _ => {}
        }
        Ok(())
    }

    fn target(&mut self, reference: &'a str, depth: usize) -> Result<SchemaSize, String> {
        if let Some(known) = self.targets.get(reference) {
            return Ok(known.unwrap_or(SchemaSize {
                nodes: 1,
                is_recursive: true,
                repeats: 1,
                ..SchemaSize::default()
            }));
        }
        // Names and addresses, and escapes of addresses, are not followed.
        let pointer = reference.strip_prefix('#').filter(|pointer| !pointer.contains('%'));
        let root = self.root;
        let target = pointer.and_then(|pointer| root.pointer(pointer)).ok_or_else(|| {
            format!("the reference {reference:?} is no JSON Pointer into the schema, such as \"#/$defs/name\"")
        })?;
        self.targets.insert(reference, None);
        let size = self.size(target, depth)?;
        self.targets.insert(reference, Some(size));
        Ok(size)
    }

    /// Returns the most repeats of a target.
    fn repeats(&self) -> usize {
        self.targets.values().flatten().map(|size| size.repeats).max().unwrap_or(0)
    }
}

/// Keys whose schemas apply to the same value as the schema around them.
const SAME_VALUE: [&str; 9] = ["allOf", "anyOf", "oneOf", "not", "if", "then", "else", "$ref", "dependentSchemas"];

/// Finds a chain of references that never steps into the value, on which a validator would not end.
fn endless(schema: &Value) -> Option<String> {
    let mut open = vec![(String::new(), schema)];
    while let Some((pointer, value)) = open.pop() {
        match value {
            Value::Object(map) => {
                if map.contains_key("$ref") && comes_back(schema, value) {
                    return Some(format!("{pointer}/$ref"));
                }
                open.extend(map.iter().map(|(key, value)| (format!("{pointer}/{}", escape(key)), value)));
            }
            Value::Array(items) => {
                open.extend(items.iter().enumerate().map(|(at, value)| (format!("{pointer}/{at}"), value)));
            }
            _ => {}
        }
    }
    None
}

fn escape(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

fn comes_back(root: &Value, start: &Value) -> bool {
    let mut seen: Vec<*const Value> = Vec::new();
    let mut open = vec![start];
    while let Some(value) = open.pop() {
        let Value::Object(map) = value else { continue };
        if seen.iter().any(|it| std::ptr::eq(*it, value)) {
            if std::ptr::eq(value, start) {
                return true;
            }
            continue;
        }
        seen.push(value);
        for key in SAME_VALUE {
            match map.get(key) {
                Some(Value::String(reference)) if key == "$ref" => {
                    open.extend(reference.strip_prefix('#').and_then(|pointer| root.pointer(pointer)));
                }
                Some(Value::Array(items)) => open.extend(items),
                Some(Value::Object(inner)) if key == "dependentSchemas" => open.extend(inner.values()),
                Some(inner @ Value::Object(_)) => open.push(inner),
                _ => {}
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A chain of definitions, each of which refers to the one before it twice.
    fn doubled(times: usize) -> Value {
        let mut definitions = json!({ "d0": false });
        for at in 1..=times {
            let before = json!({ "$ref": format!("#/$defs/d{}", at - 1) });
            definitions[format!("d{at}")] = json!({ "anyOf": [before, before] });
        }
        json!({ "$ref": format!("#/$defs/d{times}"), "$defs": definitions })
    }

    #[test]
    fn schemas_without_a_bound_are_refused() {
        let long = "a".repeat(LONGEST_PATTERN + 1);
        let many: Vec<Value> = (0..=MOST_PATTERNS).map(|at| json!({ "pattern": format!("a{at}") })).collect();
        let nested = (0..=DEEPEST).fold(json!({}), |below, _| json!({ "not": below }));
        let hidden: Value =
            serde_json::from_str(&doubled(40)["$defs"].to_string().replace("$defs", "default")).unwrap();
        let unevaluated = (0..20).fold(json!({}), |below, _| json!({ "not": below, "unevaluatedItems": false }));
        for hostile in [
            doubled(40),
            nested,
            unevaluated,
            json!({ "anyOf": many }),
            json!({ "$ref": "#" }),
            json!({ "$ref": "#name", "$defs": { "a": { "$anchor": "name" } } }),
            json!({ "$ref": "#/$defs/%61", "$defs": { "a": true } }),
            json!({ "$dynamicRef": "#/$defs/a" }),
            json!({ "$id": "https://a.test/s", "$ref": "https://a.test/s#/$defs/a", "$defs": { "a": true } }),
            json!({ "items": { "$id": "https://a.test/", "$ref": "#/$defs/a" }, "$defs": { "a": true } }),
            json!({ "properties": { "a": { "$ref": "#/none" } } }),
            json!({ "$ref": "#/default/d40", "default": hidden }),
            json!({ "patternProperties": { "default": { "$ref": "#/default/d40" } }, "default": hidden }),
            json!({ "pattern": long.clone() }),
            json!({ "patternProperties": { long: true } }),
        ] {
            assert!(SchemaSize::of(&hostile).is_err(), "{hostile}");
        }
    }

    #[test]
    fn a_large_value_shows_one_mistake_and_a_huge_one_is_not_checked() {
        let schema = json!({ "items": { "type": "number" } });
        let validator = jsonschema::validator_for(&schema).unwrap();
        let size = SchemaSize { nodes: 100, ..SchemaSize::of(&schema).unwrap() };
        let mistakes = |texts: usize| {
            let value = json!(vec!["a".repeat(BYTES_OF_VALUE); texts]);
            size.mistakes(&validator, &value, 5).map(|mistakes| mistakes.len())
        };
        assert_eq!([3, 10, 5_000, 500_000].map(mistakes), [Some(3), Some(5), Some(1), None]);
    }

    #[test]
    fn the_size_has_the_targets_in_place_of_the_references() {
        let small = SchemaSize::of(&json!({ "properties": { "$ref": { "pattern": "a" } } })).unwrap();
        assert_eq!((small.patterns, small.has_references), (1, false));
        let examples = json!([{ "id": "a", "$ref": "none", "pattern": "(" }]);
        let data = json!({ "$ref": "#/$defs/a", "$defs": { "a": { "enum": examples } }, "examples": examples });
        assert_eq!(SchemaSize::of(&data).map(|size| (size.patterns, size.has_references)), Ok((0, true)));
        let [shorter, longer] = [3, 4].map(|times| SchemaSize::of(&doubled(times)).unwrap());
        assert!(longer.has_references && !longer.is_recursive && longer.nodes > 3 * shorter.nodes / 2);
        let tree = SchemaSize::of(&json!({ "properties": { "children": { "items": { "$ref": "#" } } } })).unwrap();
        assert!(tree.is_recursive);
        assert!(SchemaSize::of(&json!({ "unevaluatedProperties": false })).unwrap().has_unevaluated);
    }
}
