//! How much memory a process has, and may have.

use std::fs;

/// Bytes that a process has in memory now (`/proc/<process>/statm`, in pages).
pub fn resident(process: u32) -> u64 {
    let pages = fs::read_to_string(format!("/proc/{process}/statm")).ok();
    let pages = pages.and_then(|text| text.split(' ').nth(1)?.parse::<u64>().ok());
    pages.unwrap_or(0) * page_size()
}

fn page_size() -> u64 {
    rustix::param::page_size() as u64
}

/// Three quarters of what the machine has, or of what its control group allows us.
pub fn default_limit() -> u64 {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| {
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("MemTotal:"))?;
        let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        Some(kilobytes << 10)
    });
    // The second version of control groups, and the first.
    let group = [
        "/sys/fs/cgroup/memory.max",
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
    ]
    .iter()
    .find_map(|file| fs::read_to_string(file).ok()?.trim().parse::<u64>().ok());
    let limit = machine.into_iter().chain(group).min();
    limit.map_or(u64::MAX, |bytes| bytes / 4 * 3)
}
