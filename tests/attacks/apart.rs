//! A network of its own for a test that needs certain addresses, ports or name servers.

use peers::process::{Program, run};
use std::io;
use std::net::IpAddr;
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
