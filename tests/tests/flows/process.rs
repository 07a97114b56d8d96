//! Worker processes that failpoints kill.

use std::process::{Child, Command, Stdio};

/// A worker process that the drop kills.
pub struct Process(Child);

impl Process {
    /// Starts a program with its three arguments and this failpoint.
    pub fn spawn(program: &str, arguments: [&str; 3], failpoint: Option<&str>) -> Self {
        let mut command = Command::new(program);
        command.args(arguments).stderr(Stdio::null());
        command.env_remove("WORKFLOW_FAILPOINT").envs(failpoint.map(|point| ("WORKFLOW_FAILPOINT", point)));
        Self(command.spawn().unwrap())
    }

    /// Returns whether the process has ended.
    pub fn has_died(&mut self) -> bool {
        self.0.try_wait().unwrap().is_some()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
