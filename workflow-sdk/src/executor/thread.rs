use std::io;

/// Runs the writer on a thread with a runtime of its own. A batch is half a dozen statements, and on the runtime of the
/// drives each would wait for its answer to be polled behind hundreds of them; nor does a body that blocks hold up a commit.
pub(super) fn start(writer: impl Future<Output = ()> + Send + 'static) {
    let started = runtime().and_then(|runtime| {
        let thread = std::thread::Builder::new().name("workflow-executor".into());
        thread.spawn(move || runtime.block_on(writer))
    });
    if let Err(error) = started {
        tracing::error!(%error, "the executor has no thread, so nothing can be written");
    }
}

fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}
