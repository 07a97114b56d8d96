//! What a process takes of the machine, as Linux says it.

use std::time::Duration;

use crate::BoxResult;

/// Ticks a second of the times in `/proc`: `USER_HZ`, which Linux keeps at 100 for programs.
const TICKS: f64 = 100.0;

/// The time for which the process has run, in all of its threads.
pub(crate) fn cpu_time(id: u32) -> BoxResult<Duration> {
    let stat = read(id, "stat")?;
    // The name stands in brackets and may hold anything.
    let (_, fields) = stat.rsplit_once(')').ok_or("/proc/<pid>/stat has the name in brackets")?;
    let ticks = fields.split_whitespace().skip(11).take(2).map(str::parse::<u64>).sum::<Result<u64, _>>()?;
    Ok(Duration::from_secs_f64(ticks as f64 / TICKS))
}

/// Memory of the process that is in RAM, in MB.
pub(crate) fn resident_mb(id: u32) -> BoxResult<f64> {
    let status = read(id, "status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("/proc/<pid>/status has no VmRSS")?;
    let kb: f64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kb * 1024.0 / 1e6)
}

fn read(id: u32, file: &str) -> BoxResult<String> {
    let path = format!("/proc/{id}/{file}");
    std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}; this is measured on Linux only").into())
}
