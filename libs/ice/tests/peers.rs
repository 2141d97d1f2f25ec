//! An agent and single datagrams: of a lite peer, of a peer with many addresses, of strangers.

use ice_agent::{Agent, Credentials, Event, Output};
use proptest::prelude::*;
use sdp::SessionDescription;
use sdp::ice::IceParameters;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use stun::{BINDING, Class, TransactionId, Writer, attribute_type as at};

const PEER: &str = "peer";
const PEER_PASSWORD: &str = "a-password-of-22-chars";

fn local() -> SocketAddr {
    ([192, 0, 2, 1], 4000).into()
}

fn peer(port: u16) -> SocketAddr {
    ([198, 51, 100, 7], port).into()
}

fn random(bytes: &mut [u8]) {
    fastrand::fill(bytes);
}

fn agent(now: Instant) -> Agent {
    Agent::new(&[local()], &[], &[], false, random, now).unwrap()
}

fn describe(agent: &mut Agent, now: Instant, session: &str, lines: &str) {
    let text = format!("v=0\r\n{session}m=audio 9 RTP/AVP 0\r\n{lines}");
    let session = SessionDescription::parse(text.as_bytes()).unwrap();
    let parameters = IceParameters::of(&session.media[0], &session).unwrap().unwrap();
    agent.set_remote(now, &parameters);
}

fn outputs(agent: &mut Agent) -> Vec<Output> {
    std::iter::from_fn(|| agent.poll()).collect()
}

/// The lines of the peer, without candidates.
fn lines() -> String {
    format!("a=ice-ufrag:{PEER}\r\na=ice-pwd:{}\r\n", PEER_PASSWORD.replace('-', "+"))
}

/// A check of the peer.
fn check(agent: &Agent) -> Vec<u8> {
    let text = agent.description();
    let value = |name: &str| text.split_once(name).unwrap().1.lines().next().unwrap().to_owned();
    let mut out = Vec::new();
    let mut writer = Writer::new(Class::Request, BINDING, TransactionId([5; 12]), &mut out);
    let user = format!("{}:{PEER}", value("ice-ufrag:"));
    writer.attribute(at::USERNAME, user.as_bytes()).unwrap();
    writer.attribute(at::PRIORITY, &[0, 0, 1, 0]).unwrap();
    writer.attribute(at::ICE_CONTROLLING, &[1; 8]).unwrap();
    writer.integrity(value("ice-pwd:").as_bytes()).unwrap();
    writer.fingerprint().unwrap();
    out
}

#[test]
fn a_lite_peer_is_checked_and_gets_a_nomination() {
    let begin = Instant::now();
    let mut lite = ice::LiteAgent::new(Credentials::new(&[7; 32]));
    let mut agent = agent(begin);
    let Credentials { ufrag, password } = lite.local().clone();
    let lines = format!(
        "a=ice-ufrag:{ufrag}\r\na=ice-pwd:{password}\r\n\
         a=candidate:1 1 UDP 2130706431 198.51.100.7 9000 typ host\r\n"
    );
    describe(&mut agent, begin, "a=ice-lite\r\n", &lines);
    let (mut now, mut selected) = (begin, None);
    while now < begin + Duration::from_secs(5) {
        for output in outputs(&mut agent) {
            match output {
                Output::Event(Event::Selected(path)) => selected = Some(path.remote),
                Output::Datagram { bytes, .. } => {
                    let mut answer = Vec::new();
                    lite.receive(now - begin, local(), &bytes, &mut answer);
                    agent.receive(now, local(), peer(9000), &answer);
                }
                _ => {}
            }
        }
        now = agent.next_timer().unwrap().max(now);
        agent.on_timer(now);
    }
    assert_eq!((selected, lite.selected()), (Some(peer(9000)), Some(local())));
}

#[test]
fn checks_are_answered_and_media_taken_from_a_limited_number_of_addresses() {
    let now = Instant::now();
    let mut agent = agent(now);
    describe(&mut agent, now, "", &lines());
    let check = check(&agent);
    agent.receive(now, local(), peer(1), &[0x80; 12]);
    let is_media = |output: &Output| matches!(output, Output::Media { .. });
    assert!(!outputs(&mut agent).iter().any(is_media), "the address has proved nothing");
    let mut media = 0;
    for port in 1..200 {
        agent.receive(now, local(), peer(port), &check);
        agent.receive(now, local(), peer(port), &[0x80; 12]);
        let outputs = outputs(&mut agent);
        let has_answer = outputs.iter().any(
            |output| matches!(output, Output::Datagram { remote, .. } if *remote == peer(port)),
        );
        assert_eq!(has_answer, port <= 64, "{port}");
        media += outputs.iter().filter(|output| is_media(output)).count();
    }
    assert_eq!(media, 64);
}

proptest! {
    #[test]
    fn no_datagram_disturbs_an_agent(
        flips in prop::collection::vec((0_usize..120, any::<u8>()), 1..4),
        length in 0_usize..121,
        noise in prop::collection::vec(any::<u8>(), 0..80),
    ) {
        let now = Instant::now();
        let mut agent = agent(now);
        describe(&mut agent, now, "", &lines());
        let mut bytes = check(&agent);
        for (place, value) in flips {
            if let Some(byte) = bytes.get_mut(place) {
                *byte ^= value;
            }
        }
        bytes.truncate(length);
        for bytes in [&bytes, &noise] {
            agent.receive(now, local(), peer(1), bytes);
            agent.receive_stream(now, 0, bytes);
        }
        prop_assert!(agent.selected().is_none());
        agent.receive(now, local(), peer(2), &check(&agent));
        let is_answer = |output: &Output| {
            matches!(output, Output::Datagram { remote, .. } if *remote == peer(2))
        };
        prop_assert!(outputs(&mut agent).iter().any(is_answer));
    }
}
