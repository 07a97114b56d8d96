//! The limits of the kernel on a program.

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::{Deserialize, Serialize};

/// The bounds of one program. Every process that the program starts has the limits of memory,
/// processor time, files and descriptors for itself.
///
/// ```
/// use workflow_tools::shell::Limits;
///
/// let limits = Limits { memory: 256 << 20, ..Limits::default() };
/// assert_eq!(limits.processor_seconds, 60);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Address space, in bytes. Some runtimes reserve far more than they use. Default: 1 GiB.
    pub memory: u64,
    /// Processor time, in seconds. Default: 60.
    pub processor_seconds: u64,
    /// The largest file that a process may write, in bytes. Default: 64 MiB.
    pub file_size: u64,
    /// Open descriptors. Default: 256.
    pub descriptors: u64,
    /// Processes and threads of the **account**: the kernel counts all that the account runs, also
    /// outside of the tool. At this number, a program cannot start another process. The kernel does
    /// not apply this to root. Default: 1,024.
    pub processes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        const MIB: u64 = 1024 * 1024;
        Self { memory: 1024 * MIB, processor_seconds: 60, file_size: 64 * MIB, descriptors: 256, processes: 1024 }
    }
}

impl Limits {
    /// Limits this process and those that it starts.
    pub(super) fn apply(&self) -> Result<(), Errno> {
        let limits = [
            (Resource::Core, 0, 0),
            (Resource::Fsize, self.file_size, self.file_size),
            (Resource::Nofile, self.descriptors, self.descriptors),
            (Resource::Nproc, self.processes, self.processes),
            // The signal at the lower limit tells why the program has ended.
            (Resource::Cpu, self.processor_seconds, self.processor_seconds.saturating_add(1)),
            // The last, because this process may be larger than it.
            (Resource::As, self.memory, self.memory),
        ];
        for (resource, lower, upper) in limits {
            // Only root may raise a limit that the worker has.
            let most = getrlimit(resource).maximum.unwrap_or(u64::MAX);
            let limit = Rlimit { current: Some(lower.min(most)), maximum: Some(upper.min(most)) };
            setrlimit(resource, limit)?;
        }
        Ok(())
    }
}
