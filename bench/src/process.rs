//! Processor time, memory and open files of a process, read from Linux's `/proc`.

use std::time::Duration;

use crate::BoxResult;

/// Ticks per second of the times in `/proc`: `USER_HZ`, which is always 100 for programs on Linux.
const TICKS: f64 = 100.0;

/// Returns the processor time that all threads of the process have used.
pub(crate) fn cpu_time(id: u32) -> BoxResult<Duration> {
    let stat = read(id, "stat")?;
    // The program's name stands in parentheses and may contain any character.
    let (_, fields) = stat.rsplit_once(')').ok_or("/proc/<pid>/stat has no name in parentheses")?;
    let ticks = fields.split_whitespace().skip(11).take(2).map(str::parse::<u64>).sum::<Result<u64, _>>()?;
    Ok(Duration::from_secs_f64(ticks as f64 / TICKS))
}

/// Returns the resident memory of the process in MB.
pub(crate) fn resident_mb(id: u32) -> BoxResult<f64> {
    let status = read(id, "status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("/proc/<pid>/status has no VmRSS")?;
    let kb: f64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kb * 1024.0 / 1e6)
}

/// Returns the number of open files and connections of the process.
pub(crate) fn open_files(id: u32) -> BoxResult<f64> {
    let path = format!("/proc/{id}/fd");
    let files = std::fs::read_dir(&path).map_err(|error| format!("{path}: {error}; this figure needs Linux"))?;
    Ok(files.count() as f64)
}

fn read(id: u32, file: &str) -> BoxResult<String> {
    let path = format!("/proc/{id}/{file}");
    std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}; this figure needs Linux").into())
}
