//! A wrong wall clock for another process. It can be moved while the process runs.

use std::fs;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The source of the preloaded library. It is in C because `unsafe` is forbidden here, and because
/// the process must not know that its clock is wrong.
const SOURCE: &str = include_str!("skew/clock.c");

/// A clock for a process that has not been started yet.
#[derive(Debug)]
pub struct Skew {
    library: PathBuf,
    shift: PathBuf,
}

impl Skew {
    /// Checks whether this machine can shift clocks.
    ///
    /// # Errors
    /// Returns one line that says what is missing.
    pub fn available() -> Result<(), String> {
        let directory = tempfile::tempdir().map_err(|error| format!("no directory for a trial: {error}"))?;
        Self::make(directory.path(), "trial").map(drop)
    }

    /// Compiles the library in this directory and creates a clock of this name. The clock is right
    /// until it is moved.
    ///
    /// # Errors
    /// Returns one line that says why it failed.
    pub fn make(directory: &Path, name: &str) -> Result<Self, String> {
        let library = directory.join("skew.so");
        if !library.exists() {
            compile(&library)?;
        }
        let shift = directory.join(format!("skew-{name}"));
        fs::write(&shift, 0_i64.to_ne_bytes()).map_err(|error| format!("write {}: {error}", shift.display()))?;
        Ok(Self { library, shift })
    }

    /// Returns the environment variables for the process whose clock is to be shifted.
    #[must_use]
    pub fn variables(&self) -> [(&'static str, &Path); 2] {
        [("LD_PRELOAD", &self.library), ("WORKFLOW_SKEW", &self.shift)]
    }

    /// Moves the clock to this many milliseconds after the true time; negative: before it.
    pub fn set(&self, milliseconds: i64) {
        // The file is written in place, because the process has mapped it.
        let file = fs::OpenOptions::new().write(true).open(&self.shift).expect("open the clock");
        let nanos = milliseconds * 1_000_000;
        file.write_all_at(&nanos.to_ne_bytes(), 0).expect("move the clock");
    }
}

fn compile(library: &Path) -> Result<(), String> {
    let mut command = Command::new("cc");
    command.args(["-O1", "-shared", "-fPIC", "-x", "c", "-", "-ldl", "-o"]).arg(library);
    let needed = |why: String| format!("a wrong clock needs a C compiler (cc): {why}");
    let child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.map_err(|error| needed(error.to_string()))?;
    let mut source = child.stdin.take().ok_or_else(|| needed("no standard input".into()))?;
    source.write_all(SOURCE.as_bytes()).map_err(|error| needed(error.to_string()))?;
    drop(source);
    let output = child.wait_with_output().map_err(|error| needed(error.to_string()))?;
    let why = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(()) } else { Err(needed(why.lines().next().unwrap_or("failed").to_owned())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_sees_its_shifted_time() {
        let directory = tempfile::tempdir().expect("a directory");
        let skew = match Skew::make(directory.path(), "one") {
            Ok(skew) => skew,
            Err(why) => return eprintln!("not tested here: {why}"),
        };
        let year = || -> i64 {
            let output = Command::new("date").args(["-u", "+%Y"]).envs(skew.variables()).output().expect("run date");
            String::from_utf8_lossy(&output.stdout).trim().parse().expect("a year")
        };
        let now = year();
        const DECADE: i64 = 10 * 366 * 86_400_000;
        skew.set(DECADE);
        assert!((9..=11).contains(&(year() - now)), "{}", year());
        skew.set(-DECADE);
        assert!((9..=11).contains(&(now - year())), "{}", year());
    }

    #[test]
    fn a_clock_stands_still_at_the_time_that_it_is_given() {
        let directory = tempfile::tempdir().expect("a directory");
        let skew = match Skew::make(directory.path(), "two") {
            Ok(skew) => skew,
            Err(why) => return eprintln!("not tested here: {why}"),
        };
        for time in ["1795788309824483521", "1000000000000000001"] {
            let mut date = Command::new("date");
            let output =
                date.arg("+%s%N").envs(skew.variables()).env("WORKFLOW_TIME", time).output().expect("run date");
            assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), time);
        }
    }
}
