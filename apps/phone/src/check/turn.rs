//! Checks if the TURN servers give a relayed address.

use super::nat::Found;
use crate::ice::{Ice, IceSetup};
use ice_agent::{Event, TurnServer};
use net::tls::ServerName;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::time::{Duration, Instant, SystemTime};

/// Time limit for the answer of a server: that of a connection, and a margin.
const PATIENCE: Duration = Duration::from_secs(12);
const ADVICE: &str = "check that a firewall lets the way to the server out, the user and the \
                      password, the trust of a certificate, and that the server is not one for \
                      STUN only";

/// Requests a relayed address of each TURN server in `setup`, and gives it back.
pub(super) fn look(setup: &IceSetup) -> impl Iterator<Item = Found> {
    setup.turn.iter().map(|(server, name)| {
        let address = server.address;
        match relayed(setup, server, name.clone()) {
            Ok(relayed) => (true, format!("{address} relays at {relayed}"), None),
            Err(error) => (false, format!("{address}: {error}"), Some(ADVICE)),
        }
    })
}

/// The address that the server relays at.
///
/// # Errors
/// The reason of the server, or of the way to it.
fn relayed(
    setup: &IceSetup,
    server: &TurnServer,
    name: Option<ServerName<'static>>,
) -> io::Result<SocketAddr> {
    let local = net::source_for(server.address);
    let local = local.ok_or_else(|| io::Error::other("there is no route to it"))?;
    let socket = UdpSocket::bind((local, 0))?;
    socket.set_nonblocking(true)?;
    let turn = vec![(server.clone(), name)];
    let alone = IceSetup { stun: Vec::new(), turn, tls: setup.tls.clone() };
    let mut ice = Ice::open(&socket, &alone)?;
    let (begun, mut datagram) = (Instant::now(), [0; 2048]);
    while begun.elapsed() < PATIENCE {
        if let Some(relayed) = ice.relayed(0) {
            return Ok(relayed);
        }
        while let Some(event) = ice.next_event() {
            if let Event::RelayFailed { error, .. } = event {
                return Err(io::Error::other(error));
            }
        }
        let patience = ice.wait().min(PATIENCE.saturating_sub(begun.elapsed()));
        let mut fds = vec![PollFd::new(socket.as_fd(), PollFlags::POLLIN)];
        fds.extend(ice.fds());
        // A signal ends the wait like input.
        let _ = ppoll(&mut fds, Some(TimeSpec::from(patience)), None);
        while let Ok((length, from)) = socket.recv_from(&mut datagram) {
            ice.receive(SystemTime::now(), from, &datagram[..length]);
        }
        ice.turn();
    }
    Err(io::Error::from(io::ErrorKind::TimedOut))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ice_agent::{TurnCredentials, TurnTransport};
    use std::net::TcpListener;
    use std::thread;
    use stun::turn::attribute_type as turn_at;
    use stun::{Class, Message, Writer, attribute_type as at};

    const REALM: &[u8] = b"example.org";

    fn credentials() -> TurnCredentials {
        TurnCredentials { user: "alice".into(), password: "x".into() }
    }

    fn setup(address: SocketAddr, transport: TurnTransport) -> IceSetup {
        let server = TurnServer { address, transport, credentials: credentials() };
        IceSetup { stun: Vec::new(), turn: vec![(server, None)], tls: None }
    }

    #[test]
    fn a_server_that_relays_is_told_from_one_that_does_not() {
        for (relays, expected) in [(true, "relays at 192.0.2.1:50000"), (false, "508 Full")] {
            let server = UdpSocket::bind("127.0.0.1:0").unwrap();
            let address = server.local_addr().unwrap();
            let answering = thread::spawn(move || {
                let mut datagram = [0; 512];
                loop {
                    let (length, from) = server.recv_from(&mut datagram).unwrap();
                    let request = Message::parse(&datagram[..length]).unwrap();
                    if request.method != stun::turn::method::ALLOCATE {
                        continue;
                    }
                    let is_signed = request.value(at::USERNAME).is_some();
                    let class = if relays && is_signed { Class::Success } else { Class::Error };
                    let mut answer = Vec::new();
                    let mut writer = Writer::new(class, request.method, request.id, &mut answer);
                    match (relays, is_signed) {
                        (false, _) => writer.error(508, "Full").unwrap(),
                        (true, false) => {
                            writer.error(401, "Unauthorized").unwrap();
                            writer.attribute(at::REALM, REALM).unwrap();
                            writer.attribute(at::NONCE, b"nonce").unwrap();
                        }
                        (true, true) => {
                            let relayed = ([192, 0, 2, 1], 50_000).into();
                            writer.xor_address(turn_at::XOR_RELAYED_ADDRESS, relayed).unwrap();
                            writer.integrity(&credentials().key(REALM)).unwrap();
                        }
                    }
                    server.send_to(&answer, from).unwrap();
                    if is_signed || !relays {
                        return;
                    }
                }
            });
            let found: Vec<Found> = look(&setup(address, TurnTransport::Udp)).collect();
            let [(works, text, _)] = &found[..] else { panic!("one server") };
            assert!(*works == relays && text.contains(expected), "{text}");
            answering.join().unwrap();
        }
    }

    #[test]
    fn a_refused_connection_is_named() {
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let found: Vec<Found> = look(&setup(address, TurnTransport::Stream)).collect();
        let [(false, text, Some(_))] = &found[..] else { panic!("it does not work") };
        assert!(text.contains("Connection refused"), "{text}");
    }
}
