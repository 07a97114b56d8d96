//! Named points at which a test kills or stops its own process, to see that what was promised there survives. Compiled to nothing
//! without the feature `failpoints`.
//!
//! The points of the engine, and what is true there:
//! - `executor.before_commit`: a batch was taken from the queue, nothing of it is in the database;
//! - `backend.in_transaction`: every statement of a batch was executed, the transaction is open;
//! - `transaction.begun`: a transaction is open, and its body has not begun;
//! - `transaction.body_ended`: the body of a transaction has done its work in it, which is open and lacks the outcome;
//! - `transaction.before_commit`: the outcome was written too, the transaction is open;
//! - `transaction.after_commit`: it is committed, its drive does not know;
//! - `executor.after_commit`: the batch is committed, none of its senders knows;
//! - `record.before_commit`: a drive has an outcome of a step, the executor does not have it;
//! - `claim.after_commit`: runs are claimed, no drive was started;
//! - `park.before_commit`, `park.after_commit`: a drive has dropped its run and gives it back, or has given it back;
//! - `retry.before_commit`, `retry.after_commit`: a drive has a failure of its run that another attempt follows, or has written
//!   so;
//! - `end.before_commit`, `end.after_commit`: a drive has an answer of its run, or has written it.

/// A named point: of the engine, or of a workflow in a test.
#[inline(always)]
pub fn failpoint(name: &'static str) {
    #[cfg(feature = "failpoints")]
    reached(name);
    #[cfg(not(feature = "failpoints"))]
    let _ = name;
}

/// Kills this process with SIGKILL if the variable `WORKFLOW_FAILPOINT` names this point: `name` for the first time that
/// it is reached, `name@3` for the third. `name@3:stop` stops it with SIGSTOP.
#[cfg(feature = "failpoints")]
fn reached(name: &str) {
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    use rustix::process::{Signal, getpid, kill_process};

    struct Armed {
        point: String,
        hits_left: AtomicU64,
        signal: Signal,
    }
    static ARMED: LazyLock<Option<Armed>> = LazyLock::new(|| {
        let wanted = std::env::var("WORKFLOW_FAILPOINT").ok()?;
        let (wanted, signal) = match wanted.strip_suffix(":stop") {
            Some(wanted) => (wanted, Signal::STOP),
            None => (wanted.as_str(), Signal::KILL),
        };
        let (point, hit) = wanted.split_once('@').unwrap_or((wanted, "1"));
        Some(Armed { point: point.to_owned(), hits_left: AtomicU64::new(hit.parse().ok()?), signal })
    });
    let Some(armed) = ARMED.as_ref().filter(|armed| armed.point == name) else { return };
    if armed.hits_left.fetch_sub(1, Ordering::Relaxed) == 1 {
        // SIGKILL, not abort: nothing of this process may run after this point, no handler and no destructor.
        let _ = kill_process(getpid(), armed.signal);
        if armed.signal == Signal::STOP {
            // Another thread may take the signal: this one must not go past the point before it stands still.
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    }
}
