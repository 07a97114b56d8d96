use serde::Deserialize;
use serde::de::DeserializeOwned;

use workflow_engine::model::{NameSubject, RunId, check_name, unquoted};

use super::{Client, ClientError, RunHandle, RunStream};

/// The key under which the replay core records the value.
#[derive(Deserialize)]
struct Published<T> {
    value: T,
}

impl Client {
    /// Reads the value that a run [published](crate::Ctx::publish) last under this name; `None` if
    /// it has published none. The value can be read after the end of the run, too.
    ///
    /// # Errors
    /// [`ClientError::UnknownRun`], [`ClientError::Name`], [`ClientError::DecodeLive`],
    /// [`ClientError::Database`].
    ///
    /// # Cancel safety
    /// Safe: the future can be dropped and the call repeated.
    pub async fn state<T: DeserializeOwned>(&self, id: RunId, name: impl AsRef<str>) -> Result<Option<T>, ClientError> {
        let name = name.as_ref();
        check_name(NameSubject::Published, name)?;
        let Some(text) = self.read(self.store().published(id, name)).await? else {
            self.run(id).await?;
            return Ok(None);
        };
        let decoded = serde_json::from_str::<Published<T>>(&text);
        decoded.map(|published| Some(published.value)).map_err(|source| ClientError::DecodeLive {
            run_id: id,
            what: format!("the published value {name:?}"),
            type_name: std::any::type_name::<T>(),
            source: unquoted(source),
        })
    }

    /// Returns the items that a run [emits](crate::Ctx::emit) to this stream: see [`RunStream`].
    pub fn stream<T: DeserializeOwned>(&self, id: RunId, name: impl Into<String>) -> RunStream<T> {
        RunStream::new(self.clone(), id, name.into())
    }
}

impl<O> RunHandle<O> {
    /// Reads the value that the run published last under this name: see [`Client::state`].
    ///
    /// # Errors
    /// See [`Client::state`].
    ///
    /// # Cancel safety
    /// See [`Client::state`].
    ///
    /// ```
    /// use workflow_sdk::prelude::*;
    ///
    /// # #[workflow]
    /// # async fn import(_ctx: &Ctx, _files: Vec<String>) -> Result<()> { Ok(()) }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let client = Client::connect("sqlite::memory:").await?;
    /// let run = client.start(import, vec!["a.csv".to_string()]).await?;
    /// let done: Option<usize> = run.state("progress").await?;
    /// assert_eq!(done, None);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn state<T: DeserializeOwned>(&self, name: impl AsRef<str>) -> Result<Option<T>, ClientError> {
        self.client().state(self.id(), name).await
    }

    /// Returns the items that the run emits to this stream: see [`RunStream`].
    pub fn stream<T: DeserializeOwned>(&self, name: impl Into<String>) -> RunStream<T> {
        self.client().stream(self.id(), name)
    }
}
