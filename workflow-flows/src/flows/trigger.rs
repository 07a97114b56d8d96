//! Runs that webhooks and events start.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use sha2::{Digest, Sha256};
use workflow_sdk::internal::check_name;
use workflow_sdk::operate::{OperateError, OperateErrorCode as Code, StartRun};
use workflow_sdk::{ClientError, NameSubject, RunHandle, RunId};

use super::{Flows, flow_key};
use crate::expression::Scope;
use crate::graph::{MissingPath, Trigger};
use crate::secrets::look_up;
use crate::signature::{SignatureError, TOLERANCE, Webhook, verify_body};
use crate::{FlowStart, FlowVersion, flow};

/// A request to the webhook of a flow. Its `Debug` output shows neither body nor signatures.
#[derive(Clone, Copy, Default)]
pub struct HookRequest<'r> {
    /// The body, byte for byte.
    pub body: &'r [u8],
    /// The header `webhook-id`.
    pub id: Option<&'r str>,
    /// The header `webhook-timestamp`.
    pub timestamp: Option<&'r str>,
    /// The header `webhook-signature`.
    pub signature: Option<&'r str>,
    /// The header `x-hub-signature-256`, which is read if there is no `webhook-signature`.
    pub body_signature: Option<&'r str>,
}

impl std::fmt::Debug for HookRequest<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HookRequest").field("bytes", &self.body.len()).finish_non_exhaustive()
    }
}

/// The outcome of a request to a webhook that is not refused.
#[derive(Debug, Clone, PartialEq)]
pub enum Triggered {
    /// The key of the request has a run. Nothing is to be started.
    Existed(RunId),
    /// This run is to be started. It acts for the account that deployed the flow.
    Start(Box<StartRun>),
}

impl Flows {
    /// Finds the webhook with this path among the newest versions of all flows.
    ///
    /// # Errors
    /// [`NotFound`](Code::NotFound) if there is none, or a failure of the database.
    pub async fn hook(&self, path: &str) -> Result<Hook, OperateError> {
        for version in self.newest.with_triggers(&self.store).await? {
            for trigger in &version.definition.triggers {
                if let Trigger::Webhook { path: found, secret, key } = trigger
                    && found == path
                {
                    let (path, secret, key) = (found.clone(), secret.clone(), key.clone());
                    return Ok(Hook { version, path, secret, key });
                }
            }
        }
        let message = format!("no deployed flow has the webhook {path:?}");
        Err(OperateError::new(Code::NotFound, message, "deploy a flow with this trigger"))
    }

    /// Checks the signature of a request to a webhook over its raw body, and returns the run that
    /// it starts. `now` is in seconds since 1970.
    ///
    /// # Errors
    /// [`Unauthorized`](Code::Unauthorized) if the signature does not fit,
    /// [`BadInput`](Code::BadInput) if the body is not JSON, does not fit the schema of the flow or
    /// gives no key, [`Unavailable`](Code::Unavailable) if this program lacks the secret, or a
    /// failure of the database.
    pub async fn receive(&self, hook: &Hook, request: &HookRequest<'_>, now: u64) -> Result<Triggered, OperateError> {
        if let Some(template) = &hook.secret {
            let secret = self.secret(&hook.version.created_by, template).await?;
            verify(request, &secret, now).map_err(|error| {
                if request.signature.is_some() && is_damaged(&secret) {
                    tracing::warn!(
                        webhook = %hook.path,
                        "the secret of a webhook begins with whsec_, and the rest is not Base64, so no sender of \
                         Standard Webhooks fits: copy the whole secret from the sender"
                    );
                }
                forged(&error)
            })?;
        }
        let body: Value = serde_json::from_slice(request.body).map_err(|error| {
            OperateError::new(Code::BadInput, format!("the body is not JSON: {error}"), "send JSON")
        })?;
        let key = match &hook.key {
            Some(template) => Some(self.key("body", &body, template).await?),
            // The id of a request identifies repetitions only if the request is signed.
            None => request.id.filter(|_| hook.secret.is_some() && request.signature.is_some()).map(ToOwned::to_owned),
        };
        let key = key.map(|key| format!("hook:{}:{key}", hook.path));
        self.start_once(&hook.version, body, key).await
    }

    /// Returns the runs that this event starts, beside those that wait for it. Start them before
    /// the event is emitted: then an emission that is sent again with the same `id` starts none of
    /// them twice, and none is left out. A run whose trigger has a key is started once per key.
    ///
    /// # Errors
    /// A failure of the database. A flow whose trigger cannot be evaluated for this event, or whose
    /// schema the event does not fit, is left out with a warning in the log.
    pub async fn started_by(
        &self,
        event: &str,
        data: &Value,
        id: Option<&str>,
    ) -> Result<Vec<Triggered>, OperateError> {
        let mut runs = Vec::new();
        for version in self.newest.with_triggers(&self.store).await? {
            for trigger in &version.definition.triggers {
                match self.started_by_one(&version, trigger, event, data, id).await {
                    Ok(run) => runs.extend(run),
                    Err(error) if error.code == Code::BadInput => {
                        tracing::warn!(flow = %version.name, event, %error, "an event does not fit a trigger");
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(runs)
    }

    async fn started_by_one(
        &self,
        version: &FlowVersion,
        trigger: &Trigger,
        event: &str,
        data: &Value,
        id: Option<&str>,
    ) -> Result<Option<Triggered>, OperateError> {
        let Trigger::Event { name, matches, key } = trigger else { return Ok(None) };
        if name != event {
            return Ok(None);
        }
        if let Some(condition) = matches
            && !self.holds(condition, data).await?
        {
            return Ok(None);
        }
        let key = match key {
            Some(template) => Some(self.key("event", data, template).await?),
            None => id.map(ToOwned::to_owned),
        };
        let key = key.map(|key| format!("event:{name}:{key}"));
        self.start_once(version, data.clone(), key).await.map(Some)
    }

    async fn secret(&self, account: &str, template: &str) -> Result<String, OperateError> {
        let missing = || {
            let message = "the secret of the webhook is missing in this program";
            OperateError::new(Code::Unavailable, message, "give it to Flows::secrets")
        };
        let template = Value::from(template);
        let seen = look_up(self.secrets.as_deref(), account, &template).await.map_err(|_| missing())?;
        // The fallback is written in the document, so whatever can read the document could sign a
        // request.
        if seen.lacks_some {
            return Err(missing());
        }
        let scope = Scope::new().with("secrets", seen.to_value());
        let rendered = self.evaluator.render(&template, &scope, MissingPath::Error).await.map_err(|_| missing())?;
        rendered.as_str().filter(|secret| !secret.is_empty()).map(ToOwned::to_owned).ok_or_else(missing)
    }

    /// Renders the key of a trigger.
    async fn key(&self, root: &str, value: &Value, template: &str) -> Result<String, OperateError> {
        let scope = Scope::new().with(root, value.clone());
        let rendered = self.evaluator.render(&template.into(), &scope, MissingPath::Error).await;
        let refused = |why: String| {
            let help = format!("send a {root} that gives the key");
            OperateError::new(Code::BadInput, format!("the key of the trigger: {why}"), help)
        };
        match rendered.map_err(|error| refused(error.to_string()))? {
            Value::String(text) if text.is_empty() => Err(refused("it is empty".to_owned())),
            Value::String(text) => Ok(text),
            Value::Null => Err(refused("it is null".to_owned())),
            other => Ok(other.to_string()),
        }
    }

    async fn holds(&self, condition: &str, event: &Value) -> Result<bool, OperateError> {
        let scope = Scope::new().with("event", event.clone());
        let value = self.evaluator.value(condition, &scope, MissingPath::Error).await;
        let refused = |why: String| {
            let help = "correct the condition, and deploy the flow again";
            OperateError::new(Code::BadInput, format!("the condition of the trigger: {why}"), help)
        };
        value
            .map_err(|error| refused(error.to_string()))?
            .as_bool()
            .ok_or_else(|| refused("it is not a boolean".to_owned()))
    }

    /// Returns the start of a run, or the run that its key has: its flow may have been deployed
    /// again since.
    async fn start_once(
        &self,
        version: &FlowVersion,
        input: Value,
        key: Option<String>,
    ) -> Result<Triggered, OperateError> {
        let key = key.map(bounded);
        if let Some(key) = &key {
            let found: Option<RunHandle<Value>> = self.client.find(flow, &flow_key(&version.name, key)).await?;
            if let Some(run) = found {
                return Ok(Triggered::Existed(run.id()));
            }
        }
        let start: FlowStart = version.clone().into_start().input(input).actor(&version.created_by);
        Ok(Triggered::Start(Box::new(start.into_run(key.as_deref())?)))
    }
}

/// The longest key of a trigger as it is, in bytes. The name of the flow stands before it.
const LONGEST_KEY: usize = 120;

/// Returns a key of a bounded size, equal for equal keys.
fn bounded(key: String) -> String {
    if key.len() <= LONGEST_KEY {
        return key;
    }
    let kind = key.split(':').next().unwrap_or_default();
    format!(
        "{kind}:sha256:{}",
        Sha256::digest(key.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect::<String>()
    )
}

/// The trigger of a webhook, with its flow. Found by [`Flows::hook`].
#[derive(Debug, Clone)]
pub struct Hook {
    version: Arc<FlowVersion>,
    path: String,
    secret: Option<String>,
    key: Option<String>,
}

impl Hook {
    /// Returns whether requests must be signed. If not, another rule must decide which requests are
    /// let in, because the URL is not a secret.
    #[must_use]
    pub const fn is_signed(&self) -> bool {
        self.secret.is_some()
    }
}

/// Checks the name and the key of an event, before anything is started or emitted.
///
/// # Errors
/// [`BadInput`](Code::BadInput) with the reason.
pub fn check_event(name: &str, key: &str) -> Result<(), OperateError> {
    for (subject, text) in [(NameSubject::Event, name), (NameSubject::EventKey, key)] {
        check_name(subject, text).map_err(ClientError::from)?;
    }
    Ok(())
}

/// The beginning of a secret of Standard Webhooks. The key follows in Base64.
const STANDARD_SECRET: &str = "whsec_";

/// Returns the key in a secret of Standard Webhooks, or `None` if it is another text.
fn standard_key(secret: &str) -> Option<Vec<u8>> {
    let key = STANDARD.decode(secret.strip_prefix(STANDARD_SECRET)?).ok()?;
    // Anything could sign with an empty key.
    (!key.is_empty()).then_some(key)
}

/// Returns whether a secret begins as one of Standard Webhooks, and has no key.
fn is_damaged(secret: &str) -> bool {
    secret.starts_with(STANDARD_SECRET) && standard_key(secret).is_none()
}

fn verify(request: &HookRequest<'_>, secret: &str, now: u64) -> Result<(), SignatureError> {
    let HookRequest { body, id, timestamp, signature, body_signature, .. } = *request;
    match (signature, body_signature) {
        (Some(signature), _) => {
            let timestamp = timestamp.and_then(|seconds| seconds.parse().ok());
            let (Some(id), Some(timestamp)) = (id, timestamp) else { return Err(SignatureError::Malformed) };
            // A sender that knows no prefix signs with the text as it is.
            let decoded = standard_key(secret);
            let keys: Vec<&[u8]> = decoded.as_deref().into_iter().chain([secret.as_bytes()]).collect();
            Webhook { id, timestamp, body }.verify(&keys, signature, now, TOLERANCE)
        }
        (None, Some(signature)) => verify_body(&[secret.as_bytes()], body, signature),
        (None, None) => Err(SignatureError::Malformed),
    }
}

fn forged(error: &SignatureError) -> OperateError {
    let help = "sign the raw body with the secret of the webhook: webhook-signature or x-hub-signature-256";
    OperateError::new(Code::Unauthorized, error.to_string(), help)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_of_standard_webhooks_is_told_from_a_damaged_one() {
        assert_eq!(standard_key("whsec_c2VjcmV0").as_deref(), Some(&b"secret"[..]));
        for (secret, damaged) in [
            ("whsec_c2VjcmV0", false),
            ("secret", false),
            ("c2VjcmV0", false),
            ("whsec_", true),
            ("whsec_c2VjcmV", true),
            ("whsec_not Base64", true),
        ] {
            assert_eq!(is_damaged(secret), damaged, "{secret}");
        }
        let now = 1_700_000_000;
        let webhook = Webhook { id: "m-1", timestamp: now, body: b"{}" };
        for (secret, key, fits) in [
            ("whsec_c2VjcmV0", &b"secret"[..], true),
            ("whsec_c2VjcmV0", &b"whsec_c2VjcmV0"[..], true),
            ("whsec_c2VjcmV0", &b"c2VjcmV0"[..], false),
            ("c2VjcmV0", &b"secret"[..], false),
            ("whsec_", &b"whsec_"[..], true),
            ("whsec_", &b""[..], false),
        ] {
            let signature = webhook.sign(key);
            let timestamp = now.to_string();
            let request = HookRequest {
                body: webhook.body,
                id: Some(webhook.id),
                timestamp: Some(&timestamp),
                signature: Some(&signature),
                body_signature: None,
            };
            assert_eq!(verify(&request, secret, now).is_ok(), fits, "{secret} {key:?}");
        }
    }
}
