//! The thread of the executor.

use std::io;
use std::sync::mpsc;

use tokio::runtime::{Builder, Handle};

/// Runs the pipeline on a thread with a runtime of its own. Returns the handle of that runtime, on
/// which tasks can run beside the pipeline until it ends.
///
/// A batch takes several statements. On the runtime of the drives, each answer would wait behind
/// hundreds of drives before it is polled, and a body that blocks would hold up every commit.
pub(super) fn start(pipeline: impl Future<Output = ()> + Send + 'static) -> Option<Handle> {
    let (sender, handle) = mpsc::channel();
    let run = move || match Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => {
            // An error would mean that the caller no longer waits for the handle.
            let _ = sender.send(runtime.handle().clone());
            runtime.block_on(pipeline);
        }
        Err(error) => log_missing_thread(&error),
    };
    if let Err(error) = std::thread::Builder::new().name("workflow-executor".into()).spawn(run) {
        log_missing_thread(&error);
    }
    handle.recv().ok()
}

fn log_missing_thread(error: &io::Error) {
    tracing::error!(%error, "the executor has no thread, so nothing can be written");
}
