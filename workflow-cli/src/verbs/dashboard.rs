use std::net::SocketAddr;
use std::sync::Arc;

use workflow_dashboard::{Access, shared_router, shared_router_with_flows};
use workflow_flows::Flows;
use workflow_sdk::operate::Operate;

use crate::arguments::Dashboard;
use crate::output::Output;
use crate::{Exit, Failure};

/// Serves the pages until the process is interrupted. Without flows, the page of the deployed flows
/// says that there are none.
pub(super) async fn serve(
    operate: Arc<dyn Operate>,
    flows: Option<Flows>,
    output: &Output,
    dashboard: Dashboard,
) -> Result<Exit, Failure> {
    let access = if dashboard.read_only { Access::local().read_only() } else { Access::local() };
    let refused = |error: std::io::Error| {
        Failure::new(Exit::Error, format!("cannot listen on {}: {error}", dashboard.listen))
            .help("choose another port: --listen 127.0.0.1:7778")
    };
    let listener = tokio::net::TcpListener::bind(dashboard.listen).await.map_err(refused)?;
    let address = listener.local_addr().map_err(refused)?;
    output.note(format!("the dashboard is at http://{address}/ until Ctrl-C"));
    let pages = match flows {
        Some(flows) => shared_router_with_flows(operate, access, flows),
        None => shared_router(operate, access),
    };
    axum::serve(listener, pages.into_make_service_with_connect_info::<SocketAddr>()).await.map_err(refused)?;
    Ok(Exit::Ok)
}
