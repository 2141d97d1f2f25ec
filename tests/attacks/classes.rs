//! The class of service in the IP headers of SIP and of media.

use crate::apart::{add_address, apart};
use peers::server::{DOMAIN, TRUSTS_NOBODY};
use peers::test_server::TestServer;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::time::Duration;

/// The class of SIP: CS3, in the byte of the IP header.
const CS3: u8 = 24 << 2;

const SERVER: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(203, 0, 113, 1)),
    IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)),
];

/// All packets of the network namespace.
struct Capture(std::fs::File);

impl Capture {
    fn new() -> Self {
        let protocol = (libc::ETH_P_ALL as u16).to_be();
        // SAFETY: the system call gets numbers only, and the new descriptor has one owner.
        let socket = unsafe {
            let fd = libc::socket(libc::AF_PACKET, libc::SOCK_DGRAM, protocol.into());
            assert!(fd >= 0, "no capture: {}", std::io::Error::last_os_error());
            OwnedFd::from_raw_fd(fd)
        };
        Self(socket.into())
    }

    /// Waits for a packet from `source` to the port `to` of its host. Returns its class of service.
    fn class(&mut self, source: SocketAddr, is_tcp: bool, to: u16) -> u8 {
        let mut buffer = [0; 2000];
        loop {
            let length = self.0.read(&mut buffer).expect("a packet");
            let packet = &buffer[..length];
            let (class, protocol, from, ports) = match packet[0] >> 4 {
                4 => {
                    let from: [u8; 4] = packet[12..16].try_into().expect("four bytes");
                    (packet[1], packet[9], IpAddr::from(from), &packet[20..24])
                }
                _ => {
                    let from: [u8; 16] = packet[8..24].try_into().expect("sixteen bytes");
                    let class = packet[0] << 4 | packet[1] >> 4;
                    (class, packet[6], IpAddr::from(from), &packet[40..44])
                }
            };
            let port = |at: usize| u16::from_be_bytes([ports[at], ports[at + 1]]);
            let is_from = source.port() == 0 || source.port() == port(0);
            let protocol_of = if is_tcp { libc::IPPROTO_TCP } else { libc::IPPROTO_UDP };
            if from == source.ip() && is_from && port(2) == to && i32::from(protocol) == protocol_of
            {
                return class;
            }
        }
    }
}

/// A request with this number of the client at `local`.
fn request(method: &str, uri: &str, local: SocketAddr, contact: &str) -> String {
    let transport = if contact.contains("tcp") { "TCP" } else { "UDP" };
    format!(
        "{method} {uri} SIP/2.0\r\nVia: SIP/2.0/{transport} {local};branch=z9hG4bK{method}{port};rport\r\n\
         Max-Forwards: 70\r\nFrom: <sip:bob@{DOMAIN}>;tag=1\r\nTo: <sip:bob@{DOMAIN}>\r\n\
         Call-ID: {method}{port}\r\nCSeq: 1 {method}\r\n{contact}Content-Length: 0\r\n\r\n",
        port = local.port()
    )
}

#[test]
fn sip_has_its_class_on_each_kind_of_socket() {
    apart(|| {
        SERVER.into_iter().for_each(add_address);
        for host in SERVER {
            let [sip, tls] = [5060, 5061].map(|port| SocketAddr::new(host, port));
            let listens = [format!("udp:{sip}"), format!("tcp:{sip}"), format!("tls:{tls}")];
            let arguments: Vec<_> =
                listens.iter().flat_map(|listen| ["--listen", listen]).collect();
            let arguments = [&["--auth", "off"], &arguments[..]].concat();
            let _exchange = TestServer::with(TRUSTS_NOBODY, &arguments);
            let mut capture = Capture::new();
            // UDP, and a connection to a phone that is registered for it.
            let phone = UdpSocket::bind((host, 0)).expect("a socket");
            let local = phone.local_addr().expect("the socket is bound");
            let listener = TcpListener::bind((host, 0)).expect("a listener");
            let there = listener.local_addr().expect("the listener is bound");
            let contact = format!("Contact: <sip:bob@{there};transport=tcp>\r\n");
            let register = request("REGISTER", &format!("sip:{DOMAIN}"), local, &contact);
            let register = register.replace("SIP/2.0/TCP", "SIP/2.0/UDP");
            phone.send_to(register.as_bytes(), sip).expect("a request is sent");
            assert_eq!(capture.class(sip, false, local.port()), CS3, "UDP {host}");
            let message = request("MESSAGE", &format!("sip:bob@{DOMAIN}"), local, "");
            phone.send_to(message.as_bytes(), sip).expect("a request is sent");
            let any = SocketAddr::new(host, 0);
            assert_eq!(capture.class(any, true, there.port()), CS3, "outgoing TCP {host}");
            let (mut stream, _) = listener.accept().expect("a connection");
            stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout can be set");
            assert!(stream.read(&mut [0; 2000]).expect("a request") > 0);
            // Accepted connections, from the answer to the first packet on.
            for server in [sip, tls] {
                let mut stream = TcpStream::connect(server).expect("a connection");
                let to = stream.local_addr().expect("the connection has an address").port();
                stream.write_all(b"\r\n\r\n").expect("bytes are sent");
                // The packets of the handshake and of the acknowledgement, as they are sent and as
                // they arrive.
                for packet in 0..4 {
                    assert_eq!(capture.class(server, true, to), CS3, "packet {packet} of {server}");
                }
            }
        }
    });
}
