//! The database or the server to which a command goes.

use std::path::Path;

use clap::ArgMatches;
use clap::parser::ValueSource;
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

/// Where a value of the global options comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum NamedBy {
    /// The option itself.
    #[default]
    Option,
    /// This variable of the environment.
    Variable(String),
    /// The code of the program, or a default.
    Program,
}

/// Where the database of a command is named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Naming {
    pub(crate) to: NamedBy,
    pub(crate) schema: NamedBy,
    pub(crate) token: NamedBy,
}

impl Naming {
    /// Reads where the values of these arguments come from.
    pub(crate) fn of(matches: &ArgMatches) -> Self {
        let named_by = |option: &str, variable: &str| match matches.value_source(option) {
            Some(ValueSource::CommandLine) => NamedBy::Option,
            Some(ValueSource::EnvVariable) => NamedBy::Variable(variable.to_owned()),
            _ => NamedBy::Program,
        };
        Self {
            to: named_by("to", "WORKFLOW_DATABASE_URL"),
            schema: named_by("schema", "WORKFLOW_SCHEMA"),
            token: named_by("token", "WORKFLOW_TOKEN"),
        }
    }
}

/// The database or the server of a command, for people.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// The absolute path of the file, or the URL without the user, the password and the parameters.
    pub(crate) address: String,
    /// `true` if it is a server with the HTTP interface.
    pub(crate) is_server: bool,
    /// The schema of the tables, on PostgreSQL.
    pub(crate) schema: Option<String>,
    /// `true` if the command has a token for the server.
    pub(crate) has_token: bool,
    /// Where all this is named.
    pub(crate) naming: Naming,
}

/// Returns a URL without the parts that may hold a secret.
fn without_secrets(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return url.split(':').next().unwrap_or_default().to_owned();
    };
    // A password may have any character, so the last @ ends it.
    let rest = rest.rsplit_once('@').map_or(rest, |(_, rest)| rest);
    format!("{scheme}://{}", rest.split(['?', '#']).next().unwrap_or_default())
}

/// Returns the absolute path of the file of an SQLite URL.
fn file_of(url: &str) -> Option<String> {
    let path = url.strip_prefix("sqlite:")?;
    let path = path.strip_prefix("//").unwrap_or(path);
    let path = path.split('?').next().unwrap_or_default();
    if path.starts_with(':') {
        return Some(path.to_owned());
    }
    Some(std::path::absolute(path).map_or_else(|_| path.to_owned(), |path| path.display().to_string()))
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

    /// Returns the database or the server that is named, for people.
    pub(crate) fn place(&self) -> Place {
        let to = self.global.to.as_deref().unwrap_or_default();
        // A server has no such URL, and a command without a target fails before it shows the place.
        let url = database_url(to).unwrap_or_else(|_| to.to_owned());
        let file = file_of(&url);
        let is_server = is_server(to);
        Place {
            schema: (!is_server && file.is_none()).then(|| self.global.schema.clone()),
            address: file.unwrap_or_else(|| without_secrets(&url)),
            is_server,
            has_token: self.global.token.is_some(),
            naming: self.global.naming.clone(),
        }
    }

    /// Returns `true` if the command line itself names the target, by `--to`.
    pub(crate) fn is_named_by_option(&self) -> bool {
        self.global.to.is_some() && self.global.naming.to == NamedBy::Option
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
        let schema = self.place().schema;
        self.connecting(false)?.await.map_err(|error| {
            let is_new = matches!(error, ConnectError::NotMigrated { .. } | ConnectError::NoFile { .. });
            let failure = Failure::from(error);
            match (is_new, schema) {
                _ if failure.help.is_some() => failure,
                (true, Some(schema)) => {
                    let named = format!("check --to, and --schema, which is {schema:?}");
                    failure.help(format!("{named}; only for a new system: `migrate` creates the tables"))
                }
                (true, None) => failure.help("check --to; only for a new system: `migrate` creates the tables"),
                (false, _) => failure.help("check --to"),
            }
        })
    }

    /// Connects, and brings the tables up to date.
    pub(crate) async fn migrate(self) -> Result<Client, Failure> {
        Ok(self.connecting(true)?.await?)
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

    fn connecting(self, migrate: bool) -> Result<Connect, Failure> {
        let Self { global, options } = self;
        let connect = options(Client::connect(url(&global)?)).schema(&global.schema).migrate(migrate);
        Ok(connect.timeout(global.timeout).call_timeout(global.timeout))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_of_a_target_has_no_secret() {
        for (url, shown) in [
            ("postgres://ann:s3cr3t@db.internal:5432/orders?sslmode=require", "postgres://db.internal:5432/orders"),
            ("postgres://ann:p@ss?word@db/orders", "postgres://db/orders"),
            ("postgresql:///orders?host=/tmp&password=s3cr3t", "postgresql:///orders"),
            ("https://ann:s3cr3t@ops.example/workflows", "https://ops.example/workflows"),
            ("postgres:s3cr3t", "postgres"),
        ] {
            assert_eq!(without_secrets(url), shown);
            assert_eq!(file_of(url), None);
        }
        let here = std::env::current_dir().unwrap_or_default();
        let file = here.join("orders.db").display().to_string();
        for url in ["sqlite://orders.db", "sqlite:orders.db", "sqlite://orders.db?mode=ro"] {
            assert_eq!(file_of(url).as_deref(), Some(file.as_str()), "{url}");
        }
        assert_eq!(file_of("sqlite:///srv/orders.db").as_deref(), Some("/srv/orders.db"));
    }
}
