//! A network of its own for a machine: the other end of its cable, with dnsmasq at it.

use super::wire::Wire;
use crate::folder::Folder;
use crate::nat::ip;
use crate::process::{Process, Program};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use test_support::hostile::End;

const DNSMASQ: Program = Program { name: "dnsmasq", packages: "dnsmasq-base" };
/// Where this end of the cable is: dnsmasq, the peers and the test.
pub const HERE: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
/// Where the machine takes SIP, by the one address that DHCP has.
pub const SERVER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(ENDS[1].address), 5060);
/// This end, and that of the machine, as frames name them. QEMU gives its first card this number.
pub const ENDS: [End; 2] = [
    End { mac: [2, 0, 0, 77, 0, 1], address: HERE },
    End { mac: [0x52, 0x54, 0, 0x12, 0x34, 0x56], address: Ipv4Addr::new(10, 77, 0, 10) },
];
/// What QEMU calls its end of the cable here.
pub const TAP: &str = "tap";

/// The network. It is there as long as the thread that has opened it, and what that has started.
#[derive(Debug)]
pub struct Lan {
    folder: Folder,
    dnsmasq: Option<Process>,
}

impl Lan {
    /// Takes the calling thread, and all that it starts from now on, into a new network that has
    /// nothing but this machine's end of a cable. Wants root.
    ///
    /// # Panics
    /// When that cannot be done, most often because it is not done as root.
    #[must_use]
    pub fn open() -> Self {
        // SAFETY: unshare touches no memory.
        let result = unsafe { libc::unshare(libc::CLONE_NEWNET) };
        let error = std::io::Error::last_os_error();
        assert_eq!(result, 0, "no network of its own for the test, which wants root: {error}");
        ip("link set lo up");
        ip(&format!("tuntap add dev {TAP} mode tap"));
        let mac = ENDS[0].mac.map(|byte| format!("{byte:02x}")).join(":");
        ip(&format!("link set {TAP} address {mac}"));
        ip(&format!("address add {HERE}/24 dev {TAP}"));
        // All its addresses from the beginning: for phones that run here a later one would be
        // another network.
        ip(&format!("link set {TAP} addrgenmode none"));
        ip(&format!("address add fe80::1/64 dev {TAP} nodad"));
        ip(&format!("address add fd77::1/64 dev {TAP} nodad"));
        ip(&format!("link set {TAP} up"));
        let folder = Folder::new("lan");
        std::fs::create_dir(folder.join("tftp")).expect("a folder for TFTP");
        Self { folder, dnsmasq: None }
    }

    /// A network with DHCP and TFTP, and these lines as the file of users.
    #[must_use]
    pub fn with_users(users: &str) -> Self {
        let mut lan = Self::open();
        lan.offer("users", users);
        lan.serve(&["--dhcp-boot=users"]);
        lan
    }

    /// Starts dnsmasq, which gives out [`SERVER`]'s address, and files by TFTP.
    pub fn serve(&mut self, arguments: &[&str]) {
        let mut command = DNSMASQ.command();
        // It looks for a machine at an address before it gives that out, for three seconds.
        command.args(["--conf-file=/dev/null", "--no-daemon", "--user=root", "--no-ping"]);
        command.args(["--port=0", "--bind-interfaces", "--log-dhcp", "--enable-tftp"]);
        command.arg(format!("--interface={TAP}")).arg("--except-interface=lo");
        command.arg(format!("--dhcp-range={0},{0},255.255.255.0", SERVER.ip()));
        // iPXE looks for a router of IPv6 first, for many seconds where there is none.
        command.args(["--enable-ra", "--dhcp-range=fd77::,ra-only"]);
        command.arg(format!("--dhcp-leasefile={}", self.folder.join("leases").display()));
        command.arg(format!("--tftp-root={}", self.folder.join("tftp").display()));
        command.args(arguments);
        let log = self.folder.join("dnsmasq.log");
        self.dnsmasq = None;
        self.dnsmasq = Some(Process::start(DNSMASQ, command, &log));
    }

    /// Kills dnsmasq.
    pub fn serve_no_longer(&mut self) {
        self.dnsmasq = None;
    }

    /// Puts a file where TFTP finds it, whole at once.
    ///
    /// # Panics
    /// When it cannot be written.
    pub fn offer(&self, name: &str, content: impl AsRef<[u8]>) {
        let half = self.folder.join("half");
        let moved =
            std::fs::write(&half, content).and_then(|()| std::fs::rename(&half, self.place(name)));
        moved.unwrap_or_else(|error| panic!("cannot offer {name}: {error}"));
    }

    /// Puts a copy of the file at `path` where TFTP finds it as `name`.
    ///
    /// # Panics
    /// When it cannot be copied.
    pub fn offer_copy(&self, name: &str, path: &Path) {
        let copied = std::fs::copy(path, self.place(name));
        copied.unwrap_or_else(|error| panic!("cannot copy {}: {error}", path.display()));
    }

    /// Removes a file from where TFTP finds it.
    ///
    /// # Panics
    /// When it is not there.
    pub fn withdraw(&self, name: &str) {
        std::fs::remove_file(self.place(name)).expect("a file that is offered");
    }

    fn place(&self, name: &str) -> PathBuf {
        self.folder.join("tftp").join(name)
    }

    /// What dnsmasq has said.
    #[must_use]
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.join("dnsmasq.log")).unwrap_or_default()
    }

    /// Our end of the cable, for frames of any kind.
    #[must_use]
    pub fn wire(&self) -> Wire {
        Wire::open()
    }

    /// How many frames have gone to the machine.
    #[must_use]
    pub fn frames_to_machine(&self) -> u64 {
        column(9)
    }

    /// How many had to be thrown away, since the machine did not take them in time.
    #[must_use]
    pub fn frames_lost(&self) -> u64 {
        column(11)
    }
}

/// A number of what the system knows of our end: eight of what has come, then those of what has
/// gone: bytes, packets, errors, and what was thrown away.
fn column(number: usize) -> u64 {
    let table = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default();
    let row = table.lines().find_map(|line| line.trim().strip_prefix(TAP)?.strip_prefix(':'));
    row.and_then(|row| row.split_whitespace().nth(number)?.parse().ok()).unwrap_or(0)
}
