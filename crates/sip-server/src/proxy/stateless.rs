//! Forwarding without a transaction (RFC 3261 section 16.11): every request in stateless mode, and
//! always the ACK of a 2xx.

use super::ResponseOutcome;
use super::ending;
use super::forward::{NO_CHALLENGE, ResponseChanges};
use super::media::{body_of_response, on_answer};
use super::plan::{Plan, write_request};
use super::record_route::{address_in, token_for_place, token_for_sender, write_record_route_anew};
use super::stuck::Stuck;
use super::target::Target;
use super::token::Life;
use super::via_branch::{Answer, DialogFields, ViaBranch};
use crate::core::event::{Env, MOST_UNASKED};
use crate::core::flow::Flow;
use crate::core::keys::Keys;
use crate::core::next_hop::{NextHop, flows_to};
use crate::core::output::Event;
use crate::core::reach::Scope;
use crate::core::ticket::{Ticket, Waiting};
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use sip::header::{NameAddr, Via};
use sip::message::{RequestHead, Response};
use sip::{HeaderName, Location, Message, Method, StartLine, Transport, Uri};
use smallvec::SmallVec;

/// Sends `request` to `target`.
pub(crate) fn forward(
    request: &Message<'_>,
    head: &RequestHead<'_>,
    plan: &Plan,
    target: &Target,
    env: &mut Env<'_>,
) -> Result<(), Stuck> {
    let said = DialogFields::of(head);
    let Flow { local, remote, .. } = plan.arrived_on;
    let origin = origin(env.keys, &head.via, Some(remote), local, &said);
    let branch = ViaBranch::Stateless { origin, loop_hash: plan.loop_hash, local };
    let write = |flow: Flow, env: &mut Env<'_>| {
        write_request(plan, target, plan.max_breadth, &flow, branch, request, env)
    };
    match &target.next_hop {
        NextHop::Flow(flow) => {
            if env.settings.leads_here(flow) {
                env.counters.unreachable.add();
                return Err(Stuck::Unreachable);
            }
            write(*flow, env)?;
        }
        NextHop::Address { transport, remote, .. } => {
            let transport = transport.unwrap_or(Transport::Udp);
            let place = Location { transport, remote: *remote, local: None };
            if !env.may_send(&plan.arrived_on, target.origin, &place) {
                return Err(Stuck::Unreachable);
            }
            let (length, arrived_at) = (request.as_bytes().len(), plan.arrived_on.local);
            let flows = target.next_hop.flows_to(&place, length, arrived_at, env);
            let &flow = flows.first().ok_or(Stuck::Unreachable)?;
            let range = write(flow, env)?;
            // The request contains the contact URI, which may be long.
            if !env.is_asked(&flow) && range.len() > MOST_UNASKED * plan.received {
                env.counters.unasked.add();
                env.out.transmits.pop_if(|transmit| transmit.range == range);
                return Err(Stuck::Unreachable);
            }
        }
        NextHop::Name(destination) => {
            // Written for the flow on which the request arrived. [`send_located`] inserts the
            // correct local address when the destination is known.
            let range = write(plan.arrived_on, env)?;
            let bytes = env.out.bytes[range.clone()].to_vec();
            env.out.transmits.pop_if(|transmit| transmit.range == range);
            env.out.bytes.truncate(range.start);
            env.counters.dns_queries.add();
            let origin = target.origin;
            let leaves_transport = target.next_hop.leaves_transport();
            let (arrived_on, payers) = (plan.arrived_on, plan.payers);
            let kind = Waiting::Message { bytes, arrived_on, origin, leaves_transport, payers };
            let (destination, ticket) = (destination.clone(), Ticket(kind));
            env.out.events.push(Event::Locate { destination, ticket, payers });
        }
    }
    Ok(())
}

/// Sends a message that waited for the DNS to the first usable place in `locations`.
pub(crate) fn send_located(
    bytes: &[u8],
    arrived_on: &Flow,
    origin: Scope,
    leaves_transport: bool,
    locations: &[Location],
    env: &mut Env<'_>,
) {
    let Ok(message) = Message::parse(bytes) else { return };
    let near = [arrived_on.local];
    let mut open = locations.iter().filter(|place| env.may_send(arrived_on, origin, place));
    let flow = open.find_map(|place| {
        flows_to(place, leaves_transport, bytes.len(), &near, env).first().copied()
    });
    let Some(flow) = flow else {
        if locations.is_empty() {
            env.counters.undeliverable.add();
        }
        return refuse_located(&message, arrived_on, env);
    };
    let Some(via) = message.first(HeaderName::Via) else { return };
    let end = via.offset + via.line.len();
    let branch = Via::parse(via.value).ok().and_then(|via| ViaBranch::parse(via.branch()?));
    let Some(branch) = branch else { return };
    let token = token_for_place(&message, &flow, env);
    let uri = message.request_uri().unwrap_or_default();
    env.out.send(flow, |out| {
        out.extend_from_slice(&message.as_bytes()[..via.offset]);
        super::forward::write_via(out, &flow, uri, &branch, env.settings);
        let rest = &message.as_bytes()[end..];
        match &token {
            // The token stands in the header fields that follow.
            Some(token) => {
                let (fields, body) = rest.split_at(message.fields_end().saturating_sub(end));
                token.write(fields, out);
                out.extend_from_slice(body);
            }
            None => out.extend_from_slice(rest),
        }
    });
}

/// Sends `forwarded` as a datagram after it could not be delivered on `refused` and no transaction
/// knows it. Only for a request that went by TCP because of its length (RFC 3261 section 18.1.1),
/// that is, if its next hop leaves the choice of the transport.
pub(crate) fn send_as_datagram(forwarded: &Message<'_>, refused: &Flow, env: &mut Env<'_>) {
    let near = [refused.local];
    let local = env.settings.local_for(Transport::Udp, refused.remote.ip(), &near);
    let is_own = env.settings.is_own_end(Transport::Udp, refused.remote);
    let left = refused.transport == Transport::Tcp && refused.connection.is_none();
    let Some(local) = local.filter(|_| left && !is_own && leaves_transport(forwarded)) else {
        return;
    };
    let flow = Flow { transport: Transport::Udp, local, ..*refused };
    let fields = forwarded.fields_of(&[HeaderName::Via]);
    let ends: SmallVec<[(usize, usize); 2]> =
        fields.take(2).map(|via| (via.offset, via.offset + via.line.len())).collect();
    let [(via, head_end), (received, _)] = ends[..] else { return };
    let branch = forwarded.top_via().ok().and_then(|via| ViaBranch::parse(via.branch()?));
    let Some(branch) = branch else { return };
    let (bytes, uri) = (forwarded.as_bytes(), forwarded.request_uri().unwrap_or_default());
    // Everything above the Via of the sender may have been added by this server.
    if !env.is_asked(&flow) && bytes.len() > MOST_UNASKED * (bytes.len() - received) {
        return env.counters.unasked.add();
    }
    env.counters.forwarded.add();
    env.out.send(flow, |out| {
        out.extend_from_slice(&bytes[..via]);
        super::forward::write_via(out, &flow, uri, &branch, env.settings);
        let called = |flow| env.settings.called_by(flow, || address_in(uri));
        let ends = [(refused, called(refused)), (&flow, called(&flow))];
        write_record_route_anew(&bytes[head_end..received], ends, out);
        out.extend_from_slice(&bytes[received..]);
    });
}

/// True if the next hop of `forwarded` does not name a transport.
fn leaves_transport(forwarded: &Message<'_>) -> bool {
    let route = forwarded.elements(HeaderName::Route).next();
    let route = route.map(|route| NameAddr::parse(HeaderName::Route, route));
    let next = match (route, forwarded.start_line()) {
        (Some(Ok(route)), _) => route.uri(),
        (None, StartLine::Request { uri, .. }) => Uri::parse(uri),
        _ => return false,
    };
    matches!(next, Ok(Uri::Sip(uri)) if uri.transport().is_none())
}

/// Rejects a request without a usable destination. The request has the Via of this server already.
fn refuse_located(forwarded: &Message<'_>, arrived_on: &Flow, env: &mut Env<'_>) {
    let status = Stuck::Unreachable.status();
    let tag = env.to_tag_of_forwarded(forwarded);
    let mut answer = Vec::new();
    let response = Response {
        request: forwarded,
        source: arrived_on.local,
        status: status.code(),
        reason: status.reason_phrase(),
        to_tag: Some(&tag),
    };
    response.write(&mut answer, |_| {});
    let (Ok(answer), Some(via)) =
        (Message::parse(&answer), forwarded.elements(HeaderName::Via).nth(1))
    else {
        return;
    };
    let upstream = match (Via::parse(via), arrived_on.transport.is_stream()) {
        (Ok(via), false) => via.response_address(arrived_on.remote),
        _ => arrived_on.remote,
    };
    if forwarded.method() != Some(Method::Ack) {
        let flow = Flow { remote: upstream, ..*arrived_on };
        env.out.send(flow, |bytes| ResponseChanges::default().write(&answer, bytes));
    }
}

/// Forwards the response `answer` to the source of its request, which arrived at `local`, if it
/// answers a request that was forwarded here. Otherwise returns [`ResponseOutcome::Unmatched`].
pub(crate) fn pass_back(
    answer: &Answer<'_, '_>,
    expected: u64,
    local: SocketAddr,
    arrived_on: &Flow,
    env: &mut Env<'_>,
) -> ResponseOutcome {
    let response = answer.message;
    let Some(flow) = way_back(answer, expected, local, env) else {
        return ResponseOutcome::Unmatched;
    };
    let status = response.status().unwrap_or_default();
    let on_opened = arrived_on.connection.is_some() && is_from_contact(response, arrived_on);
    let opened = on_opened.then_some(*arrived_on);
    let token = token_for_sender(answer, status, Life::Early, opened, env);
    let distrusts = env.settings.distrusts(arrived_on);
    let names = [HeaderName::WwwAuthenticate, HeaderName::ProxyAuthenticate];
    let is_ours = |value| distrusts.is_some_and(|settings| settings.has_own_realm(value));
    let challenges = || response.fields_of(&names).map(|field| is_ours(field.value));
    let none_is_left =
        matches!(status, 401 | 407) && challenges().count() > 0 && challenges().all(|ours| ours);
    if env.relay.is_some() {
        ending::on_stateless(response, status, [arrived_on.remote, flow.remote], env);
    }
    let body = body_of_response(answer, arrived_on, &flow, env);
    let changes = ResponseChanges {
        status: none_is_left.then_some(NO_CHALLENGE),
        record_route: token.record_route(),
        distrusts,
        body: body.as_deref(),
        ..ResponseChanges::default()
    };
    let range = env.out.send(flow, |bytes| changes.write(response, bytes)).unwrap_or_default();
    if (200..300).contains(&status) {
        // Without the request there are no BYEs to end the call with.
        on_answer((&[], None), answer, &env.out.bytes[range], [flow, *arrived_on], env);
    }
    if (200..300).contains(&status) {
        ResponseOutcome::Success { moved: None }
    } else {
        ResponseOutcome::Accepted
    }
}

/// True if `response` came from the address in its Contact. The destination of the request is not
/// recorded, and a forged response must not redirect the requests of a dialog.
fn is_from_contact(response: &Message<'_>, arrived_on: &Flow) -> bool {
    let contact = response.elements(HeaderName::Contact).next();
    let contact = contact.and_then(|contact| NameAddr::parse(HeaderName::Contact, contact).ok());
    let Some(Ok(Uri::Sip(uri))) = contact.map(|contact| contact.uri()) else { return false };
    let port = uri.port.unwrap_or(arrived_on.transport.default_port());
    uri.host.ip().is_some_and(|ip| SocketAddr::new(ip.to_canonical(), port) == arrived_on.remote)
}

fn way_back(
    answer: &Answer<'_, '_>,
    expected: u64,
    local: SocketAddr,
    env: &Env<'_>,
) -> Option<Flow> {
    let next = Via::parse(answer.message.elements(HeaderName::Via).nth(1)?).ok()?;
    if origin(env.keys, &next, None, local, &answer.said) != expected {
        return None;
    }
    let (transport, remote) = upstream(&next)?;
    Some(Flow { transport, local, remote, connection: None })
}

/// The destination of a response with this topmost Via (RFC 3261 section 18.2.2, RFC 3581).
fn upstream(via: &Via<'_>) -> Option<(Transport, SocketAddr)> {
    let transport = via.known_transport()?;
    let address = via.received().or(via.host.ip())?;
    let port = via.rport().flatten().unwrap_or(via.port_or_default());
    Some((transport, SocketAddr::new(address, port)))
}

/// Hash of the Via of the previous element with `source` written into it, of the local address, and
/// of the fields that a request, its ACK, its CANCEL and its responses share. The To tag is not
/// among them, because it differs.
fn origin(
    keys: &Keys,
    via: &Via<'_>,
    source: Option<SocketAddr>,
    local: SocketAddr,
    said: &DialogFields<'_>,
) -> u64 {
    let (address, port) = match source {
        Some(source) => {
            let has_port = via.rport().is_some() || via.requires_rport(source);
            let rport = has_port.then(|| source.port());
            (Some(source.ip()), rport)
        }
        None => (via.received().or(via.host.ip()), via.rport().flatten()),
    };
    // Fields of fixed length are joined, to be hashed in one piece.
    let octets = |address| match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    };
    let mut place = [0; 38];
    place[..16].copy_from_slice(&address.map_or([0; 16], octets));
    place[16..18].copy_from_slice(&via.port_or_default().to_be_bytes());
    place[18..20].copy_from_slice(&port.unwrap_or_default().to_be_bytes());
    place[20..36].copy_from_slice(&octets(local.ip()));
    place[36..].copy_from_slice(&local.port().to_be_bytes());
    keys.branch.proof(&[
        via.transport,
        &via.host.canonical(),
        via.branch().unwrap_or_default(),
        &place,
        said.call_id,
        said.from_tag,
        &said.cseq.number.to_be_bytes(),
    ])
}
