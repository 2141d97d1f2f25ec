//! The choice of the servers that receive credentials.

use barebell_sip_ua::{
    Account, AccountId, Agent, Config, Event, Failure, Location, Password, Placement,
};
use sip::{Flow, Instant, Transport};
use std::net::SocketAddr;

/// An agent that has sent an INVITE to `proxy`, or to the domain of its account.
struct Caller {
    agent: Agent,
    flow: Flow,
    now: Instant,
}

impl Caller {
    fn new(proxy: Option<&str>) -> Self {
        let account = Account {
            password: Some(Password::new("secret")),
            realm: Some("home".to_owned()),
            proxy: proxy.map(str::to_owned),
            ..Account::new("sip:alice@192.0.2.1")
        };
        let config = Config { accounts: vec![account], ..Config::default() };
        let mut agent = Agent::new(config, &[7; 32]);
        let now = Instant::from_micros(1);
        let offer = b"v=0\r\n".to_vec();
        agent.call(now, Some(AccountId(0)), "sip:bob@192.0.2.1", offer).expect("a call");
        let remote: SocketAddr = "192.0.2.1:5060".parse().expect("an address");
        let local = "192.0.2.9:5060".parse().expect("an address");
        let flow = Flow { transport: Transport::Udp, local, remote, connection: None };
        while let Some(event) = agent.poll_event() {
            if let Event::Locate { ticket, .. } = event {
                let local = Some(local);
                let location = Location { transport: Transport::Udp, remote, local };
                agent.located(now, ticket, &[location]);
            }
        }
        Self { agent, flow, now }
    }

    /// Returns the last INVITE sent since the previous message.
    fn invite(&mut self) -> Option<String> {
        self.last("INVITE ")
    }

    /// Returns the last message with this beginning that was sent since the previous one.
    fn last(&mut self, beginning: &str) -> Option<String> {
        let sent = std::iter::from_fn(|| self.agent.poll_transmit());
        let texts = sent.map(|transmit| String::from_utf8(transmit.bytes).expect("text"));
        texts.filter(|text| text.starts_with(beginning)).last()
    }

    fn respond(&mut self, invite: &str, status: &str) {
        let copied = ["Via:", "From:", "Call-ID:", "CSeq:"];
        let lines = invite.lines().filter(|line| copied.iter().any(|name| line.starts_with(name)));
        let mut response = format!("SIP/2.0 {status}\r\nTo: <sip:bob@192.0.2.1>;tag=1\r\n");
        lines.for_each(|line| response += &format!("{line}\r\n"));
        if status.starts_with("200") {
            response += "Contact: <sip:bob@192.0.2.1>\r\n";
        }
        if status.starts_with("407") {
            response += "Proxy-Authenticate: Digest realm=\"home\", nonce=\"n\", qop=\"auth\"\r\n";
        }
        response += "Content-Length: 0\r\n\r\n";
        self.agent.receive(self.now, &self.flow, response.as_bytes());
    }

    /// Returns true if a challenge after these responses is answered.
    fn answers_after(&mut self, before: &[&str]) -> bool {
        let invite = self.invite().expect("an INVITE");
        before.iter().for_each(|status| self.respond(&invite, status));
        self.respond(&invite, "407 Prove it");
        let again = self.invite();
        assert!(again.as_ref().is_none_or(|invite| invite.contains("Proxy-Authorization: ")));
        let mut events = std::iter::from_fn(|| self.agent.poll_event());
        let is_refused = events.any(|event| match event {
            Event::Ended {
                end: barebell_sip_ua::End::Failed(Failure::Unauthorized { realm, .. }),
                ..
            } => realm == "home",
            _ => false,
        });
        assert_eq!(is_refused, again.is_none());
        again.is_some()
    }
}

#[test]
fn a_server_that_asks_is_answered() {
    assert!(Caller::new(None).answers_after(&[]));
}

/// The callee must not be able to authenticate as the caller.
#[test]
fn who_asks_after_the_server_has_passed_the_call_on_is_not() {
    assert!(!Caller::new(None).answers_after(&["100 Trying"]));
    assert!(!Caller::new(None).answers_after(&["180 Ringing"]));
}

#[test]
fn a_server_behind_a_proxy_that_says_100_is_answered() {
    const PROXY: Option<&str> = Some("sip:192.0.2.2;lr");
    assert!(Caller::new(PROXY).answers_after(&["100 Trying"]));
    assert!(!Caller::new(PROXY).answers_after(&["100 Trying", "180 Ringing"]));
}

#[test]
fn who_asks_behind_a_server_that_has_asked_is_not() {
    let mut caller = Caller::new(Some("sip:192.0.2.2;lr"));
    let invite = caller.invite().expect("an INVITE");
    caller.respond(&invite, "407 Prove it");
    assert!(!caller.answers_after(&["100 Trying"]));
}

/// Returns the line with the credentials of `request`.
fn credentials(request: &str) -> &str {
    request.lines().find(|line| line.starts_with("Proxy-Authorization: ")).expect("credentials")
}

/// RFC 3261 section 13.2.2.4, also for an ACK that is sent again.
#[test]
fn the_ack_has_the_credentials_of_its_invite() {
    let mut caller = Caller::new(None);
    let first = caller.invite().expect("an INVITE");
    caller.respond(&first, "407 Prove it");
    let invite = caller.invite().expect("an INVITE");
    for _ in 0..2 {
        caller.respond(&invite, "200 OK");
        let ack = caller.last("ACK ").expect("an ACK");
        assert_eq!(credentials(&ack), credentials(&invite));
    }
}

/// The owner has answered the challenge.
#[test]
fn the_ack_has_the_credentials_that_pass_in_its_invite() {
    let mut caller = Caller::new(None);
    caller.invite();
    let lines = b"X-A: b\r\nProxy-Authorization: Digest username=\"a\"\r\nSubject: c\r\n".to_vec();
    let placement = Placement {
        uri: b"sip:bob@192.0.2.1",
        from: b"<sip:alice@192.0.2.1>",
        to: b"<sip:bob@192.0.2.1>",
        routes: &[],
        flow: caller.flow.internal(),
        max_forwards: 70,
        lines,
        session: b"v=0\r\n".to_vec(),
        envelope: None,
        is_reliable: true,
        account: None,
    };
    caller.agent.place_for(caller.now, placement);
    let invite = caller.invite().expect("an INVITE");
    caller.respond(&invite, "200 OK");
    let ack = caller.last("ACK ").expect("an ACK");
    assert_eq!(credentials(&ack), credentials(&invite));
    assert!(!ack.contains("X-A") && !ack.contains("Subject"), "{ack}");
}
