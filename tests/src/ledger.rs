//! What steps did, written outside of the database under test: one line an effect, appended to a file.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A step's body began.
    Begin,
    /// It came to its end.
    End,
    /// A start was acknowledged.
    Started,
}

impl What {
    const ALL: [(Self, &str); 3] = [(Self::Begin, "begin"), (Self::End, "end"), (Self::Started, "started")];

    fn word(self) -> &'static str {
        Self::ALL.iter().find(|(what, _)| *what == self).map(|(_, word)| *word).expect("every kind has a word")
    }
}

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Microseconds since 1970.
    pub at: u128,
    /// The process.
    pub pid: u32,
    /// What happened.
    pub what: What,
    /// Run and step as `run/step`; the run alone for a start.
    pub subject: String,
    /// The attempt of the step; 0 for a start.
    pub attempt: u32,
}

/// A file that many processes append to.
#[derive(Clone, Debug)]
pub struct Ledger {
    path: PathBuf,
}

impl Ledger {
    /// In this directory. The file is made by the first line.
    #[must_use]
    pub fn inside(directory: &Path) -> Self {
        Self { path: directory.join("ledger") }
    }

    /// Appends a line, in one system call: a process that is killed leaves it whole or not at all.
    pub fn append(&self, what: What, subject: &str, attempt: u32) {
        let at = SystemTime::UNIX_EPOCH.elapsed().expect("a clock after 1970").as_micros();
        let line = format!("{at} {} {} {subject} {attempt}\n", std::process::id(), what.word());
        self.open().write_all(line.as_bytes()).expect("append to the ledger");
    }

    fn open(&self) -> File {
        OpenOptions::new().create(true).append(true).open(&self.path).expect("open the ledger")
    }

    /// Every line so far.
    #[must_use]
    pub fn lines(&self) -> Vec<Line> {
        match std::fs::read_to_string(&self.path) {
            Ok(text) => text.lines().map(parse).collect(),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            Err(error) => panic!("read the ledger: {error}"),
        }
    }

    /// The lines of bodies that began.
    #[must_use]
    pub fn begins(&self) -> Vec<Line> {
        self.lines().into_iter().filter(|line| line.what == What::Begin).collect()
    }
}

fn parse(line: &str) -> Line {
    let words: Vec<&str> = line.split(' ').collect();
    let [at, pid, what, subject, attempt] = words[..] else { panic!("a torn line in the ledger: {line:?}") };
    let (what, _) = What::ALL.into_iter().find(|(_, word)| *word == what).expect("a known kind of line");
    Line {
        at: at.parse().expect("a time"),
        pid: pid.parse().expect("a process id"),
        what,
        subject: subject.to_owned(),
        attempt: attempt.parse().expect("an attempt"),
    }
}
