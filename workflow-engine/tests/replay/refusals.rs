//! Invalid calls. The engine refuses each with an error, which it stores or returns at once.

use std::time::Duration;

use workflow_sdk::{Ctx, Error, ErrorKind, Result};

use crate::harness::{PAYLOAD_LIMIT, Table, World, flow, run_and_replay};

async fn helper(ctx: &Ctx<World>) -> Result<String> {
    ctx.step("inner", || ctx.state().body("inner")).await
}

#[test]
fn a_step_inside_the_body_of_a_step_is_refused() {
    let flow = flow!(|ctx| { ctx.step("outer", async || ctx.step("inner", || ctx.state().body("inner")).await).await });
    let (result, notes) = run_and_replay(&mut Table::default(), &flow);
    let error = result.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Refused);
    assert!(error.message.starts_with("\"inner\" was called at "), "{}", error.message);
    assert!(error.message.contains("refusals.rs"), "{}", error.message);
    assert!(error.message.contains("inside the body of step \"outer\""), "{}", error.message);
    assert_eq!(notes, [""; 0]);
}

#[test]
fn a_step_inside_a_step_is_refused_when_it_comes_from_a_nested_function_after_an_await() {
    let flow = flow!(|ctx| {
        let body = async || {
            ctx.state().body("outer").await?;
            helper(ctx).await
        };
        ctx.step("outer", body).await
    });
    let (result, notes) = run_and_replay(&mut Table::default(), &flow);
    assert_eq!(result.unwrap_err().kind, ErrorKind::Refused);
    assert_eq!(notes, ["outer"]);
}

#[derive(serde::Serialize)]
struct Strict;

impl<'de> serde::Deserialize<'de> for Strict {
    fn deserialize<D: serde::Deserializer<'de>>(_: D) -> std::result::Result<Self, D::Error> {
        panic!("not today")
    }
}

#[test]
fn a_value_whose_decoder_panics_is_refused_before_its_commit() {
    let flow = flow!(|ctx| {
        let error = ctx.step("strict", async || Ok::<_, Error>(Strict)).await.err().unwrap();
        Ok(format!("{} {}", error.kind(), error.message()))
    });
    let (result, _) = run_and_replay(&mut Table::default(), &flow);
    let text = result.unwrap();
    assert!(
        text.starts_with("refused output of step \"strict\"") && text.contains("its Deserialize panicked"),
        "{text}"
    );
}

#[test]
fn a_sleep_inside_the_body_of_a_step_is_refused() {
    let flow = flow!(|ctx| {
        ctx.step("outer", async || ctx.sleep(Duration::from_secs(1)).await).await?;
        Ok(String::new())
    });
    assert_eq!(run_and_replay(&mut Table::default(), &flow).0.unwrap_err().kind, ErrorKind::Refused);
}

/// Otherwise the outcome would be recorded, and no replay would ask for it.
#[test]
fn a_step_that_was_called_outside_and_is_awaited_inside_a_body_is_refused() {
    let flow = flow!(|ctx| {
        let inner = std::sync::Mutex::new(Some(ctx.step("inner", || ctx.state().body("inner"))));
        let body = async || {
            let inner = inner.lock().unwrap().take().unwrap();
            inner.await
        };
        ctx.step("outer", body).await
    });
    let (result, notes) = run_and_replay(&mut Table::default(), &flow);
    assert_eq!(result.unwrap_err().kind, ErrorKind::Refused);
    assert_eq!(notes, [""; 0]);
}

#[test]
fn a_name_that_is_empty_too_long_or_has_a_control_character_is_refused() {
    let flow = flow!(|ctx| {
        let mut messages = Vec::new();
        for name in ["", &"x".repeat(256), "a\nb", &"x".repeat(255), "a b/ü"] {
            messages.push(match ctx.step(name, || ctx.state().body("a")).await {
                Ok(value) => value,
                Err(error) => format!("{} {}", error.kind(), error.message()),
            });
        }
        Ok(messages.join("\n"))
    });
    let value = run_and_replay(&mut Table::default(), &flow).0.unwrap();
    let lines: Vec<_> = value.lines().collect();
    let rule = "use 1 to 255 bytes without control characters";
    assert_eq!(lines[0], format!("refused step name \"\" is empty; {rule}"));
    assert!(lines[1].ends_with(&format!("is 256 bytes long; {rule}")), "{}", lines[1]);
    assert_eq!(lines[2], format!("refused step name \"a\\nb\" has the control character '\\n' at byte 1; {rule}"));
    assert_eq!(lines[3..], ["<a>", "<a>"]);
}

#[test]
fn a_nan_is_refused_without_retries() {
    let mut table = Table::default();
    let flow = flow!(|ctx| { Ok(ctx.step("a", async || Ok::<_, Error>(f64::NAN)).await?.to_string()) });
    let error = run_and_replay(&mut table, &flow).0.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Refused);
    assert!(error.message.contains("it may hold a NaN"), "{}", error.message);
    assert_eq!(table.rows.len(), 1);
}

#[test]
fn a_value_that_is_nested_too_deep_to_be_read_back_is_refused() {
    let flow = flow!(|ctx| {
        let nested = |depth: u32| (0..depth).fold(serde_json::Value::Null, |inner, _| serde_json::json!([inner]));
        let shallow = ctx.step("shallow", async || Ok::<_, Error>(nested(100))).await.is_ok();
        let error = ctx.step("deep", async || Ok::<_, Error>(nested(200))).await.unwrap_err();
        Ok(format!("{shallow} {}", error.kind()))
    });
    assert_eq!(run_and_replay(&mut Table::default(), &flow).0.unwrap(), "true refused");
}

#[test]
fn a_value_over_the_payload_limit_is_refused() {
    let flow = flow!(|ctx| {
        let fits = ctx.step("fits", async || Ok::<_, Error>("x".repeat(PAYLOAD_LIMIT - 2))).await.is_ok();
        let error = ctx.step("large", async || Ok::<_, Error>("x".repeat(PAYLOAD_LIMIT - 1))).await.unwrap_err();
        Ok(format!("{fits} {} {}", error.kind(), error.message()))
    });
    let value = run_and_replay(&mut Table::default(), &flow).0.unwrap();
    assert!(value.starts_with("true refused output of step \"large\""), "{value}");
    assert!(value.contains("is 1001 bytes, the limit is 1000"), "{value}");
}
