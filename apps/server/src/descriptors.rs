//! The limit of open files, and its division between uses. Sockets count as files, and strangers
//! can open them.

use crate::failure::{Failure, during};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Reserved for administration commands, checkpoints, and files read now and then.
const KEPT: usize = 64;
/// Reserved for each worker: epoll instances, and the next journal file.
const PER_WORKER: usize = 5;
/// Sockets for one DNS look-up: A and AAAA queries are sent at once, each to two servers.
const PER_LOOKUP: usize = 4;
/// The inverse of the part of the limit that DNS look-ups may use.
const LOOKUPS_PART: usize = 4;
/// The inverse of the part of the remaining files that media may use.
const MEDIA_PART: usize = 2;
/// The maximum number of concurrent DNS look-ups.
const MOST_LOOKUPS: usize = 1024;

/// Limits on the open files that strangers can cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shares {
    /// The number of stream connections.
    pub(crate) connections: usize,
    /// The number of concurrent look-ups.
    pub(crate) lookups: usize,
    /// The number of sockets for media.
    pub(crate) media: usize,
}

/// Raises the soft limit of open files to the hard limit, and returns the result.
///
/// # Errors
/// [`Failure`] if the limit cannot be read.
pub(crate) fn raise_limit() -> Result<usize, Failure> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)
        .map_err(during("cannot tell the limit on open files"))?;
    let raised = setrlimit(Resource::RLIMIT_NOFILE, hard, hard).is_ok();
    Ok(usize::try_from(if raised { hard } else { soft }).unwrap_or(usize::MAX))
}

/// The number of files that the process has open.
///
/// # Errors
/// [`Failure`] if the system does not list them.
pub(crate) fn open() -> Result<usize, Failure> {
    let files = std::fs::read_dir("/proc/self/fd");
    Ok(files.map_err(during("cannot count open files in /proc/self/fd"))?.count())
}

/// Divides the `limit` of open files of a process with `workers` worker threads and `open` files.
/// At most `wanted` connections are possible, and at most `media` sockets for media.
///
/// # Errors
/// [`Failure`] if `limit` leaves no room for connections.
pub(crate) fn share(
    limit: usize,
    open: usize,
    workers: usize,
    wanted: usize,
    media: usize,
) -> Result<Shares, Failure> {
    let lookups = (limit / LOOKUPS_PART / PER_LOOKUP).clamp(1, MOST_LOOKUPS);
    let others = open + KEPT + PER_WORKER * workers + PER_LOOKUP * lookups;
    match limit.saturating_sub(others) {
        0 => Err(Failure::message(format!(
            "only {limit} files may be open, and {others} are needed without any TCP connection: raise the limit \
             (LimitNOFILE= in the systemd unit, or ulimit -n)"
        ))),
        room => {
            let media = media.min(room / MEDIA_PART);
            Ok(Shares { connections: wanted.min(room - media), lookups, media })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_for_other_uses_are_reserved() {
        let shares = |limit, wanted, media| share(limit, 30, 2, wanted, media).ok();
        let with = |connections, lookups, media| Some(Shares { connections, lookups, media });
        assert_eq!(shares(524_288, 100_000, 10_000), with(100_000, 1024, 10_000));
        let room = 1024 - 30 - 64 - 10 - 256;
        assert_eq!(shares(1024, 100_000, 0), with(room, 64, 0));
        assert_eq!(shares(1024, 100_000, 10_000), with(room / 2, 64, room / 2));
        assert_eq!(shares(1024, 100_000, 100), with(room - 100, 64, 100));
        assert_eq!(shares(1024, 10, 100), with(10, 64, 100));
        assert_eq!(shares(100, 10, 0), None);
        for limit in 0..5000 {
            let Some(shares) = shares(limit, usize::MAX, usize::MAX) else { continue };
            let Shares { connections, lookups, media } = shares;
            let all = connections + media + 4 * lookups + KEPT + 30;
            assert!(connections > 0 && all < limit, "{limit}");
        }
    }
}
