//! Limits how many calls of a model run at once per account, over all workers and workflows.
//!
//! `cargo run --example step_limits`

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use workflow_sdk::LimitRule;
use workflow_sdk::prelude::*;
use workflow_worker::{Limit, Worker};

/// A language model, which counts the calls of each account: how many run now, and at most.
#[derive(Default)]
struct Model(Mutex<HashMap<String, (u32, u32)>>);

impl Model {
    async fn answer(&self, account: &str, question: u32) -> Result<u32> {
        self.count(account, |(now, most)| {
            *now += 1;
            *most = (*most).max(*now);
        });
        tokio::task::yield_now().await;
        self.count(account, |(now, _)| *now -= 1);
        Ok(question + 1)
    }

    fn count<T>(&self, account: &str, change: impl FnOnce(&mut (u32, u32)) -> T) -> T {
        let mut calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        change(calls.entry(account.to_owned()).or_default())
    }
}

#[workflow]
async fn research(ctx: &Ctx<Arc<Model>>, (account, topic): (String, u32)) -> Result<u32> {
    let model = ctx.state();
    let outline = ctx.step("outline", || model.answer(&account, topic)).limit("llm", &account).await?;
    ctx.step("write", || model.answer(&account, outline)).limit("llm", &account).await
}

#[tokio::main]
async fn main() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let client = Client::connect(format!("sqlite://{}/research.db", directory.path().display())).await?;
    let model = Arc::new(Model::default());
    // Two workers, which might as well be on two machines, and at most two calls per account.
    let limit = || Limit::new("llm").concurrency(2);
    let worker = || Worker::new(client.clone(), Arc::clone(&model)).register(research).limit(limit());

    let operate = async {
        let mut texts = Vec::new();
        for topic in 0..20 {
            let account = if topic % 2 == 0 { "acct-1" } else { "acct-2" };
            texts.push(client.start(research, (account.to_owned(), topic)).await?);
        }
        for text in &texts[..10] {
            text.result().await?;
        }
        // An operator lets only one call per account go on from now on, without a deployment.
        client.limit("llm").set(LimitRule::none().concurrency(1)).await?;
        for text in &texts[10..] {
            text.result().await?;
        }
        client.limit("llm").clear().await
    };
    let (done, operated) = tokio::sync::oneshot::channel::<()>();
    let second = worker().run_until(async { drop(operated.await) });
    let mut outcome = Ok(());
    let first = worker().run_until(async {
        outcome = operate.await;
        drop(done);
    });
    let (first, second) = futures::join!(first, second);
    first.and(second)?;
    outcome?;
    for account in ["acct-1", "acct-2"] {
        let most = model.count(account, |(_, most)| *most);
        if most > 2 {
            return Err(Error::msg(format!("{most} calls of {account} ran at once")));
        }
    }
    println!("20 texts were written, and no more than 2 calls per account ran at once");
    Ok(())
}
