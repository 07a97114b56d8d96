//! Children: started once with their row, awaited across crashes.

use std::collections::BTreeMap;
use std::panic::Location;

use workflow_sdk::engine::{ChildCall, Effect, Lane, Machine, NewRun, StartTime};
use workflow_sdk::{AttemptStatus, Ctx, ErrorKind, OnParentEnd, Result, StepKind, StoredError};

use crate::harness::{Flow, Life, START, Table, World, flow, flow_of, run_id};
use crate::outside::{Outside, TAKEN_KEY, kid};
use crate::table::outcomes;

fn one_child() -> Flow {
    flow!(|ctx| { Ok(format!("{:?}", ctx.child(kid, ()).await.map_err(|error| error.to_string()))) })
}

#[test]
fn a_child_is_awaited_from_its_row_on() {
    let mut table = Table::default();
    Life::begin(&table, &one_child()).quiesce(&mut table);
    let row = &table.rows[0];
    assert_eq!((row.kind, row.status, row.position), (StepKind::Child, AttemptStatus::Running, None));
    let started = table.outside.children["kid"].run_id;
    let mut life = Life::begin(&table, &one_child());
    assert!(life.quiesce(&mut table).park_until().is_some());
    assert_eq!(life.events, [""; 0], "it is not started again");
    drop(life);
    table.outside.end_child("kid", Ok("7".into()));
    assert_eq!(Life::begin(&table, &one_child()).quiesce(&mut table).value(), "Ok(7)");
    assert_eq!(table.outside.children["kid"].run_id, started);
    assert_eq!(Life::begin(&table, &one_child()).settle().value(), "Ok(7)");
}

#[test]
fn a_child_that_was_not_committed_is_started_by_the_next_life() {
    let mut table = Table::default();
    let mut life = Life::begin(&table, &one_child());
    life.settle();
    assert_eq!(life.in_flight.len(), 1);
    drop(life);
    assert!(table.outside.children.is_empty());
    let mut life = Life::begin(&table, &one_child());
    life.quiesce(&mut table);
    let end = |outside: &mut Outside| outside.end_child("kid", Ok("1".into()));
    assert_eq!(life.hear(&mut table, end).value(), "Ok(1)");
}

#[test]
fn the_error_of_a_child_is_that_of_its_step() {
    let mut table = Table::default();
    let mut life = Life::begin(&table, &one_child());
    life.quiesce(&mut table);
    let error = StoredError::new(ErrorKind::Application, "no luck");
    let result = life.hear(&mut table, |outside| outside.end_child("kid", Err(error))).value();
    assert_eq!(Life::begin(&table, &one_child()).settle().value(), result);
    assert!(result.contains("no luck"), "{result}");
    assert_eq!(table.rows[0].status, AttemptStatus::Failed);
}

#[test]
fn a_detached_child_is_not_awaited() {
    let mut table = Table::default();
    let flow = flow!(|ctx| { Ok(ctx.child(kid, ()).detach().await?.id().to_string()) });
    let id = Life::begin(&table, &flow).quiesce(&mut table).value();
    assert_eq!(id, table.outside.children["kid"].run_id.to_string());
    let mut replay = Life::begin(&table, &flow);
    assert_eq!(replay.settle().value(), id);
    assert!(replay.cell.has_children(), "from its history");
}

#[test]
fn a_key_that_is_taken_is_an_error_and_the_run_goes_on() {
    for detached in [false, true] {
        let mut table = Table::default();
        let flow = flow_with_key(detached);
        assert_eq!(Life::begin(&table, &flow).quiesce(&mut table).value(), "refused <after>");
        assert!(table.outside.children.is_empty());
        assert_eq!(outcomes(&table), ["kid", "after"]);
        assert_eq!(Life::begin(&table, &flow).settle().value(), "refused <after>");
    }
}

fn flow_with_key(detached: bool) -> Flow {
    flow_of(move |ctx: &Ctx<World>| {
        Box::pin(async move {
            let child = ctx.child(kid, ()).key(TAKEN_KEY);
            let error = match detached {
                true => child.detach().await.map(drop).unwrap_err(),
                false => child.await.map(drop).unwrap_err(),
            };
            let after = ctx.step("after", || ctx.state().body("after")).await?;
            Ok(format!("{} {after}", error.kind()))
        })
    })
}

#[test]
fn a_child_whose_wait_is_dropped_goes_on_and_is_never_started_again() {
    let mut table = Table::default();
    let flow = flow!(|ctx| {
        let child = ctx.child(kid, ());
        let step = ctx.step("a", || ctx.state().gated("a"));
        futures::future::select(child, step).await;
        ctx.step("after", || ctx.state().body("after")).await
    });
    let mut life = Life::begin(&table, &flow);
    life.quiesce(&mut table);
    assert_eq!(life.open("a", &mut table).value(), "<after>");
    assert_eq!(table.outside.children.len(), 1);
    let mut replay = Life::begin(&table, &flow);
    assert_eq!(replay.settle().value(), "<after>");
    assert!(replay.in_flight.is_empty());
}

/// Ids are made up, but not by chance: a second generation of a run starts children of its own.
#[test]
fn each_generation_has_children_of_its_own() {
    let id_in = |generation| {
        let mut machine = Machine::new(run_id(), 1, generation, START, Vec::new());
        let call = machine.call("kid", Location::caller());
        let child = || ChildCall { run: Box::new(new_run()), on_parent_end: OnParentEnd::Cancel, detached: false };
        machine.poll_child(call, child, START);
        let Effect::Start(run) = machine.take_outbox().remove(0).effect else { panic!("it starts a child") };
        run.id
    };
    assert_eq!(id_in(0), id_in(0));
    assert_ne!(id_in(0), id_in(1));
}

fn new_run() -> NewRun {
    NewRun {
        id: run_id(),
        lane: Lane { queue: "q".into(), workflow: "kid".into(), version: "1".into() },
        input: "null".into(),
        key: None,
        start: StartTime::Now,
        deadline: None,
        tags: BTreeMap::new(),
        parent: None,
        depth: 1,
    }
}
