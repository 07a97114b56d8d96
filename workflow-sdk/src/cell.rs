//! The choice of a cell, for applications that divide their work among several databases.

/// Chooses one of these cells for a key. Returns `None` if there is no cell.
///
/// A cell is one database with its own workers and clients: see `docs/guide/scaling.md`. Give the
/// names of all cells, and for `key` the text that decides: a tenant, or the key of a run.
///
/// Equal keys and names lead to the same cell in every process and every release, in whatever order
/// the names come. The choice is rendezvous hashing: each cell gets a score from the key and its
/// name, and the highest score wins. So a further cell takes an equal share of keys from each of
/// the others and moves no key between them.
///
/// A key that moves to an added cell would start new runs there, while its old runs stay in the old
/// cell. So if cells may be added, choose only for new keys, and keep each choice in a table.
///
/// ```
/// use std::collections::HashMap;
///
/// use workflow_sdk::choose_cell;
/// use workflow_sdk::prelude::*;
///
/// #[workflow]
/// async fn checkout(ctx: &Ctx, order: String) -> Result<String> {
///     Ok(order)
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut cells: HashMap<&str, Client> = HashMap::new();
/// // In a real system each cell has the URL of its own database.
/// for (name, url) in [("cell-1", "sqlite::memory:"), ("cell-2", "sqlite::memory:")] {
///     cells.insert(name, Client::connect(url).await?);
/// }
///
/// let cell = choose_cell("tenant-7", cells.keys().copied()).ok_or("there is no cell")?;
/// let run = cells[cell].start(checkout, "a book".to_owned()).key("order-42").await?;
/// // The id of a run does not say in which cell the run is: keep both.
/// println!("run {} is in {cell}", run.id());
/// # assert_eq!(run.status().await?, RunStatus::Pending);
/// # Ok(())
/// # }
/// ```
#[must_use]
pub fn choose_cell<'a>(key: &str, cells: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    cells.into_iter().max_by_key(|cell| (score(key, cell), *cell))
}

/// Returns the score of a cell for a key. The formula must never change, because programs find the
/// runs of earlier releases by it.
fn score(key: &str, cell: &str) -> u64 {
    mix(hash(key) ^ mix(hash(cell)))
}

/// Returns the hash of a text (FNV-1a).
fn hash(text: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}

/// Spreads each bit over all bits (the last step of SplitMix64). Without it, names that differ in
/// their last letter alone would get scores in a fixed order.
fn mix(bits: u64) -> u64 {
    let bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn names(count: usize) -> Vec<String> {
        (1..=count).map(|number| format!("cell-{number}")).collect()
    }

    fn chosen(key: usize, cells: &[String]) -> Option<&str> {
        choose_cell(&format!("order-{key}"), cells.iter().map(String::as_str))
    }

    /// With another result, keys would lead to cells that do not have their runs.
    #[test]
    fn a_key_leads_to_the_same_cell_in_every_release() {
        let cells = names(8);
        let found: Vec<_> = (40..48).map(|key| chosen(key, &cells)).collect();
        let expected = ["cell-8", "cell-7", "cell-6", "cell-7", "cell-6", "cell-1", "cell-5", "cell-7"];
        assert_eq!(found, expected.map(Some));
    }

    #[test]
    fn the_order_of_the_cells_does_not_matter() {
        let cells = names(64);
        let reversed: Vec<String> = cells.iter().rev().cloned().collect();
        assert!((0..1000).all(|key| chosen(key, &cells) == chosen(key, &reversed)));
        assert_eq!(choose_cell("order-1", []), None);
    }

    #[test]
    fn each_cell_gets_an_equal_share_of_the_keys() {
        let cells = names(64);
        let mut keys: BTreeMap<Option<&str>, u32> = BTreeMap::new();
        for key in 0..64_000 {
            *keys.entry(chosen(key, &cells)).or_default() += 1;
        }
        assert_eq!(keys.len(), 64);
        assert!(keys.values().all(|keys| (800..1200).contains(keys)), "{keys:?}");
    }

    #[test]
    fn a_further_cell_takes_keys_and_moves_none_between_the_others() {
        let (before, after) = (names(7), names(8));
        let moved: Vec<_> = (0..8000).filter(|key| chosen(*key, &before) != chosen(*key, &after)).collect();
        assert!((800..1200).contains(&moved.len()), "{} keys moved", moved.len());
        assert!(moved.into_iter().all(|key| chosen(key, &after) == Some("cell-8")));
    }
}
