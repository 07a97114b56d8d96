//! Programs in Expr, the language of the action `expr.eval`, as CEL.
//!
//! The common part has a counterpart in CEL. Everything else is refused with its name and place.

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
    let program = parser.program()?;
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
    use super::*;
    use crate::expression::Expression;

    #[test]
    fn the_common_part_has_a_counterpart() {
        for (program, cel) in [
            (
                "filter(steps['fetch-data'].body.items, {.score >= inputs.threshold})",
                "steps['fetch-data'].body.items.filter(_v1, (_v1.score >= inputs.threshold))",
            ),
            (
                "len(filter(data, {.level == 'ERROR'}))",
                "cel.bind(data, null, size(data.filter(_v1, (_v1.level == 'ERROR'))))",
            ),
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
            ("upper(trim('a')) contains \"A\"", "'a'.trim().upperAscii().contains('A')"),
            ("xs[0].name startsWith `b`", "inputs.xs[0].name.startsWith('b')"),
        ] {
            assert_eq!(translate(program, None).as_deref(), Ok(cel), "{program}");
            assert!(Expression::compile(cel).is_ok(), "{cel}: {:?}", Expression::compile(cel));
        }
        assert_eq!(translate("data.n", Some("{'n': 1}")).unwrap(), "cel.bind(data, {'n': 1}, data.n)");
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
