//! How much of the processor threads get, and how soon.

use std::io;

/// How nice a thread is that gives way: a tenth of the time of one that does not, where both want the
/// processor.
const NICE: libc::c_int = 10;

/// How long a turn is that is asked for, in nanoseconds: the shortest that Linux knows.
const SHORT_TURN: u64 = 100_000;

/// Lets other threads go before the one that calls this, from now on.
///
/// # Errors
/// When the system does not let it.
pub fn give_way() -> io::Result<()> {
    // SAFETY: it takes numbers only. On Linux, process 0 is the thread that calls.
    let result = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICE) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Asks for short turns for the thread that calls this, from now on: who asks for less gets it sooner when it wakes
/// (EEVDF of Linux 6.12 and later; others take no notice). Its share of the time stays the same.
///
/// # Errors
/// When the system does not let it.
pub fn take_short_turns() -> io::Result<()> {
    // SAFETY: takes numbers only.
    let nice = unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
    let wanted = libc::sched_attr {
        size: size_of::<libc::sched_attr>() as u32,
        sched_policy: libc::SCHED_OTHER as u32,
        sched_flags: 0,
        sched_nice: nice,
        sched_priority: 0,
        sched_runtime: SHORT_TURN,
        sched_deadline: 0,
        sched_period: 0,
    };
    // SAFETY: `wanted` is of the size that it says, and only read. Process 0 is the thread that calls.
    let result = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const wanted, 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_takes_short_turns_stays_as_nice_as_it_was() {
        let nice = std::thread::spawn(|| {
            give_way()?;
            take_short_turns()?;
            // SAFETY: takes numbers only.
            io::Result::Ok(unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) })
        });
        assert_eq!(nice.join().unwrap().unwrap(), NICE);
    }
}
