//! Ends a program with everything that it has started.

use rustix::process::{Pid, Signal, kill_process_group};

/// The environment variable that marks the processes of one call. A program that leaves its process
/// group is found by it.
pub(crate) const MARK: &str = "WORKFLOW_TOOL_CALL";

/// The processes of one call: a process group, and those that left it. Dropping it kills them all.
pub(crate) struct Processes {
    group: Option<Pid>,
    mark: String,
}

impl Processes {
    /// Creates the owner of the group that the process leads. Drop it before the leader was waited
    /// for: until then no other process can get the leader's number.
    pub(crate) fn new(leader: Option<u32>, mark: String) -> Self {
        let group = leader.and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        Self { group, mark }
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        if let Some(group) = self.group {
            // Fails only if no process is left.
            let _ = kill_process_group(group, Signal::KILL);
        }
        let mark = std::mem::take(&mut self.mark);
        // The search reads files of every process, which a thread of the runtime must not wait for.
        let search = std::thread::Builder::new().name("tool-cleanup".to_owned());
        drop(search.spawn(move || kill_marked(&mark)));
    }
}

/// Kills processes that have the mark in their environment, until none is left. A process that
/// clears its environment is not found.
#[cfg(target_os = "linux")]
fn kill_marked(mark: &str) {
    /// How often the processes are listed at most: a killed one may have started another.
    const PASSES: usize = 20;
    let entry = format!("{MARK}={mark}");
    for _ in 0..PASSES {
        let found = marked(&entry);
        if found.is_empty() {
            return;
        }
        for pid in found {
            use rustix::process::{PidfdFlags, pidfd_open, pidfd_send_signal};
            let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { continue };
            // The number may belong to another process by now; the descriptor does not change.
            if has_mark(pid, &entry) {
                let _ = pidfd_send_signal(process, Signal::KILL);
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn kill_marked(_mark: &str) {}

/// The living processes with this entry in their environment.
#[cfg(target_os = "linux")]
fn marked(entry: &str) -> Vec<Pid> {
    let files = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = files.filter_map(|file| Pid::from_raw(file.file_name().to_str()?.parse().ok()?));
    processes.filter(|pid| has_mark(*pid, entry)).collect()
}

#[cfg(target_os = "linux")]
fn has_mark(pid: Pid, entry: &str) -> bool {
    let environment = std::fs::read(format!("/proc/{}/environ", pid.as_raw_nonzero())).unwrap_or_default();
    environment.split(|byte| *byte == 0).any(|found| found == entry.as_bytes())
}
