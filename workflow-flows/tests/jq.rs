//! jq in helper processes. This program is its own helper, so it has no harness:
//! `cargo test -p workflow-flows --test jq -- WORD` runs the tests whose names have a word in them.

#![allow(clippy::unwrap_used, reason = "a test stops when it cannot continue")]

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::panic::catch_unwind;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};
use workflow_flows::expression::{Evaluator, ExpressionError, ExpressionLimits, jq_helper};

/// The first argument of a process that evaluates without end, for the test that kills it.
const ENDLESS: &str = "--evaluate-without-end";
const ENDLESS_PROGRAM: &str = "last(range(1e18))";

const TESTS: [(&str, fn()); 16] = [
    ("programs_give_their_outputs", programs_give_their_outputs),
    ("ambient_functions_do_not_exist", ambient_functions_do_not_exist),
    ("syntax_errors_have_columns", syntax_errors_have_columns),
    ("errors_name_types", errors_name_types),
    ("numbers_are_those_of_json", numbers_are_those_of_json),
    ("hostile_programs_are_stopped", hostile_programs_are_stopped),
    ("lower_limits_stop_what_the_default_allows", lower_limits_stop_what_the_default_allows),
    ("an_input_is_as_large_as_a_rendered_value", an_input_is_as_large_as_a_rendered_value),
    ("tasks_go_on_during_an_evaluation", tasks_go_on_during_an_evaluation),
    ("a_killed_helper_is_replaced", a_killed_helper_is_replaced),
    ("a_dropped_evaluation_frees_its_place", a_dropped_evaluation_frees_its_place),
    ("no_helper_outlives_its_parent", no_helper_outlives_its_parent),
    ("other_programs_are_no_helpers", other_programs_are_no_helpers),
    ("random_programs_are_answered", random_programs_are_answered),
    ("the_guide_shows_what_programs_give", the_guide_shows_what_programs_give),
    ("the_manual_of_jq", the_manual_of_jq),
];

fn main() {
    jq_helper();
    let wanted: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--nocapture").collect();
    if wanted.iter().any(|argument| argument == ENDLESS) {
        let evaluator = Evaluator::builder().helpers(1).build();
        loop {
            block_on(evaluator.jq(ENDLESS_PROGRAM, &Value::Null)).unwrap_err();
        }
    }
    if wanted.iter().any(|argument| argument == "--list") {
        TESTS.iter().for_each(|(name, _)| println!("{name}: test"));
        return;
    }
    let chosen = TESTS.iter().filter(|(name, _)| wanted.is_empty() || wanted.iter().any(|word| name.contains(word)));
    let mut failed: Vec<&str> = Vec::new();
    for (name, test) in chosen {
        let passed = catch_unwind(test).is_ok();
        println!("test {name} ... {}", if passed { "ok" } else { "FAILED" });
        failed.extend((!passed).then_some(name));
    }
    assert!(failed.is_empty(), "failed: {failed:?}");
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

fn jq(program: &str, input: &Value) -> Result<Vec<Value>, ExpressionError> {
    thread_local! {
        static EVALUATOR: Evaluator = Evaluator::builder().helpers(1).build();
    }
    EVALUATOR.with(|evaluator| block_on(evaluator.jq(program, input)))
}

fn programs_give_their_outputs() {
    let input = json!({"steps": {"fetch": {"items": [
        {"id": 1, "name": "æ🐱", "active": true}, {"id": 2, "name": "b", "active": false},
    ]}}});
    for (program, outputs) in [
        ("[.steps.fetch.items[] | select(.active) | {id, name}]", json!([[{"id": 1, "name": "æ🐱"}]])),
        (".steps.fetch.items[].id", json!([1, 2])),
        ("empty", json!([])),
        ("[.steps.fetch.items[].id] | add", json!([3])),
        (".steps | keys", json!([["fetch"]])),
        ("\"a,b\" | split(\",\")", json!([["a", "b"]])),
        ("\"2015-03-05T23:51:47Z\" | fromdate", json!([1_425_599_507])),
        ("\"abc\" | test(\"B\"; \"i\")", json!([true])),
        ("def f($x): $x * 2; f(21)", json!([42])),
        ("@base64 \"\\(\"ab\")\"", json!(["YWI="])),
        ("try error(\"x\") catch .", json!(["x"])),
        ("[{\"a\": 2} | tostream]", json!([[[["a"], 2], [["a"]]]])),
        ("\"xax\" | trimstr(\"x\")", json!(["a"])),
        ("reduce range(5) as $i (0; . + $i)", json!([10])),
    ] {
        assert_eq!(jq(program, &input), Ok(outputs.as_array().unwrap().clone()), "{program}");
    }
}

fn ambient_functions_do_not_exist() {
    let programs = [
        "env",
        "$ENV",
        "now",
        "input",
        "inputs",
        "debug",
        "debug(\"x\")",
        "stderr",
        "halt",
        "halt_error",
        "halt(1)",
        "input_filename",
        "localtime",
        "strflocaltime(\"%H\")",
        "import \"a\" as a; 1",
        "include \"a\"; 1",
        "$__prog_args",
        "get_search_list",
        "input_line_number",
        "repl",
    ];
    for program in programs {
        let found = jq(program, &json!(0));
        assert!(matches!(found, Err(ExpressionError::Syntax { .. })), "{program}: {found:?}");
    }
}

fn syntax_errors_have_columns() {
    for (program, text) in [
        (".a |", "expected term (column 5)"),
        ("1 + nothing", "there is no filter nothing (column 5)"),
        ("\"æ\" | $x", "there is no variable $x (column 7)"),
        ("[1, 2", "expected a closing bracket (column 6)"),
        ("if . then 1", "expected else or end (column 12)"),
    ] {
        assert_eq!(jq(program, &json!(0)).unwrap_err().to_string(), text, "{program}");
    }
    let long = format!("1{}", " ".repeat(5000));
    assert_eq!(
        jq(&long, &json!(0)).unwrap_err().to_string(),
        "the program has 5001 bytes; 4096 is the limit (column 1)"
    );
    let evaluator = Evaluator::new();
    assert!(block_on(evaluator.check_jq(".a | .b")).is_ok());
    assert!(matches!(block_on(evaluator.check_jq(".a | ")), Err(ExpressionError::Syntax { .. })));
}

fn errors_name_types() {
    for (program, text) in [
        (".a.b", "cannot index a text with a text"),
        ("error(\"no stock\")", "no stock"),
        (".a + 1", "cannot calculate a text + a number"),
        ("{} | keys | .[0] | ltrimstr(1) | .x", "cannot index"),
    ] {
        let error = jq(program, &json!({"a": "a-secret"})).map(|outputs| format!("{outputs:?}"));
        let shown = error.unwrap_or_else(|error| error.to_string());
        assert!(!shown.contains("secret"), "{program}: {shown}");
        assert!(shown.starts_with(text) || program.starts_with("{}"), "{program}: {shown}");
    }
}

fn numbers_are_those_of_json() {
    for (program, outputs) in [
        (".", json!([i64::MAX])),
        (". - 1", json!([i64::MAX - 1])),
        ("nan", json!([null])),
        ("infinite, -infinite", json!([f64::MAX, -f64::MAX])),
        ("1e1000", json!([f64::MAX])),
        ("0.5, 1e3", json!([0.5, 1000.0])),
    ] {
        let found = jq(program, &json!(i64::MAX)).unwrap();
        let numbers = |values: &[Value]| values.iter().map(Value::as_f64).collect::<Vec<_>>();
        assert_eq!(numbers(&found), numbers(outputs.as_array().unwrap()), "{program}");
    }
    assert_eq!(jq(".", &json!(i64::MAX)), Ok(vec![json!(i64::MAX)]));
}

/// The greatest resident size of a helper of this process, in KiB. The pages of its program, which
/// it shares with this process, do not count.
fn helper_peak() -> u64 {
    let sizes = children().into_iter().filter_map(|pid| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let size = |name: &str| -> Option<u64> {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.trim().strip_suffix(" kB")?.trim().parse().ok()
        };
        Some(size("VmHWM:")?.saturating_sub(size("RssFile:")?))
    });
    sizes.max().unwrap_or(0)
}

/// Does something and returns the greatest size of a helper meanwhile, also of one that is killed.
fn with_peak<T>(work: impl FnOnce() -> T) -> (T, u64) {
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut peak = 0;
            while !is_done.load(Ordering::Acquire) {
                peak = peak.max(helper_peak());
                std::thread::sleep(Duration::from_millis(1));
            }
            peak.max(helper_peak())
        });
        let result = work();
        is_done.store(true, Ordering::Release);
        (result, watcher.join().unwrap())
    })
}

fn hostile_programs_are_stopped() {
    let deep = |open: &str, close: &str, count: usize| format!("{}1{}", open.repeat(count), close.repeat(count));
    let programs = [
        "def f: 1+f; f".to_owned(),
        "def f: f; f".to_owned(),
        "def f(g): f(g|g); f(.)".to_owned(),
        "[range(1e9)]".to_owned(),
        "reduce range(40) as $i (\"x\"; .+.)".to_owned(),
        "reduce range(100000) as $i (0; [.])".to_owned(),
        "last(range(1e10))".to_owned(),
        "\"x\" * 1000000000".to_owned(),
        "until(false; .)".to_owned(),
        "[repeat(1)]".to_owned(),
        "first(repeat(empty))".to_owned(),
        "reduce range(60) as $i ([]; [.,.]) | tojson".to_owned(),
        "reduce range(60) as $i ([]; [.,.])".to_owned(),
        "reduce range(60) as $i ([]; [.,.]) | . == (reduce range(60) as $i ([]; [.,.]))".to_owned(),
        "reduce range(60) as $i ([]; [.,.]) | flatten".to_owned(),
        "[limit(1e9; repeat(\"abcdefgh\"))] | add".to_owned(),
        ".[1000000000] = 1".to_owned(),
        "(\"a\" * 30000) | [match(\"a.*b|a\"; \"g\")] | length".to_owned(),
        "\"x\" | test(\"a{1000}{1000}{1000}\")".to_owned(),
        "[range(300)] | [combinations(3)] | length".to_owned(),
        "range(0; 1e9; 1e-9)".to_owned(),
        "\"\\(range(1e9))\" | empty".to_owned(),
        "setpath([range(100000)|\"a\"]; 1)".to_owned(),
        "[limit(20000; def f: 1, (label $x | f); f)]".to_owned(),
        "def f: ., (f | .+1); [limit(100000; f)] | length".to_owned(),
        "pow(10; 1e9) | tostring, ([range(1e6)] | transpose)".to_owned(),
        "reduce range(1e6) as $x (10; .*.)".to_owned(),
        deep("(", ")", 2000),
        deep("[", "]", 2000),
        "-".repeat(4000) + "1",
        ".a|".repeat(1300) + ".",
    ];
    for program in &programs {
        let begun = processor_millis();
        let (found, peak) = with_peak(|| jq(program, &json!([])));
        let taken = processor_millis() - begun;
        let shown: String = program.chars().take(60).collect();
        assert!(taken < 1000, "{shown} took {taken} ms");
        assert!((1..=64 << 10).contains(&peak), "{shown} took {peak} KiB");
        match found {
            Ok(outputs) => assert!(json!(outputs).to_string().len() < 2 << 20, "{shown}"),
            Err(ExpressionError::Failed(message)) => assert!(!message.contains("helper"), "{shown}: {message}"),
            Err(_) => {}
        }
        // The next program finds a helper that works.
        assert_eq!(jq(". + [1]", &json!([0])), Ok(vec![json!([0, 1])]), "after {shown}");
    }
    let stopped = programs.iter().take(16).filter(|program| !program.starts_with("reduce range(100000)"));
    for program in stopped {
        let found = jq(program, &json!([]));
        assert!(matches!(found, Err(ExpressionError::Budget(_))), "{program}: {found:?}");
    }
}

fn lower_limits_stop_what_the_default_allows() {
    let limits = ExpressionLimits::new;
    let strict = |limits: ExpressionLimits| Evaluator::builder().helpers(1).limits(limits).unwrap().build();
    for (program, lower, message) in [
        ("range(20)", limits().jq_outputs(10), "the program has more than 10 outputs"),
        ("\"x\" * 2000", limits().jq_output_bytes(999), "the outputs are larger than 999 bytes"),
        ("[range(2000)]", limits().jq_output_bytes(999), "the outputs are larger than 999 bytes"),
        ("(\"x\" * 20000000) == \"\"", limits().jq_memory(16 << 20), "the program takes too much memory"),
    ] {
        assert!(jq(program, &Value::Null).is_ok(), "{program}");
        let evaluator = strict(lower);
        let found = block_on(evaluator.jq(program, &Value::Null));
        let is_refused = matches!(&found, Err(ExpressionError::Budget(text)) if text.starts_with(message));
        assert!(is_refused, "{program}: {found:?}");
        assert_eq!(block_on(evaluator.jq("1", &Value::Null)), Ok(vec![json!(1)]), "after {program}");
    }
    // The time of a program depends on the machine, so the shortest one that is too long is found.
    let evaluator = strict(limits().jq_time(Duration::from_millis(10)));
    let late = |program: &String| {
        let found = block_on(evaluator.jq(program, &Value::Null));
        matches!(&found, Err(ExpressionError::Budget(text)) if text == "the program takes longer than 10 ms")
    };
    let mut programs = (10..40).map(|power| format!("last(range({}))", 1_u64 << power));
    let program = programs.find(late).unwrap();
    assert!(jq(&program, &Value::Null).is_ok(), "{program}");
}

fn an_input_is_as_large_as_a_rendered_value() {
    let large = json!("x".repeat(5 << 20));
    let refused = jq("length", &large);
    let is_refused = matches!(&refused, Err(ExpressionError::Budget(text)) if text.starts_with("the input has "));
    assert!(is_refused, "{refused:?}");
    let limits = ExpressionLimits::new().rendered_bytes(5 << 20);
    let limits = limits.jq_memory(1 << 30).jq_time(Duration::from_secs(4));
    let evaluator = Evaluator::builder().helpers(1).limits(limits).unwrap().build();
    assert_eq!(block_on(evaluator.jq("length", &large)), Ok(vec![json!(5 << 20)]));
}

/// The processor time of this process's children that have ended and been waited for, and of those
/// that live.
fn processor_millis() -> u64 {
    let times = |pid: &str, fields: std::ops::Range<usize>| -> u64 {
        let statistics = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let fields_of: Vec<&str> = statistics.rsplit_once(") ").map_or("", |(_, fields)| fields).split(' ').collect();
        fields.filter_map(|field| fields_of.get(field)?.parse::<u64>().ok()).sum::<u64>() * 10
    };
    times("self", 13..15) + children().into_iter().map(|pid| times(&pid.to_string(), 11..13)).sum::<u64>()
}

/// The processes that this process has started and that have not ended.
fn children() -> BTreeSet<u32> {
    children_of(std::process::id())
}

fn children_of(parent: u32) -> BTreeSet<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{parent}/task")).into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    lists.flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<u32>>()).collect()
}

fn lives(pid: u32) -> bool {
    let statistics = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // A zombie has ended.
    statistics.rsplit_once(") ").is_some_and(|(_, fields)| !fields.starts_with('Z'))
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(60), "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn tasks_go_on_during_an_evaluation() {
    block_on(async {
        let turns = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&turns);
        let neighbour = tokio::spawn(async move {
            loop {
                counted.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
            }
        });
        let evaluator = Evaluator::builder().helpers(1).build();
        let found = evaluator.jq("until(false; .)", &Value::Null).await;
        assert!(matches!(found, Err(ExpressionError::Budget(_))), "{found:?}");
        assert!(turns.load(Ordering::Relaxed) > 1000, "the runtime of one thread stood still");
        neighbour.abort();
    });
}

fn a_killed_helper_is_replaced() {
    let evaluator = Evaluator::builder().helpers(1).build();
    let before = children();
    assert_eq!(block_on(evaluator.jq("1", &Value::Null)), Ok(vec![json!(1)]));
    let started: Vec<u32> = children().difference(&before).copied().collect();
    assert_eq!(started.len(), 1, "{started:?}");
    Command::new("kill").args(["-9", &started[0].to_string()]).status().unwrap();
    until("the helper has ended", || !lives(started[0]));
    assert_eq!(block_on(evaluator.jq("2", &Value::Null)), Ok(vec![json!(2)]));
    let again: Vec<u32> = children().difference(&before).copied().collect();
    assert!(again.len() == 1 && again != started, "{again:?}");
    drop(evaluator);
    until("the helper has ended with its evaluator", || !lives(again[0]));
}

fn a_dropped_evaluation_frees_its_place() {
    block_on(async {
        let evaluator = Evaluator::builder().helpers(1).build();
        let endless = tokio::time::timeout(Duration::from_millis(50), evaluator.jq("until(false; .)", &Value::Null));
        assert!(endless.await.is_err());
        assert_eq!(evaluator.jq("3", &Value::Null).await, Ok(vec![json!(3)]));
    });
}

fn no_helper_outlives_its_parent() {
    let mut parent = Command::new(std::env::current_exe().unwrap()).arg(ENDLESS).stdout(Stdio::null()).spawn().unwrap();
    let busy = |pid: u32| {
        let statistics = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let fields: Vec<&str> = statistics.rsplit_once(") ").map_or("", |(_, fields)| fields).split(' ').collect();
        fields.get(11).and_then(|ticks| ticks.parse::<u32>().ok()).unwrap_or(0) > 2
    };
    until("its helper is in the middle of the program", || children_of(parent.id()).into_iter().any(busy));
    let helpers = children_of(parent.id());
    parent.kill().unwrap();
    parent.wait().unwrap();
    until("no helper is left", || !helpers.iter().copied().any(lives));
}

fn other_programs_are_no_helpers() {
    for program in ["/nowhere/at-all", "/bin/true", "/bin/cat"] {
        let evaluator = Evaluator::builder().helper(program).build();
        let error = block_on(evaluator.jq("1", &Value::Null)).unwrap_err().to_string();
        assert!(error.starts_with("the helper process of jq "), "{program}: {error}");
    }
}

fn random_programs_are_answered() {
    let word = prop::sample::select(vec![
        ".",
        ".a",
        ".[]",
        "[.]",
        "{a: .}",
        "|",
        ",",
        "1",
        "\"x\"",
        "+",
        "-",
        "*",
        "/",
        "//",
        "==",
        "map(",
        "select(",
        ")",
        "limit(3; ",
        "range(3)",
        "as $x",
        "$x",
        "reduce ",
        "if ",
        "then ",
        "else ",
        "end",
        "try ",
        "catch ",
        "?",
        "[",
        "]",
        "{",
        "}",
        "..",
        "length",
        "tojson",
        "fromjson",
        "sort",
        "keys",
        "del(",
        "|=",
        "def f: ",
        "; f",
        "label $l | ",
        "break $l",
        "@csv",
        "repeat(",
        "first(",
        "input",
        "env",
        "ltrimstr(",
        "æ",
    ]);
    let programs = prop::collection::vec(word, 1..12).prop_map(|words| words.concat());
    let mut runner = TestRunner::new(ProptestConfig { cases: 300, failure_persistence: None, ..Default::default() });
    let run = runner.run(&programs, |program| {
        if let Err(ExpressionError::Failed(message)) = jq(&program, &json!({"a": [1, "b", null]})) {
            prop_assert!(!message.contains("helper"), "{program}: {message}");
        }
        Ok(())
    });
    run.unwrap();
}

fn the_guide_shows_what_programs_give() {
    let guide = include_str!("../../docs/guide/flow-expressions.md");
    let document = guide.split("```json\n").nth(1).unwrap().split("```").next().unwrap();
    let document: Value = serde_json::from_str(document).unwrap();
    let section = guide.split("## Transformations in jq").nth(1).unwrap().split("\n## ").next().unwrap();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `")?.strip_suffix("` |")?.split_once("` | `"));
    let mut count = 0;
    for (program, outputs) in rows {
        let program = program.replace("\\|", "|");
        let outputs: Vec<Value> = serde_json::from_str(outputs).unwrap();
        assert_eq!(jq(&program, &document), Ok(outputs), "{program}");
        count += 1;
    }
    assert!(count >= 6, "{count}");
}

/// The tests of jq's manual, which are not part of this repository: `JQ_TESTS` names their file.
/// `scripts/suites` fetches and runs them.
fn the_manual_of_jq() {
    let Ok(path) = std::env::var("JQ_TESTS") else {
        println!("JQ_TESTS is not set, so the tests of the manual are left out");
        return;
    };
    let file = BufReader::new(std::fs::File::open(path).unwrap());
    let lines: Vec<String> = file.lines().map(Result::unwrap).collect();
    let groups = lines.split(|line| line.trim().is_empty());
    let (mut passed, mut all) = (0, 0);
    for group in groups {
        let group: Vec<&String> = group.iter().filter(|line| !line.starts_with('#')).collect();
        let [program, input, outputs @ ..] = group.as_slice() else { continue };
        all += 1;
        let read = |text: &str| serde_json::from_str::<Value>(text).map(without_types).unwrap_or(json!({"not": text}));
        let expected: Vec<Value> = outputs.iter().map(|output| read(output)).collect();
        let found = serde_json::from_str(input)
            .map_err(|error| error.to_string())
            .and_then(|input: Value| jq(program, &input).map_err(|error| error.to_string()));
        match found {
            Ok(found) if found.iter().cloned().map(without_types).collect::<Vec<_>>() == expected => passed += 1,
            other => println!("{program} on {input}: {other:?}, not {outputs:?}"),
        }
    }
    println!("{passed} of {all}");
    assert!(passed >= 205, "{passed} of {all}");
}

/// Makes 1 and 1.0 equal, as they are in jq.
fn without_types(value: Value) -> Value {
    match value {
        Value::Number(number) => json!(number.as_f64()),
        Value::Array(items) => items.into_iter().map(without_types).collect(),
        Value::Object(members) => members
            .into_iter()
            .map(|(name, member)| (name, without_types(member)))
            .collect::<serde_json::Map<_, _>>()
            .into(),
        other => other,
    }
}
