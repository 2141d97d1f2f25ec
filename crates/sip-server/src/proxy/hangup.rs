//! The BYEs with which this server ends a relayed call.
//!
//! Each is the request that one end would send to the other. It passes the proxy like a request of
//! that end, so that it takes the route of the dialog. That end also gets the response, which it
//! ignores.

use crate::core::event::Env;
use crate::core::flow::Flow;
use crate::core::lines::write_address;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::SocketAddr;
use sip::header::{CSeq, NameAddr};
use sip::{HeaderName, Message, write_decimal};

/// The distance of the CSeq of a BYE from that of the INVITE: the ends have sent fewer requests.
const AHEAD: u32 = 1_000_000;

/// The BYEs of both ends of a dialog, without their last lines.
#[derive(Debug)]
pub(crate) struct Hangup {
    byes: [(Flow, Vec<u8>); 2],
}

impl Hangup {
    /// Returns the BYEs of the dialog that `response` confirms, as it was sent on `flows[0]` to
    /// the caller. `invite` is its request as it was sent on `flows[1]` to the callee.
    pub(crate) fn of(
        invite: &Message<'_>,
        response: &Message<'_>,
        flows: [Flow; 2],
        env: &Env<'_>,
    ) -> Option<Arc<Self>> {
        let cseq = CSeq::parse(invite.value(HeaderName::CSeq)?).ok()?.number;
        let [from, to] = [HeaderName::From, HeaderName::To].map(|name| response.value(name));
        let (from, to, call_id) = (from?, to?, response.value(HeaderName::CallId)?);
        let tag = env.to_tag_of_forwarded(invite);
        let bye = |flow: &Flow, target: &Message<'_>, ends: [&[u8]; 2], routes: Vec<&[u8]>| {
            let mut out = b"BYE ".to_vec();
            let contact = target.elements(HeaderName::Contact).next()?;
            let contact = NameAddr::parse(HeaderName::Contact, contact).ok()?;
            out.extend_from_slice(contact.uri_bytes);
            out.extend_from_slice(b" SIP/2.0\r\nVia: SIP/2.0/");
            out.extend_from_slice(flow.transport.via_name().as_bytes());
            out.push(b' ');
            let remote = SocketAddr::new(flow.remote.ip().to_canonical(), flow.remote.port());
            write_address(&mut out, remote);
            out.extend_from_slice(b";rport;branch=z9hG4bK-bye-");
            out.extend_from_slice(&tag);
            for (name, value) in [
                (&b"\r\nMax-Forwards: "[..], &b"70"[..]),
                (b"\r\nFrom: ", ends[0]),
                (b"\r\nTo: ", ends[1]),
                (b"\r\nCall-ID: ", call_id),
                (b"\r\nCSeq: ", b""),
            ] {
                out.extend_from_slice(name);
                out.extend_from_slice(value);
            }
            write_decimal(&mut out, cseq.saturating_add(AHEAD).min(i32::MAX as u32).into());
            out.extend_from_slice(b" BYE\r\n");
            for route in routes {
                out.extend_from_slice(b"Route: ");
                out.extend_from_slice(route);
                out.extend_from_slice(b"\r\n");
            }
            // It is kept as long as the call.
            out.shrink_to_fit();
            Some((*flow, out))
        };
        let mut to_callee: Vec<&[u8]> = response.elements(HeaderName::RecordRoute).collect();
        // The route set of a caller is in the reverse order (RFC 3261 section 12.1.2).
        to_callee.reverse();
        let to_caller = invite.elements(HeaderName::RecordRoute).collect();
        let byes = [
            bye(&flows[0], response, [from, to], to_callee)?,
            bye(&flows[1], invite, [to, from], to_caller)?,
        ];
        Some(Arc::new(Self { byes }))
    }

    /// The BYEs with the Reason `reason`, and the flows of their alleged senders.
    pub(crate) fn messages(&self, reason: &[u8]) -> impl Iterator<Item = (Flow, Vec<u8>)> {
        self.byes.iter().map(move |(flow, bye)| {
            let bye = [bye, &b"Reason: "[..], reason, b"\r\nContent-Length: 0\r\n\r\n"].concat();
            (*flow, bye)
        })
    }
}
