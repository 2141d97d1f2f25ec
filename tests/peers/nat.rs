//! Two phones behind separate NATs and a server between them, each on a machine of its own in a
//! network namespace. Requires root.

use crate::folder::Folder;
use crate::process::{Process, Program, built, run, wait_until};
use crate::server::DOMAIN;
use crate::stun::Stun;
use crate::test_server::PASSWORD;
use nix::sched::{CloneFlags, setns};
use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

const IP: Program = Program { name: "ip", packages: "iproute2" };
const BAREBELL: Program = Program { name: "barebell", packages: "(none: build it)" };
/// The address of the server and of the STUN server.
const SERVER: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 1);
/// The second address of the STUN server, which reveals address-dependent mappings.
const SECOND: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 2);
/// The timeout of NAT bindings in seconds: shorter than registrations, longer than the interval of
/// keep-alives.
pub const NAT_SECONDS: u64 = 30;

static NEXT: AtomicUsize = AtomicUsize::new(0);

/// A machine that runs programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// The network namespace.
    pub(crate) namespace: String,
    /// The address behind the NAT.
    pub address: Ipv4Addr,
}

impl Machine {
    /// A command that runs `program` on this machine.
    #[must_use]
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = IP.command();
        command.args(["netns", "exec", &self.namespace]).arg(program);
        command
    }

    /// Connects to a program on this machine.
    pub(crate) fn connect(&self, address: SocketAddr) -> io::Result<TcpStream> {
        // A thread is in one namespace only, and a connection stays in that of its thread.
        let connect = || {
            let namespace = File::open(Path::new("/run/netns").join(&self.namespace))?;
            setns(namespace, CloneFlags::CLONE_NEWNET)?;
            TcpStream::connect(address)
        };
        thread::scope(|scope| scope.spawn(connect).join().expect("connecting does not panic"))
    }
}

/// The machines, with a server on the public one.
#[derive(Debug)]
pub struct Nats {
    public: Machine,
    /// The machines behind the NATs. The first NAT forwards packets from any source to a mapped
    /// port (endpoint-independent filtering); the second only from a destination of previous
    /// packets.
    pub inside: [Machine; 2],
    namespaces: Vec<String>,
    server: Option<Process>,
    stun: Option<Stun>,
    folder: Folder,
}

impl Nats {
    /// Creates the machines, and starts the server and a STUN server (coturn).
    ///
    /// # Panics
    /// The machines cannot be created, usually without root.
    #[must_use]
    pub fn open() -> Self {
        Self::with("masquerade", "needed")
    }

    /// As [`Nats::open`], with symmetric NATs: each destination sees a different port (RFC 4787
    /// section 4.1).
    ///
    /// # Panics
    /// The machines cannot be created, usually without root.
    #[must_use]
    pub fn symmetric() -> Self {
        Self::with("masquerade random,fully-random", "needed")
    }

    /// As [`Nats::symmetric`], with a server that relays no media.
    ///
    /// # Panics
    /// The machines cannot be created, usually without root.
    #[must_use]
    pub fn symmetric_without_relay() -> Self {
        Self::with("masquerade random,fully-random", "off")
    }

    /// Creates NATs with the nftables statement `translation` for outgoing packets, and a server
    /// with this value of `media.relay`.
    fn with(translation: &str, relay: &str) -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = |machine: &str| format!("barebell-{}-{number}-{machine}", std::process::id());
        let machine = |address, of: &str| Machine { namespace: name(of), address };
        let inside =
            [machine(Ipv4Addr::new(10, 1, 0, 2), "a"), machine(Ipv4Addr::new(10, 2, 0, 2), "b")];
        let public = machine(SERVER, "public");
        let folder = Folder::new("nats");
        let namespaces = Vec::new();
        let mut nats = Self { public, inside, namespaces, server: None, stun: None, folder };
        let middle = name("public");
        nats.add(&middle);
        ip(&format!("-n {middle} link add bridge type bridge forward_delay 0"));
        for address in [SERVER, SECOND] {
            ip(&format!("-n {middle} address add {address}/24 dev bridge"));
        }
        ip(&format!("-n {middle} link set bridge up"));
        for (side, inner) in (1..).zip(nats.inside.clone()) {
            nats.connect(side, &inner, &name(&format!("nat{side}")), &middle, translation);
        }
        nats.serve(relay);
        nats
    }

    fn add(&mut self, namespace: &str) {
        ip(&format!("netns add {namespace}"));
        self.namespaces.push(namespace.to_owned());
        ip(&format!("-n {namespace} link set lo up"));
    }

    /// Connects a machine to the NAT `nat`, and the NAT to the bridge in `middle`.
    fn connect(&mut self, side: u8, machine: &Machine, nat: &str, middle: &str, translation: &str) {
        let Machine { namespace, address } = machine;
        self.add(nat);
        self.add(namespace);
        ip(&format!("link add nat{side} netns {middle} type veth peer name outside netns {nat}"));
        ip(&format!("-n {middle} link set nat{side} master bridge up"));
        ip(&format!("-n {nat} address add 198.51.100.1{side}/24 dev outside"));
        ip(&format!("-n {nat} link set outside up"));
        ip(&format!("link add inside netns {nat} type veth peer name eth0 netns {namespace}"));
        ip(&format!("-n {nat} address add 10.{side}.0.1/24 dev inside"));
        ip(&format!("-n {nat} link set inside up"));
        ip(&format!("-n {namespace} address add {address}/24 dev eth0"));
        ip(&format!("-n {namespace} link set eth0 up"));
        ip(&format!("-n {namespace} route add default via 10.{side}.0.1"));
        let open = match side {
            1 => format!(
                "add chain ip nat in {{ type nat hook prerouting priority -100; }}; \
                 add rule ip nat in iifname outside udp dport 1024-65535 dnat to {address};"
            ),
            _ => String::new(),
        };
        // An accepted connection to the NAT itself would block the port of a phone behind it, so
        // these are dropped, as in home routers.
        let script = format!(
            "echo 1 > /proc/sys/net/ipv4/ip_forward
             nft 'add table ip nat; add chain ip nat out {{ type nat hook postrouting priority 100; }}; \
                  add rule ip nat out oifname outside {translation}; {open} \
                  add chain ip nat self {{ type filter hook input priority 0; }}; \
                  add rule ip nat self iifname outside ct state new drop'
             for kind in udp_timeout udp_timeout_stream; do
                 echo {NAT_SECONDS} > /proc/sys/net/netfilter/nf_conntrack_$kind
             done"
        );
        let router = Machine { namespace: nat.to_owned(), address: SERVER };
        let mut command = router.command("sh");
        command.args(["-e", "-c", &script]);
        let _ = run(Program { name: "nft", packages: "nftables" }, command);
    }

    fn serve(&mut self, relay: &str) {
        let binary = built(BAREBELL.name, "BAREBELL_BIN");
        let data = self.folder.join("data");
        let users = ["alice", "bob"].map(|user| format!("{user}:{PASSWORD}\n")).concat();
        self.folder.write("users", &users);
        let mut import = Command::new(&binary);
        import.args(["user", "import", "--domain", DOMAIN]).arg(self.folder.join("users"));
        import.arg("--data").arg(&data);
        let _ = run(BAREBELL, import);
        self.folder.write("barebell.toml", &format!("[media]\nrelay = \"{relay}\"\n"));
        let mut command = self.public.command(&binary);
        command.arg("serve").arg("--config").arg(self.folder.join("barebell.toml"));
        command.args(["--domain", DOMAIN, "--listen", &format!("udp:{}", self.address())]);
        command.args(["--listen", &format!("tcp:{}", self.address())]).arg("--data").arg(&data);
        self.server = Some(Process::start(IP, command, &self.folder.join("barebell.log")));
        self.stun = Some(Stun::start(|program| self.public.command(program), &[SERVER, SECOND]));
        let is_listening = |address: Ipv4Addr, port: u16| {
            let mut command = self.public.command("cat");
            command.arg("/proc/net/udp");
            let address = u32::from_le_bytes(address.octets());
            run(IP, command).contains(&format!(" {address:08X}:{port:04X} 00000000:0000 "))
        };
        wait_until("the servers to listen", || {
            let servers = [(SERVER, 5060), (SERVER, 3478), (SECOND, 3478)];
            servers.iter().all(|&(address, port)| is_listening(address, port)).then_some(())
        });
    }

    /// A command that runs `program` on the public machine.
    #[must_use]
    pub fn public_command(&self, program: &str) -> Command {
        self.public.command(program)
    }

    /// The address of the server.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        (SERVER, 5060).into()
    }

    /// The address of the STUN server.
    #[must_use]
    pub fn stun(&self) -> String {
        format!("{SERVER}:3478")
    }

    /// Both addresses of the STUN server.
    #[must_use]
    pub fn both_stun(&self) -> [String; 2] {
        [self.stun(), format!("{SECOND}:3478")]
    }

    /// The registrations printed by the server.
    #[must_use]
    pub fn registrations(&self) -> String {
        let mut command = Command::new(built(BAREBELL.name, "BAREBELL_BIN"));
        command.args(["registrations", "--json", "--data"]).arg(self.folder.join("data"));
        run(BAREBELL, command)
    }
}

impl Drop for Nats {
    fn drop(&mut self) {
        (self.server, self.stun) = (None, None);
        for namespace in &self.namespaces {
            let _ = IP.command().args(["netns", "delete", namespace]).status();
        }
    }
}

/// Runs `ip` with these arguments.
pub(crate) fn ip(arguments: &str) {
    let mut command = IP.command();
    command.args(arguments.split(' '));
    let _ = run(IP, command);
}
