mod tabs;

use std::net::SocketAddr;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::{Request, StatusCode, header};
use tower::ServiceExt;
use workflow_dashboard::Access;

use crate::database::Location;
use crate::operate::{judge, measure};
use crate::report::{Report, Target};
use crate::system::{self, RARE_TAG, Size};
use crate::{BoxResult, Common};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    size: Size,
    /// Number of measured requests of each page.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    requests: u32,
    #[command(flatten)]
    tabs: tabs::Tabs,
}

/// The largest page that is accepted, in bytes. Pages are much smaller.
const LARGEST: usize = 8 * 1024 * 1024;

pub(crate) async fn run(args: Args) -> BoxResult<()> {
    let location = Location::parse(args.common.database.as_deref())?;
    let report = Report::new("dashboard", location.kind()).setting("requests", args.requests);
    let (database, long, mut report) = system::create(&location, args.size, report).await?;
    let client = database.client().await?;
    let pages = workflow_dashboard::router(client.clone(), Access::local());
    let run = format!("/runs/{long}");
    // The targets are milliseconds at the 95th percentile.
    for (name, path, target) in [
        ("overview", "/", 60.0),
        ("runs", "/runs", 50.0),
        ("runs, status and workflow", "/runs?q=status:failed%20workflow:checkout", 50.0),
        ("runs, rare tag", &format!("/runs?q={RARE_TAG}"), 50.0),
        ("longest run", &run, 200.0),
        ("longest run, history", &format!("{run}?tab=history"), 200.0),
        ("failures", "/failures", 60.0),
        ("approvals", "/approvals", 30.0),
        ("workflows", "/workflows", 60.0),
        ("workflow", "/workflows/checkout", 60.0),
        ("queues", "/queues", 60.0),
        ("queue", "/queues/mail", 60.0),
        ("schedules", "/schedules", 30.0),
        ("workers", "/workers", 30.0),
        ("bulk", "/bulk", 30.0),
        ("audit", "/audit", 30.0),
        ("system", "/system", 100.0),
    ] {
        let samples = measure(args.requests, async || get(&pages, path).await).await?;
        judge(&mut report, name, &samples, Target::AtMost(target));
    }
    drop((pages, client));
    database.remove().await?;
    tabs::measure(&mut report, &location, args.tabs).await?;
    report.print(args.common.json);
    Ok(())
}

/// Requests a page as a browser on this machine does.
async fn get(pages: &Router, path: &str) -> BoxResult<()> {
    let peer = SocketAddr::from(([127, 0, 0, 1], 50_000));
    let request = Request::get(path).header(header::HOST, "127.0.0.1").extension(ConnectInfo(peer));
    let answer = pages.clone().oneshot(request.body(Body::empty())?).await?;
    let status = answer.status();
    let page = axum::body::to_bytes(answer.into_body(), LARGEST).await?;
    match status {
        StatusCode::OK if !page.is_empty() => Ok(()),
        _ => Err(format!("{path} answered with {status}: {}", String::from_utf8_lossy(&page)).into()),
    }
}
