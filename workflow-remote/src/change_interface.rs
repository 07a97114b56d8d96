//! Changes, by requests that wait for them. After a request that was cut off the caller sends its
//! cursor again, so no change is lost.

use std::time::Duration;

use async_trait::async_trait;
use workflow_sdk::operate::{
    ChangePage, ChangesOf, EmittedPage, ListChanges, ListEmitted, OperateChanges, OperateError, RunId, StoredPayload,
};

use crate::Remote;
use crate::request::Target;
use crate::run_interface::{of_run, text};

/// Returns a wait as the server takes it: in whole seconds.
fn seconds(wait: Duration) -> Option<u64> {
    let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    (seconds > 0).then_some(seconds)
}

#[async_trait]
impl OperateChanges for Remote {
    async fn changes(&self, list: ListChanges) -> Result<ChangePage, OperateError> {
        let wait = list.longest_wait();
        let target = Target::new(["changes"]);
        let target = match &list.of {
            ChangesOf::Runs(query) => target.with("query", Some(query)).with("limit", Some(list.limit)),
            ChangesOf::Run(run) => target.with("run", Some(run)),
            ChangesOf::All => target.with("of", Some("all")),
            // A later release may know more of them.
            _ => return Err(crate::refused("no request asks for these changes", "use a later release")),
        };
        let target = target.with("cursor", text(list.cursor.as_ref())).with("wait", seconds(wait));
        self.get_within(target, self.timeout.saturating_add(wait)).await
    }

    async fn emitted(&self, list: ListEmitted) -> Result<EmittedPage, OperateError> {
        let wait = list.longest_wait();
        let target = of_run(list.run, &["emitted", &list.name]).with("after", Some(list.after));
        let target = target.with("limit", Some(list.limit)).with("wait", seconds(wait));
        self.get_within(target, self.timeout.saturating_add(wait)).await
    }

    async fn published(&self, run: RunId, name: &str) -> Result<StoredPayload, OperateError> {
        self.get(of_run(run, &["published", name])).await
    }
}
