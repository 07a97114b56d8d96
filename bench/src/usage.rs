//! What a process uses, as Linux counts it.

use std::time::Duration;

use crate::BoxResult;

/// Ticks of `/proc/<pid>/stat` in a second: the same on every Linux that Rust runs on.
const TICKS: f64 = 100.0;

/// The resident memory of the process, in megabytes of 10^6 bytes.
pub(crate) fn resident_mb(process: u32) -> BoxResult<f64> {
    let status = read(process, "status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("/proc tells no VmRSS")?;
    let kib: f64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kib * 1024.0 / 1e6)
}

/// The processor time that the process has used so far.
pub(crate) fn processor_time(process: u32) -> BoxResult<Duration> {
    let stat = read(process, "stat")?;
    // The name of the program stands in brackets, and may hold blanks.
    let (_, fields) = stat.rsplit_once(") ").ok_or("/proc tells no name of the program")?;
    let ticks = fields.split(' ').skip(11).take(2).map(str::parse::<f64>).sum::<Result<f64, _>>()?;
    Ok(Duration::from_secs_f64(ticks / TICKS))
}

fn read(process: u32, file: &str) -> BoxResult<String> {
    let path = format!("/proc/{process}/{file}");
    std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error} (this benchmark needs Linux)").into())
}
