//! What a process has used so far (Linux: from /proc).

use anyhow::Context as _;

/// CPU time of a process, in seconds.
pub fn cpu_seconds(id: u32) -> anyhow::Result<f64> {
    // The kernel counts in hundredths, whatever its own clock does.
    const TICKS_PER_SECOND: f64 = 100.0;
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat"))?;
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |index: usize| fields.get(index).and_then(|field| field.parse::<f64>().ok());
    Ok((ticks(11).context("utime")? + ticks(12).context("stime")?) / TICKS_PER_SECOND)
}

/// The most memory that a process ever had, in MiB.
pub fn peak_mib(id: u32) -> anyhow::Result<f64> {
    kib(id, "VmHWM:").map(|kib| kib / 1_024.0)
}

/// The memory that a process has now, in MiB.
pub fn resident_mib(id: u32) -> anyhow::Result<f64> {
    kib(id, "VmRSS:").map(|kib| kib / 1_024.0)
}

fn kib(id: u32, key: &str) -> anyhow::Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{id}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(key)).with_context(|| key.to_owned())?;
    line.trim().trim_end_matches(" kB").parse().with_context(|| line.to_owned())
}
