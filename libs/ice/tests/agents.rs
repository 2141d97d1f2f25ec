//! Two agents on a simulated network: through NATs, through TURN servers, with restarts and loss.

mod support;

use ice_agent::{Event, RelayError, TurnServer, TurnTransport};
use sdp::SessionDescription;
use sdp::ice::IceParameters;
use std::time::Duration;
use support::net::{Nat, Net, turn_server};

const SECOND: Duration = Duration::from_secs(1);

fn has_failed(net: &Net, place: usize) -> bool {
    net.ends[place].events.contains(&Event::Failed)
}

/// Gathers, exchanges descriptions, and checks until media can flow.
fn connect(net: &mut Net) {
    net.run(3 * SECOND);
    net.exchange();
    net.run(10 * SECOND);
}

#[test]
fn agents_behind_full_cone_nats_talk_directly() {
    let mut net = Net::new(Nat::FullCone, [&[], &[]]);
    net.run(SECOND);
    for end in &net.ends {
        assert_eq!(end.events, [Event::Gathered]);
        assert!(end.agent.description().contains("typ srflx"), "{}", end.agent.description());
        assert_ne!(end.agent.default_address(), Some(end.local));
    }
    connect(&mut net);
    assert_eq!(net.talk(), [1, 1]);
    for end in &net.ends {
        assert_eq!(end.agent.selected().unwrap().server, None);
    }
}

#[test]
fn agents_behind_symmetric_nats_fail_without_a_turn_server() {
    let mut net = Net::new(Nat::Symmetric, [&[], &[]]);
    connect(&mut net);
    net.run(60 * SECOND);
    assert!(has_failed(&net, 0) && has_failed(&net, 1));
    assert_eq!(net.talk(), [0, 0]);
}

/// Two agents behind symmetric NATs, with these TURN servers of each.
fn through_turn(servers: [&[TurnServer]; 2]) -> Net {
    let mut net = Net::new(Nat::Symmetric, servers);
    for (place, servers) in servers.iter().enumerate() {
        if servers.iter().any(|server| server.transport == TurnTransport::Stream) {
            net.connect_stream(place);
        }
    }
    connect(&mut net);
    assert_eq!(net.talk(), [1, 1]);
    net
}

#[test]
fn agents_behind_symmetric_nats_talk_through_a_turn_server() {
    let udp = [turn_server(TurnTransport::Udp)];
    for servers in [[&udp[..], &udp[..]], [&udp, &[]], [&[], &udp]] {
        let net = through_turn(servers);
        let relayed = net.ends.iter().filter_map(|end| end.agent.selected()?.server).count();
        assert_eq!(relayed, 1, "media go through one relay, not through two");
        assert!(net.turn.in_channels > 0);
    }
}

#[test]
fn a_connection_to_the_turn_server_is_framed() {
    let stream = [turn_server(TurnTransport::Stream)];
    let net = through_turn([&stream, &[]]);
    assert!(net.turn.in_indications > 0 && net.turn.in_channels > 0);
    through_turn([&[], &stream]);
}

#[test]
fn a_relayed_call_outlives_allocations_permissions_and_nonces() {
    let udp = [turn_server(TurnTransport::Udp)];
    let mut net = through_turn([&udp, &[]]);
    for _ in 0..30 {
        net.run(60 * SECOND);
        assert_eq!(net.talk(), [1, 1]);
    }
    assert_eq!(net.turn.relayed(net.now), 1);
    let now = net.now;
    net.ends[0].agent.close(now);
    net.settle();
    net.run(SECOND);
    assert_eq!(net.turn.relayed(net.now), 0);
}

#[test]
fn consent_ends_once_the_peer_is_silent() {
    let mut net = Net::new(Nat::FullCone, [&[], &[]]);
    connect(&mut net);
    assert_eq!(net.talk(), [1, 1]);
    net.is_dead = true;
    net.run(31 * SECOND);
    for end in &mut net.ends {
        assert_eq!(end.events.last(), Some(&Event::ConsentEnded));
        assert!(!end.agent.send(&[0x80; 12]), "no media without consent");
    }
}

#[test]
fn media_go_on_while_ice_restarts() {
    let mut net = Net::new(Nat::FullCone, [&[], &[]]);
    connect(&mut net);
    let (now, old) = (net.now, net.ends[0].agent.description());
    net.ends[0].agent.restart(now);
    let offer = net.ends[0].agent.description();
    assert_ne!(offer, old);
    assert_eq!(net.talk(), [1, 1]);
    assert!(net.describe(1, &offer), "other credentials restart the other end");
    let answer = net.ends[1].agent.description();
    assert_eq!(net.talk(), [1, 1]);
    assert!(!net.describe(0, &answer));
    net.run(5 * SECOND);
    assert_eq!(net.talk(), [1, 1]);
    // The same description again changes nothing.
    assert!(!net.describe(1, &offer) && !net.describe(0, &answer));
    net.run(60 * SECOND);
    assert_eq!(net.talk(), [1, 1]);
}

#[test]
fn mappings_of_servers_are_kept_alive() {
    let udp = [turn_server(TurnTransport::Udp)];
    let mut net = Net::new(Nat::Symmetric, [&udp, &[]]);
    net.run(61 * SECOND);
    assert_eq!(net.kept_alive, 8, "four of each end");
    connect(&mut net);
    assert_eq!(net.talk(), [1, 1]);
}

#[test]
fn the_answer_of_another_branch_replaces_the_first_one() {
    let mut net = Net::new(Nat::FullCone, [&[], &[]]);
    net.run(SECOND);
    let other = format!("a=ice-ufrag:fork\r\na=ice-pwd:{}\r\n", "x".repeat(22));
    net.describe(0, &other);
    let now = net.now;
    let lines = net.ends[1].agent.description();
    let own = net.ends[0].agent.description();
    let text = format!("v=0\r\nm=audio 9 RTP/AVP 0\r\n{lines}");
    let session = SessionDescription::parse(text.as_bytes()).unwrap();
    let parameters = IceParameters::of(&session.media[0], &session).unwrap().unwrap();
    net.ends[0].agent.set_remote(now, &parameters);
    assert_eq!(net.ends[0].agent.description(), own, "the offer had these credentials");
    net.describe(1, &own);
    net.run(10 * SECOND);
    assert_eq!(net.talk(), [1, 1]);
}

#[test]
fn a_wrong_password_of_the_turn_server_is_reported() {
    let mut server = turn_server(TurnTransport::Udp);
    server.credentials.password = "other".to_owned();
    let mut net = Net::new(Nat::Symmetric, [&[server], &[]]);
    net.run(SECOND);
    let [failed, Event::Gathered] = &net.ends[0].events[..] else {
        panic!("{:?}", net.ends[0].events);
    };
    let error = RelayError::Refused { code: 401, reason: "No".to_owned() };
    assert_eq!(*failed, Event::RelayFailed { server: 0, error });
}

#[test]
fn silent_servers_delay_a_description_for_a_time_only() {
    let mut net = Net::new(Nat::FullCone, [&[turn_server(TurnTransport::Stream)], &[]]);
    net.is_dead = true;
    net.run(Duration::from_millis(1900));
    assert!(!net.ends[1].agent.is_gathered());
    net.run(Duration::from_millis(200));
    assert!(net.ends[1].agent.is_gathered(), "there is a STUN server only");
    net.run(Duration::from_millis(2800));
    assert!(!net.ends[0].agent.is_gathered());
    net.run(Duration::from_millis(200));
    assert_eq!(net.ends[0].events, [Event::Gathered]);
    assert!(net.ends[0].agent.description().contains("typ host"));
    let now = net.now;
    net.ends[0].agent.disconnected(now, 0, "reset".to_owned());
    net.settle();
    let failed =
        Event::RelayFailed { server: 0, error: RelayError::Disconnected("reset".to_owned()) };
    assert_eq!(net.ends[0].events.last(), Some(&failed));
}
