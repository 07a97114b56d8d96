use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use super::{Evaluator, ExpressionError, ExpressionLimits, Scope};
use crate::graph::MissingPath;

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

const GUIDE: &str = include_str!("../../../docs/guide/flow-expressions.md");

/// The document that the examples of the guide read.
fn guide_scope() -> Scope {
    let document = GUIDE.split("```json\n").nth(1).unwrap().split("```").next().unwrap();
    let document: Value = serde_json::from_str(document).unwrap();
    Scope::new().with("input", document["input"].clone()).with("steps", document["steps"].clone())
}

/// The rows of the tables in a section of the guide: what stands in back quotes, and its result.
fn guide_rows(section: &str) -> Vec<(String, Value)> {
    let text = GUIDE.split(&format!("## {section}")).nth(1).unwrap().split("\n## ").next().unwrap();
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `")?.strip_suffix("` |")?.split_once("` | `"));
    rows.map(|(source, result)| (source.replace("\\|", "|"), serde_json::from_str(result).unwrap())).collect()
}

#[test]
fn the_guide_shows_what_templates_give() {
    let rows = guide_rows("Templates");
    assert!(rows.len() >= 7);
    for (template, result) in rows {
        let rendered = block_on(Evaluator::new().render(&json!(template), &guide_scope(), MissingPath::Error));
        assert_eq!(rendered, Ok(result), "{template}");
    }
}

#[test]
fn the_guide_shows_what_cel_gives() {
    let rows = guide_rows("Conditions");
    assert!(rows.len() >= 16);
    for (source, result) in rows {
        let found = block_on(Evaluator::new().value(&source, &guide_scope(), MissingPath::Error));
        assert_eq!(found, Ok(result), "{source}");
    }
}

#[test]
fn templates_mix_paths_and_cel() {
    let scope = guide_scope();
    let template = json!({
        "a": ["{{input.order.total + 1}}", "{{input.order.id}}", "{{ 'x' + input.order.id }} and {{input.ratio}}"],
        "b": "{{input.coupon ?? input.order.total * 2}}",
        "c": "{{ {'k': {'n': 1}} }}",
    });
    let rendered = block_on(Evaluator::new().render(&template, &scope, MissingPath::Error));
    assert_eq!(rendered, Ok(json!({"a": [121, "o-7", "xo-7 and 0.5"], "b": 240, "c": {"k": {"n": 1}}})));
    let braces = block_on(Evaluator::new().value("{{input.order.total > 5}}", &scope, MissingPath::Error));
    assert_eq!(braces, Ok(json!(true)));
}

#[test]
fn all_expressions_of_a_rendering_share_one_budget() {
    let scope = Scope::new().with("input", json!({"list": (0..2000).collect::<Vec<u32>>()}));
    let one = "{{input.list.all(a, input.list[0] == 0)}}";
    let evaluator = Evaluator::new();
    assert!(block_on(evaluator.render(&json!([one]), &scope, MissingPath::Error)).is_ok());
    let many = block_on(evaluator.render(&json!(vec![one; 500]), &scope, MissingPath::Error));
    assert!(matches!(many, Err(ExpressionError::Budget(_))), "{many:?}");
}

#[test]
fn lower_limits_refuse_what_the_default_allows() {
    let scope = Scope::new().with("input", json!({"text": "x".repeat(2_000), "list": [1, 2, 3]}));
    let limits = ExpressionLimits::new;
    for (template, lower, message) in [
        ("{{input.list.all(n, n > 0)}}", limits().cel_fuel(5), "the expression takes more than 5 steps"),
        ("{{(input.text + input.text).size()}}", limits().cel_memory(999), "more than 999 bytes of memory"),
        ("{{input.text}}", limits().rendered_bytes(999), "the values are larger than 999 bytes"),
        ("{{input.text + ''}}", limits().rendered_bytes(999), "the values are larger than 999 bytes"),
        ("text: {{input.text}}", limits().rendered_bytes(999), "the values are larger than 999 bytes"),
    ] {
        let render = |evaluator: &Evaluator| block_on(evaluator.render(&json!(template), &scope, MissingPath::Error));
        assert!(render(&Evaluator::new()).is_ok(), "{template}");
        let strict = Evaluator::builder().limits(lower).unwrap().build();
        let refused = render(&strict);
        assert!(
            matches!(&refused, Err(ExpressionError::Budget(text)) if text.contains(message)),
            "{template}: {refused:?}"
        );
        assert_eq!(block_on(strict.value("1 + 1", &scope, MissingPath::Error)), Ok(json!(2)), "it goes on");
    }
}

#[test]
fn limits_outside_of_their_ranges_are_refused() {
    let limits = ExpressionLimits::new;
    assert_eq!(ExpressionLimits::default().check(), Ok(()));
    for (least, most) in [
        (limits().cel_fuel(1), limits().cel_fuel(1_000_000_000)),
        (limits().cel_memory(1), limits().cel_memory(1 << 30)),
        (limits().rendered_bytes(1), limits().rendered_bytes(64 << 20)),
        (limits().jq_time(Duration::from_millis(10)), limits().jq_time(Duration::from_secs(4))),
        (limits().jq_memory(16 << 20), limits().jq_memory(1 << 30)),
        (limits().jq_outputs(1), limits().jq_outputs(1_000_000)),
        (limits().jq_output_bytes(1), limits().jq_output_bytes(64 << 20)),
    ] {
        assert_eq!((least.check(), most.check()), (Ok(()), Ok(())), "{least:?} {most:?}");
    }
    for (name, refused) in [
        ("cel_fuel", [limits().cel_fuel(0), limits().cel_fuel(1_000_000_001)]),
        ("cel_memory", [limits().cel_memory(0), limits().cel_memory((1 << 30) + 1)]),
        ("rendered_bytes", [limits().rendered_bytes(0), limits().rendered_bytes(usize::MAX)]),
        ("jq_time", [limits().jq_time(Duration::ZERO), limits().jq_time(Duration::from_millis(9))]),
        ("jq_time", [limits().jq_time(Duration::from_millis(4_001)), limits().jq_time(Duration::MAX)]),
        ("jq_memory", [limits().jq_memory(0), limits().jq_memory((1 << 30) + 1)]),
        ("jq_memory", [limits().jq_memory((16 << 20) - 1), limits().jq_memory(usize::MAX)]),
        ("jq_outputs", [limits().jq_outputs(0), limits().jq_outputs(1_000_001)]),
        ("jq_output_bytes", [limits().jq_output_bytes(0), limits().jq_output_bytes((64 << 20) + 1)]),
    ] {
        for limits in refused {
            let error = Evaluator::builder().limits(limits).unwrap_err();
            assert_eq!(error.limit, name, "{limits:?}");
            assert!(error.given < error.least || error.given > error.most, "{error:?}");
            let text = error.to_string();
            assert!(text.contains(name) && text.contains(&format!("use {} to {}", error.least, error.most)), "{text}");
        }
    }
}

#[test]
fn the_deepest_trees_have_room_on_the_stack() {
    let scope = Scope::new().with("input", json!({"list": [1]}));
    let evaluator = Evaluator::new();
    let value = |source: String| block_on(evaluator.value(&source, &scope, MissingPath::Error));
    assert_eq!(value(["1"; 250].join(" + ")), Ok(json!(250)));
    assert_eq!(value(format!("input.list{}", ".map(x, x)".repeat(246))), Ok(json!([1])));
    assert_eq!(value(format!("{}1{}", "[".repeat(63), "]".repeat(63)) + ".size()"), Ok(json!(1)));
    assert_eq!(value("false ? 1 : ".repeat(60) + "2"), Ok(json!(2)));
    assert!(value(format!("{}input.list{}", "input.list.map(x, ".repeat(60), ")".repeat(60))).is_ok());
    let refused = value(["1"; 252].join(" + ")).unwrap_err().to_string();
    assert!(refused.contains("250 operators in a row are the limit"), "{refused}");
}

#[test]
fn columns_are_those_of_the_template() {
    let error = block_on(Evaluator::new().render(&json!("æ: {{ 1 + }}"), &guide_scope(), MissingPath::Error));
    assert_eq!(error.unwrap_err().to_string(), "expected a value after \"+\" (column 10)");
}

#[test]
fn cel_holds_up_no_thread_of_tokio() {
    let scope = Scope::new().with("big", json!((0..2000).collect::<Vec<u32>>()));
    block_on(async {
        let turns = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&turns);
        let neighbour = tokio::spawn(async move {
            loop {
                counted.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
            }
        });
        let evaluator = Evaluator::new();
        let endless = "big.all(a, big.all(b, big.all(c, true)))";
        let found = evaluator.value(endless, &scope, MissingPath::Error).await;
        assert!(matches!(found, Err(ExpressionError::Budget(_))), "{found:?}");
        assert!(turns.load(Ordering::Relaxed) > 100, "the runtime of one thread stood still");
        neighbour.abort();
    });
}

#[test]
fn a_dropped_evaluation_frees_its_thread() {
    let scope = Scope::new().with("big", json!((0..2000).collect::<Vec<u32>>()));
    block_on(async {
        let evaluator = Evaluator::builder().threads(1).build();
        for _ in 0..20 {
            let endless = evaluator.value("big.all(a, big.all(b, big == []))", &scope, MissingPath::Error);
            drop(tokio::spawn(async { tokio::task::yield_now().await }));
            let mut endless = Box::pin(endless);
            let _ = futures_poll(&mut endless).await;
        }
        assert_eq!(evaluator.value("1 + 1", &scope, MissingPath::Error).await, Ok(json!(2)));
    });
}

/// Polls a future once.
async fn futures_poll<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    std::future::poll_fn(|context| {
        std::task::Poll::Ready(match std::pin::Pin::new(&mut *future).poll(context) {
            std::task::Poll::Ready(output) => Some(output),
            std::task::Poll::Pending => None,
        })
    })
    .await
}

#[test]
fn jq_without_a_helper_says_what_to_do() {
    let evaluator = Evaluator::new();
    let error = block_on(evaluator.jq(".", &json!(1))).unwrap_err().to_string();
    assert!(error.contains("begin its main with workflow_flows::expression::jq_helper()"), "{error}");
    assert!(evaluator.has_jq().is_err());
}
