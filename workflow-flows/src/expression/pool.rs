use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use tokio::sync::oneshot;

use super::ExpressionError;

/// Bytes of a thread's stack: deep expressions need more than a thread of tokio has.
const STACK_BYTES: usize = 8 << 20;

/// Threads that evaluate, each with a state of its own. They start with the first job and end when
/// the pool is dropped.
#[derive(Debug)]
pub(super) struct Pool<S> {
    name: &'static str,
    threads: usize,
    sender: Mutex<Option<Sender<Job<S>>>>,
}

type Job<S> = Box<dyn FnOnce(&mut S) + Send>;

impl<S: Default + 'static> Pool<S> {
    pub(super) fn new(name: &'static str, threads: usize) -> Self {
        Self { name, threads, sender: Mutex::new(None) }
    }

    /// Runs a job on a thread of the pool.
    ///
    /// # Cancel safety
    /// A job whose future is dropped runs to its end if it has begun, and never begins otherwise.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut S) -> Result<T, ExpressionError> + Send + 'static,
    ) -> Result<T, ExpressionError> {
        let (answer, answered) = oneshot::channel();
        let job: Job<S> = Box::new(move |state| {
            if answer.is_closed() {
                return;
            }
            // A panic is a bug. It must not take the thread away from the other evaluations.
            let found = catch_unwind(AssertUnwindSafe(|| job(state))).unwrap_or_else(|_| {
                *state = S::default();
                Err(ExpressionError::Failed("the evaluation failed by a bug of the evaluator".to_owned()))
            });
            let _ = answer.send(found);
        });
        self.sender()?.send(job).map_err(|_| gone())?;
        answered.await.map_err(|_| gone())?
    }

    fn sender(&self) -> Result<Sender<Job<S>>, ExpressionError> {
        let mut sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = &*sender {
            return Ok(sender.clone());
        }
        let (started, receiver) = channel();
        let receiver = Arc::new(Mutex::new(receiver));
        for _ in 0..self.threads {
            let receiver = Arc::clone(&receiver);
            thread::Builder::new()
                .name(self.name.to_owned())
                .stack_size(STACK_BYTES)
                .spawn(move || serve(&receiver))
                .map_err(|error| ExpressionError::Failed(format!("cannot start a thread: {error}")))?;
        }
        *sender = Some(started.clone());
        Ok(started)
    }
}

fn serve<S: Default>(receiver: &Mutex<Receiver<Job<S>>>) {
    let mut state = S::default();
    loop {
        let job = receiver.lock().unwrap_or_else(PoisonError::into_inner).recv();
        match job {
            Ok(job) => job(&mut state),
            Err(_) => return,
        }
    }
}

fn gone() -> ExpressionError {
    ExpressionError::Failed("the threads of the evaluator have ended".to_owned())
}
