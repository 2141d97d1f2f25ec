//! A call between two agents, without a network: prints the start line of each message.
//!
//! ```sh
//! cargo run -p barebell-sip-ua --example call
//! ```

use barebell_sip_ua::sip::{Flow, Instant, Transport};
use barebell_sip_ua::{Agent, Config, Event, Location};
use std::net::SocketAddr;

/// The session description of both ends, which the engine does not parse.
const SESSION: &[u8] = b"v=0\r\n";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let addresses: [SocketAddr; 2] = ["192.0.2.1:5060".parse()?, "192.0.2.2:5060".parse()?];
    // The secrets are fixed for reproducible output. Real ones have to be random.
    let mut agents = [1, 2].map(|number| Agent::new(Config::default(), &[number; 32]));
    let mut now = Instant::from_micros(1_000_000);
    let uri = format!("sip:bob@{}", addresses[1]);
    let call = agents[0].call(now, None, &uri, SESSION.to_vec())?;

    let mut ended = 0;
    while ended < 2 {
        for end in 0..2 {
            let (local, remote) = (addresses[end], addresses[1 - end]);
            while let Some(event) = agents[end].poll_event() {
                match event {
                    Event::Locate { ticket, .. } => {
                        let local = Some(local);
                        let location = Location { transport: Transport::Udp, remote, local };
                        agents[end].located(now, ticket, &[location]);
                    }
                    Event::Incoming { call, .. } => {
                        agents[end].ring(now, call, b"")?;
                        agents[end].answer(now, call, SESSION)?;
                    }
                    Event::Answered { .. } => agents[end].hang_up(now, call)?,
                    Event::Ended { end: reason, .. } => {
                        println!("{local}: {reason:?}");
                        ended += 1;
                    }
                    _ => {}
                }
            }
            while let Some(message) = agents[end].poll_transmit() {
                let text = String::from_utf8_lossy(&message.bytes);
                println!("{local} to {remote}: {}", text.lines().next().unwrap_or_default());
                let (transport, connection) = (Transport::Udp, None);
                let flow = Flow { transport, local: remote, remote: local, connection };
                agents[1 - end].receive(now, &flow, &message.bytes);
            }
        }
        // With nothing left to send, time advances to the next timer.
        let timers = agents.iter().filter_map(Agent::next_timer);
        now = timers.min().filter(|next| *next > now).unwrap_or(now);
        agents.iter_mut().for_each(|agent| agent.on_timer(now));
    }
    Ok(())
}
