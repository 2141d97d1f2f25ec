//! The description of this machine.

use crate::record::Machine;
use std::fs;
use std::thread;

/// Returns the description of this machine; unknown fields are empty.
pub(crate) fn machine() -> Machine {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let value = |text: &str, key: &str, sign: char| {
        let line = text.lines().find_map(|line| line.strip_prefix(key)?.trim().strip_prefix(sign));
        line.map(|value| value.trim().trim_matches('"').to_owned()).unwrap_or_default()
    };
    let distribution = value(&read("/etc/os-release"), "PRETTY_NAME", '=');
    let kernel = read("/proc/sys/kernel/osrelease");
    let memory = value(&read("/proc/meminfo"), "MemTotal", ':');
    let kilobytes: u64 = memory.trim_end_matches("kB").trim().parse().unwrap_or(0);
    Machine {
        host: read("/proc/sys/kernel/hostname").trim().to_owned(),
        cpu: value(&read("/proc/cpuinfo"), "model name", ':'),
        cores: thread::available_parallelism().map_or(0, usize::from),
        memory: kilobytes * 1024,
        system: format!("{distribution}, Linux {}", kernel.trim())
            .trim_start_matches(", ")
            .to_owned(),
    }
}
