//! A record of what steps did and what clients were told, written outside the database under test.
//! Each fact is one line, appended to a file.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A kind of fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fact {
    /// The body of a step began.
    Begin,
    /// The body of a step ended or was dropped.
    End,
    /// A workflow saw the outcome of a call, now or on a replay.
    Delivered,
    /// A start was acknowledged.
    Started,
    /// A signal was acknowledged.
    Signaled,
    /// A cancel was acknowledged.
    Canceled,
    /// A client received the result of its run.
    Answered,
    /// A client in a race received a reply; the value says which, and when.
    Raced,
}

impl Fact {
    const ALL: [(Self, &str); 8] = [
        (Self::Begin, "begin"),
        (Self::End, "end"),
        (Self::Delivered, "delivered"),
        (Self::Started, "started"),
        (Self::Signaled, "signaled"),
        (Self::Canceled, "canceled"),
        (Self::Answered, "answered"),
        (Self::Raced, "raced"),
    ];

    fn word(self) -> &'static str {
        Self::ALL.iter().find(|(what, _)| *what == self).map(|(_, word)| *word).expect("every kind has a word")
    }

    /// Returns `true` if the fact is a reply to a client that must outlast every fault.
    #[must_use]
    pub fn is_acknowledgement(self) -> bool {
        matches!(self, Self::Started | Self::Signaled | Self::Canceled | Self::Answered)
    }
}

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The time in microseconds since 1970.
    pub at: u128,
    /// The id of the process that wrote the line.
    pub pid: u32,
    /// The kind of fact.
    pub fact: Fact,
    /// The run and the step as `run/step`; only the run for a reply to a client.
    pub subject: String,
    /// The attempt of the step; 0 if the fact has no attempt.
    pub attempt: u32,
    /// The value that a workflow or a client received: one word, or nothing.
    pub value: String,
}

/// The last word of every line. A line without it is torn.
const LAST: &str = ".";

/// A file that many processes append to.
#[derive(Clone, Debug)]
pub struct Ledger {
    path: PathBuf,
}

impl Ledger {
    /// Returns the ledger in this directory. The first line creates the file.
    #[must_use]
    pub fn inside(directory: &Path) -> Self {
        Self { path: directory.join("ledger") }
    }

    /// Appends a line in one system call. A process that is killed leaves the line whole, absent or
    /// torn, because the system may end a write between two pages. So each write begins a new line
    /// and ends with a fixed word; a line without that word counts as not written.
    pub fn append(&self, what: Fact, subject: &str, attempt: u32) {
        self.append_value(what, subject, attempt, "");
    }

    /// Appends a line with the value that a workflow or a client received. See [`Ledger::append`].
    pub fn append_value(&self, what: Fact, subject: &str, attempt: u32, value: &str) {
        let at = now();
        let (pid, what) = (std::process::id(), what.word());
        let line = format!("\n{at} {pid} {what} {subject} {attempt} {value} {LAST}\n");
        self.open().write_all(line.as_bytes()).expect("append to the ledger");
    }

    fn open(&self) -> File {
        OpenOptions::new().create(true).append(true).open(&self.path).expect("open the ledger")
    }

    /// Returns every line so far.
    #[must_use]
    pub fn lines(&self) -> Vec<Line> {
        let mut reader = self.reader();
        reader.read();
        reader.lines
    }

    /// Returns the lines of bodies that began.
    #[must_use]
    pub fn begins(&self) -> Vec<Line> {
        self.lines().into_iter().filter(|line| line.fact == Fact::Begin).collect()
    }

    /// Returns a reader that reads only new lines each time.
    #[must_use]
    pub fn reader(&self) -> LedgerReader {
        LedgerReader { path: self.path.clone(), offset: 0, lines: Vec::new() }
    }
}

/// Returns the true time, also in a process whose clock was shifted: only the functions of the C
/// library are shifted.
fn now() -> u128 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    let now = Duration::new(now.tv_sec.cast_unsigned(), u32::try_from(now.tv_nsec).expect("less than a second"));
    now.as_micros()
}

/// The lines that were read so far. A further read reads only what was appended since.
#[derive(Clone, Debug)]
pub struct LedgerReader {
    path: PathBuf,
    offset: u64,
    /// The lines that were read.
    pub lines: Vec<Line>,
}

impl LedgerReader {
    /// Reads what was appended since the last read. Returns the number of new lines.
    pub fn read(&mut self) -> usize {
        let mut file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return 0,
            Err(error) => panic!("read the ledger: {error}"),
        };
        let mut text = String::new();
        file.seek(SeekFrom::Start(self.offset)).expect("seek in the ledger");
        file.read_to_string(&mut text).expect("read the ledger");
        // A reader may see the first part of a line that is being written.
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        self.offset += whole as u64;
        let before = self.lines.len();
        self.lines.extend(text[..whole].lines().filter_map(parse));
        self.lines.len() - before
    }

    /// Returns `true` if a body began in this process and did not end, according to the lines read
    /// so far.
    #[must_use]
    pub fn is_cut(&self, pid: u32) -> bool {
        let count = |what| self.lines.iter().filter(|line| line.pid == pid && line.fact == what).count();
        count(Fact::Begin) > count(Fact::End)
    }
}

/// Parses a line. `None` if the line is torn or empty.
fn parse(line: &str) -> Option<Line> {
    let words: Vec<&str> = line.split(' ').collect();
    let [at, pid, what, subject, attempt, value, LAST] = words[..] else { return None };
    let (fact, _) = Fact::ALL.into_iter().find(|(_, word)| *word == what).expect("a known fact");
    Some(Line {
        at: at.parse().expect("a time"),
        pid: pid.parse().expect("a process id"),
        fact,
        subject: subject.to_owned(),
        attempt: attempt.parse().expect("an attempt"),
        value: value.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_torn_line_counts_as_not_written_and_spoils_no_other_line() {
        let directory = tempfile::tempdir().expect("a directory");
        let ledger = Ledger::inside(directory.path());
        ledger.append(Fact::Begin, "r/one", 1);
        let whole = std::fs::read_to_string(&ledger.path).expect("the ledger");
        for end in 0..whole.len() - 1 {
            ledger.open().write_all(&whole.as_bytes()[..end]).expect("tear a line");
        }
        ledger.append_value(Fact::Delivered, "r/two", 0, "5");
        let lines: Vec<(Fact, String)> = ledger.lines().into_iter().map(|line| (line.fact, line.subject)).collect();
        assert_eq!(lines, [(Fact::Begin, "r/one".into()), (Fact::Delivered, "r/two".into())]);
    }
}
