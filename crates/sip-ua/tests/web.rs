//! An account over WebSocket that does not know its address (RFC 7118 section 5).

use barebell_sip_ua::{Account, Agent, Config, Event, Location, RegistrationState};
use sip::{Duration, HeaderName, Instant, Transport};
use test_support::flow::{response, value};

const CONTACT: &str = "<sip:alice@x7.invalid;transport=ws>";

fn agent() -> Agent {
    Agent::new(Config::default(), &[7; 32])
}

fn account() -> Account {
    Account { contact_host: Some("x7.invalid".to_owned()), ..Account::new("sip:alice@example.com") }
}

/// Answers the query for a location, and returns the message that follows.
fn sent(agent: &mut Agent, now: Instant) -> Vec<u8> {
    let Some(Event::Locate { ticket, .. }) = agent.poll_event() else { panic!("no query") };
    let local = Some(([192, 0, 2, 1], 40_000).into());
    let remote = ([192, 0, 2, 2], 443).into();
    agent.located(now, ticket, &[Location { transport: Transport::Wss, remote, local }]);
    agent.poll_transmit().expect("a message").bytes
}

#[test]
fn the_contact_of_an_account_has_its_host_in_all_requests() {
    let (mut agent, now) = (agent(), Instant::from_micros(1));
    let alice = agent.add_account(account()).expect("an account");
    let bob = agent.add_account(Account::new("sip:bob@example.com")).expect("an account");
    agent.register(now, alice);
    let register = sent(&mut agent, now);
    let contact = value(&register, HeaderName::Contact);
    assert!(contact.starts_with(CONTACT), "{contact}");
    agent.call(now, Some(alice), "sip:bob@example.com", b"v=0\r\n".to_vec()).expect("a call");
    assert_eq!(value(&sent(&mut agent, now), HeaderName::Contact), CONTACT);
    agent.call(now, Some(bob), "sip:alice@example.com", b"v=0\r\n".to_vec()).expect("a call");
    let contact = value(&sent(&mut agent, now), HeaderName::Contact);
    assert_eq!(contact, "<sip:bob@192.0.2.1:40000;transport=ws>");
}

#[test]
fn the_time_of_its_own_binding_is_granted() {
    let (mut agent, now) = (agent(), Instant::from_micros(1));
    let alice = agent.add_account(account()).expect("an account");
    agent.register(now, alice);
    let register = sent(&mut agent, now);
    let source = ([192, 0, 2, 1], 40_000).into();
    let contacts = format!(
        "Contact: <sip:alice@y8.invalid;transport=ws>;expires=3600, {CONTACT};expires=60\r\n"
    );
    let flow = sip::Flow {
        transport: Transport::Wss,
        local: source,
        remote: ([192, 0, 2, 2], 443).into(),
        connection: None,
    };
    agent.receive(now, &flow, &response(&register, source, 200, "s", &contacts, ""));
    let Some(Event::Registration { state, .. }) = agent.poll_event() else { panic!("no event") };
    assert_eq!(state, RegistrationState::Registered { expires: Duration::from_secs(60) });
}
