use proptest::prelude::*;
use serde_json::{Value, json};

use super::{CALLS, Evaluator, Expression, ExpressionError, Path, Scope, Template};
use crate::graph::MissingPath;

fn scope() -> Scope {
    let steps = json!({
        "hash-payload": {"digest": "ab", "n": 7},
        "fetch": {"body": {"items": [{"a b": 1}, {"a b": 2}], "none": null}},
    });
    Scope::new().with("input", json!({"n": 3, "text": "it's", "total": 9})).with("steps", steps)
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

fn render(template: &Value) -> Result<Value, ExpressionError> {
    block_on(Evaluator::new().render(template, &scope(), MissingPath::Error))
}

#[test]
fn a_whole_template_keeps_the_type() {
    for (template, rendered) in [
        (json!("{{input.n}}"), json!(3)),
        (json!("{{ steps.hash-payload.n }}"), json!(7)),
        (json!("{{steps.fetch.body.items[1]['a b']}}"), json!(2)),
        (json!("{{step.fetch.body.none}}"), json!(null)),
        (json!("{{inputs}}"), json!({"n": 3, "text": "it's", "total": 9})),
        (json!("{{input.gone ?? input.n}}"), json!(3)),
        (json!("{{steps.fetch.body.none ?? 'x }} y'}}"), json!("x }} y")),
        (json!({"a": ["{{input.n}}", 1, null, true, "plain"]}), json!({"a": [3, 1, null, true, "plain"]})),
    ] {
        assert_eq!(render(&template).unwrap(), rendered, "{template}");
    }
}

#[test]
fn other_templates_join_texts() {
    for (template, rendered) in [
        (" {{input.n}}", " 3"),
        ("{{input.text}}: {{steps.fetch.body.items}}", "it's: [{\"a b\":1},{\"a b\":2}]"),
        ("{{{{input.n}}", "{{input.n}}"),
        ("a {{{{ b {{input.n}} }} c", "a {{ b 3 }} c"),
        ("{{input.n}}{{{{{{input.n}}", "3{{3"),
        ("it's {{input.n}} isn't", "it's 3 isn't"),
        ("næ {{steps.fetch.body.none}}", "næ null"),
        ("", ""),
    ] {
        assert_eq!(render(&json!(template)).unwrap(), json!(rendered), "{template}");
    }
}

#[test]
fn a_missing_path_names_the_nearest() {
    for (template, text) in [
        ("{{steps.fetcg.body}}", "steps.fetcg does not exist; did you mean \"fetch\"?"),
        ("{{stepz.fetch}}", "stepz does not exist; did you mean \"steps\"?"),
        ("{{steps.fetch.body.items[2]}}", "steps.fetch.body.items[2] does not exist; the list has 2 items"),
        ("{{input.n.x}}", "input.n.x does not exist; input.n is a number"),
        ("{{input.total-1}}", "input.total-1 does not exist; to subtract, write spaces: total - 1"),
        ("{{input['very far']}}", "input['very far'] does not exist"),
    ] {
        assert_eq!(render(&json!(template)).unwrap_err().to_string(), text, "{template}");
    }
    let before = CALLS.get();
    let empty = block_on(Evaluator::new().render(&json!("a{{input.x}}b"), &scope(), MissingPath::Empty));
    assert_eq!(empty.unwrap(), json!("ab"));
    assert_eq!(render(&json!("{{input.gone ?? inptu.n ?? steps.fetcg.body ?? 1}}")).unwrap(), json!(1));
    assert_eq!(CALLS.get(), before, "a path that may lead nowhere has no hint");
}

#[test]
fn syntax_errors_have_the_column_in_the_whole_text() {
    for (template, text) in [
        ("æ {{input.n", "`{{` has no `}}`; for the text `{{` write `{{{{` (column 3)"),
        ("æ {{}}", "an expression is missing here (column 5)"),
        ("{{a}} {{b ?? }}", "an expression is missing here (column 14)"),
        ("{{a}} {{'b}}", "the text that begins here has no end (column 9)"),
        ("{{ (a ?? b) }}", "`??` may not stand in parentheses; CEL has `a.?b.orValue(c)` (column 7)"),
    ] {
        assert_eq!(Template::parse(template).unwrap_err().to_string(), text, "{template}");
    }
    let long = format!("{{{{{}}}}}", "a".repeat(5000));
    assert!(Template::parse(&long).unwrap_err().to_string().contains("5000 bytes; 4096 is the limit"));
    let error = Template::parse(&"{{a}}".repeat(65)).unwrap_err();
    assert_eq!(error.to_string(), "the text has more than 64 expressions (column 321)");
}

#[test]
fn references_have_columns_and_know_defaults() {
    let template = Template::parse("æ {{ input.a }} {{loop.item.b ?? vars.c}}").unwrap();
    let found: Vec<_> =
        template.references().iter().map(|read| (read.path.to_string(), read.column, read.optional)).collect();
    let expected = [("input.a", 6, false), ("item.b", 19, true), ("vars.c", 34, false)];
    assert_eq!(found, expected.map(|(path, column, optional)| (path.to_owned(), column, optional)));
    assert!(Expression::compile("true").unwrap().references().is_empty());
}

#[test]
fn a_rendering_has_a_bound() {
    let scope = Scope::new().with("input", json!({"big": "x".repeat(1 << 20)}));
    let template = json!(vec!["{{input.big}}"; 20_000]);
    let error = block_on(Evaluator::new().render(&template, &scope, MissingPath::Error)).unwrap_err();
    assert!(matches!(error, ExpressionError::Budget(_)), "{error}");
}

proptest! {
    #[test]
    fn any_text_is_parsed_or_refused(text in "[{}'\"r?a. ræ\\\\\\[\\]0-9]{0,60}") {
        if let Ok(template) = Template::parse(&text) {
            prop_assert!(template.references().iter().all(|read| read.column <= text.chars().count()));
        }
        let _ = Path::parse(&text);
    }

    #[test]
    fn a_path_survives_its_own_text(text in "[a-z][a-z0-9-]{0,5}(\\.[a-z0-9_-]{1,4}|\\[[0-9]{1,3}\\]|\\['[ a-z.]{0,5}'\\]){0,4}") {
        if let Some(path) = Path::parse(&text) {
            prop_assert_eq!(Path::parse(&path.to_string()), Some(path));
        }
    }

    #[test]
    fn a_text_without_braces_stays(text in "[^{]{0,40}") {
        prop_assert_eq!(render(&json!(text.clone())).unwrap(), json!(text));
    }
}
