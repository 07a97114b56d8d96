use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::{CALLS, ExpressionError, ExpressionLimits, Scope};
use super::{Meter, parse};

fn evaluate(source: &str, scope: &Scope) -> Result<Value, ExpressionError> {
    parse(source)?.evaluate(scope, &mut Meter::new(ExpressionLimits::new()))
}

fn scope() -> Scope {
    Scope::new()
        .with(
            "input",
            json!({"n": 7, "half": 0.5, "largest": i64::MAX, "text": "æ🐱", "list": [3, 1, 2], "none": null}),
        )
        .with("steps", json!({"fetch-all": {"code": 200}, "b": {"items": [{"price": 10}, {"price": 60.5}]}}))
        .with("item", json!({"name": "first"}))
}

#[test]
fn documents_are_read_as_they_are() {
    for (source, expected) in [
        ("steps['fetch-all'].code == 200 && input.n > 5", json!(true)),
        ("input.largest", json!(i64::MAX)),
        ("input.largest - 1 == 9223372036854775806", json!(true)),
        ("type(input.n) == int && type(input.half) == double", json!(true)),
        ("input.n * input.half", json!(3.5)),
        ("[math.ceil(input.n), math.round(input.half), math.isNaN(input.n)]", json!([7, 1.0, false])),
        ("input.n / 2", json!(3)),
        ("size(input.text) + input.text.size()", json!(4)),
        ("input.text.reverse()", json!("🐱æ")),
        ("input.text.indexOf('🐱')", json!(1)),
        ("input.list.sort()", json!([1, 2, 3])),
        ("input.list.map(x, x * 2).filter(x, x > 2)", json!([6, 4])),
        ("steps.b.items.filter(i, i.price > 50).map(i, i.price)", json!([60.5])),
        ("steps.b.items.exists(i, i.price == 10)", json!(true)),
        ("steps == steps && steps.b in [steps.b]", json!(true)),
        ("size(steps)", json!(2)),
        ("has(input.n) && !has(input.gone)", json!(true)),
        ("input.?gone.orValue('none')", json!("none")),
        ("input.?n.orValue(0) + 1", json!(8)),
        ("input.?a.b.c.hasValue()", json!(false)),
        ("input[?'n'].optMap(n, n + 1).value()", json!(8)),
        ("[?input.?gone, ?input.?n]", json!([7])),
        ("{'a': input.n, ?'b': input.?gone}", json!({"a": 7})),
        ("loop.item.name + iter.item.name + inputs.text", json!("firstfirstæ🐱")),
        ("input.none == null ? 'no' : 'yes'", json!("no")),
        ("'%s of %d: %.2f'.format([input.text, input.n, input.half])", json!("æ🐱 of 7: 0.50")),
        ("input.list.sortBy(x, -x)", json!([3, 2, 1])),
        ("'a,b'.split(',').join('-')", json!("a-b")),
        ("math.greatest(input.list)", json!(3)),
        ("lists.range(3)", json!([0, 1, 2])),
        ("input.list.sum() + [].sum() + [0.5].sum()", json!(6.5)),
        ("cel.bind(x, input.n, x * x)", json!(49)),
        ("'2026-11-26'.matches('^[0-9]{4}-[0-9]{2}-[0-9]{2}$')", json!(true)),
        ("// a remark\n 1 + 1", json!(2)),
        ("b'ab'", json!("YWI=")),
        (
            "url.encode('../a?b=c&d#e%2F +') + url.encode('A-z_0.9~')",
            json!("..%2Fa%3Fb%3Dc%26d%23e%252F%20%2BA-z_0.9~"),
        ),
        ("url.encode(input.text) + '/' + url.encode(input.n)", json!("%C3%A6%F0%9F%90%B1/7")),
        ("['http://a', 'b'].filter(url, url.startsWith('http'))", json!(["http://a"])),
    ] {
        assert_eq!(evaluate(source, &scope()).as_ref(), Ok(&expected), "{source}");
    }
}

#[test]
fn errors_name_types_and_columns_but_no_values() {
    for (source, text) in [
        ("input.text + input.n", "`+` cannot take string and int (column 12)"),
        ("input.list.map(x, x + 'a')", "`+` cannot take int and string (column 21)"),
        ("steps.c.items", "steps.c does not exist; did you mean \"b\"?"),
        ("stepz.b == 1", "stepz does not exist; did you mean \"steps\"?"),
        ("input.list[9] == 1", "the item at column 11 does not exist; the list has 3 items"),
        ("input.n.x == 1", ".x needs a map, not int (column 8)"),
        ("int(input.text)", "`int` cannot take (string): the value does not fit (column 1)"),
        ("input.largest + 1", "`+` leaves the range of int (column 15)"),
        ("input.n / 0", "`/` by zero (column 9)"),
        ("input.n ? 1 : 2", "`?` needs a bool, not int (column 9)"),
        ("input.n && true", "`&&` needs bools, not int (column 1)"),
        ("0.0 / 0.0", "the result has a number that is not finite; JSON has none"),
    ] {
        assert_eq!(evaluate(source, &scope()).unwrap_err().to_string(), text, "{source}");
    }
    let large = Scope::new().with("input", json!({"n": u64::MAX}));
    assert_eq!(evaluate("input.n", &large).unwrap_err().to_string(), "an integer is above 2^63 - 1");
}

#[test]
fn syntax_errors_have_a_column_and_a_remedy() {
    for (source, text) in [
        ("a &&", "expected a value after \"&&\" (column 5)"),
        ("size(a[0] &&", "`(` is not closed (column 5)"),
        ("(a]", "expected \")\", found \"]\" (column 3)"),
        ("æ = 1", "'æ' cannot stand here (column 1)"),
        ("a = 1", "`=` is not an operator; write `==` (column 3)"),
        ("a !== 1", "`!==` is not an operator; write `!=` (column 3)"),
        ("a & b", "`&` is not an operator; write `&&` (column 3)"),
        ("a | b", "`|` is not an operator; write `||`, or use a jq step (column 3)"),
        ("a and b", "`and` is not an operator; write `&&` (column 3)"),
        ("!a && not b", "`not` is not an operator; write `!` (column 7)"),
        ("a.filter(x > 1)", "`filter` takes 2 arguments, not 1 (column 2)"),
        ("sise(a)", "there is no function `sise`; did you mean `size`? (column 1)"),
        ("a.startsWith()", "`startsWith` takes 1 arguments, not 0 (column 2)"),
        ("trim(a)", "`trim` stands after its value: value.trim(..) (column 1)"),
        ("'æ' + 'b", "the text that begins here has no end (column 7)"),
        ("now()", "there is no function `now` (column 1)"),
        ("a.map(1, 2)", "`map` needs a name for the item first: list.map(item, ..) (column 2)"),
        ("Message{a: 1}", "messages are not available; write a map: {'name': value} (column 8)"),
        ("while", "\"while\" is a reserved word (column 1)"),
        ("1 2", "expected an operator or the end, found a number (column 3)"),
        ("9223372036854775808", "the number is too large (column 1)"),
    ] {
        let error = parse(source).map(|_| ()).unwrap_err();
        assert_eq!(error.to_string(), text, "{source}");
    }
}

#[test]
fn references_are_the_paths_of_the_source() {
    let read = |source: &str| -> Vec<(String, usize, bool)> {
        let references = parse(source).unwrap().references;
        references.iter().map(|read| (read.path.to_string(), read.column, read.optional)).collect()
    };
    let owned = |path: &str, column, optional| (path.to_owned(), column, optional);
    assert_eq!(
        read("steps['a-b'].x[0] + inputs.n > has(vars.y) || input.?z.orValue(1)"),
        [
            owned("steps.a-b.x[0]", 1, false),
            owned("input.n", 21, false),
            owned("vars.y", 36, true),
            owned("input.z", 47, true),
        ]
    );
    assert_eq!(
        read("input.list.map(x, x + steps[vars.name].y)"),
        [owned("input.list", 1, false), owned("steps", 23, false), owned("vars.name", 29, false)]
    );
    assert_eq!(read("loop.index + type(1) == int"), [owned("index", 1, false)]);
}

/// Returns the processor time of this thread. The wall clock of a loaded machine proves nothing.
fn processor_millis() -> u64 {
    let statistics = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    statistics.split(' ').next().and_then(|nanos| nanos.parse::<u64>().ok()).unwrap_or(0) / 1_000_000
}

/// The values that hostile programs read.
fn hostile_scope() -> Scope {
    let list: Vec<u32> = (0..2000).collect();
    Scope::new().with("big", json!(list)).with("text", json!("a".repeat(200_000)))
}

/// Programs that would take long, much memory or a deep stack without bounds.
fn hostile_programs() -> Vec<String> {
    let nest = |open: &str, close: &str, count: usize| format!("{}1{}", open.repeat(count), close.repeat(count));
    vec![
        "big.all(a, big.all(b, big.all(c, big.all(d, true))))".to_owned(),
        "big.exists(a, big.exists(b, big.exists(c, false))) || true".to_owned(),
        "big.exists_one(a, big.exists_one(b, big.exists_one(c, true)))".to_owned(),
        "big.map(a, big.map(b, big.map(c, big)))".to_owned(),
        "big.map(a, big.map(b, big + big))".to_owned(),
        "big.filter(a, big.filter(b, big.filter(c, false) == []) == [])".to_owned(),
        "big.map(a, string(a) + text)".to_owned(),
        "big.map(a, big) == big.map(a, big)".to_owned(),
        "big.map(a, big).map(b, b == big) == []".to_owned(),
        "big.exists(a, a in big.map(b, b + 1000000))".to_owned(),
        "lists.range(1000000000)".to_owned(),
        "lists.range(30000).distinct()".to_owned(),
        "lists.range(9223372036854775807).sort()".to_owned(),
        "text.replace('', text)".to_owned(),
        "text.replace('a', text)".to_owned(),
        "text.split('').map(a, text.split(''))".to_owned(),
        "big.map(a, text).join(text)".to_owned(),
        "big.all(a, text.matches('(a*)*b'))".to_owned(),
        "text.matches('(((a{30}){30}){30})')".to_owned(),
        "big.all(a, text.indexOf('aaaaaaaaaaaaaaaaaaaaab') == -1)".to_owned(),
        "big.map(a, text.reverse())".to_owned(),
        "big.map(a, '%s'.format([text]))".to_owned(),
        "big.map(a, bytes(text))".to_owned(),
        "big.transformMap(i, v, big.transformMap(j, w, big))".to_owned(),
        "big.sortBy(a, big.sortBy(b, big.map(c, 1) == []) == [])".to_owned(),
        "cel.bind(a, [big, big], cel.bind(b, [a, a], cel.bind(c, [b, b], cel.bind(d, [c, c], [d, d, d, d]))))"
            .to_owned(),
        "'%.999999999f'.format([1.0])".to_owned(),
        nest("(", ")", 2000),
        nest("[", "]", 2000),
        nest("{'a':", "}", 800),
        nest("size(", ")", 800),
        "!".repeat(4000) + "true",
        "-".repeat(4000) + "big[0]",
        ["1"; 2000].join("+"),
        ["true"; 800].join("&&"),
        "a.".repeat(2000) + "a",
        "true?".repeat(800) + "1",
        "big".to_owned() + &".map(x, x)".repeat(400),
    ]
}

#[test]
fn hostile_programs_are_refused_or_end() {
    let (scope, programs) = (hostile_scope(), hostile_programs());
    for source in &programs {
        let begun = processor_millis();
        let found = evaluate(source, &scope);
        let shown: String = source.chars().take(60).collect();
        let taken = processor_millis() - begun;
        assert!(taken < 1000, "{shown} took {taken} ms");
        if let Ok(value) = &found {
            assert!(value.to_string().len() < 1 << 21, "{shown} gave much");
        }
        if let Err(ExpressionError::Failed(message)) = &found {
            assert!(!message.contains("bug"), "{shown}: {message}");
        }
    }
    for source in programs.iter().take(17) {
        let found = evaluate(source, &scope);
        assert!(matches!(found, Err(ExpressionError::Budget(_))), "{source}: {found:?}");
    }
}

/// Returns a size of this process in KiB.
#[cfg(target_os = "linux")]
fn own_size(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim().strip_suffix(" kB").unwrap().trim().parse().unwrap()
}

/// The other tests of this program take memory at the same time, so the programs are evaluated in
/// a process of this test alone.
#[test]
#[cfg(target_os = "linux")]
fn hostile_programs_take_little_memory() {
    const ALONE: &str = "WORKFLOW_TEST_ALONE";
    if std::env::var_os(ALONE).is_none() {
        let test = "expression::cel::tests::hostile_programs_take_little_memory";
        let mut program = std::process::Command::new(std::env::current_exe().unwrap());
        let output = program.args(["--exact", test, "--nocapture"]).env(ALONE, "1").output().unwrap();
        let shown = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && shown.contains("1 passed"), "{shown}");
        return;
    }
    let scope = hostile_scope();
    for source in hostile_programs() {
        // Where this is refused, the peak is that of all programs up to this one.
        let _ = std::fs::write("/proc/self/clear_refs", "5");
        let before = own_size("VmRSS:");
        let _ = evaluate(&source, &scope);
        let taken = own_size("VmHWM:").saturating_sub(before);
        let shown: String = source.chars().take(60).collect();
        assert!(taken <= 64 << 10, "{shown} took {taken} KiB");
    }
}

#[test]
fn nothing_absorbs_the_end_of_the_budget() {
    let scope = Scope::new().with("big", json!((0..2000).collect::<Vec<u32>>()));
    let endless = "big.all(a, big.all(b, big.all(c, true)))";
    for source in [
        format!("{endless} || true"),
        format!("true && ({endless} || true)"),
        format!("[1].exists(x, {endless}) || true"),
        format!("optional.of(1).optMap(x, {endless}).orValue(true)"),
        format!("{{'a': 1}}[?{endless} ? 'a' : 'b'].hasValue()"),
    ] {
        assert!(matches!(evaluate(&source, &scope), Err(ExpressionError::Budget(_))), "{source}");
    }
    // An error that decides nothing is absorbed, as CEL wants it.
    assert_eq!(evaluate("1 / 0 == 1 || true", &scope), Ok(json!(true)));
    assert_eq!(evaluate("[0, 1].exists(x, 1 / x == 1)", &scope), Ok(json!(true)));
}

/// An error that is absorbed has a hint too, and a loop absorbs many.
#[test]
fn hints_are_bounded() {
    let order = json!({"price": 1, "name": 2});
    let scope =
        Scope::new().with("order", order).with("few", json!([1])).with("many", json!((0..100).collect::<Vec<_>>()));
    let absorbed = ["order.pric == a", "order['pric'] == a", "{'price': 1}.pric == a", "ordre == a"];
    for (list, inner, end, hints) in [
        ("few", absorbed.as_slice(), "order.nam", 2),
        ("many", &absorbed, "order.nam", 8),
        // An optional access makes no error.
        ("many", &["order.?pric.hasValue()", "order[?'pric'].hasValue()"], "order.nam", 1),
        ("many", &["order.?pric.hasValue()"], "nam", 1),
    ] {
        for inner in inner {
            let source = format!("({list}.all(a, {inner} || true)) && {end} == 1");
            let before = CALLS.get();
            let error = evaluate(&source, &scope).unwrap_err();
            assert_eq!(CALLS.get() - before, hints, "{source}");
            let hint = if hints < 8 && end == "order.nam" { "; did you mean \"name\"?" } else { "" };
            assert_eq!(error, ExpressionError::Missing { path: end.to_owned(), hint: hint.to_owned() }, "{source}");
        }
    }
}

#[test]
fn copies_of_keys_take_fuel() {
    let members = (0..10).map(|number| ("k".repeat(20_000 + number), json!(1)));
    let scope = hostile_scope().with("order", Value::Object(members.collect()));
    for source in [
        "big.all(a, text in {'a': 1} || true)",
        "big.all(a, {'a': 1}[?text].hasValue() || true)",
        "big.all(a, order.all(key, true))",
        "big.all(a, order == order)",
        "big.all(a, {text: 1} != {})",
    ] {
        assert!(matches!(evaluate(source, &scope), Err(ExpressionError::Budget(_))), "{source}");
    }
}

/// Random sources of the grammar's own words.
fn source() -> impl Strategy<Value = String> {
    let word = prop::sample::select(vec![
        "input",
        "n",
        "list",
        "text",
        ".",
        "?",
        "[",
        "]",
        "(",
        ")",
        "{",
        "}",
        ",",
        ":",
        "1",
        "2.5",
        "'a'",
        "\"æ\"",
        "+",
        "-",
        "*",
        "/",
        "%",
        "==",
        "!=",
        "<",
        "&&",
        "||",
        "!",
        "in",
        "true",
        "null",
        ".map(x, ",
        ".all(x, ",
        ".size()",
        ".filter(x, ",
        "x",
        "has(",
        "size(",
        "int(",
        "string(",
        ".?n",
        ".orValue(",
        "b'\\x00'",
        "r'\\'",
        "u",
        " ",
        "\n",
        ".split('')",
        ".join(",
        ".replace(",
        ".sort()",
        ".format([",
        "optional.of(",
        "math.greatest(",
    ]);
    prop::collection::vec(word, 0..24).prop_map(|words| words.concat())
}

/// Random trees, which are nearly always programs.
fn tree() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(vec![
        "input.n",
        "input.list",
        "input.text",
        "input.half",
        "1",
        "0",
        "-1",
        "2.5",
        "'a'",
        "''",
        "[]",
        "{}",
        "null",
        "true",
        "steps",
        "9223372036854775807",
    ])
    .prop_map(str::to_owned);
    leaf.prop_recursive(6, 48, 3, |inner| {
        let two = (inner.clone(), inner.clone());
        prop_oneof![
            (two.clone(), prop::sample::select(vec!["+", "-", "*", "/", "%", "==", "<", "&&", "||", "in"]))
                .prop_map(|((left, right), sign)| format!("({left} {sign} {right})")),
            (two.clone(), prop::sample::select(vec!["map", "filter", "all", "exists", "exists_one", "sortBy"]))
                .prop_map(|((over, body), name)| format!("{over}.{name}(x, [x, {body}].size() > 0 ? {body} : x)")),
            (inner.clone(), prop::sample::select(vec!["size", "string", "int", "double", "type", "dyn", "bytes"]))
                .prop_map(|(value, name)| format!("{name}({value})")),
            two.clone().prop_map(|(left, right)| format!("[{left}, {right}]")),
            two.clone().prop_map(|(left, right)| format!("{{'a': {left}, 'b': {right}}}")),
            (two, inner).prop_map(|((a, b), c)| format!("({a} == {b} ? {b} : {c})")),
        ]
    })
}

proptest! {
    #[test]
    fn random_words_are_parsed_or_refused(source in source()) {
        let length = source.chars().count() + 1;
        if let Err(ExpressionError::Syntax { column, .. }) = evaluate(&source, &scope()) {
            prop_assert!((1..=length).contains(&column));
        }
    }

    #[test]
    fn random_programs_end(source in tree()) {
        let first = evaluate(&source, &scope());
        prop_assert!(!matches!(first, Err(ExpressionError::Syntax { .. })), "{} {:?}", source, first);
        if !matches!(first, Err(ExpressionError::Budget(_))) {
            prop_assert_eq!(first, evaluate(&source, &scope()));
        }
    }

    #[test]
    fn any_text_is_parsed_or_refused(source in ".{0,80}") {
        let _ = parse(&source);
    }

    #[test]
    fn integers_are_exact(left in any::<i64>(), right in any::<i64>()) {
        let scope = Scope::new().with("input", json!({"a": left, "b": right}));
        let sum = evaluate("input.a + input.b", &scope);
        match left.checked_add(right) {
            Some(expected) => prop_assert_eq!(sum, Ok(json!(expected))),
            None => prop_assert!(matches!(sum, Err(ExpressionError::Failed(_)))),
        }
        prop_assert_eq!(evaluate("input.a < input.b", &scope), Ok(json!(left < right)));
        prop_assert_eq!(evaluate("int(string(input.a)) == input.a", &scope), Ok(json!(true)));
    }

    #[test]
    fn a_text_survives_its_literal(text in any::<String>()) {
        let scope = Scope::new().with("input", json!({"text": text.clone()}));
        let quoted = evaluate("strings.quote(input.text)", &scope).unwrap();
        let source = quoted.as_str().unwrap().to_owned();
        prop_assert_eq!(evaluate(&source, &scope), Ok(json!(text)));
    }
}
