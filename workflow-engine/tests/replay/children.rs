//! Children: each starts once, with its row, and is awaited across crashes.

use std::collections::BTreeMap;
use std::panic::Location;

use workflow_engine::model::{Effect, KeyReuse, Lane, NewRun, StartTime};
use workflow_engine::replay::{ChildCall, Machine};
use workflow_sdk::{AttemptStatus, Ctx, ErrorKind, OnParentEnd, Result, StepKind, StoredError};

use crate::delivery::outcomes;
use crate::external_events::{ExternalEvents, TAKEN_KEY, kid};
use crate::harness::{Drive, Flow, START, Table, World, flow, flow_of, run_id};

fn one_child() -> Flow {
    flow!(|ctx| { Ok(format!("{:?}", ctx.child(kid, ()).await.map_err(|error| error.to_string()))) })
}

#[test]
fn a_recorded_child_is_awaited_and_not_started_again() {
    let mut table = Table::default();
    Drive::begin(&table, &one_child()).quiesce(&mut table);
    let row = &table.rows[0];
    assert_eq!((row.kind, row.status, row.position), (StepKind::Child, AttemptStatus::Running, None));
    let started = table.external.children["kid"].run_id;
    let mut drive = Drive::begin(&table, &one_child());
    assert!(drive.quiesce(&mut table).park_until().is_some());
    assert_eq!(drive.events, [""; 0], "the child is not started again");
    drop(drive);
    table.external.end_child("kid", Ok("7".into()));
    assert_eq!(Drive::begin(&table, &one_child()).quiesce(&mut table).value(), "Ok(7)");
    assert_eq!(table.external.children["kid"].run_id, started);
    assert_eq!(Drive::begin(&table, &one_child()).advance().value(), "Ok(7)");
}

#[test]
fn a_recorded_child_is_looked_for_until_a_look_succeeds() {
    let mut table = Table::default();
    Drive::begin(&table, &one_child()).quiesce(&mut table);
    let mut drive = Drive::begin(&table, &one_child());
    drive.advance();
    let id = table.external.children["kid"].run_id;
    for _ in 0..2 {
        assert_eq!(drive.cell.begin_look().unwrap().recorded_children, [id]);
        assert!(drive.cell.begin_look().is_none());
        // The look has failed.
        drive.cell.look_again();
    }
    assert!(drive.read_external_events(&table));
    drive.cell.look_again();
    assert!(drive.cell.begin_look().unwrap().recorded_children.is_empty());
}

#[test]
fn a_child_that_was_not_committed_is_started_by_the_next_drive() {
    let mut table = Table::default();
    let mut drive = Drive::begin(&table, &one_child());
    drive.advance();
    assert_eq!(drive.in_flight.len(), 1);
    drop(drive);
    assert!(table.external.children.is_empty());
    let mut drive = Drive::begin(&table, &one_child());
    drive.quiesce(&mut table);
    let end = |external: &mut ExternalEvents| external.end_child("kid", Ok("1".into()));
    assert_eq!(drive.notify(&mut table, end).value(), "Ok(1)");
}

#[test]
fn the_error_of_a_child_is_the_error_of_its_step() {
    let mut table = Table::default();
    let mut drive = Drive::begin(&table, &one_child());
    drive.quiesce(&mut table);
    let error = StoredError::new(ErrorKind::Application, "no luck");
    let result = drive.notify(&mut table, |external| external.end_child("kid", Err(error))).value();
    assert_eq!(Drive::begin(&table, &one_child()).advance().value(), result);
    assert!(result.contains("no luck"), "{result}");
    assert_eq!(table.rows[0].status, AttemptStatus::Failed);
}

#[test]
fn a_detached_child_is_not_awaited() {
    let mut table = Table::default();
    let flow = flow!(|ctx| { Ok(ctx.child(kid, ()).detach().await?.id().to_string()) });
    let id = Drive::begin(&table, &flow).quiesce(&mut table).value();
    assert_eq!(id, table.external.children["kid"].run_id.to_string());
    let mut replay = Drive::begin(&table, &flow);
    assert_eq!(replay.advance().value(), id);
    assert!(replay.cell.has_children(), "the history has a child");
}

#[test]
fn a_taken_key_is_an_error_and_the_run_continues() {
    for detached in [false, true] {
        let mut table = Table::default();
        let flow = flow_with_key(detached);
        assert_eq!(Drive::begin(&table, &flow).quiesce(&mut table).value(), "refused <after>");
        assert!(table.external.children.is_empty());
        assert_eq!(outcomes(&table), ["kid", "after"]);
        assert_eq!(Drive::begin(&table, &flow).advance().value(), "refused <after>");
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

/// A named child takes no number of the others, so a child beside them changes no key.
#[test]
fn children_of_one_workflow_are_told_apart_by_their_names() {
    let flow = flow!(|ctx| {
        let later = ctx.scope("later");
        let handles = futures::try_join!(
            ctx.child(kid, ()).name("net").detach(),
            ctx.child(kid, ()).detach(),
            later.child(kid, ()).name("tax").detach(),
            ctx.child(kid, ()).name("net").detach(),
            ctx.child(kid, ()).detach(),
        )?;
        Ok(handles.3.id().to_string())
    });
    let mut table = Table::default();
    let id = Drive::begin(&table, &flow).quiesce(&mut table).value();
    assert_eq!(outcomes(&table), ["net", "kid", "later/tax", "net:1", "kid:1"]);
    assert_eq!(id, table.external.children["net:1"].run_id.to_string());
    let mut replay = Drive::begin(&table, &flow);
    assert_eq!(replay.advance().value(), id);
    assert!(replay.in_flight.is_empty(), "the replay wrote rows");
}

#[test]
fn a_key_that_a_later_call_has_built_on_stays_taken() {
    let flow = flow!(|ctx| {
        let (first, second) = (ctx.child(kid, ()), ctx.child(kid, ()));
        first.name("first").detach().await?;
        ctx.child(kid, ()).detach().await?;
        Ok(second.detach().await?.id().to_string())
    });
    let mut table = Table::default();
    let id = Drive::begin(&table, &flow).quiesce(&mut table).value();
    assert_eq!(outcomes(&table), ["first", "kid:2", "kid:1"]);
    assert_eq!(Drive::begin(&table, &flow).advance().value(), id);
}

#[test]
fn a_name_for_a_child_that_was_recorded_without_one_is_a_divergence() {
    let mut table = Table::default();
    let unnamed = flow!(|ctx| { Ok(ctx.child(kid, ()).detach().await?.id().to_string()) });
    let id = Drive::begin(&table, &unnamed).quiesce(&mut table).value();
    let named = flow!(|ctx| { Ok(ctx.child(kid, ()).name("first").detach().await?.id().to_string()) });
    let mut drive = Drive::begin(&table, &named);
    let summary = drive.advance().divergence().summary();
    assert!(summary.starts_with("nothing asks for child \"kid\""), "{summary}");
    assert!(drive.in_flight.is_empty(), "no second child is started");
    assert_eq!(Drive::begin(&table, &unnamed).advance().value(), id);
}

#[test]
fn a_name_that_comes_too_late_or_is_empty_is_refused() {
    let flow = flow!(|ctx| {
        let mut child = ctx.child(kid, ());
        assert!(futures::poll!(&mut child).is_pending());
        let late = child.name("late").await.unwrap_err();
        let empty = ctx.child(kid, ()).name("").await.unwrap_err();
        assert_eq!((late.kind(), empty.kind()), (ErrorKind::Refused, ErrorKind::Refused));
        Ok(late.message().to_owned())
    });
    let mut table = Table::default();
    let text = Drive::begin(&table, &flow).quiesce(&mut table).value();
    assert_eq!(text, "child \"kid\" was polled before it was given the name \"late\"");
    assert_eq!(table.external.children.len(), 1, "the first poll has started it");
}

#[test]
fn a_child_whose_wait_is_dropped_continues_and_is_never_started_again() {
    let mut table = Table::default();
    let flow = flow!(|ctx| {
        let child = ctx.child(kid, ());
        let step = ctx.step("a", || ctx.state().gated("a"));
        futures::future::select(child, step).await;
        ctx.step("after", || ctx.state().body("after")).await
    });
    let mut drive = Drive::begin(&table, &flow);
    drive.quiesce(&mut table);
    assert_eq!(drive.open("a", &mut table).value(), "<after>");
    assert_eq!(table.external.children.len(), 1);
    let mut replay = Drive::begin(&table, &flow);
    assert_eq!(replay.advance().value(), "<after>");
    assert!(replay.in_flight.is_empty());
}

/// The id of a child is computed from its run, its key and the generation. A second generation
/// therefore starts its own children.
#[test]
fn each_generation_has_its_own_children() {
    let id_in = |generation| {
        let mut machine = Machine::new(run_id(), 1, generation, START, Vec::new());
        let call = machine.call("kid", Location::caller());
        let child = || ChildCall { run: Box::new(new_run()), on_parent_end: OnParentEnd::Cancel, detached: false };
        machine.poll_child(call, child, START);
        let Effect::Start(run) = machine.take_outbox().remove(0).effect else {
            panic!("the call does not start a child")
        };
        run.id
    };
    assert_eq!(id_in(0), id_in(0));
    assert_ne!(id_in(0), id_in(1));
}

fn new_run() -> NewRun {
    NewRun {
        gate: None,
        id: run_id(),
        lane: Lane { queue: "q".into(), workflow: "kid".into(), version: "1".into() },
        input: "null".into(),
        key: None,
        key_reuse: KeyReuse::Never,
        single: None,
        priority: None,
        start: StartTime::Now,
        deadline: None,
        tags: BTreeMap::new(),
        parent: None,
        depth: 1,
        trace: None,
    }
}
