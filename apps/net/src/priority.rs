//! How much of the processor threads get.

use std::io;

/// How nice a thread is that gives way: a tenth of the time of one that does not, where both want the
/// processor.
const NICE: libc::c_int = 10;

/// Lets other threads go before the one that calls this, from now on.
///
/// # Errors
/// When the system does not let it.
pub fn give_way() -> io::Result<()> {
    // SAFETY: it takes numbers only. On Linux, process 0 is the thread that calls.
    let result = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICE) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
