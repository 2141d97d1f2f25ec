//! How many files the process may have open, and what they are for: sockets are files, too, and
//! strangers open them.

use crate::failure::{Failure, during};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Kept for the commands of the administration, checkpoints, and files that are read now and then.
const KEPT: usize = 64;
/// What a worker has open besides: event queues, and the next file of the journal.
const PER_WORKER: usize = 4;
/// Sockets that a question to the DNS may need: A and AAAA are asked for at once, of two servers.
const PER_LOOKUP: usize = 4;
/// Part of all that questions to the DNS may need.
const LOOKUPS_PART: usize = 4;
/// The most questions to the DNS at a time.
const MOST_LOOKUPS: usize = 1024;

/// How many there may be of what strangers can make the process open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shares {
    /// Stream connections.
    pub(crate) connections: usize,
    /// Destinations that are looked up at a time.
    pub(crate) lookups: usize,
}

/// Raises the limit on open files as far as it goes, and returns it.
///
/// # Errors
/// When it cannot be read.
pub(crate) fn raise_limit() -> Result<usize, Failure> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)
        .map_err(during("cannot tell the limit on open files"))?;
    let raised = setrlimit(Resource::RLIMIT_NOFILE, hard, hard).is_ok();
    Ok(usize::try_from(if raised { hard } else { soft }).unwrap_or(usize::MAX))
}

/// The files that the process has open.
///
/// # Errors
/// When the system does not say.
pub(crate) fn open() -> Result<usize, Failure> {
    let files = std::fs::read_dir("/proc/self/fd");
    Ok(files.map_err(during("cannot count open files in /proc/self/fd"))?.count())
}

/// Shares out what a process with so many `workers` may open, where `open` files are and `wanted`
/// connections are to be possible.
///
/// # Errors
/// When `limit` leaves no room for connections.
pub(crate) fn share(
    limit: usize,
    open: usize,
    workers: usize,
    wanted: usize,
) -> Result<Shares, Failure> {
    let lookups = (limit / LOOKUPS_PART / PER_LOOKUP).clamp(1, MOST_LOOKUPS);
    let others = open + KEPT + PER_WORKER * workers + PER_LOOKUP * lookups;
    match limit.saturating_sub(others) {
        0 => Err(Failure::said(format!(
            "only {limit} files may be open, and {others} are needed without any TCP connection: raise the limit \
             (LimitNOFILE= in the systemd unit, or ulimit -n)"
        ))),
        room => Ok(Shares { connections: wanted.min(room), lookups }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_needed_for_the_rest_is_kept_from_connections() {
        let shares = |limit, wanted| share(limit, 30, 2, wanted).ok();
        let with = |connections, lookups| Some(Shares { connections, lookups });
        assert_eq!(shares(524_288, 100_000), with(100_000, 1024));
        assert_eq!(shares(1024, 100_000), with(1024 - 30 - 64 - 8 - 256, 64));
        assert_eq!(shares(1024, 10), with(10, 64));
        assert_eq!(shares(100, 10), None);
        for limit in 0..5000 {
            let Some(Shares { connections, lookups }) = shares(limit, usize::MAX) else { continue };
            assert!(connections > 0 && connections + 4 * lookups + KEPT + 30 < limit, "{limit}");
        }
    }
}
