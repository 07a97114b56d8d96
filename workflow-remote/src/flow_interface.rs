//! Deployed flows, by requests. Their types belong to `workflow-flows`, on which this crate does
//! not depend, so the caller names the types of bodies and answers.

use serde::Serialize;
use serde::de::DeserializeOwned;
use workflow_sdk::operate::{Done, OperateError};

use crate::Remote;
use crate::request::Target;

/// Requests to a server that has flows: `workflow_http::router_with_flows`, or `workflow serve
/// --flows`. Any other server answers each with
/// [`NotFound`](workflow_sdk::operate::OperateErrorCode::NotFound).
impl Remote {
    /// Lists the newest version of each flow, in the order of their names. `T` reads a
    /// `workflow_flows::FlowSummary`.
    ///
    /// ```no_run
    /// // no_run: it asks a server.
    /// use workflow_remote::Remote;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let remote = Remote::new("https://orders.example/workflows")?;
    /// for flow in remote.flows::<serde_json::Value>().await? {
    ///     println!("{} {}", flow["name"], flow["version"]);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The problem of the server, or
    /// [`Unavailable`](workflow_sdk::operate::OperateErrorCode::Unavailable) if it cannot be
    /// reached.
    pub async fn flows<T: DeserializeOwned>(&self) -> Result<Vec<T>, OperateError> {
        self.get(Target::new(["flows"])).await
    }

    /// Lists the versions of a flow, the newest first. `T` reads a `workflow_flows::FlowSummary`.
    ///
    /// # Errors
    /// [`NotFound`](workflow_sdk::operate::OperateErrorCode::NotFound) if there is no such flow,
    /// and those of [`flows`](Self::flows).
    pub async fn flow_versions<T: DeserializeOwned>(&self, name: &str) -> Result<Vec<T>, OperateError> {
        self.get(Target::new(["flows", name, "versions"])).await
    }

    /// Checks a document, given as a `workflow_flows::FlowDocument`. `connect` also asks its tools,
    /// on behalf of the actor of the request. `T` reads a `workflow_flows::CheckedFlow`. Faults of
    /// the document are findings of the answer.
    ///
    /// # Errors
    /// [`Forbidden`](workflow_sdk::operate::OperateErrorCode::Forbidden) if the actor may not ask
    /// tools, [`BadInput`](workflow_sdk::operate::OperateErrorCode::BadInput) if the server has
    /// none, and those of [`flows`](Self::flows).
    pub async fn check_flow<T: DeserializeOwned>(
        &self,
        document: &impl Serialize,
        connect: bool,
    ) -> Result<T, OperateError> {
        let target = Target::new(["flows:check"]).with("connect", connect.then_some(true));
        self.ask(target, text(document)?).await
    }

    /// Deploys a version of the flow of this name, on behalf of the actor of the request. `version`
    /// has a `document`, and may have a `dialect` and a `version`. `T` reads a
    /// `workflow_flows::DeployedFlow`.
    ///
    /// # Errors
    /// [`Forbidden`](workflow_sdk::operate::OperateErrorCode::Forbidden) if the actor may not
    /// deploy, [`Conflict`](workflow_sdk::operate::OperateErrorCode::Conflict) if the version has
    /// another body, [`BadInput`](workflow_sdk::operate::OperateErrorCode::BadInput) for a document
    /// with faults or a refused name, and those of [`flows`](Self::flows).
    ///
    /// # Cancel safety
    /// If the future is dropped, the flow may or may not be deployed. Deploying it again is safe.
    pub async fn deploy_flow<T: DeserializeOwned>(
        &self,
        name: &str,
        version: &impl Serialize,
    ) -> Result<T, OperateError> {
        self.put(Target::new(["flows", name]), text(version)?).await
    }

    /// Starts a run of a deployed flow. It acts for the actor of the request. `start` has a `flow`,
    /// and may have a `version`, `input`, `key`, `queue`, `priority`, `at`, `delay_ms` and `tags`.
    ///
    /// # Errors
    /// [`NotFound`](workflow_sdk::operate::OperateErrorCode::NotFound) if there is no such flow or
    /// version, [`Forbidden`](workflow_sdk::operate::OperateErrorCode::Forbidden) if the actor may
    /// not start runs, [`BadInput`](workflow_sdk::operate::OperateErrorCode::BadInput) for an input
    /// that does not fit the flow, and those of [`flows`](Self::flows).
    ///
    /// # Cancel safety
    /// If the future is dropped, the run may or may not be started. With a key, starting it again
    /// is safe.
    pub async fn start_flow(&self, start: &impl Serialize) -> Result<Done, OperateError> {
        self.post(Target::new(["flows:run"]), text(start)?).await
    }
}

/// Returns the JSON of a body.
fn text(body: &impl Serialize) -> Result<String, OperateError> {
    serde_json::to_string(body).map_err(|error| crate::refused(error.to_string(), "send what JSON can hold"))
}
