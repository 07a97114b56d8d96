//! The database or the server to which a command goes.

use std::path::Path;

use workflow_flows::{FlowStore, Flows};
use workflow_remote::Remote;
use workflow_sdk::operate::{Operate, OperateError};
use workflow_sdk::{Client, Connect, ConnectError, Observer};

use crate::Failure;
use crate::arguments::Global;

/// Sets options of a connection.
pub(crate) type SetOptions = Box<dyn FnOnce(Connect) -> Connect>;

/// Returns the URL of the database that the command line names.
fn url(global: &Global) -> Result<String, Failure> {
    let Some(to) = global.to.as_deref().filter(|to| !to.is_empty()) else {
        return Err(Failure::usage(
            "no database is named",
            "add --to FILE or --to postgres://USER@HOST/DATABASE, or set WORKFLOW_DATABASE_URL",
        ));
    };
    database_url(to)
}

/// Returns the URL of a database that is named by its URL or its file.
pub(crate) fn database_url(to: &str) -> Result<String, Failure> {
    if is_server(to) {
        let help = "name the database itself: a file or postgres://USER@HOST/DATABASE";
        return Err(Failure::usage("this verb works on a database, and cannot ask a server", help));
    }
    let is_url = to.split_once(':').is_some_and(|(scheme, _)| scheme.chars().all(char::is_alphanumeric));
    if is_url && !Path::new(to).exists() { Ok(to.to_owned()) } else { Ok(format!("sqlite://{to}")) }
}

fn is_server(to: &str) -> bool {
    to.starts_with("http://") || to.starts_with("https://")
}

/// Opens the deployed flows of a database.
pub(crate) async fn open_flows(url: &str, client: &Client) -> Result<Flows, Failure> {
    let store = FlowStore::connect(url).await.map_err(OperateError::from)?;
    Ok(Flows::new(client.clone(), store))
}

/// The database of a command, or the server before it, and how to connect to it.
pub(crate) struct Target {
    global: Global,
    options: SetOptions,
}

impl Target {
    pub(crate) fn new(global: Global, options: SetOptions) -> Self {
        Self { global, options }
    }

    /// Returns the URL of the database that is named.
    pub(crate) fn url(&self) -> Result<String, Failure> {
        url(&self.global)
    }

    /// Returns the PostgreSQL schema of the tables.
    pub(crate) fn schema(&self) -> &str {
        &self.global.schema
    }

    /// Returns how long the database may take to answer.
    pub(crate) fn timeout(&self) -> std::time::Duration {
        self.global.timeout
    }

    /// Returns the server that is named, or `None` if it is a database.
    pub(crate) fn server(&self) -> Result<Option<Remote>, Failure> {
        let Some(url) = self.global.to.as_deref().filter(|to| is_server(to)) else { return Ok(None) };
        let remote = Remote::new(url)?.timeout(self.global.timeout);
        Ok(Some(match &self.global.token {
            Some(token) => remote.token(token)?,
            None => remote,
        }))
    }

    /// Returns the interface for operators, by the server or the database that is named, and the
    /// client of a database.
    pub(crate) async fn operate(self) -> Result<(Box<dyn Operate>, Option<Client>), Failure> {
        if let Some(remote) = self.server()? {
            return Ok((Box::new(remote), None));
        }
        let client = self.on_standby_too().connect().await?;
        Ok((Box::new(client.clone()), Some(client)))
    }

    /// Connects, and opens the deployed flows of the database: by its URL, as the program of the
    /// application does.
    pub(crate) async fn flows(self) -> Result<(Client, Flows), Failure> {
        let url = url(&self.global)?;
        let client = self.connect().await?;
        let flows = open_flows(&url, &client).await?;
        Ok((client, flows))
    }

    /// Adds an observer to the client.
    pub(crate) fn observed(self, observer: impl Observer) -> Self {
        let Self { global, options } = self;
        Self { global, options: Box::new(move |connect| options(connect).observer(observer)) }
    }

    /// Lets the connection lead to a standby, where the interface for operators reads and refuses
    /// changes.
    pub(crate) fn on_standby_too(self) -> Self {
        let Self { global, options } = self;
        Self { global, options: Box::new(move |connect| options(connect).allow_standby(true)) }
    }

    /// Connects, and changes nothing: a database without tables is refused.
    pub(crate) async fn connect(self) -> Result<Client, Failure> {
        self.open(false).await.map_err(|failure| match failure.help {
            None => failure.help("check --to; the verb `migrate` creates the tables of a new database"),
            Some(_) => failure,
        })
    }

    /// Connects, and brings the tables up to date.
    pub(crate) async fn migrate(self) -> Result<Client, Failure> {
        self.open(true).await
    }

    /// Returns the version of tables that are not up to date, 0 if there are none, and `None` if
    /// they are up to date. Changes nothing.
    pub(crate) async fn outdated(self) -> Result<Option<i64>, Failure> {
        match self.connecting(false)?.await {
            Ok(_) => Ok(None),
            Err(ConnectError::NotMigrated { found, .. }) => Ok(Some(found)),
            Err(ConnectError::NoFile { .. }) => Ok(Some(0)),
            Err(error) => Err(error.into()),
        }
    }

    async fn open(self, migrate: bool) -> Result<Client, Failure> {
        Ok(self.connecting(migrate)?.await?)
    }

    fn connecting(self, migrate: bool) -> Result<Connect, Failure> {
        let Self { global, options } = self;
        let connect = options(Client::connect(url(&global)?)).schema(&global.schema).migrate(migrate);
        Ok(connect.timeout(global.timeout).call_timeout(global.timeout))
    }
}
