//! A proxy that calls one phone after the other, as far as the flows of RFC 5359 need it.

use super::proxy::{Proxy, Sends};
use sip::{Message, Method};
use std::net::SocketAddr;
use test_support::flow::response;

/// A call that moves from one target of a proxy to the next.
pub(crate) struct Hunt {
    /// The INVITE and its source.
    invite: Option<(Vec<u8>, SocketAddr)>,
    /// The index of the target.
    target: usize,
    /// The first target for which the caller receives a 181.
    news_from: usize,
}

impl Proxy {
    pub(crate) fn hunting(address: SocketAddr, targets: Vec<SocketAddr>, news_from: usize) -> Self {
        let hunt = Hunt { invite: None, target: 0, news_from };
        Self { hunt: Some(hunt), ..Self::new(address, targets) }
    }

    /// Returns the INVITE for the target.
    fn hunted(&self) -> Option<(SocketAddr, Vec<u8>)> {
        let hunt = self.hunt.as_ref()?;
        let (invite, from) = hunt.invite.as_ref()?;
        let place = *self.targets.get(hunt.target)?;
        let uri = format!("sip:{place}").into_bytes();
        let invite = Message::parse(invite).ok()?;
        Some((place, self.forward(&invite, *from, &uri, &[], hunt.target)))
    }

    /// Returns the 181 for the caller, if due, and the INVITE.
    fn ask(&self) -> Option<Sends> {
        let Hunt { invite, target, news_from } = self.hunt.as_ref()?;
        let (invite, from) = invite.as_ref()?;
        let tag = if *target == 0 { "" } else { "p" };
        let news =
            (target >= news_from).then(|| (*from, response(invite, *from, 181, tag, "", "")));
        Some(news.into_iter().chain(self.hunted()).collect())
    }

    /// Processes a message that starts a hunt or moves it to the next target.
    pub(super) fn on_hunt(&mut self, from: SocketAddr, message: &Message<'_>) -> Option<Sends> {
        let hunt = self.hunt.as_mut()?;
        if message.method() == Some(Method::Invite) && hunt.invite.is_none() {
            hunt.invite = Some((message.as_bytes().to_vec(), from));
            return self.ask();
        }
        let is_failure = message.status().is_some_and(|status| status >= 300);
        if !is_failure || hunt.target + 1 == self.targets.len() {
            return None;
        }
        let (_, invite) = self.hunted()?;
        let mut ack = Vec::new();
        Message::parse(&invite).ok()?.write_ack(message, &mut ack);
        self.hunt.as_mut()?.target += 1;
        Some(std::iter::once((from, ack)).chain(self.ask()?).collect())
    }

    /// Returns a CANCEL for the target.
    pub(super) fn cancel(&self) -> Option<(SocketAddr, Vec<u8>)> {
        let (place, invite) = self.hunted()?;
        let mut cancel = Vec::new();
        Message::parse(&invite).ok()?.write_cancel(b"", &mut cancel);
        Some((place, cancel))
    }
}
