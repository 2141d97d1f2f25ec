//! The path of requests: within a dialog to the remote target, and over TCP if they exceed a
//! datagram.

mod rig;

use barebell_sip_ua::{Agent, CallId, Config, End, Event, Failure, Location};
use rig::{Rig, SESSION, address};
use sip::{Flow, HeaderName, Instant, Transport};
use std::net::SocketAddr;
use test_support::flow::{response, value};
use test_support::network::Link;

fn place(number: u8) -> SocketAddr {
    ([198, 51, 100, number], 5060).into()
}

/// A Contact with another address than the called one, in all responses.
fn contact(number: u8) -> String {
    format!("Contact: <sip:{}>\r\n", place(number))
}

#[test]
fn requests_within_a_dialog_go_to_the_contact_of_the_other_end() {
    let configs = [Config { user: "alice".into(), ..Config::default() }];
    let mut rig = Rig::new(1, Link::default(), &configs);
    let call = rig.call_uri(0, &format!("sip:bob@{}", place(1)), SESSION);
    let invite = rig.mail(place(1), "INVITE");
    let lines = format!("{}Require: 100rel\r\nRSeq: 5\r\n", contact(2));
    rig.send(place(1), 0, &response(&invite, address(0), 183, "b", &lines, "v=0\r\n"));
    let prack = rig.mail(place(2), "PRACK");
    rig.send(place(2), 0, &response(&prack, address(0), 200, "b", "", ""));
    let answer = response(&invite, address(0), 200, "b", &contact(2), "");
    rig.send(place(1), 0, &answer);
    rig.mail(place(2), "ACK");
    // The ACK is sent again on the same path.
    rig.send(place(1), 0, &answer);
    rig.mail(place(2), "ACK");
    rig.act(0, |agent, now| agent.offer(now, call, SESSION.to_vec()));
    let offer = rig.mail(place(2), "INVITE");
    rig.send(place(2), 0, &response(&offer, address(0), 200, "b", &contact(3), "v=0\r\n"));
    rig.mail(place(3), "ACK");
    rig.act(0, |agent, now| agent.hang_up(now, call));
    let bye = rig.mail(place(3), "BYE");
    rig.send(place(3), 0, &response(&bye, address(0), 200, "b", "", ""));
    rig.finish();
}

#[test]
fn a_caller_is_hung_up_at_its_contact() {
    let configs = [Config { user: "alice".into(), ..Config::default() }];
    let mut rig = Rig::new(1, Link::default(), &configs);
    let invite = format!(
        "INVITE sip:alice@{} SIP/2.0\r\nVia: SIP/2.0/UDP {};branch=z9hG4bKa\r\nMax-Forwards: 70\r\n\
         From: <sip:b@b>;tag=b\r\nTo: <sip:a@a>\r\nCall-ID: c\r\nCSeq: 1 INVITE\r\n{}\
         Content-Length: 0\r\n\r\n",
        address(0),
        place(1),
        contact(2)
    );
    rig.send(place(1), 0, invite.as_bytes());
    let Event::Incoming { call, .. } = rig.expect(0) else { panic!("no call") };
    rig.act(0, |agent, now| agent.answer(now, call, SESSION));
    let answer = rig.mail(place(1), "SIP/2.0 200");
    let to = value(&answer, HeaderName::To);
    let ack = invite.replace("INVITE", "ACK").replace("To: <sip:a@a>", &format!("To: {to}"));
    rig.send(place(1), 0, ack.replace("z9hG4bKa", "z9hG4bKb").as_bytes());
    rig.pass(std::time::Duration::from_secs(1));
    rig.act(0, |agent, now| agent.hang_up(now, call));
    let bye = rig.mail(place(2), "BYE");
    rig.send(place(2), 0, &response(&bye, address(0), 200, "b", "", ""));
    rig.finish();
}

/// An agent that is driven directly, with one address.
struct Caller {
    agent: Agent,
    now: Instant,
}

impl Caller {
    fn new() -> Self {
        let mut agent = Agent::new(Config::default(), &[7; 32]);
        agent.shorten_by(|_| SESSION.to_vec());
        Self { agent, now: Instant::from_micros(1) }
    }

    fn call(&mut self, session: &[u8]) -> CallId {
        let uri = format!("sip:bob@{}", place(1));
        self.agent.call(self.now, None, &uri, session.to_vec()).expect("a call")
    }

    /// Returns the next message with its flow. Queries before it are answered.
    fn next(&mut self) -> (Flow, String) {
        let local = Some(address(0));
        while let Some(event) = self.agent.poll_event() {
            if let Event::Locate { ticket, .. } = event {
                let location = Location { transport: Transport::Udp, remote: place(1), local };
                self.agent.located(self.now, ticket, &[location]);
            }
        }
        let sent = self.agent.poll_transmit().expect("a message");
        (sent.flow, String::from_utf8(sent.bytes).expect("text"))
    }

    fn receive(&mut self, flow: Flow, bytes: &[u8]) {
        self.agent.receive(self.now, &flow, bytes);
    }
}

#[test]
fn a_request_too_large_for_a_datagram_goes_by_tcp_and_by_udp_where_that_is_refused() {
    let mut caller = Caller::new();
    let large = vec![b'x'; 1300];
    caller.call(&large);
    let (flow, invite) = caller.next();
    assert_eq!((flow.transport, flow.remote), (Transport::Tcp, place(1)));
    assert!(invite.contains("Via: SIP/2.0/TCP ") && invite.len() > 1300, "{invite}");
    assert!(invite.contains("Contact: <sip:anonymous@192.0.2.1:5060>\r\n"), "{invite}");
    caller.agent.undeliverable(caller.now, invite.as_bytes(), Failure::Unreachable);
    let (flow, again) = caller.next();
    assert_eq!(flow.transport, Transport::Udp);
    assert!(again.contains("Via: SIP/2.0/UDP ") && again.ends_with("\r\n\r\nv=0\r\n"), "{again}");
    // The agent stores that this peer does not accept TCP. The failure of a request that fits into
    // a datagram is final.
    caller.call(&large);
    assert_eq!(caller.next().0.transport, Transport::Udp);
    let mut caller = Caller::new();
    caller.call(&vec![b'x'; 500]);
    let (flow, invite) = caller.next();
    assert_eq!(flow.transport, Transport::Udp);
    caller.agent.undeliverable(caller.now, invite.as_bytes(), Failure::Unreachable);
    assert!(matches!(
        caller.agent.poll_event(),
        Some(Event::Ended { end: End::Failed(Failure::Unreachable), .. })
    ));
}

#[test]
fn a_call_that_a_large_invite_has_begun_goes_on_by_udp_and_its_refusal_is_acknowledged_by_tcp() {
    let mut caller = Caller::new();
    caller.call(&vec![b'x'; 1300]);
    let (flow, invite) = caller.next();
    let answer = response(invite.as_bytes(), flow.local, 486, "b", "", "");
    caller.receive(flow, &answer);
    let (way, ack) = caller.next();
    assert!(way.transport == Transport::Tcp && ack.starts_with("ACK "), "{ack}");
    let call = caller.call(&vec![b'x'; 1300]);
    let (flow, invite) = caller.next();
    let lines = format!("Contact: <sip:bob@{}>\r\n", place(1));
    let answer = response(invite.as_bytes(), flow.local, 200, "b", &lines, "v=0\r\n");
    caller.receive(flow, &answer);
    let (way, ack) = caller.next();
    assert!(way.transport == Transport::Udp && ack.starts_with("ACK "), "{ack}");
    caller.agent.hang_up(caller.now, call).expect("a call");
    let (way, bye) = caller.next();
    assert!(way.transport == Transport::Udp && bye.starts_with("BYE "), "{bye}");
}

#[test]
fn an_ack_too_large_for_a_datagram_goes_by_tcp_and_by_udp_where_that_is_refused() {
    let mut caller = Caller::new();
    // An INVITE without a description is answered by an offer, and the ACK has the answer.
    let call = caller.call(b"");
    let (flow, invite) = caller.next();
    let lines = format!("Contact: <sip:bob@{}>\r\n", place(1));
    let answer = response(invite.as_bytes(), flow.local, 200, "b", &lines, "v=0\r\n");
    caller.receive(flow, &answer);
    caller.agent.accept(caller.now, call, &[b'x'; 1300]).expect("an offer");
    let (way, ack) = caller.next();
    assert_eq!((way.transport, way.remote), (Transport::Tcp, place(1)));
    assert!(ack.starts_with("ACK ") && ack.contains("Via: SIP/2.0/TCP "), "{ack}");
    assert!(ack.len() > 1300, "{ack}");
    // A retransmission of the 2xx is answered by the same ACK.
    caller.receive(flow, &answer);
    let (way, again) = caller.next();
    assert_eq!((way.transport, &again), (Transport::Tcp, &ack));
    caller.agent.undeliverable(caller.now, ack.as_bytes(), Failure::Unreachable);
    let (way, shorter) = caller.next();
    assert_eq!(way.transport, Transport::Udp);
    assert!(shorter.contains("Via: SIP/2.0/UDP ") && shorter.ends_with("\r\n\r\nv=0\r\n"));
    caller.receive(flow, &answer);
    assert_eq!(caller.next().1, shorter);
    assert_eq!(caller.agent.calls(), 1);
}

#[test]
fn an_undelivered_ack_of_a_redirection_does_not_end_the_call() {
    let mut caller = Caller::new();
    let call = caller.call(SESSION);
    let (flow, invite) = caller.next();
    let lines = format!("Contact: <sip:carol@{}>\r\n", place(2));
    caller.receive(flow, &response(invite.as_bytes(), flow.local, 302, "b", &lines, ""));
    let (_, ack) = caller.next();
    assert!(ack.starts_with("ACK "), "{ack}");
    let (flow, invite) = caller.next();
    caller.agent.undeliverable(caller.now, ack.as_bytes(), Failure::Unreachable);
    caller.receive(flow, &response(invite.as_bytes(), flow.local, 200, "c", &lines, "v=0\r\n"));
    assert!(caller.next().1.starts_with("ACK "));
    caller.agent.hang_up(caller.now, call).expect("a call");
}

#[test]
fn a_call_stands_while_there_is_no_route() {
    for (failure, stands) in [(Failure::NoRoute, true), (Failure::Unreachable, false)] {
        let mut caller = Caller::new();
        let call = caller.call(SESSION);
        let (flow, invite) = caller.next();
        let lines = format!("Contact: <sip:bob@{}>\r\n", place(1));
        caller.receive(flow, &response(invite.as_bytes(), flow.local, 200, "b", &lines, "v=0\r\n"));
        caller.next();
        caller.agent.offer(caller.now, call, SESSION.to_vec()).expect("a call");
        let (_, offer) = caller.next();
        caller.agent.undeliverable(caller.now, offer.as_bytes(), failure.clone());
        let events: Vec<Event> = std::iter::from_fn(|| caller.agent.poll_event()).collect();
        let failed = events.contains(&Event::OfferFailed { call, failure: failure.clone() });
        let ended = events.contains(&Event::Ended { call, end: End::Failed(failure) });
        assert_eq!((failed, ended, caller.agent.calls()), (stands, !stands, usize::from(stands)));
    }
}
