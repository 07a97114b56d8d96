//! Transfers money between two accounts in the transaction that also commits the step's outcome. So
//! the transfer happens exactly once.
//!
//! `cargo run --example transaction [-- --database postgres://user@host/database]`

use clap::Parser;
use serde::{Deserialize, Serialize};
use sqlx::{Database, Encode, Executor, IntoArguments, Pool, Postgres, Row, Sqlite, Type};
use workflow_sdk::RunId;
use workflow_sdk::prelude::*;
use workflow_worker::Worker;

#[derive(Serialize, Deserialize)]
struct Transfer {
    from: String,
    to: String,
    cents: i64,
}

/// Transfers the money in a step whose first attempt fails after its statements. They are rolled
/// back, and the second attempt executes them again.
#[workflow]
async fn pay(ctx: &Ctx<Client>, transfer: Transfer) -> Result<RunId> {
    ctx.transaction("transfer", async |mut tx: Tx| {
        move_money(&mut tx, &transfer).await?;
        if ctx.attempt() == 1 {
            return Err(Error::msg("the network connection broke"));
        }
        // The letter is sent if and only if the money has moved.
        let letter = format!("{} cents from {} to {}", transfer.cents, transfer.from, transfer.to);
        let run = ctx.state().start(send_letter, letter).within(&mut tx).await?;
        Ok(run.id())
    })
    .retry(Retry::fixed(std::time::Duration::from_millis(50)))
    .await
}

#[workflow]
async fn send_letter(ctx: &Ctx<Client>, text: String) -> Result<String> {
    ctx.step("send", async || ok(format!("sent: {text}"))).await
}

/// Updates both accounts. An application that uses only one database needs only one of the
/// branches.
async fn move_money(tx: &mut Tx, transfer: &Transfer) -> Result<()> {
    const UPDATE: &str = "UPDATE example_accounts SET cents = cents + $1 WHERE owner = $2";
    for (owner, cents) in [(&transfer.from, -transfer.cents), (&transfer.to, transfer.cents)] {
        match tx.sqlite() {
            Ok(connection) => sqlx::query(UPDATE).bind(cents).bind(owner).execute(connection).await.map(drop)?,
            Err(_) => sqlx::query(UPDATE).bind(cents).bind(owner).execute(tx.postgres()?).await.map(drop)?,
        }
    }
    Ok(())
}

/// Creates the accounts, runs a transfer, and prints the balances. The bounds make this code work
/// with both SQLite and PostgreSQL.
async fn show<DB>(database: &str, client: &Client) -> Result<()>
where
    DB: Database<Arguments: IntoArguments<DB>>,
    for<'c> &'c mut DB::Connection: Executor<'c, Database = DB>,
    for<'c> &'c Pool<DB>: Executor<'c, Database = DB>,
    for<'q> String: Encode<'q, DB> + Type<DB>,
    i64: for<'r> sqlx::Decode<'r, DB> + Type<DB>,
    usize: sqlx::ColumnIndex<DB::Row>,
{
    let pool = Pool::<DB>::connect(database).await?;
    pool.execute("DROP TABLE IF EXISTS example_accounts").await?;
    pool.execute("CREATE TABLE example_accounts (owner TEXT PRIMARY KEY, cents BIGINT NOT NULL)").await?;
    pool.execute("INSERT INTO example_accounts VALUES ('ann', 100), ('ben', 0)").await?;

    let input = Transfer { from: "ann".into(), to: "ben".into(), cents: 70 };
    let run = client.start(pay, input).await?;
    let letter = client.handle::<String>(run.result().await?).await?;
    println!("{}", letter.result().await?);
    for row in run.history().await? {
        println!("{} attempt {}: {}", row.step_key, row.attempt, row.status);
    }
    let rows = pool.fetch_all("SELECT cents FROM example_accounts ORDER BY owner").await?;
    let cents: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
    println!("the accounts hold {} and {}", cents[0], cents[1]);
    Ok(())
}

#[derive(Parser)]
struct Options {
    /// sqlite://file or postgres://user@host/database [default: a fresh SQLite file]
    #[arg(long)]
    database: Option<String>,
}

#[tokio::main]
async fn main() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let fresh = || format!("sqlite://{}/accounts.db", directory.path().display());
    let database = Options::parse().database.unwrap_or_else(fresh);
    let client = Client::connect(&database).await?;

    let worker = Worker::new(client.clone(), client.clone()).register(pay).register(send_letter);
    let mut shown = Ok(());
    let application = async {
        shown = match database.starts_with("sqlite:") {
            true => show::<Sqlite>(&database, &client).await,
            false => show::<Postgres>(&database, &client).await,
        }
    };
    worker.run_until(application).await?;
    shown
}
