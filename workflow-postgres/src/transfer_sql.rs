//! Statements for each table of a transfer. They are made from its columns, because one file per
//! table and direction would repeat these columns six times.

use workflow_engine::store::{TRANSFER_TABLES, TransferColumn, TransferColumnKind, TransferTable};

use super::sql::{Sql, Statement};

/// Workers are not copied, and must not begin either.
const WORKERS: &str = "{schema}.workflow_workers";

/// The trigger of a fence on a table.
const TRIGGER: &str = "workflow_fence";

impl Sql {
    /// Reads rows in the order of the primary key: after a key, if there is one, and at most the
    /// number in the last parameter.
    pub(super) fn read_transferred(&self, table: &TransferTable, is_first: bool) -> Statement {
        let (columns, key) = (names("t.", table.columns), names("t.", table.key_columns()));
        let (after, limit) = match is_first {
            true => (String::new(), 1),
            false => (format!(" WHERE ({key}) > ({})", holes(table.key_columns(), "")), table.key + 1),
        };
        let text = format!("SELECT {columns} FROM {} AS t{after} ORDER BY {key} LIMIT ${limit}", place(table));
        self.made("read_transferred", &text)
    }

    /// Inserts rows; each parameter has the values of one column.
    pub(super) fn insert_transferred(&self, table: &TransferTable) -> Statement {
        let (columns, holes) = (names("", table.columns), holes(table.columns, "[]"));
        let place = place(table);
        // A number that the database gives to new rows is the copied one here.
        let text = format!("INSERT INTO {place} ({columns}) OVERRIDING SYSTEM VALUE SELECT * FROM unnest({holes})");
        self.made("insert_transferred", &text)
    }

    /// Returns whether a table has a row.
    pub(super) fn has_transferred(&self, table: &TransferTable) -> Statement {
        self.made("has_transferred", &format!("SELECT EXISTS (SELECT FROM {}) AS found", place(table)))
    }

    /// Lets nothing but a transfer change the tables.
    pub(super) fn create_triggers(&self) -> Vec<Statement> {
        let create = |place: &str| {
            let text = format!(
                "CREATE TRIGGER {TRIGGER} BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON {place}
                 FOR EACH STATEMENT EXECUTE FUNCTION {{schema}}.workflow_refuse_change()"
            );
            self.made("create_trigger", &text)
        };
        places().map(|place| create(&place)).collect()
    }

    /// Undoes [`Sql::create_triggers`].
    pub(super) fn drop_triggers(&self) -> Vec<Statement> {
        let drop = |place: &str| self.made("drop_trigger", &format!("DROP TRIGGER IF EXISTS {TRIGGER} ON {place}"));
        places().map(|place| drop(&place)).collect()
    }
}

fn places() -> impl Iterator<Item = String> {
    TRANSFER_TABLES.iter().map(place).chain([WORKERS.to_owned()])
}

fn place(table: &TransferTable) -> String {
    format!("{{schema}}.{}", table.name)
}

fn names(table: &str, columns: &[TransferColumn]) -> String {
    columns.iter().map(|column| format!("{table}{}", column.name)).collect::<Vec<_>>().join(", ")
}

/// Returns a parameter for each column, each with its type.
fn holes(columns: &[TransferColumn], array: &str) -> String {
    let hole = |(column, number): (&TransferColumn, usize)| {
        let kind = match column.kind {
            TransferColumnKind::Id => "uuid",
            TransferColumnKind::Text => "text",
            TransferColumnKind::Integer => "bigint",
        };
        format!("${number}::{kind}{array}")
    };
    columns.iter().zip(1..).map(hole).collect::<Vec<_>>().join(", ")
}
