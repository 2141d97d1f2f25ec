//! The user agent engine and the call: calls that are located and placed.

use alloc::vec::Vec;
use call::{Call, Setup};
use media::MediaConfig;
use sip::{Instant, Message, Method, Transport};
use sip_ua::{Agent, Config, Event, Location};

const NOW: Instant = Instant::from_micros(1_700_000_000_000_000);

pub(crate) fn place_a_call() -> Option<()> {
    let mut agent = Agent::new(Config::default(), &[7; 32]);
    agent.call(NOW, None, "sip:bob@192.0.2.9", Vec::new()).ok()?;
    is_sent(&mut agent)
}

/// Places a call with media.
pub(crate) fn place_with_media() -> Option<()> {
    let mut agent = Agent::new(Config::default(), &[7; 32]);
    let random = &mut |bytes: &mut [u8]| bytes.fill(7);
    let setup = Setup::new(MediaConfig::default(), ([192, 0, 2, 1], 4000).into());
    let mut call = Call::new(setup, random);
    call.place(&mut agent, NOW, None, "sip:bob@192.0.2.9", random).ok()?;
    is_sent(&mut agent)?;
    let mut heard = Vec::new();
    call.play(NOW, &mut heard);
    heard.is_empty().then_some(())
}

/// Checks that the INVITE goes to its location.
fn is_sent(agent: &mut Agent) -> Option<()> {
    let Some(Event::Locate { ticket, .. }) = agent.poll_event() else { return None };
    let place = Location {
        transport: Transport::Udp,
        remote: ([192, 0, 2, 9], 5060).into(),
        local: Some(([192, 0, 2, 1], 5060).into()),
    };
    agent.located(NOW, ticket, &[place]);
    let sent = agent.poll_transmit()?;
    let invite = Message::parse(&sent.bytes).ok()?;
    let is_sound = invite.validate_request().is_ok() && invite.method() == Some(Method::Invite);
    (is_sound && sent.flow.remote == place.remote).then_some(())
}
