//! Captures the log of this process at the level TRACE, while a test that checks it runs.

use std::io;
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

static LOG: Mutex<Log> = Mutex::new(Log { bytes: Vec::new(), forgotten: 0, beginnings: Vec::new() });

struct Log {
    bytes: Vec<u8>,
    /// The number of bytes that were dropped before these.
    forgotten: usize,
    /// The position in the log at which each running test began.
    beginnings: Vec<usize>,
}

/// The log of the whole process from the creation of this value on. The drop forgets the part that
/// no other test needs.
#[derive(Debug)]
pub struct LogCapture {
    beginning: usize,
}

impl LogCapture {
    /// Begins to capture.
    #[must_use]
    pub fn start() -> Self {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            // The library for MCP logs whole messages, those for HTTP whole URLs, and the tool
            // `log` what a flow tells it.
            let off = ["rmcp", "hyper", "hyper_util", "reqwest", "workflow_tools::log"];
            let all = Targets::new().with_default(LevelFilter::TRACE);
            let all = off.into_iter().fold(all, |all, target| all.with_target(target, LevelFilter::OFF));
            let written = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(|| Writer);
            tracing_subscriber::registry().with(written.with_filter(all)).init();
        });
        let mut log = log();
        let beginning = log.forgotten + log.bytes.len();
        log.beginnings.push(beginning);
        Self { beginning }
    }

    /// Returns the captured text.
    #[must_use]
    pub fn text(&self) -> String {
        let log = log();
        String::from_utf8_lossy(&log.bytes[self.beginning - log.forgotten..]).into_owned()
    }
}

impl Drop for LogCapture {
    fn drop(&mut self) {
        let mut log = log();
        if let Some(own) = log.beginnings.iter().position(|beginning| *beginning == self.beginning) {
            log.beginnings.swap_remove(own);
        }
        let needed = log.beginnings.iter().min().map_or(log.bytes.len(), |first| first - log.forgotten);
        log.bytes.drain(..needed);
        log.forgotten += needed;
    }
}

/// Returns the lines that contain all of these texts, from the log since the first running test
/// began.
#[must_use]
pub fn log_lines(texts: &[&str]) -> Vec<String> {
    let bytes = log().bytes.clone();
    let log = String::from_utf8_lossy(&bytes);
    log.lines().filter(|line| texts.iter().all(|text| line.contains(text))).map(str::to_owned).collect()
}

fn log() -> MutexGuard<'static, Log> {
    LOG.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Writer;

impl io::Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut log = log();
        if !log.beginnings.is_empty() {
            log.bytes.extend_from_slice(bytes);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
