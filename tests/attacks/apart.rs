//! A network of its own for a test that needs certain addresses, ports or name servers.

use peers::process::{Program, run};
use std::fs::File;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::thread;

const IP: Program = Program { name: "ip", packages: "iproute2" };
const MOUNT: Program = Program { name: "mount", packages: "mount" };

/// Runs `test` on a thread with a network namespace and a mount namespace of its own. Programs and
/// threads that it starts share them. Requires root.
///
/// # Panics
/// The namespaces cannot be created, or the test fails.
pub(crate) fn apart(test: impl FnOnce() + Send) {
    thread::scope(|scope| {
        let test = scope.spawn(|| {
            // SAFETY: unshare accesses no memory.
            let result = unsafe { libc::unshare(libc::CLONE_NEWNET | libc::CLONE_NEWNS) };
            let error = io::Error::last_os_error();
            assert_eq!(result, 0, "no namespaces, usually without root: {error}");
            command(IP, "link set lo up");
            command(MOUNT, "--make-rprivate /");
            test();
        });
        test.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}

/// Gives the loopback interface another address.
pub(crate) fn add_address(address: IpAddr) {
    let length = if address.is_ipv4() { "32" } else { "128 nodad" };
    command(IP, &format!("address add {address}/{length} dev lo"));
}

/// A second network, of other machines: what comes from there was not sent on this machine.
pub(crate) struct Elsewhere(File);

impl Elsewhere {
    /// A network with these `addresses`, and a route between it and `here`. Packets to the group
    /// `multicast` go there.
    pub(crate) fn new(here: Ipv4Addr, addresses: &[Ipv4Addr], multicast: Ipv4Addr) -> Self {
        let file = thread::scope(|scope| {
            let file = scope.spawn(|| {
                // SAFETY: unshare accesses no memory.
                let result = unsafe { libc::unshare(libc::CLONE_NEWNET) };
                assert_eq!(result, 0, "no namespace: {}", io::Error::last_os_error());
                File::open("/proc/thread-self/ns/net").expect("the namespace has a file")
            });
            file.join().expect("the thread has made a namespace")
        });
        let place = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
        command(IP, "link add here type veth peer name there");
        command(IP, &format!("link set there netns {place}"));
        command(IP, "link set here up");
        let elsewhere = Self(file);
        elsewhere.run(|| {
            command(IP, "link set lo up");
            command(IP, "link set there up");
            for address in addresses {
                command(IP, &format!("address add {address}/32 dev there"));
            }
            command(IP, &format!("route add {here}/32 dev there"));
        });
        for address in addresses.iter().chain([&multicast]) {
            command(IP, &format!("route add {address}/32 dev here"));
        }
        elsewhere
    }

    /// Runs `act` there.
    pub(crate) fn run<T: Send>(&self, act: impl FnOnce() -> T + Send) -> T {
        thread::scope(|scope| {
            let result = scope.spawn(|| {
                // SAFETY: setns accesses no memory, and the descriptor is open.
                let result = unsafe { libc::setns(self.0.as_raw_fd(), libc::CLONE_NEWNET) };
                assert_eq!(result, 0, "no namespace: {}", io::Error::last_os_error());
                act()
            });
            result.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

/// Hides the folder `path` under an empty one.
pub(crate) fn hide(path: &str) {
    command(MOUNT, &format!("-t tmpfs tmpfs {path}"));
}

/// Replaces the file `path` by `file`.
pub(crate) fn replace(path: &str, file: &Path) {
    command(MOUNT, &format!("--bind {} {path}", file.display()));
}

fn command(program: Program, words: &str) {
    let mut command = program.command();
    command.args(words.split_whitespace());
    let _ = run(program, command);
}
