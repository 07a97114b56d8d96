//! Named points at which a test kills its own process, to see that what was promised there survives. Compiled to nothing
//! without the feature `failpoints`.

/// A named point of the engine.
macro_rules! failpoint {
    ($name:literal) => {
        #[cfg(feature = "failpoints")]
        $crate::failpoint::reached($name);
    };
}

pub(crate) use failpoint;

/// Kills this process with SIGKILL if the variable `WORKFLOW_FAILPOINT` names this point: `name` for the first time that
/// it is reached, `name@3` for the third.
#[cfg(feature = "failpoints")]
pub(crate) fn reached(name: &str) {
    use std::collections::HashMap;
    use std::sync::{LazyLock, Mutex, PoisonError};

    static HITS: LazyLock<Mutex<HashMap<String, u64>>> = LazyLock::new(Mutex::default);
    let Ok(wanted) = std::env::var("WORKFLOW_FAILPOINT") else { return };
    let (point, hit) = wanted.split_once('@').unwrap_or((&wanted, "1"));
    if point != name {
        return;
    }
    let mut hits = HITS.lock().unwrap_or_else(PoisonError::into_inner);
    let hits = hits.entry(name.to_owned()).or_default();
    *hits += 1;
    if hits.to_string() == hit {
        // SIGKILL, not abort: nothing of this process may run after this point, no handler and no destructor.
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    }
}
