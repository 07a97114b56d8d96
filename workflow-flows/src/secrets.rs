use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;

use async_trait::async_trait;
use serde_json::Value;

use crate::expression::{Segment, Template};
use crate::{ErrorClass, ToolError};

/// Gives the values behind `{{secrets.name}}`.
///
/// Such a template may stand in the arguments of tools only. Its value is looked up before each
/// attempt, is never recorded, and is taken out of results, errors and the messages of panics, as
/// far as it stands there as it is: an encoded value is not recognized.
#[async_trait]
pub trait Secrets: Send + Sync + 'static {
    /// Returns the value of a secret for this account, or `None` if there is none.
    ///
    /// # Errors
    /// A [`ToolError`] if the store of secrets cannot be asked; its class decides whether the step
    /// is tried again.
    async fn get(&self, actor: &str, name: &str) -> Result<Option<String>, ToolError>;
}

/// Secrets that stand in memory, equal for all accounts.
///
/// ```
/// use workflow_flows::{FixedSecrets, FlowRuntime};
///
/// let secrets = FixedSecrets::default().with("bank", "t0ken-of-the-bank");
/// let runtime = FlowRuntime::builder().secrets(secrets).build();
/// # let _ = runtime;
/// ```
#[derive(Clone, Default)]
pub struct FixedSecrets(BTreeMap<String, String>);

impl FixedSecrets {
    /// Adds a secret, or replaces it.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.0.insert(name.into(), value.into());
        self
    }
}

#[async_trait]
impl Secrets for FixedSecrets {
    async fn get(&self, _actor: &str, name: &str) -> Result<Option<String>, ToolError> {
        Ok(self.0.get(name).cloned())
    }
}

/// Shows the names only.
impl fmt::Debug for FixedSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// Returns the secrets that this template mentions. One without a value is left out if each
/// expression that reads it goes on without it, as `{{secrets.name ?? 'none'}}` does.
pub(crate) async fn look_up(secrets: Option<&dyn Secrets>, actor: &str, template: &Value) -> Result<Seen, ToolError> {
    let mut names = BTreeMap::new();
    add_secret_names(template, &mut names);
    let mut seen = Seen::default();
    for (name, is_optional) in names {
        let found = match secrets {
            Some(secrets) => secrets.get(actor, &name).await?,
            None => None,
        };
        match found {
            Some(value) => drop(seen.secrets.insert(name, value)),
            None if is_optional => seen.lacks_some = true,
            None => {
                let message = format!("there is no secret {name:?} for {actor:?}; add it, or name another one");
                return Err(ToolError::new(ErrorClass::Invalid, message));
            }
        }
    }
    Ok(seen)
}

/// Adds the names of the secrets that the expressions of a template read, and whether each of these
/// expressions goes on without the secret.
fn add_secret_names(template: &Value, names: &mut BTreeMap<String, bool>) {
    match template {
        Value::String(text) if text.contains("secrets") => {
            // The rendering tells what is wrong with a text that does not parse.
            let Ok(template) = Template::parse(text) else { return };
            for expression in template.expressions() {
                let mut own = BTreeMap::<String, bool>::new();
                for reference in expression.references() {
                    if let ("secrets", Some(Segment::Name(name))) =
                        (reference.path.root(), reference.path.segments().first())
                    {
                        *own.entry(name.clone()).or_default() |= reference.optional;
                    }
                }
                for (name, is_optional) in own {
                    *names.entry(name).or_insert(true) &= is_optional;
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| add_secret_names(item, names)),
        Value::Object(entries) => entries.values().for_each(|value| add_secret_names(value, names)),
        _ => {}
    }
}

/// The values that one attempt has seen, which no record may hold.
#[derive(Default)]
pub(crate) struct Seen {
    /// The secrets by name.
    secrets: BTreeMap<String, String>,
    /// Whether there is no value for a secret that the template can do without.
    pub(crate) lacks_some: bool,
    /// The token of the step. A secret may have the name `token`, too.
    pub(crate) token: Option<String>,
}

impl Seen {
    /// Returns the secrets as the root `secrets` of a template.
    pub(crate) fn to_value(&self) -> Value {
        self.secrets.iter().map(|(name, value)| (name.clone(), Value::from(value.as_str()))).collect()
    }

    /// Takes the values out of a text.
    pub(crate) fn redact_text(&self, text: &str) -> String {
        let secrets = self.secrets.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let token = self.token.as_deref().map(|token| ("token", token));
        let mut values: Vec<(&str, &str)> = secrets.chain(token).filter(|(_, value)| !value.is_empty()).collect();
        // A value may be a part of another one.
        values.sort_by_key(|(_, value)| Reverse(value.len()));
        let redact = |text: String, (name, value): (&str, &str)| text.replace(value, &format!("[secret {name}]"));
        values.into_iter().fold(text.to_owned(), redact)
    }

    /// Takes the values out of each text inside a value.
    pub(crate) fn redact(&self, value: Value) -> Value {
        if self.secrets.is_empty() && self.token.is_none() {
            return value;
        }
        match value {
            Value::String(text) => Value::String(self.redact_text(&text)),
            Value::Array(items) => items.into_iter().map(|item| self.redact(item)).collect(),
            Value::Object(entries) => {
                entries.into_iter().map(|(key, value)| (self.redact_text(&key), self.redact(value))).collect()
            }
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn seen<const N: usize>(secrets: [(&str, &str); N]) -> Seen {
        let secrets = secrets.map(|(name, value)| (name.to_owned(), value.to_owned()));
        Seen { secrets: secrets.into(), ..Seen::default() }
    }

    #[test]
    fn values_of_secrets_leave_texts_keys_and_lists() {
        let seen = seen([("key", "s3cret"), ("none", "")]);
        let value = json!({ "a": ["x s3cret y", 1], "s3cret": { "b": "s3crets3cret" } });
        let redacted = json!({
            "a": ["x [secret key] y", 1], "[secret key]": { "b": "[secret key][secret key]" }
        });
        assert_eq!(seen.redact(value), redacted);
    }

    #[test]
    fn a_secret_that_is_a_part_of_another_one_leaves_no_rest() {
        let seen = seen([("a", "t0ken"), ("b", "t0ken-of-bob")]);
        assert_eq!(seen.redact_text("t0ken-of-bob, t0ken"), "[secret b], [secret a]");
    }

    #[test]
    fn the_token_of_a_step_does_not_replace_a_secret_of_its_name() {
        let seen = Seen { token: Some("st_1".to_owned()), ..seen([("token", "s3cret")]) };
        assert_eq!(seen.redact(json!(["s3cret", "st_1"])), json!(["[secret token]", "[secret token]"]));
        assert_eq!(seen.to_value(), json!({ "token": "s3cret" }));
    }
}
