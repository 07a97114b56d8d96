use std::net::SocketAddr;

use axum::Router;
use workflow_http::{Access, Actor};
use workflow_mcp::Mcp;

use super::order;
use crate::arguments::{Author, Mcp as Arguments};
use crate::output::Output;
use crate::target::Target;
use crate::{Exit, Failure};

/// The name of an agent if no other name is known.
const UNNAMED: &str = "agent";

/// Serves agents until their side is closed, or the process is interrupted.
pub(super) async fn serve(target: Target, output: &Output, arguments: Arguments) -> Result<Exit, Failure> {
    let actor = actor(&arguments);
    let Some(address) = arguments.http else {
        let served = interface(target).await?.serve_stdio(actor, &Access::local()).await;
        served.map_err(|error| Failure::new(Exit::Error, error.to_string()))?;
        return Ok(Exit::Ok);
    };
    let access = access(actor)?;
    listen(interface(target).await?, access, address, output).await
}

fn actor(arguments: &Arguments) -> Actor {
    let author = Author { reason: None, actor: arguments.actor.clone() };
    let name = order::actor(&author).unwrap_or_else(|| UNNAMED.to_owned());
    let mut actor = Actor::viewer(name);
    actor.role = arguments.role.into();
    if arguments.without_payloads { actor.without_payloads() } else { actor }
}

async fn interface(target: Target) -> Result<Mcp, Failure> {
    if let Some(remote) = target.server()? {
        return Ok(Mcp::new(remote));
    }
    let (client, flows) = target.flows().await?;
    Ok(Mcp::new(client).flows(flows))
}

/// Returns the access: by the token of the environment, or from this machine only.
fn access(actor: Actor) -> Result<Access, Failure> {
    Ok(match crate::server::token()? {
        Some(token) => Access::token(token, actor),
        None => Access::local_as(actor),
    })
}

async fn listen(mcp: Mcp, access: Access, address: SocketAddr, output: &Output) -> Result<Exit, Failure> {
    let refused = |error: std::io::Error| {
        Failure::new(Exit::Error, format!("cannot listen on {address}: {error}"))
            .help("choose another address: --http 127.0.0.1:7779")
    };
    let listener = tokio::net::TcpListener::bind(address).await.map_err(refused)?;
    let bound = listener.local_addr().map_err(refused)?;
    output.note(format!("MCP is at http://{bound}/mcp until Ctrl-C"));
    let app = Router::new().nest("/mcp", mcp.router(access));
    axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await.map_err(refused)?;
    Ok(Exit::Ok)
}
