//! Deletes every run of a database, eight in a commit: `delete URL SCHEMA`.

use workflow_engine::store::{DeleteWrite, StoreOptions, Write};
use workflow_sdk::RunFilter;
use workflow_sdk::internal::connect;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(url), Some(schema)) = (arguments.next(), arguments.next()) else {
        return Err("usage: delete URL SCHEMA".into());
    };
    let store = connect(&url, StoreOptions { schema, ..StoreOptions::default() }).await?;
    loop {
        let runs = store.list(&RunFilter::new().page_size(8)).await?;
        if runs.is_empty() {
            return Ok(());
        }
        let delete = |run_id| Write::Delete(DeleteWrite { run_id, ended_before: None });
        let writes: Vec<Write> = runs.iter().map(|run| delete(run.id)).collect();
        store.commit(&writes).await?;
    }
}
