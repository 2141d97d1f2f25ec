//! A link of known rate between the load and the servers that are started: a pair of virtual
//! Ethernet interfaces, one of them in a network namespace of its own.

use crate::lifetime::Namespaces;
use std::fs::File;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::AsRawFd as _;
use std::process::Command;

/// The burst size in octets, and the longest queueing delay, as of a switch with a small buffer.
const BURST: u32 = 15_000;
const QUEUE: &str = "20ms";

/// The link. Dropping it removes the link.
#[derive(Debug)]
pub(crate) struct Link {
    /// The name of the namespace, and the addresses of the local and the other side.
    pub(crate) name: String,
    pub(crate) near: Ipv4Addr,
    pub(crate) far: Ipv4Addr,
    /// Bits per second in each direction.
    pub(crate) bits: u64,
    /// The local interface is removed with its peer.
    _namespaces: Namespaces,
}

impl Link {
    /// Sets up a link with this rate in bits per second in each direction. Its addresses are of the
    /// network for benchmarks (RFC 2544 appendix C.2.2).
    ///
    /// # Errors
    /// `ip` or `tc` failed; they need root.
    pub(crate) fn start(bits: u64) -> io::Result<Self> {
        let id = std::process::id();
        let [.., high, low] = (id << 2).to_be_bytes();
        let address = |host| Ipv4Addr::new(198, 18, high, (low & !3) | host);
        let name = format!("barebell-bench-{id}");
        let namespaces = Namespaces::prepare([&*name])?;
        run(&format!("ip netns add {name}"))?;
        let link = Self { name, near: address(1), far: address(2), bits, _namespaces: namespaces };
        let (near, far) = (format!("bb{id}a"), format!("bb{id}b"));
        let name = &link.name;
        run(&format!("ip link add {near} type veth peer name {far} netns {name}"))?;
        let inside = format!("ip netns exec {name} ");
        for (prefix, device, address) in [("", near, link.near), (&inside[..], far, link.far)] {
            run(&format!("{prefix}ip address add {address}/30 dev {device}"))?;
            run(&format!("{prefix}ip link set {device} up"))?;
            run(&format!(
                "{prefix}tc qdisc add dev {device} root tbf rate {bits}bit burst {BURST} latency \
                 {QUEUE}"
            ))?;
        }
        run(&format!("{inside}ip link set lo up"))?;
        Ok(link)
    }

    /// The name of the local interface.
    pub(crate) fn interface(&self) -> String {
        format!("bb{}a", std::process::id())
    }

    /// Returns the packets that the link has dropped since its start, on the way to the other side
    /// and back: those for which its queue had no room.
    ///
    /// # Errors
    /// `tc` or `ip` failed.
    pub(crate) fn dropped(&self) -> io::Result<[u64; 2]> {
        let (id, name) = (std::process::id(), &self.name);
        let there = run(&format!("tc -s qdisc show dev bb{id}a root"))?;
        let back = run(&format!("ip netns exec {name} tc -s qdisc show dev bb{id}b root"))?;
        Ok([dropped(&there), dropped(&back)])
    }

    /// Runs `work` in the namespace, such as opening sockets, which stay there.
    ///
    /// # Errors
    /// The namespace cannot be entered, or the work fails.
    pub(crate) fn inside<T: Send>(
        name: &str,
        work: impl FnOnce() -> io::Result<T> + Send,
    ) -> io::Result<T> {
        let namespace = File::open(format!("/run/netns/{name}"))?;
        let enter = move || {
            // SAFETY: the descriptor is open, and only this thread, which ends soon, is moved.
            let moved = unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) };
            if moved == 0 { work() } else { Err(io::Error::last_os_error()) }
        };
        std::thread::scope(|scope| {
            let ended = scope.spawn(enter).join();
            ended.unwrap_or_else(|_| Err(io::Error::other("the thread in the namespace panicked")))
        })
    }
}

/// Returns the number of dropped packets in the statistics of `tc`.
fn dropped(text: &str) -> u64 {
    let after = text.split_once("(dropped ").and_then(|(_, rest)| rest.split_once(','));
    after.and_then(|(count, _)| count.parse().ok()).unwrap_or_default()
}

/// Runs a system command, and returns its output.
///
/// # Errors
/// It is not installed, or fails.
pub(crate) fn run(line: &str) -> io::Result<String> {
    let mut words = line.split(' ');
    let program = words.next().unwrap_or_default();
    let output = Command::new(program).args(words).output().map_err(|error| {
        io::Error::new(error.kind(), format!("{program}: {error} (Debian: iproute2)"))
    })?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => {
            let said = String::from_utf8_lossy(&output.stderr);
            Err(io::Error::other(format!("{line}: {}; this takes root", said.trim())))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropped_packets_are_read_from_the_statistics() {
        let text = "qdisc tbf 8001: root refcnt 5 rate 100Mbit burst 15000b lat 20ms\n \
                    Sent 1514000 bytes 1000 pkt (dropped 17, overlimits 99 requeues 0)\n";
        assert_eq!(dropped(text), 17);
        assert_eq!(dropped(""), 0);
    }
}
