//! The log of this process.

use std::io;
use std::sync::{Mutex, Once};

static LINES: Mutex<Vec<u8>> = Mutex::new(Vec::new());

/// From the first call on, warnings and errors of the whole process are kept.
pub fn capture_log() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        tracing_subscriber::fmt()
            .with_max_level(tracing_subscriber::filter::LevelFilter::WARN)
            .with_ansi(false)
            .with_writer(|| Writer)
            .init();
    });
}

/// From the first call on, everything that is logged in the whole process is kept. Instead of [`capture_log`], not beside it.
pub fn capture_everything() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        tracing_subscriber::fmt()
            .with_max_level(tracing_subscriber::filter::LevelFilter::TRACE)
            .with_ansi(false)
            .with_writer(|| Writer)
            .init();
    });
}

/// Lines of the log that hold all of these texts.
#[must_use]
pub fn log_lines(texts: &[&str]) -> Vec<String> {
    let bytes = LINES.lock().expect("log").clone();
    let log = String::from_utf8_lossy(&bytes);
    log.lines().filter(|line| texts.iter().all(|text| line.contains(text))).map(str::to_owned).collect()
}

struct Writer;

impl io::Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        LINES.lock().expect("log").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
