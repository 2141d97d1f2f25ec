//! The requests of the operations.

use super::key::Key;
use super::settings::Settings;
use sip::dialog::Dialog;
use sip::header::{CSeq, HeaderName, NameAddr};
use sip::message::Writer;
use sip::{Encode, Message, Method};
use std::net::SocketAddr;

/// The addresses of a socket or connection in messages.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// The sent-by of Via, `host:port`.
    pub(crate) sent_by: Vec<u8>,
    /// The `host:port` and parameters of Contact.
    pub(crate) contact: Vec<u8>,
}

/// Returns the place of `link`. Links that were opened later have the place of the first.
pub(crate) fn place_of(places: &[Place], link: u32) -> &Place {
    places.get(link as usize).unwrap_or(&places[0])
}

/// The From tag of the requests of an operation, the same in all of them.
pub(crate) struct Tag(pub(crate) Key);

impl Encode for Tag {
    fn encode(&self, out: &mut Vec<u8>) {
        super::key::hex(out, self.0.generation, 8);
        super::key::hex(out, self.0.slot, 6);
    }
}

/// A key with the salt of the load, as it is written in messages.
pub(crate) struct Token {
    pub(crate) key: Key,
    pub(crate) salt: u32,
}

impl Encode for Token {
    fn encode(&self, out: &mut Vec<u8>) {
        self.key.write(self.salt, out);
    }
}

/// Returns the Contact of `user` at `place`.
pub(crate) fn contact<'a>(user: impl Encode + 'a, place: &'a Place) -> impl Encode + 'a {
    ("<sip:", user, "@", &place.contact, ">")
}

/// The sender of the requests of one operation.
#[derive(Clone, Copy)]
pub(crate) struct Sender<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) place: &'a Place,
    pub(crate) key: Key,
}

impl<'a> Sender<'a> {
    /// Returns the Via. Its branch identifies the operation of the response.
    pub(crate) fn via(self) -> impl Encode + 'a {
        let Self { settings, place, key } = self;
        let transport = settings.transport.via_name();
        let branch = Token { key, salt: settings.salt };
        ("SIP/2.0/", transport, " ", &place.sent_by, ";rport;branch=z9hG4bK", branch)
    }

    /// Returns the Call-ID of the operation, which identifies it to the callee.
    pub(crate) fn call_id(self) -> impl Encode + 'a {
        let key = Key { attempt: 0, ..self.key };
        (Token { key, salt: self.settings.salt }, "@", &self.place.sent_by)
    }

    /// Returns the common header fields of the requests of `user` outside of dialogs.
    pub(crate) fn outside(
        self,
        uri: impl Encode,
        user: &str,
        to: impl Encode,
        call_id: impl Encode,
    ) -> Dialog {
        let from = ("<sip:", user, "@", self.settings.domain.as_str(), ">");
        Dialog::new(call_id, from, Tag(self.key), to, uri)
    }

    /// Appends the ACK of a 2xx within its `dialog` (RFC 3261 section 13.2.2.4).
    pub(crate) fn write_ack(self, dialog: &Dialog, authorization: &[u8], out: &mut Vec<u8>) {
        let key = Key { attempt: self.key.attempt.wrapping_add(0x80), ..self.key };
        let via = Self { key, ..self }.via();
        let ack = dialog.request(Method::Ack, dialog.local_cseq(), via, out);
        ack.lines(authorization).field(HeaderName::UserAgent, USER_AGENT).end();
    }

    /// Appends the ACK of a final response other than 2xx, as part of the transaction (RFC 3261
    /// section 17.1.1.3). It is made from the response alone, so a late or retransmitted response
    /// is acknowledged too. Returns `None`, with an undefined content of `out`, if the response
    /// lacks a required header field.
    pub(crate) fn write_ack_of_refusal(
        self,
        response: &Message<'_>,
        out: &mut Vec<u8>,
    ) -> Option<()> {
        let to = response.value(HeaderName::To)?;
        let callee = NameAddr::parse(HeaderName::To, to).ok()?;
        let number = CSeq::parse(response.value(HeaderName::CSeq)?).ok()?.number;
        Writer::request(out, Method::Ack, callee.uri_bytes)
            .field(HeaderName::Via, self.via())
            .field(HeaderName::MaxForwards, 70_u32)
            .field(HeaderName::From, response.value(HeaderName::From)?)
            .field(HeaderName::To, to)
            .field(HeaderName::CallId, response.value(HeaderName::CallId)?)
            .field(HeaderName::CSeq, CSeq { number, method: Method::Ack })
            .field(HeaderName::UserAgent, USER_AGENT)
            .end();
        Some(())
    }
}

/// The User-Agent of all requests.
pub(crate) const USER_AGENT: &str = "barebell-bench";

/// Returns the address of a URI, or `None` for a URI with a host name: it stands for the
/// destination of the INVITE.
pub(crate) fn address_of(uri: &[u8]) -> Option<SocketAddr> {
    let uri = sip::Uri::parse(uri).ok()?;
    let uri = uri.as_sip()?;
    Some(SocketAddr::new(uri.host.ip()?, uri.port.unwrap_or(sip::Transport::Udp.default_port())))
}

/// Returns a session description that offers or accepts one G.711 stream (RFC 8866). No media is
/// sent.
pub(crate) fn session_description(address: &str) -> Vec<u8> {
    let family = if address.contains(':') { "IP6" } else { "IP4" };
    format!(
        "v=0\r\no=- 1 1 IN {family} {address}\r\ns=-\r\nc=IN {family} {address}\r\nt=0 0\r\n\
         m=audio 40000 RTP/AVP 0\r\na=rtpmap:0 PCMU/8000\r\n"
    )
    .into_bytes()
}
