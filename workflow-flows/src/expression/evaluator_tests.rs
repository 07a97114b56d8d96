use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};

use super::{Evaluator, ExpressionError, Scope};
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
