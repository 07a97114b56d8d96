//! Starts runs for ever, eight in a commit, each with an audit row: `audit URL SCHEMA`.

use workflow_engine::model::{AuditId, NewAudit};
use workflow_engine::store::{AuditedWrite, StoreOptions, Write};
use workflow_sdk::internal::connect;
use workflow_tests::builders::new_run;

fn audited_start() -> Write {
    let order = NewAudit {
        id: AuditId::generate(),
        actor: None,
        verb: "run.start".into(),
        target: "workflow:test".into(),
        reason: None,
        arguments: "{}".into(),
    };
    Write::Audited(Box::new(AuditedWrite { write: Write::Start(new_run()), order }))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(url), Some(schema)) = (arguments.next(), arguments.next()) else {
        return Err("usage: audit URL SCHEMA".into());
    };
    let store = connect(&url, StoreOptions { schema, ..StoreOptions::default() }).await?;
    loop {
        let writes: Vec<Write> = (0..8).map(|_| audited_start()).collect();
        store.commit(&writes).await?;
    }
}
