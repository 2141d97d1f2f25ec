//! Sums up the use of processes while processes and threads start and end.

use super::parse::{Process, Snapshot, Thread};
use crate::record::Usage;
use std::collections::HashMap;

/// A tick of `/proc/PID/stat` in nanoseconds: 1/100 s on every Linux, whatever the kernel's own
/// clock.
pub(super) const TICK_NS: u64 = 10_000_000;

/// The use of a tree of processes. Only differences are meaningful: the first reading includes the
/// use before it.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// The processes of the last reading, by id and start.
    processes: HashMap<(i32, u64), Known>,
    /// The use of ended processes.
    ended: Ended,
    /// Dropped datagrams of each socket that the processes ever had.
    drops: HashMap<u64, u64>,
    total: Usage,
    memory: u64,
    is_resident: bool,
}

#[derive(Debug, Default)]
struct Ended {
    cpu_ns: u64,
    user: u64,
    system: u64,
    switches: u64,
}

/// The last reading of a process.
#[derive(Debug, Default)]
struct Known {
    last: Process,
    /// The use of ended threads.
    ended: Thread,
    /// The CPU time of all threads; it never decreases.
    cpu_ns: u64,
}

impl Known {
    fn update(&mut self, now: &Process) {
        for (tid, thread) in &self.last.threads {
            // A lower value is that of a new thread with the same id.
            if now.threads.get(tid).is_none_or(|now| now.cpu_ns < thread.cpu_ns) {
                self.ended.cpu_ns += thread.cpu_ns;
                self.ended.switches += thread.switches;
            }
        }
        let threads: u64 = now.threads.values().map(|thread| thread.cpu_ns).sum();
        // The ticks, truncated to whole ones, also include the use of ended threads after their
        // last reading.
        let ticks = (now.user + now.system) * TICK_NS;
        self.cpu_ns = self.cpu_ns.max(threads + self.ended.cpu_ns).max(ticks);
        self.last = now.clone();
    }

    fn switches(&self) -> u64 {
        let threads: u64 = self.last.threads.values().map(|thread| thread.switches).sum();
        threads + self.ended.switches
    }
}

impl Tally {
    /// Adds a reading; a full one has memory and sockets.
    pub(super) fn update(&mut self, snapshot: &Snapshot, is_full: bool) {
        let mut before = std::mem::take(&mut self.processes);
        // The use in ticks (user, system) of waited-for children that no reading has seen.
        let mut unseen: HashMap<i32, (u64, u64)> = HashMap::new();
        for (&pid, now) in &snapshot.processes {
            let mut known = before.remove(&(pid, now.started)).unwrap_or_default();
            let user = now.children_user.saturating_sub(known.last.children_user);
            let system = now.children_system.saturating_sub(known.last.children_system);
            unseen.insert(pid, (user, system));
            known.update(now);
            self.processes.insert((pid, now.started), known);
        }
        // The remaining processes have ended.
        for known in before.values() {
            self.ended.cpu_ns += known.cpu_ns;
            self.ended.user += known.last.user;
            self.ended.system += known.last.system;
            self.ended.switches += known.switches();
            let mut ancestor = known.last.parent;
            let gone = |pid: i32| before.iter().find(|((number, _), _)| *number == pid);
            for _ in 0..before.len() {
                match gone(ancestor) {
                    Some((_, known)) if !unseen.contains_key(&ancestor) => {
                        ancestor = known.last.parent;
                    }
                    _ => break,
                }
            }
            if let Some((user, system)) = unseen.get_mut(&ancestor) {
                let last = &known.last;
                // Its own waited-for children were counted before.
                *user = user.saturating_sub(last.user + last.children_user);
                *system = system.saturating_sub(last.system + last.children_system);
            }
        }
        for (user, system) in unseen.into_values() {
            self.ended.cpu_ns += (user + system) * TICK_NS;
            self.ended.user += user;
            self.ended.system += system;
        }
        self.add_up(snapshot, is_full);
    }

    fn add_up(&mut self, snapshot: &Snapshot, is_full: bool) {
        let sum = |of: fn(&Known) -> u64| self.processes.values().map(of).sum::<u64>();
        let cpu = (self.ended.cpu_ns + sum(|known| known.cpu_ns)) / 1000;
        let user = (self.ended.user + sum(|known| known.last.user)) * TICK_NS / 1000;
        let system = (self.ended.system + sum(|known| known.last.system)) * TICK_NS / 1000;
        self.total.context_switches = self.ended.switches + sum(Known::switches);
        self.split(cpu, user, system);
        self.total.received_bytes = self.total.received_bytes.max(snapshot.received);
        self.total.sent_bytes = self.total.sent_bytes.max(snapshot.sent);
        if is_full {
            let ours =
                snapshot.sockets.iter().filter_map(|inode| snapshot.drops.get_key_value(inode));
            self.drops.extend(ours);
            self.total.udp_drops = self.drops.values().sum();
            let alive = || snapshot.processes.values().filter(|process| !process.is_zombie);
            // An ending process has no such data either.
            self.is_resident = alive().all(|process| process.proportional.is_none());
            self.memory =
                alive().map(|process| process.proportional.unwrap_or(process.resident)).sum();
        }
    }

    /// Splits `cpu` microseconds in the proportion of `user` and `system`. These are truncated to
    /// ticks, so neither part may decrease.
    fn split(&mut self, cpu: u64, user: u64, system: u64) {
        let before = self.total.cpu_user_us + self.total.cpu_system_us;
        let used = cpu.saturating_sub(before);
        let share = u128::from(cpu) * u128::from(user) / u128::from((user + system).max(1));
        let share = u64::try_from(share).unwrap_or(u64::MAX);
        let of_user = share.clamp(self.total.cpu_user_us, self.total.cpu_user_us + used);
        self.total.cpu_system_us += used - (of_user - self.total.cpu_user_us);
        self.total.cpu_user_us = of_user;
    }

    /// Returns the total use up to the last reading.
    pub(super) fn total(&self) -> Usage {
        self.total
    }

    /// Returns the memory in bytes of the last full reading.
    pub(super) fn memory(&self) -> u64 {
        self.memory
    }

    /// Returns true if the memory is the resident set size, since the proportional one is not
    /// readable.
    pub(super) fn is_resident(&self) -> bool {
        self.is_resident
    }
}

/// Returns `later` minus `earlier`.
pub(super) fn difference(later: &Usage, earlier: &Usage) -> Usage {
    Usage {
        cpu_user_us: later.cpu_user_us.saturating_sub(earlier.cpu_user_us),
        cpu_system_us: later.cpu_system_us.saturating_sub(earlier.cpu_system_us),
        context_switches: later.context_switches.saturating_sub(earlier.context_switches),
        udp_drops: later.udp_drops.saturating_sub(earlier.udp_drops),
        received_bytes: later.received_bytes.saturating_sub(earlier.received_bytes),
        sent_bytes: later.sent_bytes.saturating_sub(earlier.sent_bytes),
    }
}

/// Returns the sum.
pub(super) fn sum(one: &Usage, other: &Usage) -> Usage {
    Usage {
        cpu_user_us: one.cpu_user_us + other.cpu_user_us,
        cpu_system_us: one.cpu_system_us + other.cpu_system_us,
        context_switches: one.context_switches + other.context_switches,
        udp_drops: one.udp_drops + other.udp_drops,
        received_bytes: one.received_bytes + other.received_bytes,
        sent_bytes: one.sent_bytes + other.sent_bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a process with one thread, whose id is that of the process, and `ms` of CPU time, a
    /// quarter of it in system mode.
    fn process(pid: i32, parent: i32, ms: u64) -> (i32, Process) {
        let thread = Thread { cpu_ns: ms * 1_000_000, switches: ms };
        let process = Process {
            parent,
            started: 1,
            user: ms * 3 / 40,
            system: ms / 40,
            threads: HashMap::from([(pid, thread)]),
            proportional: Some(1000),
            ..Process::default()
        };
        (pid, process)
    }

    fn snapshot(processes: impl IntoIterator<Item = (i32, Process)>) -> Snapshot {
        Snapshot { processes: processes.into_iter().collect(), ..Snapshot::default() }
    }

    fn used(tally: &mut Tally, snapshot: &Snapshot) -> (u64, u64, u64) {
        let before = tally.total();
        tally.update(snapshot, true);
        let used = difference(&tally.total(), &before);
        (used.cpu_user_us, used.cpu_system_us, used.context_switches)
    }

    #[test]
    fn time_between_readings_counts_once() {
        let mut tally = Tally::default();
        tally.update(&snapshot([process(1, 0, 400), process(2, 1, 4000)]), true);
        assert_eq!(tally.memory(), 2000);
        let later = snapshot([process(1, 0, 800), process(2, 1, 4400), process(3, 1, 1200)]);
        assert_eq!(used(&mut tally, &later), (1_500_000, 500_000, 2000));
        assert_eq!(used(&mut tally, &later), (0, 0, 0));
        assert!(!tally.is_resident());
    }

    #[test]
    fn threads_that_ended_are_kept() {
        let mut tally = Tally::default();
        let (pid, mut one) = process(1, 0, 400);
        one.threads.insert(9, Thread { cpu_ns: 400_000_000, switches: 7 });
        tally.update(&snapshot([(pid, one.clone())]), true);
        one.threads.remove(&9);
        assert_eq!(used(&mut tally, &snapshot([(pid, one.clone())])), (0, 0, 0));
        // It ran for 100 ms after its last reading, which only the ticks of the process show: 900
        // ms.
        (one.user, one.system) = (75, 15);
        let (user, system, _) = used(&mut tally, &snapshot([(pid, one)]));
        assert_eq!(user + system, 100_000);
    }

    #[test]
    fn children_that_ended_are_counted_once() {
        let mut tally = Tally::default();
        tally.update(&snapshot([process(1, 0, 0), process(2, 1, 400), process(3, 2, 400)]), true);
        // 2 and 3 used 100 ms each in user mode after their last reading, and an unseen child 400
        // ms.
        let (pid, mut one) = process(1, 0, 0);
        (one.children_user, one.children_system) = (30 + 10 + 30 + 10 + 40, 20);
        let (user, system, switches) = used(&mut tally, &snapshot([(pid, one.clone())]));
        assert_eq!(user + system, 600_000);
        assert_eq!(switches, 0);
        assert_eq!(used(&mut tally, &snapshot([(pid, one)])), (0, 0, 0));
    }

    #[test]
    fn drops_of_other_processes_do_not_count() {
        let mut tally = Tally::default();
        let mut now = snapshot([process(1, 0, 0)]);
        now.drops = HashMap::from([(4711, 5), (4712, 50)]);
        now.sockets.insert(4711);
        tally.update(&now, true);
        assert_eq!(tally.total().udp_drops, 5);
        // A closed socket keeps its drops.
        now.sockets.clear();
        tally.update(&now, true);
        assert_eq!(tally.total().udp_drops, 5);
    }
}
