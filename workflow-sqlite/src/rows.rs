//! Statements that take many rows as parameters.
//!
//! One JSON text of all rows would be shorter to write. But SQLite would first parse the whole text
//! and then search it for each column.

use std::sync::{Arc, OnceLock};

use sqlx::query::Query;
use sqlx::sqlite::SqliteArguments;
use sqlx::{Arguments, AssertSqlSafe, Encode, Sqlite, Type};

use workflow_engine::store::DatabaseError;

use super::error::During;

/// The largest number of rows per statement. It is far below SQLite's limit of 32,766 parameters. A
/// longer statement would take more time to prepare than it saves.
pub(super) const MOST_ROWS: usize = 512;

/// The numbers of rows for which a text exists. More texts would crowd the driver's statement
/// cache, and fewer would leave more rows of a text unused.
const SIZES: [usize; 5] = [1, 16, 64, 256, MOST_ROWS];

/// The beginning and the end of the row of parameters in a statement's file.
const ROW: (&str, char) = ("VALUES (", ')');

/// A statement or script with a row of parameters in `VALUES`, which is repeated for any number of
/// rows. The text can have more rows than needed, so the statement must skip rows whose first
/// column is NULL.
pub(super) struct RowsStatement {
    of_one_row: fn() -> &'static str,
    texts: [OnceLock<Arc<str>>; SIZES.len()],
}

impl RowsStatement {
    pub(super) const fn new(of_one_row: fn() -> &'static str) -> Self {
        Self { of_one_row, texts: [const { OnceLock::new() }; SIZES.len()] }
    }

    /// Returns the query with these parameters. Its text has room for `rows` rows, but for at most
    /// [`MOST_ROWS`].
    pub(super) fn query(&self, rows: usize, parameters: Parameters) -> Query<'static, Sqlite, SqliteArguments> {
        let place = place_of(rows);
        let text = self.texts[place].get_or_init(|| repeated((self.of_one_row)(), SIZES[place]));
        // The text consists of our own file alone.
        sqlx::query_with(AssertSqlSafe(Arc::clone(text)), parameters.arguments)
    }
}

/// Returns the smallest size that has room for this number of rows, or the largest size.
pub(super) fn room_for(rows: usize) -> usize {
    SIZES[place_of(rows)]
}

fn place_of(rows: usize) -> usize {
    SIZES.iter().position(|size| *size >= rows).unwrap_or(SIZES.len() - 1)
}

/// The parameters of a statement, in the order of its text. Binding them to the query one by one
/// would move the whole query for each of them.
#[derive(Default)]
pub(super) struct Parameters {
    arguments: SqliteArguments,
    /// The few texts that occur in many rows.
    words: Vec<(&'static str, Arc<str>)>,
}

impl Parameters {
    /// Reserves room for this number of further parameters.
    pub(super) fn reserve(&mut self, parameters: usize) {
        self.arguments.reserve(parameters, 0);
    }

    /// Adds the next parameter.
    pub(super) fn add<'t>(
        &mut self,
        value: impl Encode<'t, Sqlite> + Type<Sqlite>,
    ) -> Result<&mut Self, DatabaseError> {
        self.arguments.add(value).map_err(sqlx::Error::Encode).during("write a parameter")?;
        Ok(self)
    }

    /// Adds a text. As a `str` the driver would allocate it twice. A batch waits for both
    /// allocations, and a thread other than the one that made them frees them.
    pub(super) fn add_text(&mut self, text: Option<&str>) -> Result<&mut Self, DatabaseError> {
        self.add(text.map(Arc::<str>::from))
    }

    /// Adds a text that occurs in many rows, and shares its allocation between them.
    pub(super) fn add_word(&mut self, word: &'static str) -> Result<&mut Self, DatabaseError> {
        let known = self.words.iter().find(|(known, _)| *known == word).map(|(_, text)| Arc::clone(text));
        let text = known.unwrap_or_else(|| {
            let text = Arc::<str>::from(word);
            self.words.push((word, Arc::clone(&text)));
            text
        });
        self.add(text)
    }
}

fn repeated(of_one_row: &'static str, rows: usize) -> Arc<str> {
    let row = of_one_row.rfind(ROW.0).map(|place| place + ROW.0.len() - 1);
    let end = row.and_then(|row| Some(row + of_one_row.get(row..)?.find(ROW.1)? + ROW.1.len_utf8()));
    match (row, end) {
        (Some(row), Some(end)) => {
            let others = format!(", {}", &of_one_row[row..end]).repeat(rows - 1);
            [&of_one_row[..end], &others, &of_one_row[end..]].concat().into()
        }
        _ => of_one_row.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql;

    #[test]
    fn the_row_is_repeated_and_nothing_else() {
        assert_eq!(&*repeated("A (VALUES (?, ?)) B ?", 1), "A (VALUES (?, ?)) B ?");
        assert_eq!(&*repeated("A (VALUES (?, ?)) B", 3), "A (VALUES (?, ?), (?, ?), (?, ?)) B");
    }

    #[test]
    fn the_smallest_text_with_room_for_all_rows_is_taken() {
        static STATEMENT: RowsStatement = RowsStatement::new(|| sql::UPSERT_ATTEMPTS);
        let all = [0, 1, 2, 256, 5000];
        assert_eq!(all.map(room_for), [1, 1, 16, 256, 512]);
        let _ = all.map(|rows| STATEMENT.query(rows, Parameters::default()));
        let made = STATEMENT.texts.iter().map(|text| text.get().map_or(0, |text| text.matches("(?").count()));
        assert_eq!(made.collect::<Vec<_>>(), [1, 16, 0, 256, 512]);
    }
}
