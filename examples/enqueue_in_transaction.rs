//! Writes an order and its run in one transaction of the application: either both exist, or
//! neither.
//!
//! `cargo run --example enqueue_in_transaction [-- --database postgres://user@host/database]`

use clap::Parser;
use sqlx::{Database, Encode, Executor, IntoArguments, Pool, Postgres, Sqlite, Transaction, Type};
use workflow_sdk::prelude::*;
use workflow_sdk::{ApplicationTransaction, ClientError};
use workflow_worker::Worker;

#[workflow]
async fn fulfil(ctx: &Ctx, order: String) -> Result<String> {
    ctx.step("ship", async || ok(format!("order {order} is on its way"))).await
}

struct Shop<DB: Database> {
    pool: Pool<DB>,
    client: Client,
}

// The bounds make this code work with both SQLite and PostgreSQL. An application that uses only one
// of them does not need these bounds.
impl<DB> Shop<DB>
where
    DB: Database<Arguments: IntoArguments<DB>>,
    for<'c> &'c mut DB::Connection: Executor<'c, Database = DB>,
    for<'q> String: Encode<'q, DB> + Type<DB>,
    Transaction<'static, DB>: ApplicationTransaction,
{
    async fn place_order(&self, transaction: &mut Transaction<'static, DB>) -> Result<RunHandle<String>> {
        let order = uuid::Uuid::new_v4().to_string();
        let insert = sqlx::query("INSERT INTO example_orders (id) VALUES ($1)").bind(order.clone());
        insert.execute(&mut **transaction).await?;
        Ok(self.client.start(fulfil, order).within(transaction).await?)
    }

    async fn show(database: &str, client: Client) -> Result<()> {
        let shop = Self { pool: Pool::connect(database).await?, client };
        shop.pool.execute("CREATE TABLE IF NOT EXISTS example_orders (id TEXT PRIMARY KEY)").await?;

        let mut transaction = shop.pool.begin().await?;
        let run = shop.place_order(&mut transaction).await?;
        transaction.rollback().await?;
        match run.status().await {
            Err(ClientError::UnknownRun { .. }) => println!("rolled back: no order, no run"),
            other => return Err(Error::msg(format!("a run was left behind: {other:?}"))),
        }

        let mut transaction = shop.pool.begin().await?;
        let run = shop.place_order(&mut transaction).await?;
        transaction.commit().await?;
        println!("committed: an order, and run {}", run.id());
        println!("its result: {}", run.result().await?);
        Ok(())
    }
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
    let fresh = || format!("sqlite://{}/orders.db", directory.path().display());
    let database = Options::parse().database.unwrap_or_else(fresh);
    let client = Client::connect(&database).await?;

    let worker = Worker::new(client.clone(), ()).register(fulfil);
    let mut shown = Ok(());
    let application = async {
        shown = match database.starts_with("sqlite:") {
            true => Shop::<Sqlite>::show(&database, client).await,
            false => Shop::<Postgres>::show(&database, client).await,
        }
    };
    worker.run_until(application).await?;
    shown
}
