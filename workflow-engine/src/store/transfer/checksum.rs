use std::fmt;

use super::{TransferRow, TransferTable, TransferValue};

/// The number of rows of a table, and a hash (FNV-1a) of their compared columns in the order of the
/// primary key. Finds damage, not an attack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checksum {
    /// The rows that were added.
    pub rows: u64,
    hash: u64,
}

impl Default for Checksum {
    fn default() -> Self {
        Self { rows: 0, hash: 0xcbf2_9ce4_8422_2325 }
    }
}

impl Checksum {
    /// Adds the next rows of a table.
    pub fn add(&mut self, table: &TransferTable, rows: &[TransferRow]) {
        for row in rows {
            self.rows += 1;
            let compared = table.columns.iter().zip(row).filter(|(column, _)| column.is_compared);
            compared.for_each(|(_, value)| self.add_value(value));
        }
    }

    /// A value begins with its kind, and a text with its length, so that no two rows read alike.
    fn add_value(&mut self, value: &TransferValue) {
        match value {
            TransferValue::Null => self.add_bytes(b"n"),
            TransferValue::Integer(number) => {
                self.add_bytes(b"i");
                self.add_bytes(&number.to_le_bytes());
            }
            TransferValue::Text(text) => {
                self.add_bytes(b"t");
                self.add_bytes(&text.len().to_le_bytes());
                self.add_bytes(text.as_bytes());
            }
        }
    }

    fn add_bytes(&mut self, bytes: &[u8]) {
        let add = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        self.hash = bytes.iter().fold(self.hash, add);
    }
}

/// Shows the hash.
impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.hash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::TRANSFER_TABLES;

    fn of(rows: &[TransferRow]) -> Checksum {
        let table = TRANSFER_TABLES.iter().find(|table| table.name == "workflow_limits").unwrap();
        let mut checksum = Checksum::default();
        checksum.add(table, rows);
        checksum
    }

    fn row(values: [Option<&str>; 3]) -> TransferRow {
        values.map(|value| value.map_or(TransferValue::Null, |text| TransferValue::Text(text.to_owned()))).into()
    }

    #[test]
    fn rows_that_differ_have_other_checksums() {
        let first = of(&[row([Some("a"), Some("bc"), None])]);
        assert_eq!(first, of(&[row([Some("a"), Some("bc"), None])]));
        for other in [[Some("ab"), Some("c"), None], [Some("a"), None, Some("bc")], [Some("a"), Some("bc"), Some("")]] {
            assert_ne!(first, of(&[row(other)]), "{other:?}");
        }
        let (one, two) = (row([Some("a"), None, None]), row([Some("b"), None, None]));
        assert_ne!(of(&[one.clone(), two.clone()]), of(&[two, one]), "the order counts");
    }

    #[test]
    fn a_column_that_is_not_compared_does_not_count() {
        let turns = TRANSFER_TABLES.iter().find(|table| table.name == "workflow_turns").unwrap();
        let checksum = |open_at| {
            let mut checksum = Checksum::default();
            checksum.add(turns, &[[1, 2, 3, open_at].map(TransferValue::Integer).into()]);
            checksum
        };
        assert_eq!(checksum(4), checksum(5));
    }
}
