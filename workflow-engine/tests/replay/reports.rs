//! Compares the texts of divergences with the files in `reports/`. `WORKFLOW_UPDATE_REPORTS=1 cargo
//! test` writes the files; review the difference before you commit it.

use std::path::Path;
use std::time::Duration;

use workflow_sdk::{Ctx, Error, Result};

use crate::harness::{Drive, Flow, Table, World, flow};

/// Compares a text with a file, in which LINE:COLUMN replaces the lines and columns of source
/// files.
#[track_caller]
pub(crate) fn assert_report(name: &str, text: &str) {
    let text = without_lines(text);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/replay/reports").join(format!("{name}.txt"));
    if std::env::var_os("WORKFLOW_UPDATE_REPORTS").is_some() {
        std::fs::write(&path, format!("{text}\n")).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(format!("{text}\n"), expected, "the text differs from {}", path.display());
}

fn without_lines(text: &str) -> String {
    let mut lines = Vec::new();
    for line in text.lines() {
        match line.split_once(".rs:") {
            Some((file, _)) if line.trim_start().starts_with("--> ") => lines.push(format!("{file}.rs:LINE:COLUMN")),
            _ => lines.push(line.to_owned()),
        }
    }
    lines.join("\n")
}

/// Returns the text of the divergence of a run with this history.
fn report(table: &mut Table, flow: &Flow) -> String {
    Drive::begin(table, flow).run(table).divergence().to_string()
}

/// The beginning of every history in this file.
fn reserved() -> Table {
    Table::default().with_value("reserve", 1, "\"hold 4111\"")
}

fn charged() -> Table {
    reserved().with_value("charge", 2, "\"paid 4111\"")
}

fn renamed() -> Flow {
    flow!(|ctx| {
        ctx.step("reserve", || ctx.state().body("reserve")).await?;
        ctx.step("charge-card", || ctx.state().body("charge-card")).await
    })
}

#[test]
fn a_step_was_renamed() {
    let mut table = charged();
    assert_report("renamed", &report(&mut table, &renamed()));
    assert_eq!(table.rows, charged().rows, "the new call has not begun");
}

#[test]
fn a_step_was_replaced() {
    let flow = flow!(|ctx| {
        ctx.step("reserve", || ctx.state().body("reserve")).await?;
        ctx.step("pay", || ctx.state().body("pay")).await
    });
    assert_report("replaced", &report(&mut charged(), &flow));
}

#[test]
fn a_step_was_removed() {
    let flow = flow!(|ctx| { ctx.step("reserve", || ctx.state().body("reserve")).await });
    assert_report("removed", &report(&mut charged(), &flow));
}

#[test]
fn many_steps_are_counted() {
    let table = (0..8).fold(reserved(), |table, page| table.with_value(&format!("page:{page}"), page + 2, "7"));
    let flow = flow!(|ctx| { ctx.step("reserve", || ctx.state().body("reserve")).await });
    assert_report("many", &report(&mut { table }, &flow));
}

#[test]
fn the_workflow_fails_before_a_recorded_step() {
    let flow = flow!(|ctx| {
        ctx.step("reserve", || ctx.state().body("reserve")).await?;
        Err(Error::msg("the order is closed\nand more"))
    });
    assert_report("fails_first", &report(&mut charged(), &flow));
}

#[test]
fn a_step_became_a_sleep() {
    let flow = flow!(|ctx| {
        ctx.step("reserve", || ctx.state().body("reserve")).await?;
        ctx.sleep(Duration::from_secs(1)).await?;
        Ok(String::new())
    });
    assert_report("other_kind", &report(&mut reserved().with_value("sleep", 2, "1"), &flow));
}

#[test]
fn a_value_became_one_of_another_type() {
    let flow = flow!(|ctx| {
        ctx.step("reserve", || ctx.state().body("reserve")).await?;
        Ok(ctx.step("charge", async || Ok::<_, Error>(7_u32)).await?.to_string())
    });
    let text = report(&mut charged(), &flow);
    assert!(!text.contains("4111"), "the report must not show a value");
    assert_report("other_type", &text);
}
