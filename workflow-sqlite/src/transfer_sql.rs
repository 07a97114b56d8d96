//! Statements for each table of a transfer. They are made from its columns, because one file per
//! table and direction would repeat these columns six times.

use sqlx::AssertSqlSafe;

use workflow_engine::store::{FENCE_REFUSAL, TRANSFER_TABLES, TransferColumn, TransferTable};

/// A statement that consists of names of our own tables and columns.
pub(super) struct TransferSql(String);

/// The changes that a fence refuses.
const CHANGES: [&str; 3] = ["INSERT", "UPDATE", "DELETE"];

/// Workers are not copied, and must not begin either.
const WORKERS: &str = "workflow_workers";

impl TransferSql {
    /// Reads rows in the order of the primary key: after a key, if there is one, and at most the
    /// number in the last parameter.
    pub(super) fn read(table: &TransferTable, is_first: bool) -> Self {
        let (columns, key) = (names(table.columns), names(table.key_columns()));
        let after = if is_first { String::new() } else { format!(" WHERE ({key}) > ({})", holes(table.key)) };
        Self(format!("SELECT {columns} FROM {}{after} ORDER BY {key} LIMIT +?", table.name))
    }

    /// Inserts one row.
    pub(super) fn insert(table: &TransferTable) -> Self {
        let columns = names(table.columns);
        Self(format!("INSERT INTO {} ({columns}) VALUES ({})", table.name, holes(table.columns.len())))
    }

    /// Returns whether a table has a row.
    pub(super) fn has_rows(table: &TransferTable) -> Self {
        Self(format!("SELECT EXISTS (SELECT 1 FROM {})", table.name))
    }

    /// Lets nothing but a transfer change the tables.
    pub(super) fn fence() -> Self {
        let triggers = triggers().map(|(trigger, change, table)| {
            format!(
                "CREATE TRIGGER {trigger} BEFORE {change} ON {table}
                 WHEN NOT EXISTS (SELECT 1 FROM workflow_transfer WHERE writes = 1)
                 BEGIN SELECT RAISE(ABORT, '{FENCE_REFUSAL}'); END;"
            )
        });
        Self(triggers.collect())
    }

    /// Undoes [`TransferSql::fence`].
    pub(super) fn open_fence() -> Self {
        Self(triggers().map(|(trigger, _, _)| format!("DROP TRIGGER IF EXISTS {trigger};")).collect())
    }

    /// The text is safe: it has nothing but constants of ours.
    pub(super) fn safe(self) -> AssertSqlSafe<String> {
        AssertSqlSafe(self.0)
    }
}

/// Returns the triggers of a fence: the name of each, its change and its table.
fn triggers() -> impl Iterator<Item = (String, &'static str, &'static str)> {
    TRANSFER_TABLES.iter().map(|table| table.name).chain([WORKERS]).flat_map(|table| {
        CHANGES.map(|change| (format!("workflow_fence_{}_{table}", change.to_lowercase()), change, table))
    })
}

fn names(columns: &[TransferColumn]) -> String {
    columns.iter().map(|column| column.name).collect::<Vec<_>>().join(", ")
}

fn holes(parameters: usize) -> String {
    vec!["?"; parameters].join(", ")
}
