//! Copies the inbox to another database.

use super::backend::{Backend, TABLE};
use super::{InboxError, InboxStore};
use crate::database::MissingFile;

/// The messages that are read at once: with the longest texts they take a few megabytes.
const MESSAGES: u32 = 32;

impl InboxStore {
    /// Copies all messages from the database at `from` to the one at `to`, in their order. They get
    /// new ids. Creates the table there if there is a message. Does nothing if the first database
    /// has no inbox or is no file. Returns the number of messages in the first database. Copying
    /// them again is safe.
    ///
    /// # Errors
    /// [`InboxError::Taken`] if the second database has another message of the key of one of them,
    /// [`InboxError::Url`], [`InboxError::Database`].
    ///
    /// # Cancel safety
    /// If the future is dropped, some messages may be copied.
    pub async fn transfer(from: &str, to: &str) -> Result<usize, InboxError> {
        let Some(source) = Backend::find(from, TABLE).await? else { return Ok(0) };
        let (mut target, mut after, mut copied) = (None, 0, 0);
        loop {
            let rows = source.rows(after, MESSAGES).await?;
            let Some(last) = rows.last() else { return Ok(copied) };
            after = last.0;
            copied += rows.len();
            let target = match &target {
                Some(target) => target,
                None => target.insert(Backend::open(to, MissingFile::Create).await?.prepared().await?),
            };
            for row in rows {
                if !target.copy(&row).await? {
                    return Err(InboxError::Taken { key: row.1 });
                }
            }
        }
    }
}

#[cfg(all(test, feature = "sqlite"))]
mod tests {
    use crate::{InboxError, InboxMessage, InboxStore};

    #[tokio::test]
    async fn messages_are_copied_in_their_order() {
        let directory = tempfile::tempdir().unwrap();
        let url = |name: &str| format!("sqlite://{}/{name}", directory.path().display());
        let (from, to) = (url("from.db"), url("to.db"));
        assert_eq!(InboxStore::transfer(&from, &to).await.unwrap(), 0, "there is no file");
        let source = InboxStore::connect(&from).await.unwrap();
        for number in 0..70 {
            let mut message = InboxMessage::new(format!("run-{number}"), "Resolved.");
            message.to = "billing".to_owned();
            message.data = serde_json::json!({ "number": number });
            source.put(&message).await.unwrap();
        }
        source.mark_read(3).await.unwrap();
        for _ in 0..2 {
            assert_eq!(InboxStore::transfer(&from, &to).await.unwrap(), 70);
            let copy = InboxStore::connect(&to).await.unwrap();
            let listed = copy.list(None, false, None, 200).await.unwrap();
            assert_eq!(listed, source.list(None, false, None, 200).await.unwrap());
        }

        let other = url("other.db");
        InboxStore::connect(&other).await.unwrap().put(&InboxMessage::new("run-9", "Open.")).await.unwrap();
        let refused = InboxStore::transfer(&from, &other).await.unwrap_err();
        assert!(matches!(refused, InboxError::Taken { key } if key == "run-9"));
    }
}
