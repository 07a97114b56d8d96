//! Copies the versions of flows to another database.

use super::backend::{Backend, TABLE};
use super::{FlowStore, FlowStoreError};
use crate::database::MissingFile;

impl FlowStore {
    /// Copies all versions of flows from the database at `from` to the one at `to`, whose table is
    /// created if there is none. Does nothing if the first database has no flows or is no file.
    /// Returns the number of versions in the first database. Copying them again is safe.
    ///
    /// # Errors
    /// [`FlowStoreError::VersionTaken`] if the second database has another body under the name and
    /// version of one of them, [`FlowStoreError::Url`], [`FlowStoreError::Database`].
    ///
    /// # Cancel safety
    /// If the future is dropped, some versions may be copied.
    pub async fn transfer(from: &str, to: &str) -> Result<usize, FlowStoreError> {
        let Some(source) = Backend::find(from, TABLE).await? else { return Ok(0) };
        let rows = source.rows().await?;
        if rows.is_empty() {
            return Ok(0);
        }
        let target = Backend::open(to, MissingFile::Create).await?.prepared().await?;
        for row in &rows {
            let (name, _, version, digest, ..) = row;
            let is_new = target.insert_row(row).await?;
            if !is_new && target.version(name, version).await?.is_none_or(|found| found.digest != *digest) {
                return Err(FlowStoreError::VersionTaken { name: name.clone(), version: version.clone() });
            }
        }
        Ok(rows.len())
    }
}

#[cfg(all(test, feature = "sqlite"))]
mod tests {
    use crate::check::{Options, check};
    use crate::{FlowStore, FlowStoreError};

    fn flow(value: u32) -> crate::graph::Flow {
        let source = format!("flow: 1\nname: greet\ndo: [ {{ id: a, set: {{ x: {value} }} }} ]\n");
        let checked = check(&source, &Options::default());
        checked.flow.unwrap_or_else(|| unreachable!("{:?}", checked.findings))
    }

    #[tokio::test]
    async fn versions_are_copied_once_and_never_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let url = |name: &str| format!("sqlite://{}/{name}", directory.path().display());
        let (from, to, other) = (url("from.db"), url("to.db"), url("other.db"));
        assert_eq!(FlowStore::transfer(&from, &to).await.unwrap(), 0, "there is no file");

        let source = FlowStore::connect(&from).await.unwrap();
        assert_eq!(FlowStore::transfer(&from, &to).await.unwrap(), 0);
        source.deploy(&flow(1), "ada", None).await.unwrap();
        source.deploy(&flow(2), "ada", None).await.unwrap();
        for _ in 0..2 {
            assert_eq!(FlowStore::transfer(&from, &to).await.unwrap(), 2);
            let copy = FlowStore::connect(&to).await.unwrap();
            assert_eq!(copy.versions("greet").await.unwrap(), source.versions("greet").await.unwrap());
        }

        FlowStore::connect(&other).await.unwrap().deploy(&flow(3), "eve", None).await.unwrap();
        let refused = FlowStore::transfer(&from, &other).await.unwrap_err();
        assert!(matches!(refused, FlowStoreError::VersionTaken { version, .. } if version == "1"));
    }
}
