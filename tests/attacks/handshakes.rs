//! A flood of TLS handshakes against a server with a costly RSA certificate.

use crate::client::{Client, connect, status};
use net::Wire;
use net::tls::{self, ServerName, Trust};
use peers::process::{Program, run, wait_until};
use peers::server::{DOMAIN, TRUSTS_NOBODY};
use peers::test_server::TestServer;
use peers::transport::Transport;
use std::io::{ErrorKind, Write};
use std::net::{IpAddr, Ipv4Addr, TcpStream};
use std::time::{Duration, Instant};

const OPENSSL: Program = Program { name: "openssl", packages: "openssl" };
/// The handshakes of the stranger. They cost several times what one source may use at once (a
/// second of processor time) on any machine.
const HANDSHAKES: usize = 2000;
/// The processor time that one source may use at once. Its share is a quarter of one processor.
const BURST: Duration = Duration::from_secs(1);
/// The processor time for the honest client and for work that is not charged.
const TOLERANCE: Duration = Duration::from_secs(1);
/// The beginning of the names of the server's threads for handshakes.
const THREADS: &str = "handshake-";
const HONEST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const STRANGER: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 9));

#[test]
fn handshakes_of_one_source_leave_time_for_others() {
    raise_descriptor_limit();
    let folder = tempfile::tempdir().expect("a temporary folder can be created");
    let [chain, key] = ["chain.pem", "key.pem"].map(|name| folder.path().join(name));
    let mut openssl = OPENSSL.command();
    openssl
        .args(["req", "-x509", "-newkey", "rsa:4096", "-nodes", "-days", "30", "-subj", "/CN=x"]);
    openssl.args(["-addext", &format!("subjectAltName=DNS:{DOMAIN}")]);
    openssl.arg("-out").arg(&chain).arg("-keyout").arg(&key);
    let _ = run(OPENSSL, openssl);
    // The rates by number are off.
    let settings = format!(
        "{TRUSTS_NOBODY}source_rate = 0\nmax_connections_per_source = 10000\n\
         [tls]\ncertificates = [{{ chain = \"{}\", key = \"{}\" }}]\n",
        chain.display(),
        key.display()
    );
    let exchange = TestServer::with(&settings, &[]);
    let address = exchange.server.secure_address(Transport::Tls);
    let client = tls::Client::new(&Trust::Any, None, false).expect("the client is created");
    let name = ServerName::try_from(DOMAIN).expect("the domain is a DNS name");
    let session = client.connect(name).expect("the session can be created");
    // The first flight suffices: the server signs at once.
    let hello = Wire::new(Some(session), 1 << 20).pending().to_vec();
    let mut flood: Vec<TcpStream> = (0..HANDSHAKES)
        .map(|_| connect(STRANGER, address).expect("the connection is accepted"))
        .collect();
    let server = exchange.server.process();
    server.prefer_threads(THREADS);
    let begin = Instant::now();
    for socket in &mut flood {
        // On a slow machine the server has closed the first ones.
        let _ = socket.write_all(&hello);
    }
    let secure = Client::tls(HONEST, address, &client);
    let plain = Client::tcp(HONEST, exchange.server.address());
    let datagrams = Client::udp((HONEST, 0).into(), exchange.server.address());
    for client in [secure, plain, Ok(datagrams)] {
        let mut client = client.expect("the connection is accepted");
        let options = client.options();
        assert_eq!(client.ask(&options).ok().as_deref().and_then(status), Some(200));
    }
    let waiting = flood.iter().filter(|socket| is_waiting(socket)).count();
    assert!((1..HANDSHAKES).contains(&waiting), "{waiting} of {HANDSHAKES} handshakes wait");
    // The server closes those that it does not begin in time.
    wait_until("the handshakes end", || (!flood.iter().any(is_waiting)).then_some(()));
    let used = server.cpu_of_threads(THREADS);
    let allowed = BURST + begin.elapsed() / 4 + TOLERANCE;
    assert!(used < allowed, "{used:?} of {allowed:?}");
}

/// Returns true if the connection of `socket` is open and the server has sent nothing.
fn is_waiting(socket: &TcpStream) -> bool {
    socket.set_nonblocking(true).expect("the mode can be set");
    socket.peek(&mut [0]).is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
}

/// Raises the limit of open files to the possible maximum.
fn raise_descriptor_limit() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: both calls access only `limit`.
    let result = unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
        limit.rlim_cur = limit.rlim_max;
        libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit)
    };
    assert_eq!(result, 0, "the limit of open files stays");
}
