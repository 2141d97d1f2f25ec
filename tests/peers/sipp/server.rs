//! The server under test: `barebell serve` with 10,000 users.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The only domain of the server under test, and so its digest realm.
pub const DOMAIN: &str = "barebell.test";

/// Users loaded into the server (seed row A3), numbered from 1.
pub const USERS: usize = 10_000;

/// Name of the user with this number.
pub fn user(number: usize) -> String {
    format!("user{number:05}")
}

/// Password of the user with this number.
pub fn password(number: usize) -> String {
    format!("secret-{number:05}")
}

/// A binding as `barebell registrations` shows it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Registration {
    /// The address of record.
    pub address_of_record: String,
    /// The contact URI.
    pub contact: String,
    /// Seconds that it has left.
    pub expires_in: u64,
}

/// The server under test, with a data directory of its own. It is killed when dropped. Only one
/// runs at a time: a test that starts one waits for the tests before it.
#[derive(Debug)]
pub struct Server {
    child: Child,
    port: u16,
    options: Vec<String>,
    folder: tempfile::TempDir,
    _alone: MutexGuard<'static, ()>,
}

impl Server {
    /// Starts the server on a free port with these command-line options and this configuration
    /// file, and loads [`USERS`] users.
    pub fn start(options: &[&str], configuration: &str) -> Self {
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = tempfile::tempdir().expect("a temporary directory");
        fs::write(folder.path().join("barebell.toml"), configuration).expect("a configuration");
        let port = free_port();
        let options: Vec<String> = options.iter().map(|&option| option.into()).collect();
        let child = serve(folder.path(), port, &options);
        let server = Self { child, port, options, folder, _alone: alone };
        let users: String =
            (1..=USERS).map(|number| format!("{}:{}\n", user(number), password(number))).collect();
        let file = server.folder.path().join("users");
        fs::write(&file, users).expect("the users are written");
        server.command(&["user", "import", &file.to_string_lossy(), "--domain", DOMAIN]);
        server
    }

    /// Where it listens, on UDP and TCP.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// The domain as the user with this number writes it: odd ones its name, even ones the server's
    /// address, which means the same.
    pub fn domain(&self, number: usize) -> String {
        if number % 2 == 1 { DOMAIN.into() } else { self.address().to_string() }
    }

    /// Ends it with SIGKILL, as a crash would.
    pub fn crash(&mut self) {
        stop(&mut self.child);
    }

    /// Starts it again on the same data and port.
    pub fn restart(&mut self) {
        self.crash();
        self.child = serve(self.folder.path(), self.port, &self.options);
    }

    /// The bindings that it has now, in order.
    pub fn registrations(&self) -> Vec<Registration> {
        let text = self.command(&["registrations", "--json"]);
        let mut found: Vec<Registration> = serde_json::Deserializer::from_str(&text)
            .into_iter::<serde_json::Value>()
            .map(|value| value.unwrap_or_else(|error| panic!("not JSON: {error}\n{text}")))
            .flat_map(|value| match value {
                serde_json::Value::Array(values) => values,
                value => vec![value],
            })
            .map(|value| {
                let text = |name: &str| value[name].as_str().map(str::to_owned);
                let registration = || {
                    Some(Registration {
                        address_of_record: text("address_of_record")?,
                        contact: text("contact")?,
                        expires_in: value["expires_in"].as_u64()?,
                    })
                };
                registration().unwrap_or_else(|| panic!("not a registration: {value}"))
            })
            .collect();
        found.sort();
        found
    }

    /// The standard output of a command on this server's data.
    fn command(&self, arguments: &[&str]) -> String {
        let output = Command::new(binary())
            .args(arguments)
            .arg("--data")
            .arg(self.folder.path())
            .output()
            .expect("barebell runs");
        assert!(
            output.status.success(),
            "barebell {arguments:?}: {}\n{}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        stop(&mut self.child);
        if std::thread::panicking() {
            let log = fs::read(self.folder.path().join("server.log")).unwrap_or_default();
            let end = log.len().saturating_sub(4000);
            eprintln!("end of the server's log:\n{}", String::from_utf8_lossy(&log[end..]));
        }
    }
}

/// Starts the server and waits until it answers an OPTIONS.
fn serve(folder: &Path, port: u16, options: &[String]) -> Child {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let log = File::options().create(true).append(true).open(folder.join("server.log"));
    let log = log.expect("a file for the server's log");
    let mut child = Command::new(binary())
        .arg("serve")
        .arg("--config")
        .arg(folder.join("barebell.toml"))
        .arg("--data")
        .arg(folder)
        .args(["--domain", DOMAIN])
        .args(["--listen", &format!("udp:{address}"), "--listen", &format!("tcp:{address}")])
        .args(options)
        .stdin(Stdio::null())
        .stdout(log.try_clone().expect("a second handle"))
        .stderr(log)
        .spawn()
        .expect("barebell starts");
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
    socket.connect(address).expect("an address");
    socket.set_read_timeout(Some(Duration::from_millis(50))).expect("a timeout");
    let own = socket.local_addr().expect("an address");
    let mut asked = 0;
    wait_until("the server answers", || {
        if let Ok(Some(status)) = child.try_wait() {
            let log = fs::read_to_string(folder.join("server.log")).unwrap_or_default();
            panic!("the server ended: {status}\n{log}");
        }
        asked += 1;
        let options = format!(
            "OPTIONS sip:{address} SIP/2.0\r\nVia: SIP/2.0/UDP {own};branch=z9hG4bK{asked};rport\r\n\
             Max-Forwards: 70\r\nFrom: <sip:test@{own}>;tag=1\r\nTo: <sip:{address}>\r\n\
             Call-ID: ready\r\nCSeq: {asked} OPTIONS\r\nContent-Length: 0\r\n\r\n"
        );
        socket.send(options.as_bytes()).is_ok() && socket.recv(&mut [0; 2048]).is_ok()
    });
    child
}

/// The program under test: `BAREBELL_BIN`, or what cargo has built.
fn binary() -> PathBuf {
    if let Some(path) = std::env::var_os("BAREBELL_BIN") {
        return path.into();
    }
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| workspace.join("target"), |target| workspace.join(target));
    ["release/barebell", "debug/barebell"]
        .iter()
        .map(|path| target.join(path))
        .find(|path| path.is_file())
        .unwrap_or_else(|| panic!("no {target:?}/release/barebell: cargo build --release"))
}

/// A port of 127.0.0.1 that is free for UDP and TCP, below those that the system gives to outgoing
/// connections. No two calls in a process give the same.
pub(super) fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Test programs that run at once look in different places.
    let home = std::process::id().wrapping_mul(7919) as u16;
    loop {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = 12_000 + home.wrapping_add(step) % 20_000;
        if UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
            && TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
        {
            return port;
        }
    }
}

/// Waits for something that is sure to come soon; panics when it does not come at all.
pub(super) fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(30), "not within 30 s: {what}");
        sleep(Duration::from_millis(5));
    }
}

/// Kills a child, if it still runs, and collects it.
pub(super) fn stop(child: &mut Child) {
    // Both fail only if it has ended and been collected before.
    let _ = child.kill();
    let _ = child.wait();
}
