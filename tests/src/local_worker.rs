//! A worker that works in this process.

use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use workflow_worker::{Worker, WorkerError};

/// A worker in a task of its own.
#[derive(Debug)]
pub struct LocalWorker {
    stop: oneshot::Sender<()>,
    heard: oneshot::Receiver<()>,
    task: JoinHandle<Result<(), WorkerError>>,
}

impl LocalWorker {
    /// Starts the worker.
    pub fn start<S: Send + Sync + 'static>(worker: Worker<S>) -> Self {
        let (stop, stopped) = oneshot::channel();
        let (hears, heard) = oneshot::channel();
        let stopped = async {
            if stopped.await.is_err() {
                std::future::pending::<()>().await;
            }
            drop(hears);
        };
        Self { stop, heard, task: tokio::spawn(worker.run_until(stopped)) }
    }

    /// Asks the worker to stop, waits until the worker has noticed, and returns a future of its
    /// end.
    pub async fn ask(self) -> JoinHandle<Result<(), WorkerError>> {
        let _ = self.stop.send(());
        let _ = self.heard.await;
        self.task
    }

    /// Stops the worker and waits for its end, which must be without an error.
    pub async fn stop(self) {
        self.ask().await.await.expect("the worker did not panic").expect("the worker stopped as asked");
    }

    /// Waits for an end that was not requested.
    pub async fn end(self) -> Result<(), WorkerError> {
        self.task.await.expect("the worker did not panic")
    }

    /// Drops the worker's future in the middle of its work.
    pub async fn abort(self) {
        self.task.abort();
        let _ = self.task.await;
    }
}
