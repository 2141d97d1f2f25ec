//! The checks that ask other servers: the time, the public address, and the records of domains.

use super::findings::{Findings, Severity};
use crate::domains::Host;
use crate::listen::Listen;
use crate::settings::Settings;
use net::Dns;
use sip::Transport;
use sip::locate::{AddressFamilies, Destination, Target};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::time::{Duration, Instant, SystemTime};
use stun::{BindingResponse, Client, Event, TransactionId};

/// The time for which a server is asked.
const PATIENCE: Duration = Duration::from_secs(3);
/// The seconds from 1900, where NTP begins, to 1970.
const NTP_TO_UNIX: f64 = 2_208_988_800.0;
/// The difference of the clock in seconds from which on a warning is given, and from which on it is
/// an error: a certificate or a registration may be taken for expired.
const OFFSETS: [f64; 2] = [1.0, 60.0];

/// The address of `server`, a host with or without a port.
fn address(server: &str, port: u16) -> io::Result<SocketAddr> {
    let found = match server.to_socket_addrs() {
        Ok(found) => found.collect::<Vec<_>>(),
        Err(_) => (server, port).to_socket_addrs()?.collect(),
    };
    found.first().copied().ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// A socket towards `server`.
fn socket(server: SocketAddr) -> io::Result<UdpSocket> {
    let local: IpAddr = match server {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((local, 0))?;
    socket.connect(server)?;
    Ok(socket)
}

fn unix_time() -> f64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

/// The difference of the time of `server` from that of this machine in seconds (RFC 4330).
fn offset(server: &str) -> io::Result<f64> {
    let socket = socket(address(server, 123)?)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    let (mut request, mut reply) = ([0; 48], [0; 48]);
    // Version 4, a client.
    request[0] = 0x23;
    let sent = unix_time();
    socket.send(&request)?;
    let length = socket.recv(&mut reply)?;
    let received = unix_time();
    // Mode 4 is a server. Stratum 0 says that it has no time.
    if length < reply.len() || reply[0] & 7 != 4 || reply[1] == 0 {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it has no time"));
    }
    let stamp = |at: usize| {
        let part = |at: usize| {
            let bytes = [reply[at], reply[at + 1], reply[at + 2], reply[at + 3]];
            f64::from(u32::from_be_bytes(bytes))
        };
        part(at) + part(at + 4) / 4_294_967_296.0 - NTP_TO_UNIX
    };
    Ok(((stamp(32) - sent) + (stamp(40) - received)) / 2.0)
}

/// Compares the clock with that of the NTP server `server`.
pub(super) fn clock(server: &str, findings: &mut Findings) {
    let remedy = "set the time and keep it with NTP: timedatectl set-ntp true";
    match offset(server) {
        Err(error) => {
            let text = format!("the NTP server {server} gives no time: {error}");
            findings.fault(Severity::Warning, "clock", text, "name another one, or open port 123");
        }
        Ok(offset) if offset.abs() >= OFFSETS[0] => {
            let severity = match offset.abs() >= OFFSETS[1] {
                true => Severity::Error,
                false => Severity::Warning,
            };
            let side = if offset > 0.0 { "behind" } else { "ahead of" };
            let text = format!("the clock is {:.1} s {side} {server}", offset.abs());
            findings.fault(severity, "clock", text, remedy);
        }
        Ok(offset) => findings.good("clock", format!("it differs by {offset:.3} s from {server}")),
    }
}

/// The address of this machine as the STUN server `server` sees it.
fn mapped(server: &str) -> io::Result<SocketAddr> {
    let server = address(server, 3478)?;
    let socket = socket(server)?;
    let mut id = [0; 12];
    getrandom::fill(&mut id).map_err(io::Error::other)?;
    let began = Instant::now();
    let mut client = Client::new(TransactionId(id), server, Duration::ZERO);
    let (mut out, mut reply) = (Vec::new(), [0; 1500]);
    while began.elapsed() < PATIENCE {
        out.clear();
        if let Event::Send(_) = client.poll(began.elapsed(), &mut out) {
            socket.send(&out)?;
        }
        socket.set_read_timeout(Some(Duration::from_millis(100)))?;
        let Ok(length) = socket.recv(&mut reply) else { continue };
        match client.receive(server, &reply[..length]) {
            Some(BindingResponse::Mapped(address)) => return Ok(address),
            Some(BindingResponse::Error(code)) => {
                return Err(io::Error::other(format!("it answers with the error {code}")));
            }
            Some(BindingResponse::Unusable) => {
                return Err(io::Error::other("its answer has no address"));
            }
            None => {}
        }
    }
    Err(io::ErrorKind::TimedOut.into())
}

/// Compares the address that the STUN server `server` sees with those that phones are told.
pub(super) fn translation(server: &str, settings: &Settings, findings: &mut Findings) {
    let seen = match mapped(server) {
        Ok(seen) => seen.ip().to_canonical(),
        Err(error) => {
            let text = format!("the STUN server {server} tells no address: {error}");
            let remedy = "name another one, or permit UDP to it";
            return findings.fault(Severity::Warning, "nat", text, remedy);
        }
    };
    let is_own = Host::this().addresses.contains(&seen);
    let advertised: Vec<_> = settings.listens().iter().filter_map(advertised).collect();
    if is_own && advertised.is_empty() {
        findings.good("nat", format!("there is no address translation: {seen} is of this machine"));
    } else if advertised.contains(&seen) {
        findings.good("nat", format!("phones are told the public address {seen}"));
    } else {
        let told = match &advertised[..] {
            [] => "phones are told the addresses of this machine".to_owned(),
            all => {
                let all: Vec<_> = all.iter().map(ToString::to_string).collect();
                format!("phones are told {}", all.join(", "))
            }
        };
        findings.fault(
            Severity::Error,
            "nat",
            format!("this machine is seen at {seen} from outside, but {told}"),
            format!("listen = [\"udp:0.0.0.0:5060 as {seen}:5060\"], and forward the ports there"),
        );
    }
}

/// The public address of a listener, if it has one.
fn advertised(listen: &Listen) -> Option<IpAddr> {
    listen.advertised().ok().flatten().map(|address| address.ip().to_canonical())
}

/// The places that the DNS gives for `domain` (RFC 3263). They are looked up in a thread of their
/// own: the panel calls this within an event loop.
fn places(domain: &str) -> Vec<Target> {
    let domain = domain.to_owned();
    let thread = std::thread::spawn(move || locate(&domain));
    thread.join().unwrap_or_default()
}

fn locate(domain: &str) -> Vec<Target> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let (Ok(runtime), Ok(host)) = (runtime, sip::locate::Host::parse(domain.as_bytes())) else {
        return Vec::new();
    };
    let transports = vec![Transport::Udp, Transport::Tcp, Transport::Tls];
    let destination = Destination { host, port: None, transport: None, sips: false };
    let found = runtime.block_on(async {
        let dns = Dns::new(transports, AddressFamilies::V4First, |_| {});
        tokio::time::timeout(PATIENCE, dns.locate(destination)).await
    });
    found.unwrap_or_default()
}

/// The places of domains at this machine where the server does not listen: NAPTR and SRV records
/// with another port or transport.
pub(super) fn records(settings: &Settings, findings: &mut Findings) {
    let (listens, host) = (settings.listens(), Host::this());
    let public: Vec<_> = listens.iter().filter_map(advertised).collect();
    let mut is_any = false;
    for domain in &settings.engine.domains {
        let name = domain.name.as_str();
        if name.parse::<IpAddr>().is_ok() || name == "localhost" {
            continue;
        }
        for Target { transport, address, .. } in places(name) {
            is_any = true;
            let ip = address.ip().to_canonical();
            let is_here = host.addresses.contains(&ip) || public.contains(&ip);
            let is_served = listens.iter().any(|listen| {
                listen.transport == transport && listen.outside_port() == address.port()
            });
            if is_here && !is_served {
                let transport = transport.uri_name();
                findings.fault(
                    Severity::Error,
                    "records",
                    format!("phones of {name} are sent to {transport} port {}, where this server does not listen", address.port()),
                    format!("correct the SRV or NAPTR records of {name}, or add the port to listen"),
                );
            }
        }
    }
    if is_any {
        findings.good_unless_found("records", "the domains lead to ports where the server listens");
    }
}
