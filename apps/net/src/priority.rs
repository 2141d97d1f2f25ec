//! How much of the processor threads get, and how soon.

use std::io;
use std::mem::MaybeUninit;

/// How nice a thread is that gives way: a tenth of the time of one that does not, where both want
/// the processor.
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

/// Asks for short turns for the thread that calls this, from now on: who asks for less gets it
/// sooner when it wakes (EEVDF of Linux 6.12 and later; others take no notice). Its share of the
/// time stays the same. A thread that the operator has given another policy than the usual one
/// keeps that, and takes the turns that are its.
///
/// # Errors
/// When the system does not let it.
pub fn take_short_turns() -> io::Result<()> {
    // SAFETY: it is plain data, valid when all its bytes are zero.
    let mut attributes: libc::sched_attr = unsafe { MaybeUninit::zeroed().assume_init() };
    let size = size_of::<libc::sched_attr>() as libc::c_uint;
    let told = &raw mut attributes;
    // SAFETY: `attributes` is as large as it is said to be, and written only here. Process 0 is the
    // thread that calls.
    if unsafe { libc::syscall(libc::SYS_sched_getattr, 0, told, size, 0) } != 0 {
        return Err(io::Error::last_os_error());
    }
    if attributes.sched_policy != libc::SCHED_OTHER as u32 {
        return Ok(());
    }
    attributes.sched_runtime = SHORT_TURN;
    // SAFETY: `attributes` is of the size that it says, and only read.
    let result = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
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

    #[test]
    fn a_policy_that_somebody_chose_stays() {
        let policy = std::thread::spawn(|| {
            // SAFETY: `usual` is only read. Process 0 is the thread that calls.
            let result = unsafe {
                let usual = libc::sched_param { sched_priority: 0 };
                libc::sched_setscheduler(0, libc::SCHED_BATCH, &raw const usual)
            };
            assert_eq!(result, 0);
            take_short_turns()?;
            // SAFETY: takes numbers only.
            io::Result::Ok(unsafe { libc::sched_getscheduler(0) })
        });
        assert_eq!(policy.join().unwrap().unwrap(), libc::SCHED_BATCH);
    }
}
