//! Foreign wakes: a workflow is woken by something that is not a call of its context.

use std::sync::Mutex;
use std::time::Duration;

use futures::StreamExt;
use futures::future::{Either, select};
use futures::stream::FuturesUnordered;
use tokio::sync::oneshot;
use workflow_engine::runtime::RunCell;
use workflow_sdk::{Ctx, Error, Result, Retry};

use crate::harness::{Drive, Flow, Table, World, flow, flow_of};

/// Returns a workflow that awaits a channel, and the sender of the channel.
fn awaits_a_channel() -> (Flow, oneshot::Sender<String>) {
    let (sender, receiver) = oneshot::channel::<String>();
    let receiver = Mutex::new(Some(receiver));
    let flow = flow_of(move |_ctx| {
        let receiver = receiver.lock().unwrap().take().unwrap();
        Box::pin(async move { Ok(receiver.await.unwrap()) })
    });
    (flow, sender)
}

#[test]
fn a_wake_by_a_channel_is_foreign_and_the_workflow_continues() {
    let (flow, sender) = awaits_a_channel();
    let mut table = Table::default();
    let mut drive = Drive::begin(&table, &flow);
    drive.quiesce(&mut table);
    assert!(!drive.poller().take_foreign_wake());
    sender.send("heard".into()).unwrap();
    assert_eq!(drive.quiesce(&mut table).value(), "heard");
    assert_eq!(drive.foreign_wakes, 1);
}

/// The drive may advance for other reasons before it reads the wakes.
#[test]
fn a_foreign_wake_is_not_lost_when_the_drive_wakes_calls_before_it_looks() {
    let (flow, sender) = awaits_a_channel();
    let mut table = Table::default();
    let mut drive = Drive::begin(&table, &flow);
    drive.quiesce(&mut table);
    sender.send("heard".into()).unwrap();
    drive.hold(true);
    drive.hold(false);
    drive.waking(RunCell::next);
    assert_eq!(drive.quiesce(&mut table).value(), "heard");
    assert_eq!(drive.foreign_wakes, 1);
}

#[test]
fn a_foreign_wake_from_another_thread_while_the_drive_wakes_calls_is_not_lost() {
    let (flow, sender) = awaits_a_channel();
    let mut table = Table::default();
    let mut drive = Drive::begin(&table, &flow);
    drive.quiesce(&mut table);
    drive.waking(|_| std::thread::spawn(|| sender.send("heard".into())).join().unwrap()).unwrap();
    assert_eq!(drive.quiesce(&mut table).value(), "heard");
    assert_eq!(drive.foreign_wakes, 1);
}

#[test]
fn a_foreign_wake_while_the_workflow_is_polled_is_seen_too() {
    let flow = flow!(|ctx| {
        let mut waited = false;
        futures::future::poll_fn(|cx| {
            if std::mem::replace(&mut waited, true) {
                return std::task::Poll::Ready(());
            }
            let waker = cx.waker().clone();
            std::thread::spawn(|| waker.wake()).join().unwrap();
            std::task::Poll::Pending
        })
        .await;
        ctx.step("a", || ctx.state().body("a")).await
    });
    let mut table = Table::default();
    let mut drive = Drive::begin(&table, &flow);
    assert_eq!(drive.quiesce(&mut table).value(), "<a>");
    assert_eq!(drive.foreign_wakes, 1);
}

#[test]
fn bodies_deliveries_timers_and_sets_that_wake_themselves_are_not_foreign() {
    let flow = flow!(|ctx| {
        let steps = (0..100).map(|number| {
            let body = move || async move {
                // The body wakes itself, and then waits for the test.
                let mut yielded = false;
                futures::future::poll_fn(|cx| {
                    if std::mem::replace(&mut yielded, true) {
                        return std::task::Poll::Ready(());
                    }
                    cx.waker().wake_by_ref();
                    std::task::Poll::Pending
                })
                .await;
                ctx.state().pass(format!("{number:02}")).await;
                if ctx.attempt() == 1 { Err(Error::msg("no")) } else { Ok(()) }
            };
            ctx.step("page", body).retry(Retry::fixed(Duration::from_secs(1)))
        });
        let mut done = steps.collect::<FuturesUnordered<_>>();
        while let Some(result) = done.next().await {
            result?;
        }
        ctx.sleep(Duration::from_secs(60)).await?;
        Ok("done".into())
    });
    let mut table = Table::default();
    let mut drive = Drive::begin(&table, &flow);
    for _attempt in 0..2 {
        drive.quiesce(&mut table);
        for label in drive.world.closed() {
            drive.open(&label, &mut table);
            assert!(!drive.poller().take_foreign_wake());
        }
        drive.set_now(crate::harness::START + Duration::from_secs(1));
    }
    assert_eq!(drive.run(&mut table).value(), "done");
    assert_eq!(drive.foreign_wakes, 0);
}

/// A replay would not run the body again, so the workflow would wait forever.
#[test]
fn a_wake_by_a_body_that_bypasses_its_outcome_is_foreign() {
    let flow = flow!(|ctx| {
        let (sender, receiver) = oneshot::channel();
        let sender = Mutex::new(Some(sender));
        let body = async || {
            sender.lock().unwrap().take().unwrap().send("sent by the body").unwrap();
            ctx.state().gated("a").await
        };
        match select(receiver, ctx.step("a", body)).await {
            Either::Left((told, _)) => Ok(told?.to_owned()),
            Either::Right(_) => Ok("returned by the step".into()),
        }
    });
    let mut table = Table::default();
    let mut drive = Drive::begin(&table, &flow);
    assert_eq!(drive.quiesce(&mut table).value(), "sent by the body");
    assert_eq!(drive.foreign_wakes, 1);
}

/// A poll of such a workflow stops after a number of turns. The workflow must then be polled again,
/// because nothing else wakes it.
#[test]
fn a_workflow_that_keeps_waking_itself_is_polled_again() {
    let flow = flow!(|ctx| {
        let mut left = 25_000;
        futures::future::poll_fn(|cx| {
            left -= 1;
            if left == 0 {
                return std::task::Poll::Ready(());
            }
            cx.waker().wake_by_ref();
            std::task::Poll::Pending
        })
        .await;
        ctx.step("a", || ctx.state().body("a")).await
    });
    let mut table = Table::default();
    let mut drive = Drive::begin(&table, &flow);
    assert_eq!(drive.quiesce(&mut table).value(), "<a>");
    assert!(drive.foreign_wakes > 0, "the workflow must not block its thread unnoticed");
}
