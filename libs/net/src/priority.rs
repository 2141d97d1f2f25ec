//! Priority and time slice of threads.

use std::io;
use std::mem::MaybeUninit;

/// The nice value of a low-priority thread: under contention it gets a tenth of the time of a
/// normal one.
const NICE: libc::c_int = 10;

/// The time slice to request, in nanoseconds: the shortest that Linux permits.
const SHORT_TURN: u64 = 100_000;

/// Lowers the priority of the calling thread.
///
/// # Errors
/// The system refuses the change.
pub fn give_way() -> io::Result<()> {
    // SAFETY: the call takes numbers only. On Linux, process 0 is the calling thread.
    let result = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICE) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Requests short time slices for the calling thread. A thread with shorter slices is scheduled
/// sooner after it wakes (EEVDF of Linux 6.12 and later; other kernels ignore it). Its share of the
/// processor is unchanged. A thread to which the operator has given another scheduling policy keeps
/// it, with its time slices.
///
/// # Errors
/// The system refuses the change.
pub fn take_short_turns() -> io::Result<()> {
    // SAFETY: the structure is plain data, valid when all its bytes are zero.
    let mut attributes: libc::sched_attr = unsafe { MaybeUninit::zeroed().assume_init() };
    let size = size_of::<libc::sched_attr>() as libc::c_uint;
    let told = &raw mut attributes;
    // SAFETY: `attributes` has the stated size, and only this call writes to it. Process 0 is the
    // calling thread.
    if unsafe { libc::syscall(libc::SYS_sched_getattr, 0, told, size, 0) } != 0 {
        return Err(io::Error::last_os_error());
    }
    if attributes.sched_policy != libc::SCHED_OTHER as u32 {
        return Ok(());
    }
    attributes.sched_runtime = SHORT_TURN;
    // SAFETY: `attributes` has the size that it contains, and is only read.
    let result = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_time_slices_keep_the_nice_value() {
        let nice = std::thread::spawn(|| {
            give_way()?;
            take_short_turns()?;
            // SAFETY: the call takes numbers only.
            io::Result::Ok(unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) })
        });
        assert_eq!(nice.join().unwrap().unwrap(), NICE);
    }

    #[test]
    fn a_configured_scheduling_policy_stays() {
        let policy = std::thread::spawn(|| {
            // SAFETY: `usual` is only read. Process 0 is the calling thread.
            let result = unsafe {
                let usual = libc::sched_param { sched_priority: 0 };
                libc::sched_setscheduler(0, libc::SCHED_BATCH, &raw const usual)
            };
            assert_eq!(result, 0);
            take_short_turns()?;
            // SAFETY: the call takes numbers only.
            io::Result::Ok(unsafe { libc::sched_getscheduler(0) })
        });
        assert_eq!(policy.join().unwrap().unwrap(), libc::SCHED_BATCH);
    }
}
