//! Copies the rows, chunk by chunk.

use workflow_engine::store::{
    TRANSFER_TABLES, TransferChunk, TransferCursor, TransferRow, TransferStore, TransferTable, TransferValue, bytes_of,
};

use super::{TransferError, TransferProgress};

/// A chunk ends with the row that makes it larger than this, so that it fits into memory.
pub(super) const CHUNK_BYTES: usize = 4 * 1024 * 1024;

/// The rows of the first chunk of a table, while their size is unknown.
const FIRST_ROWS: u32 = 64;

/// Copies what follows the cursor.
pub(super) async fn copy(
    source: &dyn TransferStore,
    target: &dyn TransferStore,
    cursor: Option<TransferCursor>,
    most_rows: u32,
    progress: &mut (dyn FnMut(&TransferProgress) + Send),
) -> Result<(), TransferError> {
    let is_begun = |table: &TransferTable| cursor.as_ref().is_some_and(|cursor| cursor.table == table.name);
    let first = TRANSFER_TABLES.iter().position(is_begun).unwrap_or(0);
    let mut place = cursor;
    for table in TRANSFER_TABLES.iter().skip(first).filter(|table| table.is_copied) {
        let begun = place.take().filter(|cursor| cursor.table == table.name);
        copy_table((source, target), table, begun, most_rows, progress).await?;
    }
    Ok(())
}

async fn copy_table(
    (source, target): (&dyn TransferStore, &dyn TransferStore),
    table: &'static TransferTable,
    begun: Option<TransferCursor>,
    most_rows: u32,
    progress: &mut (dyn FnMut(&TransferProgress) + Send),
) -> Result<(), TransferError> {
    let mut copied = begun.as_ref().map_or(0, |cursor| cursor.rows);
    let mut key = begun.map(|cursor| cursor.key);
    let mut chunk = TransferChunk { rows: FIRST_ROWS.min(most_rows), bytes: CHUNK_BYTES };
    loop {
        let rows = source.read_transfer(table, key.as_deref(), chunk).await?;
        let Some(last) = rows.last() else { return Ok(()) };
        let last = key_of(table, last);
        copied += u64::try_from(rows.len()).unwrap_or(0);
        let cursor = TransferCursor { table: table.name.to_owned(), key: last.clone(), rows: copied };
        target.write_transfer(table, &rows, &cursor).await?;
        progress(&TransferProgress { table: table.name, rows: copied });
        chunk.rows = next_rows(&rows, most_rows);
        key = Some(last);
    }
}

/// Returns the primary key of a row.
pub(super) fn key_of(table: &TransferTable, row: &TransferRow) -> Vec<TransferValue> {
    row.iter().take(table.key).cloned().collect()
}

/// Returns how many rows of the size of these fit into a chunk. The rest of a chunk that ends early
/// was read in vain.
pub(super) fn next_rows(rows: &[TransferRow], most_rows: u32) -> u32 {
    let bytes: usize = rows.iter().map(bytes_of).sum();
    let of_this_size = CHUNK_BYTES.saturating_mul(rows.len()) / bytes.max(1);
    u32::try_from(of_this_size).unwrap_or(u32::MAX).clamp(1, most_rows.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_rows_make_small_chunks() {
        let row = |bytes: usize| vec![TransferValue::Text("x".repeat(bytes))];
        assert_eq!(next_rows(&[row(10), row(10)], 1000), 1000);
        assert_eq!(next_rows(&[row(CHUNK_BYTES / 4)], 1000), 3, "with what a row has beside its text");
        assert_eq!(next_rows(&[row(CHUNK_BYTES * 2)], 1000), 1, "a chunk has a row");
    }
}
