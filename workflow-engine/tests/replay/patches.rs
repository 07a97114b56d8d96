//! Patches: changes of the code of runs that have begun.

use workflow_sdk::{AttemptStatus, Ctx, ErrorKind, Result, StepKind};

use crate::harness::{Drive, Flow, START, Stop, Table, World, flow, row, run_and_replay};

fn old() -> Flow {
    flow!(|ctx| {
        let a = ctx.step("a", || ctx.state().body("a")).await?;
        let b = ctx.step("b", || ctx.state().body("b")).await?;
        Ok(a + &b)
    })
}

/// The new code, with a patch between `a` and `b`.
fn patched() -> Flow {
    flow!(|ctx| {
        let a = ctx.step("a", || ctx.state().body("a")).await?;
        let new = match ctx.patched("new")? {
            true => ctx.step("new", || ctx.state().body("new")).await?,
            false => String::new(),
        };
        let b = ctx.step("b", || ctx.state().body("b")).await?;
        Ok(a + &new + &b)
    })
}

fn deprecated() -> Flow {
    flow!(|ctx| {
        let a = ctx.step("a", || ctx.state().body("a")).await?;
        ctx.deprecate_patch("new")?;
        let new = ctx.step("new", || ctx.state().body("new")).await?;
        let b = ctx.step("b", || ctx.state().body("b")).await?;
        Ok(a + &new + &b)
    })
}

fn patch_rows(table: &Table) -> Vec<(&str, AttemptStatus, Option<i64>)> {
    let rows = table.rows.iter().filter(|row| row.kind == StepKind::Patch);
    rows.map(|row| (row.step_key.as_str(), row.status, row.position)).collect()
}

#[test]
fn a_new_run_takes_the_patch_and_every_replay_of_it_too() {
    let mut table = Table::default();
    assert_eq!(run_and_replay(&mut table, &patched()).0.unwrap(), "<a><new><b>");
    assert_eq!(patch_rows(&table), [("patch/new", AttemptStatus::Succeeded, None)]);
}

#[test]
fn a_run_past_the_patch_keeps_the_old_branch() {
    let mut table = Table::default();
    Drive::begin(&table, &old()).run(&mut table).value();
    let (result, notes) = run_and_replay(&mut table, &patched());
    assert_eq!((result.unwrap().as_str(), notes.len()), ("<a><b>", 0));
    assert_eq!(patch_rows(&table), []);
}

#[test]
fn a_run_before_the_patch_takes_the_new_branch() {
    let mut table = Table::default().with_value("a", 1, "\"1\"");
    assert_eq!(run_and_replay(&mut table, &patched()).0.unwrap(), "1<new><b>");
}

/// The row shows that an attempt of `b` began, so the run is past the patch.
#[test]
fn an_attempt_without_an_outcome_shows_that_the_run_is_past_the_patch() {
    let table = Table::default().with_value("a", 1, "\"1\"");
    for begun in [AttemptStatus::Running, AttemptStatus::Failed] {
        let mut row = row("b", 1, begun, None, None);
        row.error =
            (begun == AttemptStatus::Failed).then(|| workflow_sdk::StoredError::new(ErrorKind::Application, "no luck"));
        let mut table = table.clone().with(row);
        assert_eq!(run_and_replay(&mut table, &patched()).0.unwrap(), "1<b>", "{begun}");
    }
}

/// The outcome of `b` does not show whether the branch of `a` continued.
#[test]
fn an_outcome_of_another_branch_does_not_show_that_this_branch_is_past_the_patch() {
    let flow = flow!(|ctx| {
        let branch = async {
            ctx.step("a", || ctx.state().body("a")).await?;
            ctx.patched("new")
        };
        let (taken, b) = futures::try_join!(branch, ctx.step("b", || ctx.state().body("b")))?;
        Ok(format!("{taken} {b}"))
    });
    let mut table = Table::default().with_value("a", 1, "\"1\"").with_value("b", 2, "\"2\"");
    assert_eq!(run_and_replay(&mut table, &flow).0.unwrap(), "true 2");
}

#[test]
fn nothing_that_follows_a_patch_begins_before_it_is_committed() {
    let mut table = Table::default().with_value("a", 1, "\"1\"");
    let mut drive = Drive::begin(&table, &patched());
    for _ in 0..3 {
        assert!(matches!(drive.advance(), Stop::Waits { park_until: None, .. }));
    }
    assert_eq!(drive.world.notes(), [""; 0]);
    assert_eq!(drive.in_flight.len(), 1);
    assert_eq!(drive.quiesce(&mut table).value(), "1<new><b>");
    assert_eq!(drive.world.notes(), ["new", "b"]);
}

#[test]
fn a_patch_in_a_loop_has_one_answer() {
    let flow = flow!(|ctx| {
        let mut answers = Vec::new();
        for _ in 0..3 {
            answers.push(ctx.patched("loop")?);
            ctx.step("page", || ctx.state().body("page")).await?;
        }
        Ok(format!("{answers:?}"))
    });
    let mut table = Table::default();
    assert_eq!(run_and_replay(&mut table, &flow).0.unwrap(), "[true, true, true]");
    assert_eq!(patch_rows(&table).len(), 1);
    let mut table = Table::default().with_value("page", 1, "\"1\"");
    assert_eq!(run_and_replay(&mut table, &flow).0.unwrap(), "[false, false, false]");
}

#[test]
fn a_patch_name_used_twice_is_refused_with_both_places() {
    let flow = flow!(|ctx| {
        ctx.patched("twice")?;
        ctx.patched("twice")?;
        Ok(String::new())
    });
    let mut table = Table::default();
    let error = Drive::begin(&table, &flow).run(&mut table).error();
    assert_eq!(error.kind, ErrorKind::Refused);
    assert!(error.fatal);
    assert_eq!(error.message.matches("patches.rs:").count(), 2, "{error}");
    assert!(error.message.contains("a name of its own"), "{error}");
}

#[test]
fn a_bad_name_a_taken_key_and_a_call_in_a_body_are_refused() {
    let in_body = flow!(|ctx| { ctx.step("a", async || ctx.patched("new").map(|_| String::new())).await });
    let error = Drive::begin(&Table::default(), &in_body).run(&mut Table::default()).error();
    assert_eq!(error.kind, ErrorKind::Refused);
    assert!(error.message.contains("ctx.patched(\"new\") was called at") && error.message.contains("before or after"));

    let nameless = flow!(|ctx| { ctx.patched("").map(|_| String::new()) });
    assert_eq!(Drive::begin(&Table::default(), &nameless).run(&mut Table::default()).error().kind, ErrorKind::Refused);

    let taken = flow!(|ctx| {
        ctx.step("patch/new", || ctx.state().body("a")).await?;
        ctx.patched("new").map(|_| String::new())
    });
    let error = Drive::begin(&Table::default(), &taken).run(&mut Table::default()).error();
    assert!(error.message.contains("\"patch/new\" is the key of the call at"), "{error}");
}

#[test]
fn a_step_does_not_take_the_key_of_a_patch() {
    let flow = flow!(|ctx| {
        ctx.patched("new")?;
        ctx.step("patch/new", || ctx.state().body("a")).await
    });
    let mut table = Table::default();
    assert_eq!(run_and_replay(&mut table, &flow).0.unwrap(), "<a>");
    assert_eq!(table.rows[1].step_key, "patch/new:1");
}

#[test]
fn a_run_with_the_patch_fits_code_with_only_the_new_branch() {
    for first in [patched(), deprecated()] {
        let mut table = Table::default();
        Drive::begin(&table, &first).run(&mut table).value();
        assert_eq!(run_and_replay(&mut table, &deprecated()).0.unwrap(), "<a><new><b>");
    }
}

/// The run is not older than the patch, because no record follows it.
#[test]
fn a_run_that_crashed_before_the_deprecated_patch_was_committed_fits_too() {
    let mut table = Table::default().with_value("a", 1, "\"1\"");
    assert_eq!(run_and_replay(&mut table, &deprecated()).0.unwrap(), "1<new><b>");
}

#[test]
fn a_run_older_than_the_patch_diverges_from_code_with_only_the_new_branch() {
    let table = Table::default().with_value("a", 1, "\"1\"").with_value("b", 2, "\"2\"");
    let mut drive = Drive::begin(&table, &deprecated());
    let divergence = drive.advance().divergence().to_string();
    for part in ["older than it", "deprecate_patch(\"new\")", "bring ctx.patched back", "patches.rs:"] {
        assert!(divergence.contains(part), "{part:?} in {divergence}");
    }
    assert!(drive.in_flight.is_empty() && drive.world.notes().is_empty());
}

#[test]
fn a_patch_that_the_code_no_longer_has_is_not_a_divergence() {
    let mut table = Table::default();
    Drive::begin(&table, &patched()).run(&mut table).value();
    let forgotten = flow!(|ctx| {
        let a = ctx.step("a", || ctx.state().body("a")).await?;
        let new = ctx.step("new", || ctx.state().body("new")).await?;
        let b = ctx.step("b", || ctx.state().body("b")).await?;
        let later = ctx.patched("later")?;
        Ok(format!("{a}{new}{b}{later}"))
    });
    assert_eq!(run_and_replay(&mut table, &forgotten).0.unwrap(), "<a><new><b>true");
}

#[test]
fn an_emitted_item_shows_that_the_run_is_past_the_patch() {
    let old = flow!(|ctx| {
        ctx.emit("log", "one")?;
        ctx.step("a", || ctx.state().gated("a")).await
    });
    let mut table = Table::default();
    let mut drive = Drive::begin(&table, &old);
    drive.quiesce(&mut table);
    assert_eq!(table.rows.len(), 1, "only the item is recorded");
    let new = flow!(|ctx| {
        let taken = ctx.patched("louder")?;
        ctx.emit("log", if taken { "ONE" } else { "one" })?;
        Ok(taken.to_string())
    });
    assert_eq!(Drive::begin_at(&table, &new, START, World::default()).advance().value(), "false");
}
