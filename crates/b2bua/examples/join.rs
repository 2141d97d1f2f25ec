//! A call between two phones through a back-to-back user agent, without a network: prints the start
//! line and the Call-ID of each message. The example has the part of the proxy that is beside the
//! back-to-back user agent: it passes requests to the phone that their URI names.
//!
//! ```sh
//! cargo run -p barebell-b2bua --example join
//! ```

use barebell_b2bua::sip::{Connection, Flow, HeaderName, Instant, Message, Transport, Uri};
use barebell_b2bua::sip_ua::{self, Agent, Event, Location};
use barebell_b2bua::{B2bua, Config};
use std::net::SocketAddr;

/// The session description of both phones.
const SESSION: &[u8] = b"v=0\r\no=- 1 1 IN IP4 192.0.2.9\r\ns=-\r\nt=0 0\r\n";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let phones: [SocketAddr; 2] = ["192.0.2.1:5060".parse()?, "192.0.2.2:5060".parse()?];
    let server: SocketAddr = "192.0.2.100:5060".parse()?;
    // The secrets are fixed for reproducible output. Real ones have to be random.
    let mut agents = [1, 2].map(|number| Agent::new(sip_ua::Config::default(), &[number; 32]));
    let mut b2bua = B2bua::new(Config::default(), &[3; 32]);
    let mut now = Instant::from_micros(1_000_000);
    let call = agents[0].call(now, None, &format!("sip:bob@{}", phones[1]), SESSION.to_vec())?;

    let mut ended = 0;
    while ended < 2 {
        let mut is_idle = true;
        for (number, agent) in agents.iter_mut().enumerate() {
            while let Some(event) = agent.poll_event() {
                match event {
                    Event::Locate { ticket, .. } => {
                        let (transport, local) = (Transport::Udp, Some(phones[number]));
                        agent.located(
                            now,
                            ticket,
                            &[Location { transport, remote: server, local }],
                        );
                    }
                    Event::Incoming { call, .. } => {
                        agent.ring(now, call, b"")?;
                        agent.answer(now, call, SESSION)?;
                    }
                    Event::Answered { .. } => agent.hang_up(now, call)?,
                    Event::Ended { .. } => ended += 1,
                    _ => {}
                }
            }
            while let Some(sent) = agent.poll_transmit() {
                is_idle = false;
                print(&format!("phone {} to B2BUA", number + 1), &sent.bytes);
                // Both legs have the internal flow of the caller.
                let flow = Flow {
                    transport: Transport::Tcp,
                    local: server,
                    remote: phones[0],
                    connection: Some(Connection::INTERNAL),
                };
                b2bua.receive(now, &flow, &sent.bytes);
            }
        }
        while let Some(sent) = b2bua.poll_transmit() {
            let number = receiver(&sent.bytes, &phones).ok_or("a message for no phone")?;
            is_idle = false;
            print(&format!("B2BUA to phone {}", number + 1), &sent.bytes);
            let (transport, local, remote) = (Transport::Udp, phones[number], server);
            let flow = Flow { transport, local, remote, connection: None };
            agents[number].receive(now, &flow, &sent.bytes);
        }
        // With nothing left to send, time advances to the next timer.
        if is_idle {
            let timers = agents.iter().filter_map(Agent::next_timer).chain(b2bua.next_timer());
            now = timers.min().ok_or("no timer and no message")?;
            agents.iter_mut().for_each(|agent| agent.on_timer(now));
            b2bua.on_timer(now);
        }
    }
    Ok(())
}

/// The phone that a message is for: by the request URI of a request, or by the Via of a response.
fn receiver(bytes: &[u8], phones: &[SocketAddr; 2]) -> Option<usize> {
    let message = Message::parse(bytes).ok()?;
    let ip = match message.request_uri() {
        Some(uri) => Uri::parse(uri).ok()?.as_sip()?.host.ip(),
        None => message.top_via().ok()?.host.ip(),
    };
    phones.iter().position(|phone| ip == Some(phone.ip()))
}

fn print(way: &str, bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let call_id = Message::parse(bytes).ok().and_then(|message| {
        message.value(HeaderName::CallId).map(|id| String::from_utf8_lossy(id).into_owned())
    });
    let line = text.lines().next().unwrap_or_default();
    println!("{way}: {line} (Call-ID {})", call_id.unwrap_or_default());
}
