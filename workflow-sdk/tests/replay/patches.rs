//! Changes of the code under runs that are under way.

use workflow_sdk::{AttemptStatus, Ctx, ErrorKind, Result, StepKind};

use crate::harness::{Flow, Life, START, Stop, Table, World, flow, row, run_and_replay};

fn old() -> Flow {
    flow!(|ctx| {
        let a = ctx.step("a", || ctx.state().body("a")).await?;
        let b = ctx.step("b", || ctx.state().body("b")).await?;
        Ok(a + &b)
    })
}

/// With a change between `a` and `b`.
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
fn a_run_that_passed_the_place_before_keeps_the_old_way() {
    let mut table = Table::default();
    Life::begin(&table, &old()).run(&mut table).value();
    let (result, notes) = run_and_replay(&mut table, &patched());
    assert_eq!((result.unwrap().as_str(), notes.len()), ("<a><b>", 0));
    assert_eq!(patch_rows(&table), []);
}

#[test]
fn a_run_that_had_not_come_to_the_place_takes_the_patch() {
    let mut table = Table::default().with_value("a", 1, "\"1\"");
    assert_eq!(run_and_replay(&mut table, &patched()).0.unwrap(), "1<new><b>");
}

/// The row says that an attempt of `b` began, so the run passed the place.
#[test]
fn an_attempt_that_has_no_outcome_shows_too_that_the_run_passed() {
    let table = Table::default().with_value("a", 1, "\"1\"");
    for begun in [AttemptStatus::Running, AttemptStatus::Failed] {
        let mut row = row("b", 1, begun, None, None);
        row.error =
            (begun == AttemptStatus::Failed).then(|| workflow_sdk::StoredError::new(ErrorKind::Application, "no luck"));
        let mut table = table.clone().with(row);
        assert_eq!(run_and_replay(&mut table, &patched()).0.unwrap(), "1<b>", "{begun}");
    }
}

/// What `b` ended with says nothing about whether the branch of `a` went on.
#[test]
fn an_outcome_of_another_branch_does_not_show_that_this_one_passed() {
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
    let mut life = Life::begin(&table, &patched());
    for _ in 0..3 {
        assert!(matches!(life.settle(), Stop::Waits { park_until: None, .. }));
    }
    assert_eq!(life.world.notes(), [""; 0]);
    assert_eq!(life.in_flight.len(), 1);
    assert_eq!(life.quiesce(&mut table).value(), "1<new><b>");
    assert_eq!(life.world.notes(), ["new", "b"]);
}

#[test]
fn a_patch_in_a_loop_gives_one_answer() {
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
    let error = Life::begin(&table, &flow).run(&mut table).error();
    assert_eq!(error.kind, ErrorKind::Refused);
    assert!(error.fatal);
    assert_eq!(error.message.matches("patches.rs:").count(), 2, "{error}");
    assert!(error.message.contains("a name of its own"), "{error}");
}

#[test]
fn a_bad_name_a_taken_key_and_a_call_in_a_body_are_refused() {
    let in_body = flow!(|ctx| { ctx.step("a", async || ctx.patched("new").map(|_| String::new())).await });
    let error = Life::begin(&Table::default(), &in_body).run(&mut Table::default()).error();
    assert_eq!(error.kind, ErrorKind::Refused);
    assert!(error.message.contains("ctx.patched(\"new\") was called at") && error.message.contains("before or after"));

    let nameless = flow!(|ctx| { ctx.patched("").map(|_| String::new()) });
    assert_eq!(Life::begin(&Table::default(), &nameless).run(&mut Table::default()).error().kind, ErrorKind::Refused);

    let taken = flow!(|ctx| {
        ctx.step("patch/new", || ctx.state().body("a")).await?;
        ctx.patched("new").map(|_| String::new())
    });
    let error = Life::begin(&Table::default(), &taken).run(&mut Table::default()).error();
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
fn a_run_with_the_patch_fits_code_that_has_only_the_new_way() {
    for first in [patched(), deprecated()] {
        let mut table = Table::default();
        Life::begin(&table, &first).run(&mut table).value();
        assert_eq!(run_and_replay(&mut table, &deprecated()).0.unwrap(), "<a><new><b>");
    }
}

/// It is not older than the patch, for whatever followed would be recorded after it.
#[test]
fn a_run_that_crashed_before_the_deprecated_patch_was_committed_fits_too() {
    let mut table = Table::default().with_value("a", 1, "\"1\"");
    assert_eq!(run_and_replay(&mut table, &deprecated()).0.unwrap(), "1<new><b>");
}

#[test]
fn a_run_that_is_older_than_the_patch_diverges_from_code_that_has_only_the_new_way() {
    let table = Table::default().with_value("a", 1, "\"1\"").with_value("b", 2, "\"2\"");
    let mut life = Life::begin(&table, &deprecated());
    let divergence = life.settle().divergence().to_string();
    for part in ["older than it", "deprecate_patch(\"new\")", "bring ctx.patched back", "patches.rs:"] {
        assert!(divergence.contains(part), "{part:?} in {divergence}");
    }
    assert!(life.in_flight.is_empty() && life.world.notes().is_empty());
}

#[test]
fn a_patch_that_the_code_has_forgotten_is_no_divergence() {
    let mut table = Table::default();
    Life::begin(&table, &patched()).run(&mut table).value();
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
fn what_a_run_emitted_shows_that_it_passed() {
    let old = flow!(|ctx| {
        ctx.emit("log", "one")?;
        ctx.step("a", || ctx.state().gated("a")).await
    });
    let mut table = Table::default();
    let mut life = Life::begin(&table, &old);
    life.quiesce(&mut table);
    assert_eq!(table.rows.len(), 1, "the item");
    let new = flow!(|ctx| {
        let taken = ctx.patched("louder")?;
        ctx.emit("log", if taken { "ONE" } else { "one" })?;
        Ok(taken.to_string())
    });
    assert_eq!(Life::begin_at(&table, &new, START, World::default()).settle().value(), "false");
}
