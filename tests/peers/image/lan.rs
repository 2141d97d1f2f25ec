//! A separate network for a machine, with dnsmasq at the other end of its cable.

use super::wire::Wire;
use crate::folder::Folder;
use crate::nat::ip;
use crate::process::{Process, Program};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use test_support::hostile::End;

const DNSMASQ: Program = Program { name: "dnsmasq", packages: "dnsmasq-base" };
/// The address of this end: dnsmasq, the peers and the test.
pub const HERE: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
/// The SIP address of the machine: the only address of the DHCP range.
pub const SERVER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(ENDS[1].address), 5060);
/// Both ends in Ethernet frames. QEMU assigns this MAC address to its first card.
pub const ENDS: [End; 2] = [
    End { mac: [2, 0, 0, 77, 0, 1], address: HERE },
    End { mac: [0x52, 0x54, 0, 0x12, 0x34, 0x56], address: Ipv4Addr::new(10, 77, 0, 10) },
];
/// The name of this end of the cable in QEMU.
pub const TAP: &str = "tap";

/// The network. It exists as long as the thread that opened it and its processes.
#[derive(Debug)]
pub struct Lan {
    folder: Folder,
    dnsmasq: Option<Process>,
}

impl Lan {
    /// Moves the calling thread, and its later child processes, into a new network that only has
    /// this end of a cable. Requires root.
    ///
    /// # Panics
    /// The network cannot be created, usually without root.
    #[must_use]
    pub fn open() -> Self {
        // SAFETY: unshare touches no memory.
        let result = unsafe { libc::unshare(libc::CLONE_NEWNET) };
        let error = std::io::Error::last_os_error();
        assert_eq!(result, 0, "no network namespace for the test, which requires root: {error}");
        ip("link set lo up");
        ip(&format!("tuntap add dev {TAP} mode tap"));
        let mac = ENDS[0].mac.map(|byte| format!("{byte:02x}")).join(":");
        ip(&format!("link set {TAP} address {mac}"));
        ip(&format!("address add {HERE}/24 dev {TAP}"));
        // All addresses are set at the start. Phones on this machine would treat a later one as a
        // network change.
        ip(&format!("link set {TAP} addrgenmode none"));
        ip(&format!("address add fe80::1/64 dev {TAP} nodad"));
        ip(&format!("address add fd77::1/64 dev {TAP} nodad"));
        ip(&format!("link set {TAP} up"));
        let folder = Folder::new("lan");
        std::fs::create_dir(folder.join("tftp")).expect("the TFTP folder can be created");
        Self { folder, dnsmasq: None }
    }

    /// A network with DHCP and TFTP, and `users` as the file of users.
    #[must_use]
    pub fn with_users(users: &str) -> Self {
        let mut lan = Self::open();
        lan.offer("users", users);
        lan.serve(&["--dhcp-boot=users"]);
        lan
    }

    /// Starts dnsmasq, which assigns [`SERVER`]'s address and serves files by TFTP.
    pub fn serve(&mut self, arguments: &[&str]) {
        let mut command = DNSMASQ.command();
        // Without --no-ping dnsmasq checks for three seconds whether an address is in use.
        command.args(["--conf-file=/dev/null", "--no-daemon", "--user=root", "--no-ping"]);
        command.args(["--port=0", "--bind-interfaces", "--log-dhcp", "--enable-tftp"]);
        command.arg(format!("--interface={TAP}")).arg("--except-interface=lo");
        command.arg(format!("--dhcp-range={0},{0},255.255.255.0", SERVER.ip()));
        // iPXE waits many seconds for an IPv6 router if there is none.
        command.args(["--enable-ra", "--dhcp-range=fd77::,ra-only"]);
        command.arg(format!("--dhcp-leasefile={}", self.folder.join("leases").display()));
        command.arg(format!("--tftp-root={}", self.folder.join("tftp").display()));
        command.args(arguments);
        let log = self.folder.join("dnsmasq.log");
        self.dnsmasq = None;
        self.dnsmasq = Some(Process::start(DNSMASQ, command, &log));
    }

    /// Stops dnsmasq.
    pub fn serve_no_longer(&mut self) {
        self.dnsmasq = None;
    }

    /// Writes a TFTP file atomically.
    ///
    /// # Panics
    /// The file cannot be written.
    pub fn offer(&self, name: &str, content: impl AsRef<[u8]>) {
        let half = self.folder.join("half");
        let moved =
            std::fs::write(&half, content).and_then(|()| std::fs::rename(&half, self.place(name)));
        moved.unwrap_or_else(|error| panic!("cannot offer {name}: {error}"));
    }

    /// Copies the file at `path` to the TFTP file `name`.
    ///
    /// # Panics
    /// The file cannot be copied.
    pub fn offer_copy(&self, name: &str, path: &Path) {
        let copied = std::fs::copy(path, self.place(name));
        copied.unwrap_or_else(|error| panic!("cannot copy {}: {error}", path.display()));
    }

    /// Removes a TFTP file.
    ///
    /// # Panics
    /// The file does not exist.
    pub fn withdraw(&self, name: &str) {
        std::fs::remove_file(self.place(name)).expect("the TFTP file exists");
    }

    fn place(&self, name: &str) -> PathBuf {
        self.folder.join("tftp").join(name)
    }

    /// The log of dnsmasq.
    #[must_use]
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.join("dnsmasq.log")).unwrap_or_default()
    }

    /// The raw end of the cable, for arbitrary frames.
    #[must_use]
    pub fn wire(&self) -> Wire {
        Wire::open()
    }

    /// The number of frames sent to the machine.
    #[must_use]
    pub fn frames_to_machine(&self) -> u64 {
        column(9)
    }

    /// The number of frames dropped because the machine did not receive them in time.
    #[must_use]
    pub fn frames_lost(&self) -> u64 {
        column(11)
    }
}

/// A counter of this end's interface: eight of reception, then bytes, packets, errors and drops of
/// transmission.
fn column(number: usize) -> u64 {
    let table = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default();
    let row = table.lines().find_map(|line| line.trim().strip_prefix(TAP)?.strip_prefix(':'));
    row.and_then(|row| row.split_whitespace().nth(number)?.parse().ok()).unwrap_or(0)
}
