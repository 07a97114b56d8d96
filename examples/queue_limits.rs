//! Limits how many runs of a queue are under way over all workers, lets one overtake the others,
//! and pauses the queue.
//!
//! `cargo run --example queue_limits`

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use workflow_sdk::prelude::*;
use workflow_sdk::{Priority, QueueLimits};
use workflow_worker::{Queue, Worker};

/// A mail server, which counts its connections.
#[derive(Default)]
struct MailServer {
    connections: AtomicU32,
    most: AtomicU32,
}

impl MailServer {
    async fn deliver(&self, address: &str) -> Result<String> {
        self.most.fetch_max(self.connections.fetch_add(1, Relaxed) + 1, Relaxed);
        tokio::task::yield_now().await;
        self.connections.fetch_sub(1, Relaxed);
        Ok(address.to_owned())
    }
}

#[workflow]
async fn send(ctx: &Ctx<Arc<MailServer>>, address: String) -> Result<String> {
    ctx.step("deliver", || ctx.state().deliver(&address)).await
}

#[tokio::main]
async fn main() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let client = Client::connect(format!("sqlite://{}/mail.db", directory.path().display())).await?;
    let server = Arc::new(MailServer::default());
    // Two workers, which might as well be on two machines, and at most two runs of the queue.
    let mail = || Queue::new("mail").concurrency(2);
    let worker = || Worker::new(client.clone(), Arc::clone(&server)).register(send).queue(mail());

    let queue = client.queue("mail");
    queue.pause("the letters are written first").await?;
    let mut letters = Vec::new();
    for number in 0..20 {
        letters.push(client.start(send, format!("reader-{number}@example.org")).queue("mail").await?);
    }
    let reset = client.start(send, "ada@example.org".into()).queue("mail").priority(Priority::Urgent).await?;
    if let Some(pause) = queue.record().await?.and_then(|record| record.pause) {
        println!("the queue is paused: {}", pause.reason);
    }

    let operate = async {
        queue.resume().await?;
        reset.result().await?;
        // An operator lets only one go on from now on, without a deployment.
        queue.set_limits(QueueLimits::none().concurrency(1)).await?;
        for letter in letters {
            letter.result().await?;
        }
        queue.clear_limits().await
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
    // One or two, depending on the machine, and never more.
    let most = server.most.load(Relaxed);
    if most > 2 {
        return Err(Error::msg(format!("{most} connections were open at once")));
    }
    println!("21 letters were sent, and no more than 2 connections were open at once");
    Ok(())
}
