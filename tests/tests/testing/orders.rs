//! Tests of `interleave`, which runs concurrent steps in different orders.

use std::sync::Mutex;

use futures::try_join;
use workflow_sdk::prelude::*;
use workflow_testing::{TestEnv, TestError};

use crate::DAY;

#[workflow]
async fn sum(ctx: &Ctx) -> Result<u32> {
    let (one, two, three) = try_join!(
        ctx.step("one", async || Ok::<_, Error>(1)),
        ctx.step("two", async || Ok::<_, Error>(2)),
        ctx.step("three", async || Ok::<_, Error>(3)),
    )?;
    ctx.sleep(DAY).await?;
    Ok(one + two + three)
}

#[tokio::test]
async fn a_sum_does_not_depend_on_the_order() {
    let env = TestEnv::new().register(sum).await.unwrap();
    let seen = env.interleave(sum, (), 0..100).await.unwrap();
    assert_eq!((seen.runs, seen.orders), (100, 6), "three steps have six orders");
}

#[workflow]
async fn first_wins(ctx: &Ctx) -> Result<String> {
    let seen = Mutex::new(Vec::new());
    let note = async |name: &'static str| {
        ctx.step(name, async || Ok::<_, Error>(())).await?;
        seen.lock().unwrap().push(name);
        Ok::<_, Error>(())
    };
    try_join!(note("one"), note("two"))?;
    Ok(seen.into_inner().unwrap().join(", "))
}

#[tokio::test]
async fn a_result_that_depends_on_the_order_is_reported_with_its_seed() {
    let env = TestEnv::new().register(first_wins).await.unwrap();
    let TestError::OrderMatters(report) = env.interleave(first_wins, (), 0..100).await.unwrap_err() else { panic!() };
    println!("{report}");
    assert_eq!((report.usual.join(" "), report.order.join(" ")), ("one two".into(), "two one".into()));
    let again = env.interleave(first_wins, (), [report.seed]).await.unwrap_err();
    assert_eq!(again.to_string(), report.to_string(), "the seed gives the same order again");
    env.interleave(first_wins, (), 0..100).same(|_, _| true).await.unwrap();
}
