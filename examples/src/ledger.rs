//! What the step bodies of the quickstart really did: a file that is only appended to, outside of the database, so that it
//! also knows what a killed worker had no time to record.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Whether a body began or ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mark {
    /// It begins.
    Begin,
    /// It has had its effect.
    End,
}

/// One line of the ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Begin or end.
    pub mark: Mark,
    /// Id of the order.
    pub order: String,
    /// Name of the step.
    pub step: String,
    /// The process in which the body runs.
    pub pid: u32,
}

/// The file.
#[derive(Clone, Debug)]
pub struct Ledger {
    path: PathBuf,
}

impl Ledger {
    /// The ledger in this file, which need not exist yet.
    #[must_use]
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Where it lies.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adds a line, as this process.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn append(&self, mark: Mark, order: &str, step: &str) -> io::Result<()> {
        let entry = Entry { mark, order: order.into(), step: step.into(), pid: std::process::id() };
        let mut line = serde_json::to_string(&entry)?;
        line.push('\n');
        // One write of a whole line: lines of several processes do not mix, and none is cut by a kill.
        self.open()?.write_all(line.as_bytes())
    }

    /// Every line, in the order in which they were written; none if there is no file yet.
    ///
    /// # Errors
    /// Those of the file system, and lines that are no entries.
    pub fn read(&self) -> io::Result<Vec<Entry>> {
        let text = match std::fs::read_to_string(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            text => text?,
        };
        text.lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
    }

    fn open(&self) -> io::Result<File> {
        OpenOptions::new().create(true).append(true).open(&self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::{Ledger, Mark};

    #[test]
    fn what_is_appended_is_read() -> std::io::Result<()> {
        let directory = tempfile::tempdir()?;
        let ledger = Ledger::at(directory.path().join("ledger.jsonl"));
        assert_eq!(ledger.read()?, []);

        ledger.append(Mark::Begin, "A-1", "reserve")?;
        ledger.append(Mark::End, "A-1", "reserve")?;
        let entries = ledger.read()?;
        assert_eq!(entries.iter().map(|entry| entry.mark).collect::<Vec<_>>(), [Mark::Begin, Mark::End]);
        assert!(entries.iter().all(|entry| entry.order == "A-1" && entry.step == "reserve"));
        assert!(entries.iter().all(|entry| entry.pid == std::process::id()));
        Ok(())
    }

    #[test]
    fn a_line_that_is_no_entry_is_an_error() -> std::io::Result<()> {
        let directory = tempfile::tempdir()?;
        let path = directory.path().join("ledger.jsonl");
        std::fs::write(&path, "{\"mark\":\"begin\"}\n")?;
        assert!(Ledger::at(path).read().is_err());
        Ok(())
    }

    #[test]
    fn threads_do_not_mix_their_lines() -> std::io::Result<()> {
        let directory = tempfile::tempdir()?;
        let ledger = Ledger::at(directory.path().join("ledger.jsonl"));
        std::thread::scope(|scope| {
            let write = || (0..200).try_for_each(|_| ledger.append(Mark::Begin, "A-1", "reserve"));
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(write)).collect();
            threads.into_iter().try_for_each(|thread| thread.join().unwrap_or(Err(std::io::ErrorKind::Other.into())))
        })?;
        assert_eq!(ledger.read()?.len(), 800);
        Ok(())
    }
}
