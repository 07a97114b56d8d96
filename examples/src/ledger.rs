//! The record of what the step bodies of the quickstart really did.
//!
//! It is an append-only file outside of the database. So it also has the effects that a killed
//! worker had no time to record in the database.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Whether a body started or ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mark {
    /// The body starts.
    Begin,
    /// The body has had its effect.
    End,
}

/// One line of the ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Whether the body started or ended.
    pub mark: Mark,
    /// The id of the order.
    pub order: String,
    /// The name of the step.
    pub step: String,
    /// The id of the process in which the body runs.
    pub pid: u32,
}

/// The ledger file.
#[derive(Clone, Debug)]
pub struct Ledger {
    path: PathBuf,
}

impl Ledger {
    /// Returns the ledger at this path. The file need not exist yet.
    #[must_use]
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Returns the path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends a line with the id of this process.
    ///
    /// # Errors
    /// [`io::Error`] if the file cannot be written.
    pub fn append(&self, mark: Mark, order: &str, step: &str) -> io::Result<()> {
        let entry = Entry { mark, order: order.into(), step: step.into(), pid: std::process::id() };
        let mut line = serde_json::to_string(&entry)?;
        line.push('\n');
        // The whole line is one write: lines of several processes do not mix, and a kill cannot cut
        // a line off.
        self.open()?.write_all(line.as_bytes())
    }

    /// Reads all lines in the order in which they were written. Without a file there are none.
    ///
    /// # Errors
    /// [`io::Error`] if the file cannot be read or a line is not an [`Entry`].
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
    fn appended_entries_are_read_back() -> std::io::Result<()> {
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
    fn a_line_that_is_not_an_entry_is_an_error() -> std::io::Result<()> {
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
