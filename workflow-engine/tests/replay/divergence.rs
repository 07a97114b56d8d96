//! Code that does not fit the history, and the divergence that reports it.

use workflow_sdk::{Ctx, Error, ErrorKind, Result};

use crate::harness::{Drive, Flow, Table, World, flow, flow_of};

#[test]
fn a_recorded_step_that_the_code_never_asks_for_is_a_divergence_at_the_end() {
    let table = Table::default().with_value("a", 1, "\"1\"").with_value("gone", 2, "2");
    let flow = flow!(|ctx| { ctx.step("a", || ctx.state().body("a")).await });
    let divergence = Drive::begin(&table, &flow).advance().divergence();
    let recorded: Vec<_> = divergence.recorded().iter().map(ToString::to_string).collect();
    assert_eq!(recorded, ["#2 step \"gone\" (succeeded, 1 byte)"]);
    assert_eq!(divergence.before().unwrap().to_string(), "#1 step \"a\" (succeeded)");
    assert!(divergence.current().is_empty());
    assert_eq!(divergence.summary(), "nothing asks for step \"gone\"");
    assert_eq!(divergence.to_stored().kind, ErrorKind::Divergence);
}

#[test]
fn a_workflow_that_fails_before_a_recorded_step_diverges() {
    let table = Table::default().with_value("a", 1, "1");
    let flow = flow!(|_ctx| { Err(Error::msg("no")) });
    Drive::begin(&table, &flow).advance().divergence();
}

#[test]
fn a_sleep_where_a_step_is_recorded_is_a_divergence_that_shows_both_and_the_line() {
    let table = Table::default().with_value("sleep", 1, "1");
    let flow = flow!(|ctx| {
        ctx.sleep(std::time::Duration::from_secs(1)).await?;
        Ok(String::new())
    });
    let line = line!() - 3;
    let mut drive = Drive::begin(&table, &flow);
    let text = drive.advance().divergence().to_string();
    let both = format!(
        "  recorded: #1 step \"sleep\" (succeeded, 1 byte)\n  \
           current:  sleep \"sleep\"\n              --> {}:{line}:13\n",
        file!()
    );
    assert!(text.contains(&both), "{text}");
    assert!(drive.in_flight.is_empty());
}

#[test]
fn a_step_where_a_sleep_is_recorded_is_a_divergence_and_its_body_does_not_run() {
    let mut table = Table::default();
    let sleeps = flow!(|ctx| {
        ctx.sleep(std::time::Duration::from_secs(1)).await?;
        Ok(String::new())
    });
    Drive::begin(&table, &sleeps).quiesce(&mut table);
    let steps = flow!(|ctx| { ctx.step("sleep", || ctx.state().body("sleep")).await });
    let mut drive = Drive::begin(&table, &steps);
    let text = drive.advance().divergence().to_string();
    assert!(text.contains("recorded: sleep \"sleep\" (begun, not ended)\n  current:  step \"sleep\"\n"), "{text}");
    assert_eq!(drive.world.notes(), [""; 0]);
}

#[test]
fn an_output_that_no_longer_decodes_is_a_divergence_that_names_the_type() {
    let table = Table::default().with_value("count", 1, "\"seven\"");
    let flow = flow!(|ctx| { Ok(ctx.step("count", async || Ok::<_, Error>(7_u32)).await?.to_string()) });
    let line = line!() - 1;
    let divergence = Drive::begin(&table, &flow).advance().divergence();
    assert_eq!(divergence.summary(), "the value does not decode as u32: found string, expected u32 at line 1 column 7");
    let place = format!("--> {}:{line}:37\n", file!());
    assert!(divergence.to_string().contains(&place), "{divergence}");
}

#[test]
fn a_divergence_in_one_branch_outweighs_the_end_of_the_workflow_in_another() {
    let table = Table::default().with_value("sleep", 1, "1");
    let flow = flow!(|ctx| {
        let diverges = ctx.sleep(std::time::Duration::from_secs(1));
        futures::future::select(diverges, std::future::ready(())).await;
        Ok("done".into())
    });
    Drive::begin(&table, &flow).advance().divergence();
}

/// The outcomes of the steps `a` and `b`.
fn a_and_b() -> Table {
    Table::default().with_value("a", 1, "\"1\"").with_value("b", 2, "\"2\"")
}

/// Returns a workflow that runs these steps, the first two at once.
fn steps(names: [&'static str; 3]) -> Flow {
    flow_of(move |ctx: &Ctx<World>| {
        Box::pin(async move {
            let step = |name: &'static str| ctx.step(name, move || ctx.state().body(name));
            let (one, two) = futures::join!(step(names[0]), step(names[1]));
            Ok(one? + &two? + &step(names[2]).await?)
        })
    })
}

#[test]
fn no_body_begins_while_a_recorded_outcome_is_left_that_no_call_has_asked_for() {
    for (names, differs) in [
        (["a", "b-2", "c"], "nothing asks for step \"b\"; in its place comes step \"b-2\""),
        (["a-2", "b", "c"], "nothing asks for step \"a\"; in its place comes step \"a-2\""),
        (["c", "a", "b-2"], "nothing asks for step \"b\"; in its place comes step \"c\""),
        (["new", "a", "b"], "nothing asks for step \"b\"; in its place comes step \"new\""),
    ] {
        let mut table = a_and_b();
        let mut drive = Drive::begin(&table, &steps(names));
        assert_eq!(drive.run(&mut table).divergence().summary(), differs);
        assert_eq!(drive.world.notes(), [""; 0], "{names:?}");
        assert_eq!(table.rows, a_and_b().rows);
    }
    let mut table = a_and_b();
    assert_eq!(Drive::begin(&table, &steps(["a", "b", "c"])).run(&mut table).value(), "12<c>");
}

#[test]
fn no_wait_and_no_child_begins_while_a_recorded_outcome_is_left() {
    let sleeps = flow!(|ctx| {
        ctx.sleep(std::time::Duration::ZERO).await?;
        ctx.step("a", || ctx.state().body("a")).await
    });
    let waits = flow!(|ctx| {
        ctx.signal::<u64>("paid").await?;
        ctx.step("a", || ctx.state().body("a")).await
    });
    for flow in [sleeps, waits] {
        let mut table = Table::default().with_value("a", 1, "\"1\"");
        let before = table.rows.clone();
        Drive::begin(&table, &flow).run(&mut table).divergence();
        assert_eq!(table.rows, before);
    }
}

/// Until the workflow is quiet, it may still ask for what is recorded.
#[test]
fn a_workflow_that_wakes_itself_for_long_is_quiet_before_it_is_judged() {
    let flow = flow!(|ctx| {
        let recorded = async {
            let mut left = 25_000;
            futures::future::poll_fn(|cx| {
                left -= 1;
                cx.waker().wake_by_ref();
                if left == 0 { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
            })
            .await;
            ctx.step("a", || ctx.state().body("a")).await
        };
        let (new, recorded) = futures::join!(ctx.step("b", || ctx.state().body("b")), recorded);
        Ok(recorded? + &new?)
    });
    let mut table = Table::default().with_value("a", 1, "\"1\"");
    assert_eq!(Drive::begin(&table, &flow).run(&mut table).value(), "1<b>");
}

#[test]
fn what_diverging_code_publishes_is_not_written() {
    let flow = flow!(|ctx| {
        ctx.publish("progress", &7)?;
        ctx.step("a-2", || ctx.state().body("a-2")).await
    });
    let mut table = Table::default().with_value("a", 1, "\"1\"");
    Drive::begin(&table, &flow).run(&mut table).divergence();
    assert_eq!(table.rows.len(), 1);
}

#[test]
fn after_a_divergence_no_body_begins() {
    let table = Table::default().with_value("sleep", 1, "1");
    let flow = flow!(|ctx| {
        let step = ctx.step("a", || ctx.state().body("a"));
        let (_, value) = futures::join!(ctx.sleep(std::time::Duration::from_secs(1)), step);
        value
    });
    let mut drive = Drive::begin(&table, &flow);
    drive.advance().divergence();
    assert_eq!(drive.world.notes(), [""; 0]);
}
