//! Does the same work for many items: a few at a time, each with a scope and a time limit of its
//! own.
//!
//! `cargo run --example fan_out`

use std::time::Duration;

use workflow_sdk::prelude::*;
use workflow_worker::Worker;

#[workflow]
async fn index_site(ctx: &Ctx, pages: Vec<String>) -> Result<String> {
    // Works on four pages at a time. `url` borrows from `pages`; the results have the order of
    // `pages`.
    let sizes = ctx
        .map(&pages, 4, |ctx, url| async move {
            let text = ctx.timeout(Duration::from_secs(60), ctx.step("fetch", || fetch(url))).await?;
            ctx.step("store", || store(url, text.len())).await
        })
        .name("pages")
        .collect_results()
        .await?;
    let missing: Vec<_> = pages.iter().zip(&sizes).filter(|(_, size)| size.is_err()).map(|(page, _)| page).collect();
    let total: usize = sizes.iter().flatten().sum();
    Ok(format!("{} pages of {total} bytes, {missing:?} missing", pages.len() - missing.len()))
}

/// Stands for a slow service that does not have every page.
async fn fetch(url: &str) -> Result<String> {
    tokio::time::sleep(Duration::from_millis(50)).await;
    if url.ends_with('7') { Err(Error::fatal(format!("{url}: not found"))) } else { Ok(format!("<p>{url}</p>")) }
}

async fn store(url: &str, size: usize) -> Result<usize> {
    println!("  {url}: {size} bytes");
    Ok(size)
}

#[tokio::main]
async fn main() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let client = Client::connect(format!("sqlite://{}/fan_out.db", directory.path().display())).await?;

    let pages: Vec<_> = (0..20).map(|number| format!("/page-{number}")).collect();
    let run = client.start(index_site, pages).await?;
    let worker = Worker::new(client, ()).register(index_site);
    worker.run_until(async { _ = run.result().await }).await?;
    println!("{}", run.result().await?);

    let history = run.history().await?;
    println!("the first keys of its history:");
    history.iter().take(4).for_each(|row| println!("  {}", row.step_key));
    let running_at = |at| {
        let fetches = history.iter().filter(|row| row.step_key.ends_with("/fetch"));
        fetches.filter(|row| row.started_at <= at && row.completed_at.is_none_or(|end| at < end)).count()
    };
    let most = history.iter().map(|row| running_at(row.started_at)).max();
    if most == Some(4) { Ok(()) } else { Err(Error::msg(format!("expected at most 4 fetches at once, got {most:?}"))) }
}
