//! One MCP server: its name, how it is started or reached, and its values and times.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Values of one actor: variables of a program, headers of a URL.
type OwnValues = dyn Fn(&str) -> Vec<(String, String)> + Send + Sync;

/// An MCP server that flows may use.
///
/// ```
/// use workflow_tools::mcp::Server;
///
/// let memory = Server::program("memory", "/usr/bin/node", ["/opt/mcp/server-memory/index.js"])
///     .value("MEMORY_FILE_PATH", "/var/lib/app/memory.json");
/// let tickets = Server::url("tickets", "https://tickets.example/mcp")
///     .values_of(|actor| vec![("authorization".to_owned(), format!("Bearer token-of-{actor}"))]);
/// # let _ = (memory, tickets);
/// ```
#[derive(Clone)]
pub struct Server {
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) values: Vec<(String, String)>,
    pub(super) values_of: Option<Arc<OwnValues>>,
    pub(super) connect_timeout: Duration,
    pub(super) call_timeout: Duration,
}

#[derive(Debug, Clone)]
pub(super) enum Kind {
    Program { path: PathBuf, arguments: Vec<String> },
    Url(String),
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Server {
    /// Names a server that is started as a program and speaks over its standard input and output.
    /// Its environment is empty but for the given values. It leads a process group of its own,
    /// which is killed at the end.
    #[must_use]
    pub fn program(
        name: impl Into<String>,
        path: impl Into<PathBuf>,
        arguments: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        let arguments = arguments.into_iter().map(Into::into).collect();
        Self::new(name.into(), Kind::Program { path: path.into(), arguments })
    }

    /// Names a server that is reached by streamable HTTP. Its address is the operator's, so it may
    /// be private.
    #[must_use]
    pub fn url(name: impl Into<String>, url: impl Into<String>) -> Self {
        Self::new(name.into(), Kind::Url(url.into()))
    }

    fn new(name: String, kind: Kind) -> Self {
        let (connect_timeout, call_timeout) = (Duration::from_secs(30), Duration::from_secs(60));
        Self { name, kind, values: Vec::new(), values_of: None, connect_timeout, call_timeout }
    }

    /// Sets a variable of the program, or a header of the URL, for all actors.
    #[must_use]
    pub fn value(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.values.push((name.into(), value.into()));
        self
    }

    /// Asks this function for the variables or headers of each actor. It must not block.
    #[must_use]
    pub fn values_of(mut self, values: impl Fn(&str) -> Vec<(String, String)> + Send + Sync + 'static) -> Self {
        self.values_of = Some(Arc::new(values));
        self
    }

    /// Sets the longest time to connect, and to list tools. Default: 30 s.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Sets the longest time of a call, if its step does not set a shorter one. Default: 60 s.
    #[must_use]
    pub fn call_timeout(mut self, timeout: Duration) -> Self {
        self.call_timeout = timeout;
        self
    }

    /// The values of this actor alone.
    pub(super) fn own(&self, actor: &str) -> Vec<(String, String)> {
        self.values_of.as_ref().map(|values| values(actor)).unwrap_or_default()
    }

    /// The server as errors name it.
    pub(super) fn shown(&self) -> String {
        format!("the MCP server {:?}", self.name)
    }
}
