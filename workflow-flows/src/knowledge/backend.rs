//! The statements of the knowledge base.

use workflow_sdk::{RunId, Timestamp, Tx, sqlx};

#[cfg(feature = "sqlite")]
use super::index::fts5;
#[cfg(feature = "postgres")]
use super::index::tsquery;
use super::index::{EXCERPT, Indexed};
use super::memory::Memory;
use super::{KbDocument, KbEntry, KbError, KbSearch};
use crate::database::{Database, MissingFile, fetch};
#[cfg(feature = "postgres")]
use crate::database::{in_schema, schema_of};

const TABLE: &str = "workflow_knowledge";

pub(super) struct Backend {
    database: Database<Memory>,
    /// The schema of the table, quoted. Empty for every database but PostgreSQL.
    #[cfg(feature = "postgres")]
    schema: String,
}

type Row = (String, String, String, String, String, Option<String>, i64, i64);

fn read((base, key, title, text, tags, run, revision, written_at): Row) -> Result<KbEntry, KbError> {
    let run = run.map(|run| run.parse::<RunId>().map_err(|error| error.to_string())).transpose();
    let tags = serde_json::from_str(&tags).map_err(|error| error.to_string());
    match (run, tags) {
        (Ok(run), Ok(tags)) => {
            let written_at = Timestamp::from_micros(written_at);
            Ok(KbEntry { document: KbDocument { base, key, title, text, tags, run, written_at }, revision })
        }
        (Err(reason), _) | (_, Err(reason)) => Err(KbError::Unreadable { base, key, reason }),
    }
}

/// A failure of a write in the transaction of a step.
#[derive(Debug)]
pub(super) enum WriteError {
    /// The run is in a database of another kind.
    OtherDatabase,
    Database(sqlx::Error),
}

impl From<sqlx::Error> for WriteError {
    fn from(error: sqlx::Error) -> Self {
        Self::Database(error)
    }
}

impl Backend {
    /// Opens the database of a URL, and creates the tables.
    pub(super) async fn connect(url: &str) -> Result<Self, KbError> {
        Self::prepared(Database::open(url, MissingFile::Create).await?).await
    }

    /// Opens the database of a URL, and creates nothing.
    pub(super) async fn attach(url: &str) -> Result<Self, KbError> {
        Self::over(Database::open(url, MissingFile::Refuse).await?).await
    }

    /// Opens the database of a URL that has the tables. Creates nothing.
    pub(super) async fn find_database(url: &str) -> Result<Option<Self>, KbError> {
        match Database::find(url, TABLE).await? {
            Some(database) => Ok(Some(Self::over(database).await?)),
            None => Ok(None),
        }
    }

    /// Creates the tables.
    pub(super) async fn prepared(database: Database<Memory>) -> Result<Self, KbError> {
        let sqlite = [
            include_str!("../../sql/create_knowledge_sqlite.sql"),
            include_str!("../../sql/create_knowledge_words_sqlite.sql"),
        ];
        let postgres = [
            include_str!("../../sql/create_knowledge_postgres.sql"),
            include_str!("../../sql/create_knowledge_words_postgres.sql"),
        ];
        database.create(TABLE, &sqlite, &postgres).await?;
        Self::over(database).await
    }

    async fn over(database: Database<Memory>) -> Result<Self, KbError> {
        #[cfg(feature = "postgres")]
        if let Database::Postgres(pool) = &database {
            let schema = schema_of(pool, TABLE).await?.ok_or(KbError::NoTables)?;
            return Ok(Self { schema, database });
        }
        if !database.has(TABLE).await? {
            return Err(KbError::NoTables);
        }
        Ok(Self {
            #[cfg(feature = "postgres")]
            schema: String::new(),
            database,
        })
    }

    pub(super) fn in_memory() -> Self {
        Self {
            #[cfg(feature = "postgres")]
            schema: String::new(),
            database: Database::Memory(Memory::default()),
        }
    }

    pub(super) fn kind(&self) -> &'static str {
        self.database.kind()
    }

    /// Writes a document without a step. Returns its revision.
    pub(super) async fn put(&self, document: &KbDocument) -> Result<i64, sqlx::Error> {
        match &self.database {
            Database::Memory(memory) => Ok(memory.write(document)),
            #[cfg(feature = "sqlite")]
            Database::Sqlite(pool) => {
                let mut transaction = pool.begin().await?;
                let revision = write_to_sqlite(&mut transaction, document).await?;
                transaction.commit().await?;
                Ok(revision)
            }
            #[cfg(feature = "postgres")]
            Database::Postgres(pool) => {
                let mut connection = pool.acquire().await?;
                write_to_postgres(&mut connection, &self.schema, document).await
            }
        }
    }

    /// Writes a document in the transaction of a step. Returns its revision.
    pub(super) async fn write(&self, mut tx: Tx, document: &KbDocument) -> Result<i64, WriteError> {
        match &self.database {
            Database::Memory(memory) => Ok(memory.write(document)),
            #[cfg(feature = "sqlite")]
            Database::Sqlite(_) => {
                let connection = tx.sqlite().map_err(|_| WriteError::OtherDatabase)?;
                Ok(write_to_sqlite(connection, document).await?)
            }
            #[cfg(feature = "postgres")]
            Database::Postgres(_) => {
                let connection = tx.postgres().map_err(|_| WriteError::OtherDatabase)?;
                Ok(write_to_postgres(connection, &self.schema, document).await?)
            }
        }
    }

    pub(super) async fn find(&self, base: &str, key: &str) -> Result<Option<KbEntry>, KbError> {
        let in_memory = |memory: &Memory| memory.find(base, key).into_iter().collect();
        let sqlite = include_str!("../../sql/find_knowledge_sqlite.sql");
        let postgres = include_str!("../../sql/find_knowledge_postgres.sql");
        let found: Result<Vec<_>, KbError> = fetch!(&self.database, in_memory, sqlite, postgres, read, [base, key]);
        Ok(found?.into_iter().next())
    }

    /// Inserts a document as it was stored elsewhere. Returns `false` if another document has its
    /// base and key.
    pub(super) async fn copy(&self, entry: &KbEntry) -> Result<bool, KbError> {
        match &self.database {
            Database::Memory(_) => Ok(false),
            #[cfg(feature = "sqlite")]
            Database::Sqlite(pool) => {
                let mut transaction = pool.begin().await?;
                let is_there = copy_to_sqlite(&mut transaction, entry).await?;
                transaction.commit().await?;
                Ok(is_there)
            }
            #[cfg(feature = "postgres")]
            Database::Postgres(pool) => Ok(copy_to_postgres(pool, &self.schema, entry).await?),
        }
    }

    /// Returns documents with the beginnings of their texts.
    pub(super) async fn list(
        &self,
        base: Option<&str>,
        after: (&str, &str),
        limit: u32,
    ) -> Result<Vec<KbEntry>, KbError> {
        // One character more shows that the text goes on.
        self.list_texts(base, after, limit, i32::try_from(EXCERPT + 1).unwrap_or(i32::MAX)).await
    }

    /// Returns documents of all bases with their whole texts.
    pub(super) async fn list_whole(&self, after: (&str, &str), limit: u32) -> Result<Vec<KbEntry>, KbError> {
        self.list_texts(None, after, limit, i32::MAX).await
    }

    async fn list_texts(
        &self,
        base: Option<&str>,
        after: (&str, &str),
        limit: u32,
        characters: i32,
    ) -> Result<Vec<KbEntry>, KbError> {
        let in_memory = |memory: &Memory| memory.list(base, after, limit as usize);
        let sqlite = include_str!("../../sql/list_knowledge_sqlite.sql");
        let postgres = include_str!("../../sql/list_knowledge_postgres.sql");
        let limit = i64::from(limit);
        fetch!(&self.database, in_memory, sqlite, postgres, read, [base, after.0, after.1, limit, characters])
    }

    pub(super) async fn search(&self, search: &KbSearch) -> Result<Vec<KbEntry>, KbError> {
        let query = match &self.database {
            Database::Memory(_) => String::new(),
            #[cfg(feature = "sqlite")]
            Database::Sqlite(_) => fts5(&search.query),
            #[cfg(feature = "postgres")]
            Database::Postgres(_) => tsquery(&search.query),
        };
        let in_memory = |memory: &Memory| memory.search(search);
        let sqlite = include_str!("../../sql/search_knowledge_sqlite.sql");
        let postgres = include_str!("../../sql/search_knowledge_postgres.sql");
        let (base, tags, limit) = (search.base.as_deref(), as_json(&search.tags), i64::from(search.limit));
        fetch!(&self.database, in_memory, sqlite, postgres, read, [&query, base, &tags, limit])
    }
}

/// Returns texts as JSON.
fn as_json(texts: &[String]) -> String {
    serde_json::Value::from(texts).to_string()
}

#[cfg(feature = "sqlite")]
async fn write_to_sqlite(connection: &mut sqlx::SqliteConnection, document: &KbDocument) -> Result<i64, sqlx::Error> {
    let KbDocument { base, key, title, text, tags, run, written_at } = document;
    let words = Indexed::new(title, text);
    let write = sqlx::query_as(include_str!("../../sql/write_knowledge_sqlite.sql")).bind(base).bind(key).bind(title);
    let write = write.bind(text).bind(as_json(tags)).bind(run.map(|run| run.to_string()));
    let (id, revision): (i64, i64) = write.bind(written_at.as_micros()).fetch_one(&mut *connection).await?;
    index_in_sqlite(connection, id, &words).await?;
    Ok(revision)
}

#[cfg(feature = "sqlite")]
async fn copy_to_sqlite(connection: &mut sqlx::SqliteConnection, entry: &KbEntry) -> Result<bool, sqlx::Error> {
    let KbEntry { document: KbDocument { base, key, title, text, tags, run, written_at }, revision } = entry;
    let copy = sqlx::query_scalar(include_str!("../../sql/copy_knowledge_sqlite.sql")).bind(base).bind(key);
    let copy = copy.bind(title).bind(text).bind(as_json(tags)).bind(run.map(|run| run.to_string())).bind(revision);
    let id: Option<i64> = copy.bind(written_at.as_micros()).fetch_optional(&mut *connection).await?;
    let Some(id) = id else { return Ok(false) };
    index_in_sqlite(connection, id, &Indexed::new(title, text)).await?;
    Ok(true)
}

#[cfg(feature = "sqlite")]
async fn index_in_sqlite(connection: &mut sqlx::SqliteConnection, id: i64, words: &Indexed) -> Result<(), sqlx::Error> {
    let index = sqlx::query(include_str!("../../sql/index_knowledge_sqlite.sql")).bind(id);
    index.bind(words.title.join(" ")).bind(words.text.join(" ")).execute(connection).await.map(drop)
}

#[cfg(feature = "postgres")]
async fn copy_to_postgres(pool: &sqlx::PgPool, schema: &str, entry: &KbEntry) -> Result<bool, sqlx::Error> {
    let KbEntry { document: KbDocument { base, key, title, text, tags, run, written_at }, revision } = entry;
    let statement = in_schema(include_str!("../../sql/copy_knowledge_postgres.sql"), schema);
    let copy = sqlx::query_scalar(statement).bind(base).bind(key).bind(title).bind(text).bind(as_json(tags));
    let copy = copy.bind(run.map(|run| run.to_string())).bind(revision).bind(written_at.as_micros());
    let revision: Option<i64> = copy.bind(Indexed::new(title, text).tsvector()).fetch_optional(pool).await?;
    Ok(revision.is_some())
}

#[cfg(feature = "postgres")]
async fn write_to_postgres(
    connection: &mut sqlx::PgConnection,
    schema: &str,
    document: &KbDocument,
) -> Result<i64, sqlx::Error> {
    let KbDocument { base, key, title, text, tags, run, written_at } = document;
    let statement = in_schema(include_str!("../../sql/write_knowledge_postgres.sql"), schema);
    let write = sqlx::query_scalar(statement).bind(base).bind(key).bind(title).bind(text);
    let write = write.bind(as_json(tags)).bind(run.map(|run| run.to_string())).bind(written_at.as_micros());
    write.bind(Indexed::new(title, text).tsvector()).fetch_one(connection).await
}
