//! Open tabs of the dashboard beside a load of short runs. The pages, the worker, the load and the
//! tabs share this process, so its memory contains all of them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use workflow_dashboard::Access;
use workflow_sdk::Client;
use workflow_worker::Worker;

use crate::BoxResult;
use crate::database::Location;
use crate::process::resident_mb;
use crate::report::{Report, Target};
use crate::worker::LocalWorker;
use crate::workflows::{STEP_BYTES, one_step};

/// Number of runs of the load that are under way at once.
const IN_FLIGHT: u32 = 64;

/// The longest load before the first measurement.
const WARM_UP: Duration = Duration::from_secs(3);

#[derive(Clone, Copy, Debug, clap::Args)]
pub(super) struct Tabs {
    /// Number of tabs that are open beside a load of short runs. With 0 they are not measured.
    #[arg(long, default_value_t = 0)]
    tabs: u32,
    /// For how long the load is measured without the tabs, and then as long with them, in seconds.
    #[arg(long, default_value_t = 10.0)]
    tab_seconds: f64,
    /// Number of rounds. Each measures the load without the tabs and with them, in turn.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..))]
    tab_rounds: u32,
}

/// Measures the load with and without the tabs, in a database of its own.
pub(super) async fn measure(report: &mut Report, location: &Location, tabs: Tabs) -> BoxResult<()> {
    if tabs.tabs == 0 {
        return Ok(());
    }
    let lasts = Duration::try_from_secs_f64(tabs.tab_seconds)?;
    let database = location.fresh();
    let client = database.client().await?;
    let worker = LocalWorker::start(Worker::new(client.clone(), ()).register(one_step).concurrency(IN_FLIGHT));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let pages = workflow_dashboard::router(client.clone(), Access::local());
    let served = pages.into_make_service_with_connect_info::<SocketAddr>();
    let server = tokio::spawn(async move { axum::serve(listener, served).await });

    work(&client, lasts.min(WARM_UP)).await?;
    let (mut alone, mut beside, mut looks, mut growth) = (0_u64, 0_u64, 0_u64, f64::MIN);
    for _ in 0..tabs.tab_rounds {
        alone += work(&client, lasts).await?;
        let before = resident_mb(std::process::id())?;
        let open = OpenTabs::open(address, tabs.tabs);
        beside += work(&client, lasts).await?;
        // The growth of the tables and of the caches between the two counts as the tabs' own.
        growth = growth.max(resident_mb(std::process::id())? - before);
        looks += open.close()?;
    }
    let measured = tabs.tab_seconds * f64::from(tabs.tab_rounds);
    report.figure("short runs, no tab", alone as f64 / measured, "runs/s");
    report.figure(format!("short runs, {} tabs", tabs.tabs), beside as f64 / measured, "runs/s");
    report.figure("contents that the tabs asked for", looks as f64 / measured, "1/s");
    report.judged("runs with tabs / without", beside as f64 / alone as f64, "", Target::AtLeast(0.97));
    report.judged("memory of the tabs", growth, "MB", Target::AtMost(30.0));

    server.abort();
    // The task ends by the abort. Its end drops the router, and with it a client.
    drop(server.await);
    worker.stop().await?;
    drop(client);
    database.remove().await
}

/// Starts one run after the other, [`IN_FLIGHT`] at once. Returns how many of them have ended.
async fn work(client: &Client, lasts: Duration) -> BoxResult<u64> {
    let begun = Instant::now();
    let mut tasks = JoinSet::new();
    for _ in 0..IN_FLIGHT {
        tasks.spawn(run_for(client.clone(), begun, lasts));
    }
    let mut ended = 0;
    while let Some(task) = tasks.join_next().await {
        ended += task??;
    }
    Ok(ended)
}

async fn run_for(client: Client, begun: Instant, lasts: Duration) -> BoxResult<u64> {
    let mut ended = 0;
    while begun.elapsed() < lasts {
        let total = client.start(one_step, ended).await?.result().await?;
        if total != ended + STEP_BYTES {
            return Err(format!("the run with seed {ended} returned {total}").into());
        }
        ended += 1;
    }
    Ok(ended)
}

/// The open tabs. Dropping this value closes their connections.
#[derive(Debug)]
struct OpenTabs {
    tabs: JoinSet<BoxResult<()>>,
    /// How often a tab has got its content.
    looks: Arc<AtomicU64>,
}

impl OpenTabs {
    /// Opens tabs that show the list of runs, and as many that show the overview.
    fn open(address: SocketAddr, number: u32) -> Self {
        let (mut tabs, looks) = (JoinSet::new(), Arc::new(AtomicU64::new(0)));
        for tab in 0..number {
            let (page, changes) = if tab.is_multiple_of(2) { ("/runs", "/changes?q=") } else { ("/", "/changes") };
            tabs.spawn(keep_fresh(address, page, changes, Arc::clone(&looks)));
        }
        Self { tabs, looks }
    }

    /// Closes the tabs. Returns how often they got their contents.
    ///
    /// # Errors
    /// The error of a tab that has ended before, or a message if fewer contents came than tabs were
    /// open.
    fn close(mut self) -> BoxResult<u64> {
        if let Some(ended) = self.tabs.try_join_next() {
            ended??;
        }
        let looks = self.looks.load(Ordering::Relaxed);
        if looks < self.tabs.len() as u64 {
            return Err(format!("{} tabs got {looks} contents: measure for more seconds", self.tabs.len()).into());
        }
        Ok(looks)
    }
}

/// Does what the script of a page does: asks for the content when the stream tells of a change. All
/// changes that are told meanwhile lead to one request.
async fn keep_fresh(
    address: SocketAddr,
    page: &'static str,
    changes: &'static str,
    looks: Arc<AtomicU64>,
) -> BoxResult<()> {
    let changed = Notify::new();
    tokio::select! {
        ended = listen(address, changes, &changed) => ended,
        ended = look(address, page, &changed, &looks) => ended,
    }
}

/// Reads the stream of changes, and opens it again when it ends.
async fn listen(address: SocketAddr, changes: &str, changed: &Notify) -> BoxResult<()> {
    loop {
        let mut stream = TcpStream::connect(address).await?;
        let request = format!("GET {changes} HTTP/1.1\r\nHost: {address}\r\nAccept: text/event-stream\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut lines = BufReader::new(stream).lines();
        let status = lines.next_line().await?.unwrap_or_default();
        if !status.contains(" 200 ") {
            return Err(format!("{changes} answered with {status}").into());
        }
        changed.notify_one();
        while let Some(line) = lines.next_line().await? {
            if line.starts_with("event:") {
                changed.notify_one();
            }
        }
    }
}

/// Asks for the content after each change, over one connection.
async fn look(address: SocketAddr, page: &str, changed: &Notify, looks: &AtomicU64) -> BoxResult<()> {
    let mut stream = BufReader::new(TcpStream::connect(address).await?);
    let mut tag = String::new();
    loop {
        changed.notified().await;
        let known = if tag.is_empty() { String::new() } else { format!("x-workflow-tag: {tag}\r\n") };
        let request = format!("GET {page} HTTP/1.1\r\nHost: {address}\r\nx-workflow-part: main\r\n{known}\r\n");
        stream.get_mut().write_all(request.as_bytes()).await?;
        if let Some(fresh) = read_content(&mut stream, page).await? {
            tag = fresh;
        }
        looks.fetch_add(1, Ordering::Relaxed);
    }
}

/// Reads an answer. Returns the tag of its content, or `None` if the content is the known one.
async fn read_content(stream: &mut BufReader<TcpStream>, page: &str) -> BoxResult<Option<String>> {
    let mut status = String::new();
    stream.read_line(&mut status).await?;
    let (mut length, mut tag) = (None, String::new());
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await? == 0 {
            return Err(format!("{page}: the connection ended within the answer").into());
        }
        match line.trim_end().split_once(": ") {
            None if line.trim_end().is_empty() => break,
            Some(("content-length", value)) => length = Some(value.parse::<usize>()?),
            Some(("x-workflow-tag", value)) => value.clone_into(&mut tag),
            _ => {}
        }
    }
    if status.contains(" 304 ") {
        return Ok(None);
    }
    let length = length.filter(|_| status.contains(" 200 "));
    let mut content = vec![0; length.ok_or_else(|| format!("{page} answered with {}", status.trim_end()))?];
    stream.read_exact(&mut content).await?;
    Ok(Some(tag))
}
