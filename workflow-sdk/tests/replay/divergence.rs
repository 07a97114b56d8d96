//! Code that does not fit the history, and what it is told.

use workflow_sdk::{Ctx, Error, ErrorKind, Result};

use crate::harness::{Life, Table, World, flow};

const WAY_OUT: &str = "  what to do: deploy code that makes the recorded calls (the run waits for it), or terminate the run; \
     outside of steps a workflow may depend only on its input and on outcomes of ctx";

#[test]
fn a_recorded_step_that_the_code_never_asks_for_is_a_divergence_at_the_end() {
    let table = Table::default().with_value("a", 1, "\"1\"").with_value("gone", 2, "2");
    let flow = flow!(|ctx| { ctx.step("a", || ctx.state().body("a")).await });
    let divergence = Life::begin(&table, &flow).settle().divergence();
    let text = format!(
        "the code does not fit the run's history\n  \
           recorded: step \"gone\" at position 2\n  \
           current:  the workflow ended without it\n{WAY_OUT}"
    );
    assert_eq!(divergence.to_string(), text);
    assert_eq!(divergence.to_stored().kind, ErrorKind::Divergence);
}

#[test]
fn a_workflow_that_fails_instead_of_asking_diverges_too() {
    let table = Table::default().with_value("a", 1, "1");
    let flow = flow!(|_ctx| { Err(Error::msg("no")) });
    Life::begin(&table, &flow).settle().divergence();
}

#[test]
fn a_sleep_where_a_step_is_recorded_is_a_divergence_that_shows_both_and_the_line() {
    let table = Table::default().with_value("sleep", 1, "1");
    let flow = flow!(|ctx| {
        ctx.sleep(std::time::Duration::from_secs(1)).await?;
        Ok(String::new())
    });
    let line = line!() - 3;
    let mut life = Life::begin(&table, &flow);
    let text = format!(
        "the code does not fit the run's history\n  \
           recorded: step \"sleep\"\n  \
           current:  sleep \"sleep\"\n  \
           called at: {}:{line}:13\n{WAY_OUT}",
        file!()
    );
    assert_eq!(life.settle().divergence().to_string(), text);
    assert!(life.in_flight.is_empty());
}

#[test]
fn a_step_where_a_sleep_is_recorded_is_a_divergence_and_its_body_does_not_run() {
    let mut table = Table::default();
    let sleeps = flow!(|ctx| {
        ctx.sleep(std::time::Duration::from_secs(1)).await?;
        Ok(String::new())
    });
    Life::begin(&table, &sleeps).quiesce(&mut table);
    let steps = flow!(|ctx| { ctx.step("sleep", || ctx.state().body("sleep")).await });
    let mut life = Life::begin(&table, &steps);
    let text = life.settle().divergence().to_string();
    assert!(text.contains("recorded: sleep \"sleep\"\n  current:  step \"sleep\""), "{text}");
    assert_eq!(life.world.notes(), [""; 0]);
}

#[test]
fn an_output_that_no_longer_decodes_is_a_divergence_that_names_both_types() {
    let table = Table::default().with_value("count", 1, "\"seven\"");
    let flow = flow!(|ctx| { Ok(ctx.step("count", async || Ok::<_, Error>(7_u32)).await?.to_string()) });
    let line = line!() - 1;
    let text = format!(
        "the code does not fit the run's history\n  \
           recorded: step \"count\" with an output that is no u32 (invalid type: string \"seven\", expected u32 at \
           line 1 column 7)\n  \
           current:  step \"count\" with an output of type u32\n  \
           called at: {}:{line}:37\n{WAY_OUT}",
        file!()
    );
    assert_eq!(Life::begin(&table, &flow).settle().divergence().to_string(), text);
}

#[test]
fn a_divergence_in_one_branch_outweighs_the_end_of_the_workflow_in_another() {
    let table = Table::default().with_value("sleep", 1, "1");
    let flow = flow!(|ctx| {
        let diverges = ctx.sleep(std::time::Duration::from_secs(1));
        futures::future::select(diverges, std::future::ready(())).await;
        Ok("done".into())
    });
    Life::begin(&table, &flow).settle().divergence();
}

#[test]
fn after_a_divergence_no_body_begins() {
    let table = Table::default().with_value("sleep", 1, "1");
    let flow = flow!(|ctx| {
        let step = ctx.step("a", || ctx.state().body("a"));
        let (_, value) = futures::join!(ctx.sleep(std::time::Duration::from_secs(1)), step);
        value
    });
    let mut life = Life::begin(&table, &flow);
    life.settle().divergence();
    assert_eq!(life.world.notes(), [""; 0]);
}
