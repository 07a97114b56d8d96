//! The tool and channel `mail`: a mail over SMTP.
//!
//! Its arguments are those of the channels (`to`, `title`, `text`, `data`), and further `subject`
//! (instead of `title`), `html`, `cc` and `reply_to`. `data` is attached as JSON.
//!
//! If the answer of the server is lost, SMTP cannot say whether the mail was sent. So all attempts
//! of a step send one `Message-ID`: many servers and readers drop a second mail that has it.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use lettre::message::header::ContentType;
use lettre::message::{Attachment, Mailbox, MultiPart, SinglePart};
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Tls, TlsParameters};
use lettre::{AsyncSmtpTransport, AsyncTransport, Message, Tokio1Executor};
use serde::Deserialize;
use serde_json::{Value, json};
use workflow_flows::{ErrorClass, Tool, ToolCall, ToolError};

use crate::arguments::{failed, invalid, parse, shortest};

/// How the connection to the server is protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encryption {
    /// TLS from the first byte, usually on port 465.
    Tls,
    /// TLS after `STARTTLS`, without which nothing is sent; usually on port 587.
    StartTls,
    /// None. For a server on this machine: mails and passwords can be read on the way.
    None,
}

/// Makes a [`Mail`].
pub struct MailBuilder {
    host: String,
    port: Option<u16>,
    encryption: Encryption,
    credentials: Option<(String, String)>,
    from: String,
    names: BTreeMap<String, String>,
    domains: Option<Vec<String>>,
    timeout: Duration,
}

impl fmt::Debug for MailBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MailBuilder").field("host", &self.host).field("from", &self.from).finish_non_exhaustive()
    }
}

impl MailBuilder {
    /// Sets the port. Default: 465 with [`Encryption::Tls`], 587 with [`Encryption::StartTls`],
    /// else 25.
    #[must_use]
    pub fn port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self
    }

    /// Sets how the connection is protected. Default: [`Encryption::Tls`].
    #[must_use]
    pub fn encryption(mut self, encryption: Encryption) -> Self {
        self.encryption = encryption;
        self
    }

    /// Sets the user and the password at the server. Default: none.
    #[must_use]
    pub fn credentials(mut self, user: impl Into<String>, password: impl Into<String>) -> Self {
        self.credentials = Some((user.into(), password.into()));
        self
    }

    /// Sends mails whose `to` is this name (`dept:billing`) to this address.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>, address: impl Into<String>) -> Self {
        self.names.insert(name.into(), address.into());
        self
    }

    /// Allows addresses of this domain alone, and the named ones. Call it once per domain. Default:
    /// every address is allowed, so a flow can send mail to everyone.
    #[must_use]
    pub fn domain(mut self, domain: impl Into<String>) -> Self {
        self.domains.get_or_insert_default().push(domain.into().to_ascii_lowercase());
        self
    }

    /// Sets the longest time of a call. Default: 30 s.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Makes the tool. Connects to nothing yet.
    ///
    /// # Errors
    /// A [`ToolError`] if the sender or a named address is not a mail address, or TLS cannot be
    /// prepared.
    pub fn build(self) -> Result<Mail, ToolError> {
        let from = mailbox(&self.from)?;
        for address in self.names.values() {
            mailbox(address)?;
        }
        let parameters = || {
            TlsParameters::new(self.host.clone()).map_err(|error| failed(format!("mail: cannot prepare TLS: {error}")))
        };
        let (tls, port) = match self.encryption {
            Encryption::Tls => (Tls::Wrapper(parameters()?), 465),
            Encryption::StartTls => (Tls::Required(parameters()?), 587),
            Encryption::None => (Tls::None, 25),
        };
        let builder = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(&self.host)
            .port(self.port.unwrap_or(port))
            .tls(tls)
            .timeout(Some(self.timeout));
        let builder = match self.credentials {
            Some((user, password)) => builder.credentials(Credentials::new(user, password)),
            None => builder,
        };
        Ok(Mail { transport: builder.build(), from, names: self.names, domains: self.domains, timeout: self.timeout })
    }
}

/// The tool `mail`. See the [module](self).
///
/// ```
/// use workflow_flows::Tool;
/// use workflow_tools::mail::Mail;
///
/// let mail = Mail::builder("smtp.example.com", "Flows <flows@example.com>")
///     .credentials("flows", "password")
///     .name("dept:billing", "billing@example.com")
///     .domain("example.com")
///     .build()
///     .unwrap();
/// assert_eq!(mail.name(), "mail");
/// ```
#[derive(Clone)]
pub struct Mail {
    transport: AsyncSmtpTransport<Tokio1Executor>,
    from: Mailbox,
    names: BTreeMap<String, String>,
    domains: Option<Vec<String>>,
    timeout: Duration,
}

impl fmt::Debug for Mail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mail").field("from", &self.from.email.to_string()).finish_non_exhaustive()
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    to: Receivers,
    #[serde(default)]
    cc: Receivers,
    reply_to: Option<String>,
    title: Option<String>,
    subject: Option<String>,
    text: String,
    html: Option<String>,
    #[serde(default)]
    data: Value,
}

/// One receiver, or several.
#[derive(Deserialize, Default)]
#[serde(untagged)]
enum Receivers {
    #[default]
    None,
    One(String),
    Many(Vec<String>),
}

impl Receivers {
    fn names(&self) -> &[String] {
        match self {
            Self::None => &[],
            Self::One(name) => std::slice::from_ref(name),
            Self::Many(names) => names,
        }
    }
}

/// The most receivers of one mail.
const RECEIVERS: usize = 50;
/// The longest mail, in bytes.
const LONGEST: usize = 1024 * 1024;

impl Mail {
    /// Returns a builder for the server and the sender (`Flows <flows@example.com>`).
    #[must_use]
    pub fn builder(host: impl Into<String>, from: impl Into<String>) -> MailBuilder {
        MailBuilder {
            host: host.into(),
            port: None,
            encryption: Encryption::Tls,
            credentials: None,
            from: from.into(),
            names: BTreeMap::new(),
            domains: None,
            timeout: Duration::from_secs(30),
        }
    }

    /// Returns the address of a receiver that is named, or whose domain is allowed.
    fn receiver(&self, name: &str) -> Result<Mailbox, ToolError> {
        if let Some(address) = self.names.get(name) {
            return mailbox(address);
        }
        let receiver = mailbox(name)?;
        let domain = receiver.email.domain().to_ascii_lowercase();
        match &self.domains {
            Some(domains) if !domains.contains(&domain) => {
                Err(invalid(format!("mail: addresses of {domain:?} are not allowed; allowed: {domains:?}")))
            }
            _ => Ok(receiver),
        }
    }

    fn message(&self, arguments: Arguments, key: &str) -> Result<Message, ToolError> {
        let Arguments { to, cc, reply_to, title, subject, text, html, data } = arguments;
        let (to, cc) = (to.names(), cc.names());
        if to.is_empty() || to.len() + cc.len() > RECEIVERS {
            return Err(invalid(format!("mail has no receiver, or more than {RECEIVERS}")));
        }
        let mut builder = Message::builder().from(self.from.clone()).message_id(self.message_id(key));
        for name in to {
            builder = builder.to(self.receiver(name)?);
        }
        for name in cc {
            builder = builder.cc(self.receiver(name)?);
        }
        if let Some(address) = reply_to {
            builder = builder.reply_to(mailbox(&address)?);
        }
        let subject = subject.or(title).unwrap_or_default();
        // A line break would begin another header.
        let builder = builder.subject(subject.split_whitespace().collect::<Vec<_>>().join(" "));
        let plain = SinglePart::plain(text);
        let content = match html {
            Some(html) => MultiPart::alternative().singlepart(plain).singlepart(SinglePart::html(html)),
            None => MultiPart::mixed().singlepart(plain),
        };
        let content = if data.is_null() {
            content
        } else {
            let kind = ContentType::parse("application/json").map_err(|_| failed("mail: cannot attach data"))?;
            let attached = Attachment::new("data.json".to_owned()).body(data.to_string(), kind);
            MultiPart::mixed().multipart(content).singlepart(attached)
        };
        builder.multipart(content).map_err(|error| invalid(format!("mail cannot be written: {error}")))
    }

    fn message_id(&self, key: &str) -> Option<String> {
        let id = uuid::Uuid::new_v5(&uuid::Uuid::NAMESPACE_OID, key.as_bytes());
        (!key.is_empty()).then(|| format!("<{id}@{}>", self.from.email.domain()))
    }
}

fn mailbox(text: &str) -> Result<Mailbox, ToolError> {
    text.parse().map_err(|_| invalid(format!("mail: {text:?} is neither a named receiver nor a mail address")))
}

#[async_trait]
impl Tool for Mail {
    fn name(&self) -> &str {
        "mail"
    }

    fn description(&self) -> &str {
        "Sends a mail."
    }

    fn input_schema(&self) -> Value {
        let receivers = json!({ "anyOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" } }] });
        json!({
            "type": "object", "required": ["to", "text"], "additionalProperties": false,
            "properties": {
                "to": receivers, "cc": receivers,
                "reply_to": { "type": "string" },
                "title": { "type": "string" },
                "subject": { "type": "string", "description": "Instead of title." },
                "text": { "type": "string" },
                "html": { "type": "string" },
                "data": { "description": "Any value; it is attached as data.json." },
            },
        })
    }

    async fn call(&self, call: ToolCall) -> Result<Value, ToolError> {
        let arguments: Arguments = parse("mail", &call.args)?;
        let message = self.message(arguments, &call.idempotency_key)?;
        let written = message.formatted();
        if written.len() > LONGEST {
            return Err(invalid(format!("mail: the mail is larger than {LONGEST} bytes, the limit")));
        }
        let timeout = shortest(self.timeout, [call.timeout]);
        let late =
            |_| ToolError::new(ErrorClass::Timeout, format!("mail: the server did not answer within {timeout:?}"));
        let sent =
            tokio::time::timeout(timeout, self.transport.send_raw(message.envelope(), &written)).await.map_err(late)?;
        match sent {
            Ok(response) => {
                Ok(json!({ "code": response.code().to_string(), "message_id": self.message_id(&call.idempotency_key) }))
            }
            Err(error) => Err(refused(&error)),
        }
    }
}

/// The class of a failure: 4xx of SMTP can succeed later, 5xx cannot. Texts of servers hold
/// addresses and are left out.
fn refused(error: &lettre::transport::smtp::Error) -> ToolError {
    let code = error.status().map(|code| format!(" ({code})")).unwrap_or_default();
    if error.is_permanent() {
        return invalid(format!("mail: the server refused the mail{code}"));
    }
    if error.is_transient() {
        return ToolError::new(ErrorClass::Unavailable, format!("mail: the server cannot take the mail now{code}"));
    }
    if error.is_timeout() {
        return ToolError::new(ErrorClass::Timeout, "mail: the server did not answer in time");
    }
    ToolError::new(ErrorClass::Connection, "mail: the server cannot be reached, or the connection broke")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mail() -> Mail {
        let builder = Mail::builder("127.0.0.1", "Flows <flows@a.test>").encryption(Encryption::None);
        builder.name("dept:billing", "billing@b.test").domain("A.test").build().unwrap()
    }

    fn formatted(args: Value, key: &str) -> Result<String, ToolError> {
        let message = mail().message(parse("mail", &args)?, key)?;
        Ok(String::from_utf8(message.formatted()).unwrap())
    }

    #[tokio::test]
    async fn receivers_are_named_or_allowed() {
        let mail = mail();
        assert_eq!(mail.receiver("dept:billing").unwrap().email.to_string(), "billing@b.test");
        assert!(mail.receiver("Ann <ann@a.test>").is_ok() && mail.receiver("ann@A.TEST").is_ok());
        for wrong in [
            "ann@b.test",
            "dept:other",
            "",
            "a@a.test, b@b.test",
            "ann@a.test\r\nBcc: x@b.test",
            "\"ann\r\nRCPT TO:<x@b.test>\"@a.test",
            "ann@a.test>\r\nRCPT TO:<x@b.test",
            "ann@[127.0.0.1]",
        ] {
            assert!(mail.receiver(wrong).is_err(), "{wrong:?}");
        }
        assert!(formatted(json!({ "to": [], "text": "x" }), "").is_err());
    }

    #[tokio::test]
    async fn no_argument_adds_a_header() {
        let args = json!({ "to": "ann@a.test", "subject": "Hi\r\nBcc: evil@b.test", "text": "\r\n.\r\nBcc: x@b.test" });
        let mail = formatted(args, "key").unwrap();
        let headers = mail.split("\r\n\r\n").next().unwrap();
        assert!(!headers.lines().any(|line| line.starts_with("Bcc")), "{headers}");
        assert!(headers.contains("Subject: Hi Bcc: evil@b.test"), "{headers}");
        for name in
            ["Ann\r\nBcc: x@b.test", "\"Ann\r\nBcc: x@b.test\"", "\"Ann\\\r\nBcc: x@b.test\"", "Ann\rBcc: x", "Ann\0"]
        {
            let Ok(mail) = formatted(json!({ "to": format!("{name} <ann@a.test>"), "text": "" }), "key") else {
                continue;
            };
            let headers = mail.split("\r\n\r\n").next().unwrap();
            assert!(!headers.split(['\r', '\n']).any(|line| line.starts_with("Bcc")), "{name:?}: {headers}");
        }
        assert!(
            formatted(json!({ "to": "ann@a.test", "reply_to": "x@y.test\r\nBcc: z@y.test", "text": "" }), "").is_err()
        );
    }

    #[tokio::test]
    async fn attempts_of_a_step_have_one_message_id() {
        let mail = mail();
        assert_eq!(mail.message_id("k"), mail.message_id("k"));
        assert_ne!(mail.message_id("k"), mail.message_id("l"));
        assert_eq!(mail.message_id(""), None);
    }
}
