//! The parser of `/proc` readings: lines of the form `path:line`, as `grep "" FILES` prints them.
//! Local and remote readings have the same form.

use std::collections::{HashMap, HashSet};

/// A reading of a tree of processes. All figures are totals since the start of each process.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Snapshot {
    /// The processes by id.
    pub(super) processes: HashMap<i32, Process>,
    /// Inodes of their sockets; only in a full reading.
    pub(super) sockets: HashSet<u64>,
    /// Dropped datagrams by the inode of the socket: of every UDP socket with drops, also of other
    /// processes; only in a full reading.
    pub(super) drops: HashMap<u64, u64>,
    /// Bytes received by the network interfaces.
    pub(super) received: u64,
    /// Bytes sent by the network interfaces.
    pub(super) sent: u64,
    /// Processors of the machine; only in a full reading.
    pub(super) cores: usize,
    /// Ticks of the processors in user and system mode, of all programs, and ticks that the
    /// hypervisor gave to other machines; only in a full reading. Interrupts are excluded, since
    /// those of the load's packets belong to the load.
    pub(super) machine: u64,
}

impl Snapshot {
    fn process(&mut self, pid: i32) -> &mut Process {
        self.processes.entry(pid).or_default()
    }
}

/// The data of one process.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Process {
    /// The id of its parent.
    pub(super) parent: i32,
    /// The start in ticks since the boot. With the id it identifies a process.
    pub(super) started: u64,
    /// True if it has ended and its parent has not waited for it.
    pub(super) is_zombie: bool,
    /// Ticks in user mode of all its threads, including ended ones.
    pub(super) user: u64,
    /// Ticks in system mode of all its threads.
    pub(super) system: u64,
    /// Ticks in user mode of ended children that were waited for, and of their children.
    pub(super) children_user: u64,
    /// Ticks in system mode of these children.
    pub(super) children_system: u64,
    /// Its threads by id.
    pub(super) threads: HashMap<i32, Thread>,
    /// Proportional set size in bytes; only in a full reading, and with permission.
    pub(super) proportional: Option<u64>,
    /// Resident set size in bytes.
    pub(super) resident: u64,
}

/// The data of one thread.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Thread {
    /// CPU time in nanoseconds.
    pub(super) cpu_ns: u64,
    /// Voluntary and involuntary context switches.
    pub(super) switches: u64,
}

/// Parses the lines of a reading. Invalid lines are skipped: a file may be truncated when its
/// process ends.
pub(super) fn parse(text: &str) -> Snapshot {
    let mut snapshot = Snapshot::default();
    for line in text.lines() {
        if let Some((path, rest)) = line.strip_prefix("/proc/").and_then(|l| l.split_once(':')) {
            let _ = file_line(&mut snapshot, path, rest);
        } else if let Some((_, rest)) = line.split_once("socket:[") {
            snapshot
                .sockets
                .extend(rest.split(']').next().and_then(|inode| inode.parse::<u64>().ok()));
        }
    }
    // A process without a `stat` line is not counted.
    snapshot.processes.retain(|_, process| process.started > 0);
    snapshot
}

fn file_line(snapshot: &mut Snapshot, path: &str, line: &str) -> Option<()> {
    if path == "stat" {
        if line.starts_with("cpu") && !line.starts_with("cpu ") {
            snapshot.cores += 1;
            let figures: Vec<&str> = line.split_ascii_whitespace().skip(1).collect();
            // user, nice, system, steal
            for index in [0, 1, 2, 7] {
                snapshot.machine += figures.get(index)?.parse::<u64>().ok()?;
            }
        }
        return Some(());
    }
    let (pid, path) = path.split_once('/')?;
    let pid: i32 = pid.parse().ok()?;
    match path {
        "stat" => stat(snapshot.process(pid), line)?,
        "smaps_rollup" => {
            if let Some(rest) = line.strip_prefix("Pss:") {
                snapshot.process(pid).proportional = Some(kilobytes(rest)?);
            }
        }
        "net/dev" => {
            let (_, figures) = line.split_once(':')?;
            let mut figures = figures.split_ascii_whitespace().map(str::parse::<u64>);
            snapshot.received += figures.next()?.ok()?;
            snapshot.sent += figures.nth(7)?.ok()?;
        }
        "net/udp" | "net/udp6" => {
            let mut fields = line.split_ascii_whitespace();
            let inode = fields.nth(9)?.parse().ok()?;
            snapshot.drops.insert(inode, fields.nth(2)?.parse().ok()?);
        }
        _ => {
            let (tid, file) = path.strip_prefix("task/")?.split_once('/')?;
            let process = snapshot.process(pid);
            let thread = process.threads.entry(tid.parse().ok()?).or_default();
            match (file, line.split_once(':')) {
                ("schedstat", None) => thread.cpu_ns = line.split(' ').next()?.parse().ok()?,
                ("status", Some(("voluntary_ctxt_switches" | "nonvoluntary_ctxt_switches", n))) => {
                    thread.switches += n.trim().parse::<u64>().ok()?;
                }
                ("status", Some(("VmRSS", size))) => process.resident = kilobytes(size)?,
                _ => {}
            }
        }
    }
    Some(())
}

fn stat(process: &mut Process, line: &str) -> Option<()> {
    // The name is in brackets, and may contain brackets and blanks.
    let (_, line) = line.rsplit_once(") ")?;
    let fields: Vec<&str> = line.split(' ').collect();
    let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
    process.is_zombie = matches!(*fields.first()?, "Z" | "X");
    process.parent = fields.get(1)?.parse().ok()?;
    process.user = number(11)?;
    process.system = number(12)?;
    process.children_user = number(13)?;
    process.children_system = number(14)?;
    process.started = number(19)?;
    Some(())
}

fn kilobytes(text: &str) -> Option<u64> {
    let number = text.trim().strip_suffix("kB")?.trim_end();
    number.parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
/proc/stat:cpu  1 2 3
/proc/stat:cpu0 1 2 3 9 9 9 9 4 0 0
/proc/stat:cpu1 5 6 7 9 9 9 9 8 0 0
/proc/7/stat:7 (a (b) c) S 1 7 7 0 -1 4194304 5 6 0 0 210 320 43 54 20 0 2 0 987 1 2
/proc/7/task/7/schedstat:2500000 1 2
/proc/7/task/8/schedstat:1500000 1 2
/proc/7/task/7/status:VmRSS:\t    3000 kB
/proc/7/task/7/status:voluntary_ctxt_switches:\t11
/proc/7/task/7/status:nonvoluntary_ctxt_switches:\t22
/proc/7/smaps_rollup:55d0-7ffe ---p 00000000 00:00 0    [rollup]
/proc/7/smaps_rollup:Pss:                2000 kB
/proc/7/smaps_rollup:Pss_Dirty:           700 kB
/proc/7/net/dev:Inter-|   Receive                         |  Transmit
/proc/7/net/dev: face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets
/proc/7/net/dev:    lo:     100 1 0 0 0 0 0 0      200 1 0 0 0 0 0 0
/proc/7/net/dev:  eth0: 1000 1 0 0 0 0 0 0 2000 1 0 0 0 0 0 0
/proc/7/net/udp:   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid
/proc/7/net/udp:  123: 0100007F:13C4 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 4711 2 0000000000000000 42   \x20
lrwx------ 1 root root 64 Nov 21 23:16 3 -> socket:[4711]
";

    #[test]
    fn a_reading_is_understood() {
        let snapshot = parse(TEXT);
        assert_eq!((snapshot.cores, snapshot.machine), (2, 1 + 2 + 3 + 4 + 5 + 6 + 7 + 8));
        assert_eq!((snapshot.received, snapshot.sent), (1100, 2200));
        assert_eq!(snapshot.drops, HashMap::from([(4711, 42)]));
        assert_eq!(snapshot.sockets, HashSet::from([4711]));
        let process = Process {
            parent: 1,
            started: 987,
            is_zombie: false,
            user: 210,
            system: 320,
            children_user: 43,
            children_system: 54,
            threads: HashMap::from([
                (7, Thread { cpu_ns: 2_500_000, switches: 33 }),
                (8, Thread { cpu_ns: 1_500_000, switches: 0 }),
            ]),
            proportional: Some(2000 * 1024),
            resident: 3000 * 1024,
        };
        assert_eq!(snapshot.processes, HashMap::from([(7, process)]));
    }

    #[test]
    fn a_reading_may_end_anywhere() {
        for end in 0..TEXT.len() {
            let snapshot = parse(&TEXT[..end]);
            assert!(snapshot.processes.len() <= 1);
        }
        assert_eq!(
            parse("/proc/x/stat:1\n/proc/:\n/proc/5/task/:7\nsocket:[\n"),
            Snapshot::default()
        );
    }
}
