use std::collections::BTreeMap;
use std::fmt;

use async_trait::async_trait;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Method, Url};
use serde_json::{Value, json};
use workflow_flows::{Tool, ToolCall, ToolError};

use super::{input_schema, notice};
use crate::arguments::{failed, invalid};
use crate::http::Http;
use crate::http::client::Request;

/// Makes a [`Pushover`].
pub struct PushoverBuilder {
    token: String,
    users: BTreeMap<String, String>,
    url: String,
    http: Option<Http>,
}

impl fmt::Debug for PushoverBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PushoverBuilder").field("users", &self.users.keys()).finish_non_exhaustive()
    }
}

impl PushoverBuilder {
    /// Sends messages whose `to` is this name to this user or group key. The name "" takes messages
    /// without `to`.
    #[must_use]
    pub fn user(mut self, name: impl Into<String>, key: impl Into<String>) -> Self {
        self.users.insert(name.into(), key.into());
        self
    }

    /// Sets the address of the service. Default: that of Pushover.
    #[must_use]
    pub fn url(mut self, url: impl Into<String>) -> Self {
        self.url = url.into();
        self
    }

    /// Sets the client: its networks and longest time. Default: that of [`Http::builder`].
    #[must_use]
    pub fn http(mut self, http: Http) -> Self {
        self.http = Some(http);
        self
    }

    /// Makes the channel.
    ///
    /// # Errors
    /// A [`ToolError`] if the address is not a URL.
    pub fn build(self) -> Result<Pushover, ToolError> {
        let url = Url::parse(&self.url).map_err(|_| invalid("pushover: the address is not a URL"))?;
        let http = match self.http {
            Some(http) => http,
            None => Http::builder().build()?,
        };
        Ok(Pushover { token: self.token, users: self.users, url, http })
    }
}

/// The channel `pushover`: a message to telephones by the service of this name. `data` is not sent.
///
/// ```
/// use workflow_flows::Tool;
/// use workflow_tools::notify::Pushover;
///
/// let builder = Pushover::builder("token of the application").user("ops", "key of the user");
/// let pushover = builder.build().unwrap();
/// assert_eq!(pushover.name(), "pushover");
/// ```
#[derive(Clone)]
pub struct Pushover {
    token: String,
    users: BTreeMap<String, String>,
    url: Url,
    http: Http,
}

impl fmt::Debug for Pushover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pushover").field("users", &self.users.keys()).finish_non_exhaustive()
    }
}

/// The longest message and title that the service takes, in characters.
const LONGEST: (usize, usize) = (1_024, 250);

impl Pushover {
    /// Returns a builder without users, for the application of this token.
    #[must_use]
    pub fn builder(token: impl Into<String>) -> PushoverBuilder {
        let url = "https://api.pushover.net/1/messages.json".to_owned();
        PushoverBuilder { token: token.into(), users: BTreeMap::new(), url, http: None }
    }
}

#[async_trait]
impl Tool for Pushover {
    fn name(&self) -> &str {
        "pushover"
    }

    fn description(&self) -> &str {
        "Sends a message to the telephone of a user that the operator has named."
    }

    fn input_schema(&self) -> Value {
        input_schema()
    }

    async fn call(&self, call: ToolCall) -> Result<Value, ToolError> {
        let notice = notice("pushover", &call)?;
        let unknown = || {
            let known: Vec<&str> = self.users.keys().map(String::as_str).collect();
            invalid(format!("pushover: no user is named {:?}; known: {known:?}", notice.to))
        };
        let user = self.users.get(&notice.to).ok_or_else(unknown)?;
        let cut = |text: &str, longest| text.chars().take(longest).collect::<String>();
        let body = json!({
            "token": self.token, "user": user,
            "message": cut(&notice.text, LONGEST.0), "title": cut(&notice.title, LONGEST.1),
        });
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let body = body.to_string().into_bytes();
        let request = Request { method: Method::POST, url: self.url.clone(), headers, body };
        let answer = self.http.client().send(request, false, self.http.longest(call.timeout)).await?;
        answer.check(&[call.args, json!([self.token, user])])?;
        let result: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        if result["status"] != 1 {
            return Err(failed(format!("{} did not accept the message", answer.shown)));
        }
        Ok(json!({ "request": result["request"] }))
    }
}
