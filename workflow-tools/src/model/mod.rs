//! A model behind an OpenAI-compatible server, for the recipes of flows.
//!
//! The question is one `POST {base}/chat/completions`. A recipe with a schema sends it as
//! `response_format`, and the answer is checked again here, because servers differ in what they
//! enforce. An answer that does not fit is sent back with its errors, as often as the recipe says.

mod wire;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Method, Url};
use serde_json::{Value, json};
use workflow_flows::{Model, ModelAnswer, ModelCall, ToolError};

use crate::arguments::{failed, invalid};
use crate::http::client::Request;
use crate::http::request::insert;
use crate::http::{Credentials, Http};
use crate::schema;
use wire::Completion;

/// Makes a [`ChatModel`].
pub struct ChatModelBuilder {
    base: String,
    model: String,
    key: Option<String>,
    http: Option<Http>,
    credentials: Option<Arc<dyn Credentials>>,
    max_tokens: u32,
}

impl fmt::Debug for ChatModelBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChatModelBuilder").field("base", &self.base).field("model", &self.model).finish_non_exhaustive()
    }
}

impl ChatModelBuilder {
    /// Sets the key that is sent as a bearer token. Default: none.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Sets the client: its networks, body limit and longest time. Default: that of
    /// [`Http::builder`] with 120 s. A server in a private network needs one that allows it.
    #[must_use]
    pub fn http(mut self, http: Http) -> Self {
        self.http = Some(http);
        self
    }

    /// Asks this for the headers of each actor. Default: none.
    #[must_use]
    pub fn credentials(mut self, credentials: impl Credentials) -> Self {
        self.credentials = Some(Arc::new(credentials));
        self
    }

    /// Sets the longest answer of recipes that set none, in tokens. Default: 1024.
    #[must_use]
    pub fn max_tokens(mut self, tokens: u32) -> Self {
        self.max_tokens = tokens;
        self
    }

    /// Makes the client.
    ///
    /// # Errors
    /// A [`ToolError`] if the base is not a URL, or the key not one that HTTP can carry.
    pub fn build(self) -> Result<ChatModel, ToolError> {
        let wrong = |_| invalid("the base of the model is not a URL, such as https://models.example/v1");
        let url = Url::parse(&format!("{}/chat/completions", self.base.trim_end_matches('/'))).map_err(wrong)?;
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(key) = &self.key {
            insert(&mut headers, AUTHORIZATION.as_str(), &format!("Bearer {key}"))?;
        }
        let http = match self.http {
            Some(http) => http,
            None => Http::builder().timeout(Duration::from_secs(120)).build()?,
        };
        let key = self.key.into_iter().map(Value::String).collect();
        Ok(ChatModel {
            url,
            headers,
            hidden: key,
            http,
            model: self.model,
            credentials: self.credentials,
            max_tokens: self.max_tokens,
        })
    }
}

/// A [`Model`] behind an OpenAI-compatible server. See the [module](self).
///
/// ```
/// use workflow_tools::model::ChatModel;
///
/// let builder = ChatModel::builder("https://models.example/v1", "small-1");
/// let model = builder.key("sk-1").build().unwrap();
/// # let _ = model;
/// ```
#[derive(Clone)]
pub struct ChatModel {
    url: Url,
    headers: HeaderMap,
    /// Texts that stand in no error.
    hidden: Vec<Value>,
    http: Http,
    model: String,
    credentials: Option<Arc<dyn Credentials>>,
    max_tokens: u32,
}

impl fmt::Debug for ChatModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChatModel").field("model", &self.model).finish_non_exhaustive()
    }
}

impl ChatModel {
    /// Returns a builder for the server at this base (`https://models.example/v1`) and the model
    /// that recipes get that name none.
    #[must_use]
    pub fn builder(base: impl Into<String>, model: impl Into<String>) -> ChatModelBuilder {
        ChatModelBuilder {
            base: base.into(),
            model: model.into(),
            key: None,
            http: None,
            credentials: None,
            max_tokens: 1024,
        }
    }

    /// Asks once.
    async fn ask(&self, call: &ModelCall, body: &Value, timeout: Duration) -> Result<Completion, ToolError> {
        let mut request =
            Request { method: Method::POST, url: self.url.clone(), headers: self.headers.clone(), body: Vec::new() };
        request.body = body.to_string().into_bytes();
        let mut hidden = self.hidden.clone();
        if let Some(credentials) = &self.credentials {
            for (name, value) in credentials.headers(&call.actor, self.url.host_str().unwrap_or_default()).await? {
                insert(&mut request.headers, &name, &value)?;
                hidden.push(Value::String(value));
            }
        }
        let answer = self.http.client().send(request, false, timeout).await?;
        answer.check(&hidden)?;
        let wrong = |_| failed(format!("{} answered with something that is not a chat completion", answer.shown));
        let completion: Completion = serde_json::from_slice(&answer.body).map_err(wrong)?;
        completion.checked(&answer.shown)
    }

    fn question(&self, call: &ModelCall, messages: &[Value]) -> Value {
        let mut body = json!({
            "model": call.model.as_ref().unwrap_or(&self.model),
            "messages": messages,
            "max_tokens": call.max_tokens.unwrap_or(self.max_tokens),
        });
        if let Some(schema) = &call.output {
            let format = json!({ "name": "answer", "schema": schema, "strict": true });
            body["response_format"] = json!({ "type": "json_schema", "json_schema": format });
        }
        body
    }
}

#[async_trait]
impl Model for ChatModel {
    async fn complete(&self, call: ModelCall) -> Result<ModelAnswer, ToolError> {
        let schema = call.output.as_ref().map(schema::compile).transpose()?;
        let mut messages: Vec<Value> =
            call.system.iter().map(|system| json!({ "role": "system", "content": system })).collect();
        messages.push(json!({ "role": "user", "content": call.prompt }));
        let limit = self.http.longest(call.timeout);
        let begun = tokio::time::Instant::now();
        let mut answer = ModelAnswer::default();
        loop {
            let left = limit.saturating_sub(begun.elapsed());
            let completion = self.ask(&call, &self.question(&call, &messages), left).await?;
            answer.calls += 1;
            answer.input_tokens += completion.usage.prompt_tokens;
            answer.output_tokens += completion.usage.completion_tokens;
            answer.model = completion.model.clone();
            let text = completion.text().to_owned();
            (answer.value, answer.problems) = match &schema {
                None => (Value::String(text.clone()), Vec::new()),
                Some(schema) => schema.read(&text),
            };
            if completion.is_cut() {
                answer.problems.push("the answer was cut off at max_tokens".to_owned());
            }
            if answer.problems.is_empty() || answer.calls > call.repair {
                return Ok(answer);
            }
            messages.push(json!({ "role": "assistant", "content": text }));
            let problems = answer.problems.join("\n- ");
            let repair = format!("This answer does not fit the schema:\n- {problems}\nAnswer again, with JSON alone.");
            messages.push(json!({ "role": "user", "content": repair }));
        }
    }
}
