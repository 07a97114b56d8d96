//! Secrets of flows that stand in the environment of the process.

use async_trait::async_trait;
use workflow_flows::token::Tokens;
use workflow_flows::{Flows, Secrets, ToolError};

use crate::Failure;

/// The variable that holds the secret of the tokens of gates.
const GATE_SECRET: &str = "WORKFLOW_GATE_SECRET";

/// Gives flows the secrets of the environment.
pub(crate) fn with_environment(flows: Flows) -> Result<Flows, Failure> {
    let flows = flows.secrets(Environment);
    match std::env::var(GATE_SECRET) {
        Ok(secret) if !secret.is_empty() => {
            let tokens = Tokens::new(secret);
            let tokens = tokens.map_err(|error| Failure::usage(format!("{GATE_SECRET}: {error}"), "or unset it"))?;
            Ok(flows.tokens(tokens))
        }
        _ => Ok(flows),
    }
}

/// The secrets of webhooks, equal for all accounts: the variable of `hook` is
/// `WORKFLOW_SECRET_HOOK`.
struct Environment;

#[async_trait]
impl Secrets for Environment {
    async fn get(&self, _actor: &str, name: &str) -> Result<Option<String>, ToolError> {
        let variable = name.to_ascii_uppercase().replace('-', "_");
        Ok(std::env::var(format!("WORKFLOW_SECRET_{variable}")).ok())
    }
}
