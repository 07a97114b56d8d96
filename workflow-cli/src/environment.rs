//! Secrets of flows that stand in the environment of the process.

use async_trait::async_trait;
use workflow_flows::token::Tokens;
use workflow_flows::{Flows, Secrets, ToolError};
use workflow_sdk::BoxError;

use crate::Failure;

/// The variable that holds the secret of the tokens of gates.
const GATE_SECRET: &str = "WORKFLOW_GATE_SECRET";

/// Gives flows the secrets of the environment.
pub(crate) fn with_environment(flows: Flows) -> Result<Flows, Failure> {
    let flows = flows.secrets(Environment::of_webhooks());
    Ok(match tokens().map_err(|error| Failure::usage(error.to_string(), "or unset it"))? {
        Some(tokens) => flows.tokens(tokens),
        None => flows,
    })
}

/// Returns the tokens of gates, if the environment has their secret.
pub(crate) fn tokens() -> Result<Option<Tokens>, BoxError> {
    let secret = std::env::var(GATE_SECRET).ok().filter(|secret| !secret.is_empty());
    let tokens = secret.map(Tokens::new).transpose();
    tokens.map_err(|error| format!("{GATE_SECRET}: {error}").into())
}

/// Secrets, equal for all accounts. Those of webhooks and of steps have different variables,
/// because each flow may send the latter anywhere, and a webhook acts for its deployer.
pub(crate) struct Environment {
    prefix: &'static str,
}

impl Environment {
    /// The secrets that verify webhooks: the variable of `hook` is `WORKFLOW_SECRET_HOOK`.
    pub(crate) const fn of_webhooks() -> Self {
        Self { prefix: "WORKFLOW_SECRET_" }
    }

    /// The secrets that steps use: the variable of `bank` is `WORKFLOW_FLOW_SECRET_BANK`.
    pub(crate) const fn of_steps() -> Self {
        Self { prefix: "WORKFLOW_FLOW_SECRET_" }
    }
}

#[async_trait]
impl Secrets for Environment {
    async fn get(&self, _actor: &str, name: &str) -> Result<Option<String>, ToolError> {
        let variable = name.to_ascii_uppercase().replace('-', "_");
        Ok(std::env::var(format!("{}{variable}", self.prefix)).ok())
    }
}
