//! Programs in Expr, the language of the action `expr.eval`, as CEL.
//!
//! The common part has a counterpart in CEL. Everything else is refused with its name and place.
//! The evaluator of CEL runs a translated program by the rules of Expr for missing members and
//! indices.

mod function;
mod lexer;
mod parser;

use std::fmt::Write;

use parser::Parser;

/// The most blocks, calls and parentheses inside of each other.
const DEPTH: usize = 64;

/// Words of CEL that cannot be names of variables, nor of members after a dot.
const WORDS: [&str; 21] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "false",
    "for",
    "function",
    "if",
    "import",
    "in",
    "let",
    "loop",
    "namespace",
    "null",
    "package",
    "return",
    "true",
    "var",
    "void",
    "while",
];

/// A part of a program that cannot be translated.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fault {
    /// Its byte in the source.
    pub(super) at: usize,
    pub(super) message: String,
    /// Whether Expr has it, and CEL has no counterpart.
    pub(super) is_foreign: bool,
}

impl Fault {
    fn syntax(at: usize, message: impl Into<String>) -> Self {
        Self { at, message: message.into(), is_foreign: false }
    }

    /// A part of Expr without a counterpart.
    fn foreign(at: usize, name: &str) -> Self {
        Self { at, message: format!("{name} of Expr has no counterpart here"), is_foreign: true }
    }
}

/// Translates a program. `data` is CEL for the value that the program reads as `data`.
pub(super) fn translate(source: &str, data: Option<&str>) -> Result<String, Fault> {
    let mut parser = Parser::new(source, lexer::tokens(source)?);
    let program = format!("_expr.eval({})", parser.program()?);
    Ok(match data {
        Some(data) => format!("cel.bind(data, {data}, {program})"),
        None if parser.reads_data => format!("cel.bind(data, null, {program})"),
        None => program,
    })
}

/// Returns a text as a literal of CEL.
pub(super) fn quoted(text: &str) -> String {
    let mut literal = String::from("'");
    for next in text.chars() {
        match next {
            '\'' => literal.push_str("\\'"),
            '\\' => literal.push_str("\\\\"),
            '\n' => literal.push_str("\\n"),
            '\r' => literal.push_str("\\r"),
            '\t' => literal.push_str("\\t"),
            _ if next.is_control() => {
                // Writing to a text does not fail.
                let _ = write!(literal, "\\u{:04x}", u32::from(next));
            }
            _ => literal.push(next),
        }
    }
    literal.push('\'');
    literal
}

/// Returns the member of a value as CEL selects it. `optional` is `?` where it may be missing.
pub(super) fn member(name: &str, optional: &str) -> String {
    let is_plain = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && !WORDS.contains(&name);
    if is_plain { format!(".{optional}{name}") } else { format!("[{optional}{}]", quoted(name)) }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::expression::{Evaluator, Expression, Scope};
    use crate::graph::MissingPath;

    #[test]
    fn the_common_part_has_a_counterpart() {
        for (program, cel) in [
            (
                "filter(steps['fetch-data'].body.items, {.score >= inputs.threshold})",
                "steps['fetch-data'].body.items.filter(_v1, (_v1.score >= inputs.threshold))",
            ),
            ("len(filter(xs, {.level == 'ERROR'}))", "size(inputs.xs.filter(_v1, (_v1.level == 'ERROR')))"),
            ("sum(items, {#})", "inputs.items.map(_v1, _v1).sum()"),
            ("count(inputs.xs, .ok) >= 3", "(size(inputs.xs.filter(_v1, _v1.ok)) >= 3)"),
            ("not (a in [1, \"b\"]) and b matches '^x'", "(!((inputs.a in [1, 'b'])) && inputs.b.matches('^x'))"),
            ("x not in xs || true", "(!(inputs.x in inputs.xs) || true)"),
            ("a > 1 ? 'it\\'s' : nil", "((inputs.a > 1) ? 'it\\'s' : null)"),
            ("inputs.a?.b?.c", "inputs.a.?b.?c.orValue(null)"),
            ("inputs.a.b ?? 'x'", "cel.bind(_v1, inputs.?a.?b.orValue(null), (_v1 == null ? 'x' : _v1))"),
            ("let n = len(xs); n * 2", "cel.bind(n, size(inputs.xs), (n * 2))"),
            ("let v1 = 10; map(xs, {# + v1})", "cel.bind(v1, 10, inputs.xs.map(_v1, (_v1 + v1)))"),
            ("xs | filter({# > 1}) | len()", "size(inputs.xs.filter(_v1, (_v1 > 1)))"),
            ("map(xs, {map(.ys, {# + 1})})", "inputs.xs.map(_v1, _v1.ys.map(_v2, (_v2 + 1)))"),
            ("1 / 4", "(double(1) / double(4))"),
            ("{a: 1, 'b c': {n: -2}}", "{'a': 1, 'b c': {'n': -(2)} }"),
            ("max(1, 2.5) + min(xs)", "(math.greatest(1, 2.5) + math.least(inputs.xs))"),
            (
                "any(xs, {.in}) && none(xs, {#}) && all(xs, {#}) && one(xs, {#})",
                concat!(
                    "(((inputs.xs.exists(_v1, _v1['in']) && !inputs.xs.exists(_v1, _v1)) && inputs.xs.all(_v1, _v1))",
                    " && inputs.xs.exists_one(_v1, _v1))",
                ),
            ),
            ("upper(trim('a')) contains \"A\"", "_expr.upper('a'.trim()).contains('A')"),
            ("xs[0].name startsWith `b`", "inputs.xs[0].name.startsWith('b')"),
        ] {
            let cel = format!("_expr.eval({cel})");
            assert_eq!(translate(program, None).as_ref(), Ok(&cel), "{program}");
            assert!(Expression::compile(&cel).is_ok(), "{cel}: {:?}", Expression::compile(&cel));
        }
        assert_eq!(translate("data.n", Some("{'n': 1}")).unwrap(), "cel.bind(data, {'n': 1}, _expr.eval(data.n))");
        assert_eq!(translate("data.n", None).unwrap(), "cel.bind(data, null, _expr.eval(data.n))");
    }

    /// Returns the value of a program, or `None` if it fails.
    fn value_of(evaluator: &Evaluator, program: &str) -> Option<Value> {
        let inputs = json!({
            "n": 7, "half": 2.5, "name": "Zoë", "none": null, "tags": ["a", "b"], "nested": [1, [2, [3, [4]]]],
            "rows": [{ "id": 1, "level": "ERROR" }, { "id": 2 }],
        });
        let cel = translate(program, None).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let scope = Scope::new().with("input", inputs);
        runtime.block_on(evaluator.value(&cel, &scope, MissingPath::Error)).ok()
    }

    /// The values are those of the engine of Expr, with an environment of JSON in which variables
    /// may be undefined.
    #[test]
    fn programs_give_what_expr_gives() {
        let evaluator = Evaluator::new();
        for (program, expected) in [
            // Numbers: JSON has one kind of them, and a division may have a fraction.
            ("ceil(n)", json!(7)),
            ("floor(half) + round(half) + ceil(half)", json!(8)),
            ("n / 7", json!(1)),
            ("n / 2", json!(3.5)),
            ("[6 / 2 == 3, 4 / 2, {a: 2.0, b: 0.5}]", json!([true, 2, { "a": 2, "b": 0.5 }])),
            ("float(n)", json!(7)),
            ("sum([1.5, 1.5])", json!(3)),
            ("string(6 / 2)", json!("3")),
            ("int(half) + n % 2", json!(3)),
            ("let middle = len(tags) / 4; tags[middle]", json!("a")),
            // Lists.
            ("flatten(nested)", json!([1, 2, 3, 4])),
            ("tags[-1]", json!("b")),
            ("[first(tags), last(tags), first([]), last([])]", json!(["a", "b", null, null])),
            ("[get(tags, 1), get(tags, -2), get(tags, 9)]", json!(["b", "a", null])),
            // Unicode.
            ("[upper(name), lower('ÀÉ'), len(name)]", json!(["ZOË", "àé", 3])),
            ("[indexOf('ëbb', 'b'), lastIndexOf('ëbb', 'b'), indexOf('ë', 'b')]", json!([2, 3, -1])),
            // Missing members.
            ("missing", json!(null)),
            ("missing == nil && rows[1].level == nil && rows[1]['level'] == nil", json!(true)),
            ("map(rows, {.level})", json!(["ERROR", null])),
            ("filter(rows, {.level == 'ERROR'}) | map({.id})", json!([1])),
            ("[missing?.a.b, missing?.a?.b ?? 'x', none?.a, data?.a]", json!([null, "x", null, null])),
            ("[missing ?? 1, none ?? 2, n ?? 3]", json!([1, 2, 7])),
            ("['a' in missing, 'a' not in missing, 'a' in tags]", json!([false, true, true])),
            (
                "[missing contains 'a', none startsWith 'a', missing endsWith 'a', none matches 'a']",
                json!([false, false, false, false]),
            ),
            ("[get(missing, 'a'), get(rows[0], 'gone'), first(missing)]", json!([null, null, null])),
        ] {
            assert_eq!(value_of(&evaluator, program), Some(expected), "{program}");
        }
        for program in [
            "missing.a",
            "none.a",
            "rows[0].level.a",
            "missing > 1",
            "missing + 1",
            "len(missing)",
            "tags[2]",
            "tags[-3]",
        ] {
            assert_eq!(value_of(&evaluator, program), None, "{program}");
        }
        // The rules are those of the program alone, not those of its data.
        let cel = translate("data", Some("input.missing")).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let scope = Scope::new().with("input", json!({}));
        assert!(runtime.block_on(evaluator.value(&cel, &scope, MissingPath::Error)).is_err());
    }

    #[test]
    fn the_rest_is_refused_with_its_name_and_place() {
        for (program, at, message, is_foreign) in [
            ("len(groupBy(xs, {.a}))", 4, "the function \"groupBy\" of Expr has no counterpart here", true),
            ("2 ** 3", 2, "the operator \"**\" of Expr has no counterpart here", true),
            ("1..3", 1, "the operator \"..\" of Expr has no counterpart here", true),
            ("xs[1:2]", 4, "a slice of Expr has no counterpart here", true),
            ("now().Year()", 0, "the function \"now\" of Expr has no counterpart here", true),
            ("map(xs, {#index})", 10, "\"#index\" of Expr has no counterpart here", true),
            ("a.b()", 2, "the method \"b\" of Expr has no counterpart here", true),
            ("# > 1", 0, "\"#\" stands inside of a predicate only", false),
            ("len(xs", 6, "expected \")\", found the end", false),
            ("'abc", 0, "this text has no end", false),
            ("a @ b", 2, "Expr has no sign '@'", false),
            ("let _v1 = 1; _v1", 4, "\"_v1\" cannot be the name of a variable", false),
            ("len()", 0, "\"len\" takes 1 argument, not 0", false),
        ] {
            let fault = translate(program, None).unwrap_err();
            assert_eq!((fault.at, fault.message.as_str(), fault.is_foreign), (at, message, is_foreign), "{program}");
        }
        let deep = format!("{}1{}", "(".repeat(500), ")".repeat(500));
        assert!(translate(&deep, None).unwrap_err().message.contains("deep"));
        assert!(translate(&"-".repeat(5_000), None).unwrap_err().message.contains("deep"));
    }
}
