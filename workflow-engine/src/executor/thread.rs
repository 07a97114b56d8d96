use std::io;
use std::sync::mpsc;

use tokio::runtime::{Builder, Handle};

/// Runs the writer on a thread with a runtime of its own, and answers where others spawn what is to run beside it, and ends with it. A
/// batch is half a dozen statements, and on the runtime of the drives each would wait for its answer to be polled behind hundreds of
/// them; nor does a body that blocks hold up a commit.
pub(super) fn start(writer: impl Future<Output = ()> + Send + 'static) -> Option<Handle> {
    let (sender, handle) = mpsc::channel();
    let run = move || match Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => {
            // An error says that nobody waits.
            let _ = sender.send(runtime.handle().clone());
            runtime.block_on(writer);
        }
        Err(error) => not_started(&error),
    };
    if let Err(error) = std::thread::Builder::new().name("workflow-executor".into()).spawn(run) {
        not_started(&error);
    }
    handle.recv().ok()
}

fn not_started(error: &io::Error) {
    tracing::error!(%error, "the executor has no thread, so nothing can be written");
}
