//! Dry replays: the verdict on a history and a workflow, without starting a body or writing a row.

use std::cell::RefCell;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use fastrand::Rng;
use serde_json::json;
use workflow_sdk::internal::{Entry, dry_replay};
use workflow_sdk::{
    AttemptStatus, Ctx, Error, ErrorKind, HistoryError, Misfit, Replayed, Result, RunHistory, RunStatus, RunsWith,
    StepKind, StoredError, Workflow,
};

use crate::external_events::kid;
use crate::harness::{Delivery, Drive, Flow, PAYLOAD_LIMIT, START, Table, World, flow, flow_of, row, run_id};
use crate::program::{Leaves, Node, random};
use crate::properties::{cases, for_all};
use crate::random_drives::{End, drive_at_random};
use crate::reports::assert_report;

thread_local! {
    static FLOW: RefCell<Option<Flow>> = const { RefCell::new(None) };
}

/// The workflow that runs the flow of its thread.
struct Flowing;

impl Workflow for Flowing {
    type State = World;
    type Input = ();
    type Output = String;
    const NAME: &'static str = "flow";
    const VERSION: &'static str = "1";

    async fn run(ctx: &Ctx<World>, (): ()) -> Result<String> {
        let flow = FLOW.with_borrow(Clone::clone).unwrap();
        flow(ctx).await
    }
}

impl RunsWith<World> for Flowing {
    fn project(worker: &Arc<World>) -> Arc<World> {
        Arc::clone(worker)
    }
}

fn document(table: &Table, status: RunStatus, output: Option<&str>, error: Option<StoredError>) -> String {
    json!({
        "format": 1,
        "run": { "id": run_id(), "queue": "default", "workflow": "flow", "version": "1", "status": status,
                 "input": "null", "output": output, "error": error, "started_at": START },
        "steps": table.rows,
    })
    .to_string()
}

/// Returns the verdict on a parked run with this history.
fn dry(table: &Table, flow: &Flow) -> Result<Replayed, Misfit> {
    dry_of(&document(table, RunStatus::Parked, None, None), flow)
}

/// Returns the verdict on an ended run with this history and this end.
fn ended(table: &Table, end: Result<&str, StoredError>, flow: &Flow) -> Result<Replayed, Misfit> {
    match end {
        Ok(output) => dry_of(&document(table, RunStatus::Succeeded, Some(output), None), flow),
        Err(error) => dry_of(&document(table, RunStatus::Failed, None, Some(error)), flow),
    }
}

fn dry_of(document: &str, flow: &Flow) -> Result<Replayed, Misfit> {
    let history = RunHistory::from_json(document).unwrap();
    assert_eq!(RunHistory::from_json(&history.to_json()).unwrap(), history, "a written history reads back unchanged");
    FLOW.set(Some(flow.clone()));
    let world = Arc::new(World::default());
    let verdict = dry_replay(&Entry::new::<World, Flowing>(&world), &history, PAYLOAD_LIMIT);
    assert_eq!(world.notes(), [""; 0], "a body began");
    verdict
}

#[track_caller]
fn diverges(verdict: Result<Replayed, Misfit>) -> String {
    match verdict {
        Err(Misfit::Diverged(divergence)) => divergence.to_string(),
        other => panic!("no divergence: {other:?}"),
    }
}

#[track_caller]
fn waits_for(verdict: Result<Replayed, Misfit>) -> Vec<String> {
    match verdict {
        Ok(Replayed::Waits(calls)) => calls.iter().map(ToString::to_string).collect(),
        other => panic!("does not wait: {other:?}"),
    }
}

fn error(kind: ErrorKind, message: &str) -> StoredError {
    StoredError::new(kind, message)
}

/// The history of an order that is reserved and charged, and sleeps.
fn order() -> Table {
    let sleep = workflow_sdk::StepAttempt {
        kind: StepKind::Sleep,
        ..row("sleep", 1, AttemptStatus::Running, None, Some("1700003600000000"))
    };
    Table::default().with_value("reserve", 1, "\"hold\"").with_value("charge", 2, "\"paid\"").with(sleep)
}

fn order_flow() -> Flow {
    flow!(|ctx| {
        let hold = ctx.step("reserve", || ctx.state().body("reserve")).await?;
        let paid = ctx.step("charge", || ctx.state().body("charge")).await?;
        ctx.sleep(Duration::from_secs(3600)).await?;
        let sent = ctx.step("ship", || ctx.state().body("ship")).await?;
        Ok(format!("{hold} {paid} {sent}"))
    })
}

#[test]
fn the_code_that_made_a_history_fits_it() {
    assert_eq!(waits_for(dry(&order(), &order_flow())), ["sleep \"sleep\""]);
    assert_eq!(waits_for(dry(&Table::default(), &order_flow())), ["step \"reserve\""]);
    let charged = Table::default().with_value("reserve", 1, "\"hold\"").with_value("charge", 2, "\"paid\"");
    assert_eq!(waits_for(dry(&charged, &order_flow())), ["sleep \"sleep\""], "the dry replay does not begin the sleep");
}

#[test]
fn a_step_with_a_pending_retry_waits() {
    let failed = row("charge", 1, AttemptStatus::Failed, None, None);
    let failed = workflow_sdk::StepAttempt { error: Some(error(ErrorKind::Application, "no")), ..failed };
    let table = Table::default().with_value("reserve", 1, "\"hold\"").with(failed);
    assert_eq!(waits_for(dry(&table, &order_flow())), ["step \"charge\""]);
}

#[test]
fn the_end_of_a_run_is_compared() {
    let flow = flow!(|ctx| { ctx.step("a", || ctx.state().body("a")).await });
    let table = Table::default().with_value("a", 1, "\"out\"");
    assert_eq!(ended(&table, Ok("\"out\""), &flow), Ok(Replayed::Ended(Ok("\"out\"".into()))));
    assert_report("other_output", &diverges(ended(&table, Ok("\"put\""), &flow)));
    let end = diverges(ended(&table, Err(error(ErrorKind::Application, "no")), &flow));
    assert!(end.contains("the run ended with an error (application)"), "{end}");
    assert!(end.contains("differs:  how the run ends"), "{end}");
    // The engine ends a run at its deadline, so the code is not compared with that end.
    assert!(ended(&table, Err(error(ErrorKind::Deadline, "late")), &flow).is_ok());
    let fails = flow!(|_ctx| { Err(Error::msg("no")) });
    let table = Table::default();
    assert!(ended(&table, Err(error(ErrorKind::Application, "no")), &fails).is_ok());
    let end = diverges(ended(&table, Err(error(ErrorKind::Application, "yes")), &fails));
    assert!(end.contains("differs:  the text of the error"), "{end}");
}

#[test]
fn a_renamed_step_diverges_before_it_would_run() {
    let flow = flow!(|ctx| {
        let hold = ctx.step("reserve", || ctx.state().body("reserve")).await?;
        let paid = ctx.step("charge-card", || ctx.state().body("charge")).await?;
        ctx.sleep(Duration::from_secs(3600)).await?;
        Ok(hold + &paid)
    });
    assert_report("dry_renamed", &diverges(dry(&order(), &flow)));
}

#[test]
fn a_step_that_was_renamed_in_a_loop_diverges() {
    let flow = |name: &'static str| {
        flow_of(move |ctx: &Ctx<World>| {
            Box::pin(async move {
                for _ in 0..50 {
                    ctx.step(name, || ctx.state().body(name)).await?;
                }
                ctx.step("last", || ctx.state().body("last")).await
            })
        })
    };
    let mut table = Table::default();
    Drive::begin(&table, &flow("page")).run(&mut table).value();
    table.rows.retain(|row| row.step_key != "last");
    assert_eq!(waits_for(dry(&table, &flow("page"))), ["step \"last\""]);
    assert!(diverges(dry(&table, &flow("sheet"))).contains("nothing asks for step \"page\""));
}

#[test]
fn an_inserted_step_diverges_before_it_would_run() {
    let flow = flow!(|ctx| {
        ctx.step("reserve", || ctx.state().body("reserve")).await?;
        ctx.step("rate", async || Ok::<_, Error>(5_u32)).await?;
        ctx.step("charge", || ctx.state().body("charge")).await
    });
    let table = Table::default().with_value("reserve", 1, "\"hold\"").with_value("charge", 2, "\"paid\"");
    assert_report("inserted", &diverges(dry(&table, &flow)));
}

#[test]
fn a_call_that_had_begun_is_not_taken_for_a_renamed_one() {
    let flow = |other: &'static str| {
        flow_of(move |ctx: &Ctx<World>| {
            Box::pin(async move {
                let charge = ctx.step("charge", || ctx.state().body("charge"));
                let (charge, other) = futures::join!(charge, ctx.step(other, || ctx.state().body(other)));
                Ok(charge? + &other?)
            })
        })
    };
    let begun = row("charge", 1, AttemptStatus::Running, None, None);
    let table = Table::default().with_value("reserve", 1, "\"hold\"").with(begun);
    assert_eq!(waits_for(dry(&table, &flow("reserve"))), ["step \"charge\""]);
    let text = diverges(dry(&table, &flow("rate")));
    assert!(text.contains("current:  step \"rate\" (new)") && !text.contains("\"charge\""), "{text}");
    let removed = flow!(|ctx| { ctx.step("charge", || ctx.state().body("charge")).await });
    let text = diverges(dry(&table, &removed));
    assert!(text.contains("current:  the workflow goes on with calls that had begun"), "{text}");
}

#[test]
fn a_new_step_beside_recorded_steps_fits() {
    let flow = flow!(|ctx| {
        let new = ctx.step("new", || ctx.state().body("new"));
        let (new, old) = futures::join!(new, ctx.step("reserve", || ctx.state().body("reserve")));
        Ok(new? + &old?)
    });
    assert_eq!(waits_for(dry(&Table::default().with_value("reserve", 1, "\"hold\""), &flow)), ["step \"new\""]);
}

#[test]
fn a_changed_kind_and_a_changed_type_diverge() {
    let kind = flow!(|ctx| {
        ctx.step("reserve", || ctx.state().body("reserve")).await?;
        ctx.step("charge", || ctx.state().body("charge")).await?;
        ctx.step("sleep", || ctx.state().body("sleep")).await
    });
    assert!(diverges(dry(&order(), &kind)).contains("sleep is recorded, the code has a step"));
    let of_type = flow!(|ctx| { Ok(ctx.step("reserve", async || Ok::<_, Error>(5_u32)).await?.to_string()) });
    assert!(diverges(dry(&order(), &of_type)).contains("the value does not decode as u32"));
}

#[test]
fn an_end_before_the_recorded_outcomes_diverges_and_shows_the_error() {
    let flow = flow!(|ctx| {
        ctx.step("reserve", || ctx.state().body("reserve")).await?;
        Err(Error::msg("closed\nfor good"))
    });
    assert_report("ended_first", &diverges(dry(&order(), &flow)));
}

#[test]
fn a_panic_and_an_input_that_is_refused_fail_the_run() {
    let panics = flow!(|_ctx| { panic!("not today") });
    let Err(Misfit::Fails(failure)) = dry(&Table::default(), &panics) else { panic!() };
    assert_eq!(failure.kind, ErrorKind::Panic);
    let other = document(&Table::default(), RunStatus::Pending, None, None).replace("\"null\"", "\"7\"");
    let Err(Misfit::Fails(failure)) = dry_of(&other, &order_flow()) else { panic!() };
    assert_eq!(failure.kind, ErrorKind::Refused);
}

#[test]
fn a_foreign_wait_is_reported_and_does_not_hang() {
    let flow = flow!(|ctx| {
        ctx.step("reserve", || ctx.state().body("reserve")).await?;
        std::future::pending::<()>().await;
        ctx.step("charge", || ctx.state().body("charge")).await
    });
    let Ok(Replayed::Blocked { unasked }) = dry(&order(), &flow) else { panic!() };
    assert_eq!(unasked.iter().map(|call| call.key.as_str()).collect::<Vec<_>>(), ["charge"]);
    let wakes_itself = flow!(|_ctx| {
        futures::future::poll_fn::<(), _>(|cx| {
            cx.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
        Ok(String::new())
    });
    assert_eq!(dry(&Table::default(), &wakes_itself), Ok(Replayed::Blocked { unasked: Vec::new() }));
}

#[test]
fn what_is_published_or_emitted_and_not_recorded_is_discarded() {
    let flow = flow!(|ctx| {
        ctx.publish("progress", &0)?;
        ctx.step("reserve", || ctx.state().body("reserve")).await?;
        ctx.publish("progress", &1)?;
        ctx.emit("log", &"reserved")?;
        ctx.step("charge", || ctx.state().body("charge")).await
    });
    assert_eq!(waits_for(dry(&Table::default(), &flow)), ["step \"reserve\""]);
    assert_eq!(waits_for(dry(&Table::default().with_value("reserve", 1, "\"hold\""), &flow)), ["step \"charge\""]);
}

#[test]
fn every_call_is_shown_with_its_line_in_the_authors_source() {
    let flow = flow!(|ctx| {
        let nobody = run_id();
        let _ = futures::join!(
            ctx.step("step", || ctx.state().body("step")),
            ctx.sleep(Duration::ZERO),
            ctx.sleep_until(START),
            ctx.signal::<u64>("paid"),
            ctx.send_signal(nobody, "paid", &7_u64),
            ctx.approval("approval"),
            ctx.child(kid, ()),
            async { ctx.child(kid, ()).detach().await.map(|child| child.id()) },
            ctx.timeout(Duration::from_secs(1), std::future::pending::<Result<()>>()),
            ctx.transaction("transaction", async |_tx: workflow_sdk::Tx| Ok::<_, Error>(())),
        );
        Ok(String::new())
    });
    let Ok(Replayed::Waits(calls)) = dry(&Table::default(), &flow) else { panic!() };
    assert_eq!(calls.len(), 10);
    for call in calls {
        assert_eq!(call.location.file(), file!(), "{call}");
    }
}

#[test]
fn an_invalid_document_is_refused_with_the_reason() {
    let good = document(&order(), RunStatus::Parked, None, None);
    let refusal = |from: &str, to: &str| {
        assert!(good.contains(from), "{from}");
        RunHistory::from_json(&good.replacen(from, to, 1)).unwrap_err()
    };
    let newer = refusal("\"format\":1", "\"format\":2");
    assert!(matches!(newer, HistoryError::Format { found: 2 }));
    assert!(newer.to_string().contains("reads format 1; replay it with the release that wrote it"), "{newer}");
    let kind = refusal("\"kind\":\"step\"", "\"kind\":\"riddle\"");
    assert!(matches!(&kind, HistoryError::UnknownKind { step_key, kind } if step_key == "reserve" && kind == "riddle"));
    assert!(kind.to_string().contains("\"riddle\", which this release"), "{kind}");
    let step = refusal("\"attempt\":1", "\"attempt\":\"one\"");
    assert!(step.to_string().starts_with("steps[0] of the history cannot be read: invalid type"), "{step}");
    let run = refusal("\"workflow\":", "\"job\":");
    assert!(run.to_string().starts_with("the run of the history cannot be read: missing field `workflow`"), "{run}");
    let cut = RunHistory::from_json(&good[..good.len() / 2]).unwrap_err();
    assert!(cut.to_string().starts_with("the document of the history cannot be read"), "{cut}");
    let no_steps = RunHistory::from_json("{\"format\": 1, \"run\": {}}").unwrap_err();
    assert!(no_steps.to_string().contains("missing field `steps`"), "{no_steps}");
}

#[test]
fn a_long_history_gets_a_short_report() {
    let table = Table::default();
    let rows = (0..30_000_i64).map(|place| {
        let key = if place == 0 { "page".to_owned() } else { format!("page:{place}") };
        row(&key, 1, AttemptStatus::Succeeded, Some(place + 1), Some("\"text\""))
    });
    let table = Table { rows: rows.collect(), ..table };
    let pages = flow!(|ctx| {
        for _ in 0..30_000 {
            ctx.step("page", || ctx.state().body("page")).await?;
        }
        ctx.step("last", || ctx.state().body("last")).await
    });
    assert_eq!(waits_for(dry(&table, &pages)), ["step \"last\""]);
    let renamed = flow!(|ctx| {
        for _ in 0..30_000 {
            ctx.step("sheet", || ctx.state().body("sheet")).await?;
        }
        ctx.step("last", || ctx.state().body("last")).await
    });
    let told = diverges(dry(&table, &renamed));
    assert!(told.contains("and 29996 more") && told.lines().count() < 20, "{told}");
}

/// Checks that a random program fits each history that a crash leaves of its run, and that the dry
/// replay of the whole history finds the end of the run.
fn every_history_fits(program: &Node, seed: u64) -> Result<usize, String> {
    let flow = program.flow();
    let finished = drive_at_random(&flow, &Table::default(), START, Delivery::OneByOne, &mut Rng::with_seed(seed))?;
    for point in &finished.crash_points {
        match dry(&point.table, &flow) {
            Ok(Replayed::Waits(_) | Replayed::Ended(_)) => {}
            other => return Err(format!("{other:?} of {:?}", point.table)),
        }
    }
    let End::Result(end) = &finished.end else { return Err("the run diverged".into()) };
    let status = if end.is_ok() { RunStatus::Succeeded } else { RunStatus::Failed };
    let output = end.as_ref().ok().map(|output| json!(output).to_string());
    let error = end.as_ref().err().cloned();
    match dry_of(&document(&finished.table, status, output.as_deref(), error), &flow) {
        Ok(Replayed::Ended(_)) => Ok(finished.crash_points.len()),
        other => Err(format!("{other:?} of a run that ended with {end:?}")),
    }
}

#[test]
fn code_fits_every_history_that_it_leaves() {
    let program = |seed: u64| {
        let mut rng = Rng::with_seed(!seed);
        let depth = rng.u32(1..=3);
        random(&mut rng, depth, Leaves::Any)
    };
    for_all("dry replay", cases(500), program, every_history_fits);
}
