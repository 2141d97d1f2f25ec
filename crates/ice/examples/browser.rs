//! A full agent, as browsers have it, finds the address of a lite agent, and nominates its own.

use barebell_ice::{CheckOutcome, Credentials, LiteAgent};
use is::stun::{StunMessage, StunPacket};
use is::{Candidate, IceAgent, IceConnectionState, IceCreds};
use std::error::Error;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

fn main() -> Result<(), Box<dyn Error>> {
    let server: SocketAddr = ([192, 0, 2, 1], 20_000).into();
    let browser: SocketAddr = ([198, 51, 100, 7], 40_000).into();
    let mut lite = LiteAgent::new(Credentials::new(b"32 bytes from a random generator"));
    let mut full = IceAgent::new(IceCreds::new());
    full.set_controlling(true);
    full.add_local_candidate(Candidate::host(browser, "udp")?);
    full.add_remote_candidate(Candidate::host(server, "udp")?);
    let Credentials { ufrag, password } = lite.local().clone();
    full.set_remote_credentials(IceCreds { ufrag, pass: password });
    lite.set_remote(&full.local_credentials().ufrag);

    let start = Instant::now();
    let (mut response, mut checks) = (Vec::new(), 0);
    for step in 0..200 {
        let time = Duration::from_millis(50 * step);
        full.handle_timeout(start + time);
        while let Some(check) = full.poll_transmit() {
            checks += 1;
            let outcome = lite.receive(time, browser, &check.contents, &mut response);
            if let CheckOutcome::Success { is_new_selection: true } = outcome {
                println!("{:4} ms: {browser} is nominated", time.as_millis());
            }
            if outcome != CheckOutcome::Ignored {
                let message = StunMessage::parse(&response)?;
                let (source, destination) = (server, browser);
                let proto = check.proto;
                full.handle_packet(
                    start + time,
                    StunPacket { proto, source, destination, message },
                );
            }
        }
        if full.state() == IceConnectionState::Completed && lite.selected() == Some(browser) {
            println!("{checks} checks, and consent until {:?}", lite.consent_end());
            return Ok(());
        }
    }
    Err("the agents did not connect".into())
}
