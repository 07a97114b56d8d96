//! Compares both databases, table by table.

use workflow_engine::store::{Checksum, TRANSFER_TABLES, TransferChunk, TransferStore, TransferTable};

use super::rows::{CHUNK_BYTES, key_of, next_rows};
use super::{TransferError, TransferredTable};

/// The largest part of a table that is read at once.
const CHUNK: TransferChunk = TransferChunk { rows: 500, bytes: CHUNK_BYTES };

/// Returns the tables with their checksums, which are equal in both databases.
pub(super) async fn compare(
    source: &dyn TransferStore,
    target: &dyn TransferStore,
) -> Result<Vec<TransferredTable>, TransferError> {
    let mut compared = Vec::new();
    for table in TRANSFER_TABLES {
        let (original, copy) = (read(source, table).await?, read(target, table).await?);
        if original != copy {
            return Err(TransferError::Differs {
                table: table.name,
                source_rows: original.rows,
                target_rows: copy.rows,
                source_sum: original.to_string(),
                target_sum: copy.to_string(),
            });
        }
        compared.push(TransferredTable {
            table: table.name.to_owned(),
            rows: original.rows,
            checksum: original.to_string(),
        });
    }
    Ok(compared)
}

async fn read(store: &dyn TransferStore, table: &TransferTable) -> Result<Checksum, TransferError> {
    let mut checksum = Checksum::default();
    let (mut key, mut chunk) = (None, CHUNK);
    loop {
        let rows = store.read_transfer(table, key.as_deref(), chunk).await?;
        let Some(last) = rows.last() else { return Ok(checksum) };
        key = Some(key_of(table, last));
        checksum.add(table, &rows);
        chunk.rows = next_rows(&rows, CHUNK.rows);
    }
}
