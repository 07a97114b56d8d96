use std::net::SocketAddr;

use clap::{Args, ValueEnum};
use workflow_sdk::operate::Role;

#[derive(Debug, Args)]
#[command(after_help = "Without --http, one agent is served over the standard input and output, as MCP clients start \
                        servers. With --http, requests from this machine are let in, or, if WORKFLOW_HTTP_TOKEN is \
                        set, requests with this bearer token.")]
pub(crate) struct Mcp {
    /// The role of the agent
    #[arg(long, value_enum, default_value_t = ActorRole::Admin, value_name = "ROLE")]
    pub(crate) role: ActorRole,
    /// The name of the agent in the audit log, and the account for which its runs act; default:
    /// the user of this process
    #[arg(long, env = "WORKFLOW_ACTOR", value_name = "NAME")]
    pub(crate) actor: Option<String>,
    /// Show the agent sizes in place of inputs, outputs and errors
    #[arg(long)]
    pub(crate) without_payloads: bool,
    /// Serve streamable HTTP on this address, as 127.0.0.1:7778
    #[arg(long, value_name = "ADDRESS", value_parser = super::parse_address)]
    pub(crate) http: Option<SocketAddr>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ActorRole {
    /// Reads
    Viewer,
    /// Also starts, answers and stops runs
    Operator,
    /// Also deploys flows
    Admin,
}

impl From<ActorRole> for Role {
    fn from(role: ActorRole) -> Self {
        match role {
            ActorRole::Viewer => Self::Viewer,
            ActorRole::Operator => Self::Operator,
            ActorRole::Admin => Self::Admin,
        }
    }
}
