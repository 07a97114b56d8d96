//! `workflow move`: moves a whole system to another database.

use std::error::Error;
use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, OnceLock};

use comfy_table::Cell;
use workflow_flows::{FlowStore, InboxStore, KbStore, SecretStore};
use workflow_sdk::{ConnectError, DatabaseErrorKind, Transfer, TransferError, TransferProgress, TransferReport};

use crate::arguments::Move;
use crate::output::{Output, Rows, number};
use crate::target::{Target, database_url};
use crate::{Exit, Failure};

type BoxError = Box<dyn Error + Send + Sync>;

pub(super) async fn run(target: Target, arguments: Move, output: &Output) -> Result<Exit, Failure> {
    let from = database_url(&arguments.from)?;
    if arguments.undo {
        // The source is opened, and the target is not touched.
        transfer(&target, &from, &from).undo(arguments.yes).await.map_err(refused)?;
        output.note("the database is open again; a copy in another database must not be used");
        return Ok(Exit::Ok);
    }
    let to = target.url()?;
    let is_shown = io::stderr().is_terminal() && output.is_for_people();
    let copied = Arc::new(OnceLock::new());
    let moving = transfer(&target, &from, &to).most_rows(arguments.most_rows);
    let moving = moving.also(copy_tables_of_flows(from.clone(), to.clone(), Arc::clone(&copied)));
    let moved = moving.progress(move |progress| show(is_shown, progress)).await;
    if is_shown {
        clear();
    }
    let report = moved.map_err(refused)?;
    output.list(&report, &report.tables, |table| table.table.clone(), |_| table(&report))?;
    if let Some(Copied { versions, documents, messages, secrets }) = copied.get().filter(|copied| !copied.is_empty()) {
        output.note(format!(
            "also copied: {versions} versions of flows, {documents} documents of the knowledge base, \
             {messages} messages of the inbox, {secrets} secrets of flows"
        ));
    }
    output.note("moved; the source refuses every change from now on: start the workers on the target");
    Ok(Exit::Ok)
}

fn transfer(target: &Target, from: &str, to: &str) -> Transfer {
    Transfer::new(from, to).schema(target.schema()).timeout(target.timeout())
}

/// The rows of the tables that flows have.
#[derive(Debug)]
struct Copied {
    versions: usize,
    documents: usize,
    messages: usize,
    secrets: usize,
}

impl Copied {
    const fn is_empty(&self) -> bool {
        self.versions + self.documents + self.messages + self.secrets == 0
    }
}

async fn copy_tables_of_flows(from: String, to: String, copied: Arc<OnceLock<Copied>>) -> Result<(), BoxError> {
    let versions = FlowStore::transfer(&from, &to).await?;
    let documents = KbStore::transfer(&from, &to).await?;
    let messages = InboxStore::transfer(&from, &to).await?;
    let secrets = SecretStore::transfer(&from, &to).await?;
    copied.get_or_init(|| Copied { versions, documents, messages, secrets });
    Ok(())
}

fn show(is_shown: bool, TransferProgress { table, rows, .. }: &TransferProgress) {
    if is_shown {
        // A closed standard error leaves nothing to show.
        let _ = write!(io::stderr(), "\r\x1b[K{table}: {rows} rows");
    }
}

fn clear() {
    let _ = write!(io::stderr(), "\r\x1b[K");
}

fn table(report: &TransferReport) -> Rows {
    let mut rows = Rows::new(&["TABLE", "ROWS", "CHECKSUM"]);
    for table in &report.tables {
        rows.push(vec![Cell::new(&table.table), number(table.rows), Cell::new(&table.checksum)]);
    }
    rows
}

fn refused(error: TransferError) -> Failure {
    let help = match &error {
        TransferError::SameDatabase { .. } | TransferError::InMemory { .. } => {
            return Failure::usage(error.to_string(), "name the old database with --from and the new one with --to");
        }
        TransferError::Connect(_) => "check --from and --to; the verb `migrate` updates the tables of the source",
        TransferError::Database(source) => {
            let exit = match source.kind {
                DatabaseErrorKind::Busy | DatabaseErrorKind::Unreachable => Exit::Unavailable,
                _ => Exit::Error,
            };
            let message = format!("{error}: {source}: {}", source.source);
            return Failure::new(exit, message).help("the role of a PostgreSQL URL must own the tables");
        }
        TransferError::Workers { .. } => "`workflow workers` lists the workers of a database",
        TransferError::AlreadyMoved { .. } => {
            "`workflow move --from SOURCE --undo --yes` opens it again, if nothing uses the other database"
        }
        TransferError::NotMoving { .. } => "check --from",
        _ => "`workflow move --from SOURCE --undo` opens the source again",
    };
    match error {
        TransferError::Connect(error @ (ConnectError::NewerSchema { .. } | ConnectError::InvalidTimeout { .. })) => {
            error.into()
        }
        TransferError::Connect(error) => Failure::from(error).help(help),
        error => Failure::new(Exit::Error, error.to_string()).help(help),
    }
}
