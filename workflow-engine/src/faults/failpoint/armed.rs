//! Parses the variable `WORKFLOW_FAILPOINT` and executes the actions that it asks for.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::process::{Signal, getpid, kill_process};

use super::Fault;
use super::points::{Action, POINTS};

/// The delay of the action `delay` by default.
const DELAY: Duration = Duration::from_millis(100);

/// One entry of the variable: a point that is to act.
#[derive(Debug, PartialEq, Eq)]
struct Wanted {
    point: String,
    /// The first hit at which the point acts.
    hit: u64,
    /// Whether it also acts at every later hit.
    and_later: bool,
    action: Action,
    delay: Duration,
}

/// A point with all of its entries, which share one counter of hits. With a counter per entry, two
/// threads that reach the point together could each hit the number of a different entry, or one
/// thread the numbers of both.
struct Armed {
    hits: AtomicU64,
    wanted: Vec<Wanted>,
}

impl Armed {
    fn all(text: &str) -> Result<Vec<Self>, String> {
        let mut all: Vec<Self> = Vec::new();
        for wanted in text.split(',').map(parse) {
            let wanted = wanted?;
            match all.iter_mut().find(|armed| armed.is_of(&wanted.point)) {
                Some(armed) => armed.wanted.push(wanted),
                None => all.push(Self { hits: AtomicU64::new(0), wanted: vec![wanted] }),
            }
        }
        Ok(all)
    }

    fn is_of(&self, point: &str) -> bool {
        self.wanted.iter().any(|wanted| wanted.point == point)
    }

    fn reach(&self, name: &'static str) -> Result<(), Fault> {
        let hit = self.hits.fetch_add(1, Ordering::Relaxed) + 1;
        let counts = |wanted: &&Wanted| hit == wanted.hit || wanted.and_later && hit > wanted.hit;
        self.wanted.iter().filter(counts).try_for_each(|wanted| act(name, wanted))
    }
}

/// Counts a hit of this point and acts if it is armed for this hit.
pub(super) fn reach(name: &'static str) -> Result<(), Fault> {
    static ARMED: LazyLock<Vec<Armed>> = LazyLock::new(|| match std::env::var("WORKFLOW_FAILPOINT") {
        Ok(text) => Armed::all(&text).unwrap_or_else(|why| {
            eprintln!("WORKFLOW_FAILPOINT={text}: {why}");
            // A test that arms nothing proves nothing and must not pass.
            std::process::abort();
        }),
        Err(_) => Vec::new(),
    });
    ARMED.iter().find(|armed| armed.is_of(name)).map_or(Ok(()), |armed| armed.reach(name))
}

fn act(name: &'static str, wanted: &Wanted) -> Result<(), Fault> {
    eprintln!("failpoint {name}: {}", wanted.action.word());
    match wanted.action {
        // SIGKILL instead of an abort, so that no handler and no destructor of this process runs
        // after this point.
        Action::Kill => {
            let _ = kill_process(getpid(), Signal::KILL);
        }
        Action::Stop => {
            let _ = kill_process(getpid(), Signal::STOP);
            // Another thread may receive the signal first. This thread must not pass the point
            // before the process has stopped.
            std::thread::sleep(Duration::from_millis(50));
        }
        // Blocks the thread, not only the call, as on an overloaded machine.
        Action::Delay => std::thread::sleep(wanted.delay),
        Action::Error | Action::Lost => return Err(Fault(name)),
    }
    Ok(())
}

fn parse(text: &str) -> Result<Wanted, String> {
    let (place, action) = text.split_once(':').unwrap_or((text, Action::Kill.word()));
    let (point, hit) = place.split_once('@').unwrap_or((place, "1"));
    let (hit, and_later) = hit.strip_suffix('+').map_or((hit, false), |hit| (hit, true));
    if point.is_empty() {
        return Err("it does not name a point".into());
    }
    let hit = hit.parse().ok().filter(|hit| *hit > 0).ok_or(format!("{hit:?} is not the number of a hit"))?;
    let (action, delay) = match action.split_once('=') {
        Some((action, millis)) if action == Action::Delay.word() => {
            let millis = millis.parse().map_err(|_| format!("{millis:?} is not a number of milliseconds"))?;
            (action, Duration::from_millis(millis))
        }
        _ => (action, DELAY),
    };
    let known = Action::ALL.into_iter().find(|known| known.word() == action);
    let action = known.ok_or(format!("{action:?} is not an action"))?;
    let allowed = POINTS.iter().find(|known| known.name == point).map_or(Action::OF_TESTS, |point| point.actions);
    if !allowed.contains(&action) {
        return Err(format!("{point} cannot {:?}, only {allowed:?}", action.word()));
    }
    Ok(Wanted { point: point.to_owned(), hit, and_later, action, delay })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(point: &str, hit: u64, and_later: bool, action: Action, millis: u64) -> Wanted {
        Wanted { point: point.into(), hit, and_later, action, delay: Duration::from_millis(millis) }
    }

    #[test]
    fn a_point_is_armed_as_it_is_written() {
        for (text, expected) in [
            ("park.before_commit", wanted("park.before_commit", 1, false, Action::Kill, 100)),
            ("step.body@3:stop", wanted("step.body", 3, false, Action::Stop, 100)),
            ("executor.before_commit@2+:error", wanted("executor.before_commit", 2, true, Action::Error, 100)),
            ("executor.after_commit:lost", wanted("executor.after_commit", 1, false, Action::Lost, 100)),
            ("claim.after_commit@1:delay=7", wanted("claim.after_commit", 1, false, Action::Delay, 7)),
        ] {
            assert_eq!(parse(text), Ok(expected));
        }
    }

    #[test]
    fn an_invalid_entry_is_refused() {
        for text in [
            "",
            "step.body@0",
            "step.body@x",
            "step.body:explode",
            "step.body:delay=x",
            "step.body:error",
            "executor.before_commit:lost",
            "executor.after_commit:error",
            "record.before_commit:error",
        ] {
            assert!(parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn each_entry_acts_at_its_own_hit_when_threads_come_together() {
        for _ in 0..200 {
            let armed = Armed::all("park.before_commit@1:error,park.before_commit@2:error,park.before_commit@3:error");
            let [armed] = armed.expect("the text is valid").try_into().ok().expect("one point");
            let faults = std::thread::scope(|scope| {
                let threads = [(); 4].map(|()| scope.spawn(|| armed.reach("park.before_commit").is_err()));
                threads.map(|thread| thread.join().expect("the thread ends")).iter().filter(|fault| **fault).count()
            });
            assert_eq!(faults, 3);
        }
    }
}
