use workflow_sdk::operate::{OperateError, OperateErrorCode};

use super::Flows;
use super::schedule::set_schedules;
use crate::DeployedFlow;
use crate::client::{check_limits, declare_limits};
use crate::graph::{Flow, Trigger};
use crate::store::Deployed;

impl Flows {
    /// Deploys a flow that was checked, in the name of an account. Declares the limits of its steps
    /// as [`set_limits`](crate::FlowClient::set_limits) does, and makes its triggers of the clock
    /// schedules, in place of those of former versions. If the newest version, or the one of this
    /// name, has this body, no version is added; limits and schedules are then those of the newest
    /// version.
    ///
    /// # Errors
    /// [`Conflict`](OperateErrorCode::Conflict) if the version has another body (F310), or another
    /// flow has a webhook with a path of this one, [`BadInput`](OperateErrorCode::BadInput) for a
    /// limit or a name of a version that is refused, or a failure of the database.
    ///
    /// # Cancel safety
    /// If the future is dropped, the flow may or may not be deployed. Deploying it again is safe.
    pub async fn deploy(&self, flow: &Flow, by: &str, version: Option<&str>) -> Result<DeployedFlow, OperateError> {
        check_version(version)?;
        check_limits(flow)?;
        self.refuse_taken_paths(flow).await?;
        let deployed: Deployed = self.store.deploy(flow, by, version).await?;
        self.follow_newest(&flow.name).await?;
        Ok(DeployedFlow::from(&deployed))
    }

    /// Makes the limits and the schedules those of the newest version, until no other deploy has
    /// added one meanwhile.
    async fn follow_newest(&self, name: &str) -> Result<(), OperateError> {
        loop {
            let newest = self.find(name, None).await?;
            declare_limits(&self.client, &newest.definition).await?;
            set_schedules(&self.client, &newest).await?;
            if self.find(name, None).await?.number == newest.number {
                return Ok(());
            }
        }
    }

    /// Refuses a webhook whose path another flow has: a request could mean either.
    async fn refuse_taken_paths(&self, flow: &Flow) -> Result<(), OperateError> {
        let paths: Vec<&str> = webhooks(flow).collect();
        if paths.is_empty() {
            return Ok(());
        }
        for other in self.newest.with_triggers(&self.store).await? {
            let taken = webhooks(&other.definition).find(|path| paths.contains(path));
            if let Some(path) = taken.filter(|_| other.name != flow.name) {
                let message = format!("the flow {:?} has the webhook {path:?}", other.name);
                return Err(OperateError::new(OperateErrorCode::Conflict, message, "use another path"));
            }
        }
        Ok(())
    }
}

/// Returns the paths of the webhooks of a flow.
fn webhooks(flow: &Flow) -> impl Iterator<Item = &str> {
    flow.triggers.iter().filter_map(|trigger| match trigger {
        Trigger::Webhook { path, .. } => Some(path.as_str()),
        _ => None,
    })
}

/// The longest name of a version, in bytes.
const LONGEST_VERSION: usize = 128;

/// Refuses names of versions that no path or command line can name.
fn check_version(version: Option<&str>) -> Result<(), OperateError> {
    let Some(version) = version else { return Ok(()) };
    let is_known = |byte: u8| byte.is_ascii_alphanumeric() || b"._+-".contains(&byte);
    if !version.is_empty() && version.len() <= LONGEST_VERSION && version.bytes().all(is_known) {
        return Ok(());
    }
    let message = "the name of a version is refused";
    let help = format!("use 1 to {LONGEST_VERSION} letters, digits and the signs . _ + -, as 1.4.0");
    Err(OperateError::new(OperateErrorCode::BadInput, message, help))
}
