//! The data of a call that its messages are made of.

use super::message;
use super::value::{Value, Variable};
use super::world::{Peer, World};
use std::net::SocketAddr;

/// The data of a call.
#[derive(Clone, Debug)]
pub(super) struct Dialog {
    /// The number of the call, from 1.
    pub(super) number: u64,
    pub(super) id: Vec<u8>,
    pub(super) user: Option<usize>,
    pub(super) peer: Peer,
    /// The line of the call in each file of fields.
    pub(super) lines: Vec<usize>,
    variables: Vec<Value>,
    /// The last received message.
    pub(super) last: Vec<u8>,
    pub(super) peer_tag: Option<Vec<u8>>,
    /// The value of Route, and the URI of the peer's Contact.
    pub(super) routes: Vec<u8>,
    pub(super) next_url: Vec<u8>,
    /// The challenge, and true for one of a proxy; with the number of its uses.
    pub(super) challenge: Option<(Vec<u8>, bool)>,
    pub(super) nonce_count: u32,
    pub(super) cseq: u32,
    /// The peer's addresses for audio and video.
    pub(super) audio: Option<SocketAddr>,
    pub(super) video: Option<SocketAddr>,
    /// The number of messages that were sent at each step.
    pub(super) visits: Vec<u32>,
}

impl Dialog {
    /// Returns the data of a new call.
    pub(super) fn new(
        number: u64,
        id: Vec<u8>,
        user: Option<usize>,
        peer: Peer,
        world: &mut World,
    ) -> Self {
        let World { files, rng, scopes, script, settings, .. } = world;
        Self {
            number,
            id,
            user,
            peer,
            lines: files.iter_mut().map(|file| file.take(user, rng)).collect(),
            variables: vec![Value::Unset; scopes.len()],
            last: Vec::new(),
            peer_tag: None,
            routes: Vec::new(),
            next_url: Vec::new(),
            challenge: None,
            nonce_count: 0,
            cseq: settings.base_cseq,
            audio: None,
            video: None,
            visits: vec![0; script.steps.len()],
        }
    }

    /// Returns the value of a variable.
    pub(super) fn get(&self, variable: Variable, world: &mut World) -> Value {
        match world.shared(self.user, variable) {
            Some(value) => value.clone(),
            None => self.variables.get(variable.0).cloned().unwrap_or_default(),
        }
    }

    /// Assigns a value to a variable.
    pub(super) fn set(&mut self, variable: Variable, value: Value, world: &mut World) {
        let own = self.variables.get_mut(variable.0);
        if let Some(place) = world.shared(self.user, variable).or(own) {
            *place = value;
        }
    }

    /// Stores the route set of a message, and the URI of its Contact.
    pub(super) fn store_routes(&mut self, received: &[u8]) {
        let mut routes: Vec<&[u8]> = message::values(received, "Record-Route").collect();
        if message::status(received).is_some() {
            routes =
                routes.iter().rev().flat_map(|value| elements(value).into_iter().rev()).collect();
        }
        self.routes = routes.join(&b", "[..]);
        if let Some(contact) = message::value(received, "Contact") {
            self.next_url = message::address(contact).to_vec();
        }
    }

    /// Stores the challenge of a response.
    pub(super) fn store_challenge(&mut self, received: &[u8]) {
        let is_proxy = message::status(received) == Some(407);
        let name = if is_proxy { "Proxy-Authenticate" } else { "WWW-Authenticate" };
        let known = message::values(received, name).find(|value| {
            sip::digest::Challenge::parse(value).is_ok_and(|challenge| challenge.is_some())
        });
        self.challenge = known.map(|value| (value.to_vec(), is_proxy));
        self.nonce_count = 0;
    }

    /// Stores the tag of the peer, and its addresses for media.
    pub(super) fn store_peer(&mut self, received: &[u8], ignores_sdp: bool) {
        let name = if message::status(received).is_some() { "To" } else { "From" };
        let tag =
            message::value(received, name).and_then(|value| message::parameter(value, b"tag"));
        if let Some(tag) = tag {
            self.peer_tag = Some(tag.to_vec());
        }
        let body = message::split(received).1;
        if !ignores_sdp && !body.is_empty() {
            self.audio = message::media(body, "audio").or(self.audio);
            self.video = message::media(body, "video").or(self.video);
        }
    }
}

/// Returns the elements of a list of addresses.
fn elements(value: &[u8]) -> Vec<&[u8]> {
    let (mut start, mut is_inside) = (0, false);
    let mut elements = Vec::new();
    for (at, &octet) in value.iter().enumerate() {
        match octet {
            b'<' => is_inside = true,
            b'>' => is_inside = false,
            b',' if !is_inside => {
                elements.push(value[start..at].trim_ascii());
                start = at + 1;
            }
            _ => {}
        }
    }
    elements.push(value[start..].trim_ascii());
    elements
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::rig::world;

    #[test]
    fn the_route_set_of_a_response_is_reversed() {
        let mut world = world("<recv request=\"A\"/>");
        let peer = Peer { address: world.settings.remote, connection: None };
        let mut dialog = Dialog::new(1, Vec::new(), None, peer, &mut world);
        let fields = "Record-Route: <sip:1;lr>, <sip:2,x>\r\nRecord-Route: <sip:3>\r\nm: <sip:c@d>;q=1\r\n\r\n";
        dialog.store_routes(format!("SIP/2.0 200 OK\r\n{fields}").as_bytes());
        assert_eq!(dialog.routes, b"<sip:3>, <sip:2,x>, <sip:1;lr>");
        assert_eq!(dialog.next_url, b"sip:c@d");
        dialog.store_routes(format!("INVITE sip:x SIP/2.0\r\n{fields}").as_bytes());
        assert_eq!(dialog.routes, b"<sip:1;lr>, <sip:2,x>, <sip:3>");
    }
}
