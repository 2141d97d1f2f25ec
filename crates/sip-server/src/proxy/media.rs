//! Session descriptions of forwarded messages: those of relayed calls get the ports of the relay.
//! This leaves RFC 3261 section 16.6 step 1, as far as [`Relaying`] asks for it.

use super::hangup::Hangup;
use super::media_refusal::{count_refusal, forbids, refusal};
use super::target::Target;
use super::via_branch::{Answer, DialogFields, ViaBranch};
use crate::core::call_record::{INTERNAL, OWNER, TRUNK};
use crate::core::config::{MediaKeys, Relaying};
use crate::core::event::Env;
use crate::core::flow::Flow;
use crate::core::reach::Scope;
use crate::core::source::Source;
use crate::core::trunks::TrunkMedia;
use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use relay::is_from_browser;
use relay::sdp::SessionDescription;
use relay::sdp::negotiation::Profile;
use relay::{CallReport, End, Keying, Passage, RelayError, Role, Side};
use sip::header::{NameAddr, RAck, tokens};
use sip::uri::Host;
use sip::{Endpoint, HeaderName, Message, Method, Status, Transport, Uri};
use smallvec::SmallVec;

/// The part of the plan of a request that its media depend on.
pub(super) struct MediaPlan<'p> {
    /// The URI of the user that the called number belongs to.
    pub(super) named: Option<&'p [u8]>,
    /// True if the sender has authenticated.
    pub(super) is_proven: bool,
    /// The media of the trunk of the call, if they have rules of their own.
    pub(super) trunk: Option<&'p TrunkMedia>,
    /// True if the call goes to that trunk, false if it comes from it.
    pub(super) is_to_trunk: bool,
}

/// Returns the body of `request` as it is sent to `target`, if it changes. It came on the first
/// flow and is sent on the second one.
///
/// # Errors
/// The status of the response if the media of the call cannot be relayed.
pub(super) fn body_of_request(
    (request, plan): (&Message<'_>, &MediaPlan<'_>),
    [from, to]: [&Flow; 2],
    target: &Target,
    branch: &ViaBranch,
    env: &Env<'_>,
) -> Result<Option<Vec<u8>>, Status> {
    let (Some(relay), Some(method)) = (env.relay, request.method()) else { return Ok(None) };
    if !matches!(method, Method::Invite | Method::Ack | Method::Prack | Method::Update) {
        return Ok(None);
    }
    let Some(said) = DialogFields::read(request) else { return Ok(None) };
    let description = request.session_description();
    let is_first = method == Method::Invite && said.to_tag.is_empty();
    // The media of a call through the B2BUA are relayed on its second leg.
    if is_first && is_b2bua(to) {
        return Ok(None);
    }
    let [from, to] = [&seen(from), &seen(to)];
    let of_trunk = plan.trunk.filter(|_| is_first && cfg!(feature = "office"));
    let keying_of_trunk = of_trunk.and_then(|trunk| trunk.keying);
    let keying = match keying_of_trunk.filter(|_| plan.is_to_trunk) {
        Some(keying) => keying,
        None => keying(target, to, description, env),
    };
    let begins =
        is_first && (of_trunk.is_some() || is_wanted(description, [from, to], target, keying, env));
    if description.is_none() && !begins {
        return Ok(None);
    }
    let mut id = Vec::new();
    branch.write(&mut id);
    let exchange = said.cseq.number;
    let roles: &[Role] = match (method, rack_of(request)) {
        (Method::Ack, _) => &[Role::Acknowledgement { exchange }],
        // It answers an offer in the response that it acknowledges, or makes a new one.
        (Method::Prack, Some(asked)) => {
            &[Role::Acknowledgement { exchange: asked }, Role::Offer { exchange }]
        }
        _ => &[Role::Offer { exchange }],
    };
    let permits = [permits(from, env), permits(to, env)];
    let parties = parties_of(request, from);
    // Only the host that gets the request can name its branch in a response.
    let is_proven = [plan.is_proven, target.is_registered || env.settings.is_trusted(to)];
    let label = (is_first && from.is_internal()).then(|| label_of(request));
    let mut ends = [
        end(from, required_of(from, env), is_proven[0], &permits[0], env),
        end(to, keying, is_proven[1], &permits[1], env),
    ];
    ends[0].label = label.as_deref();
    let codecs = of_trunk.map_or(&[][..], |trunk| &trunk.codecs);
    let names: SmallVec<[&str; 8]> = codecs.iter().map(|codec| codec.name()).collect();
    if let Some(trunk) = of_trunk {
        restrict(&mut ends, trunk, &names, plan.is_to_trunk);
    }
    let way = label_of_callee(request, plan.named, target, from).filter(|_| is_first);
    ends[1].label = way.as_deref();
    // The B2BUA passes digits. It takes those of its callee for the caller.
    ends[0].takes_digits = match from.is_internal() {
        true => is_first && target.takes_digits,
        false => is_b2bua(to) && takes_digits(request),
    };
    let passage = |role| Passage {
        call_id: said.call_id,
        branch: is_first.then_some(&id[..]),
        from_tag: said.from_tag,
        to_tag: said.to_tag,
        from: ends[0],
        to: ends[1],
        role,
        side: Side::Caller,
        begins,
        parties: parties.each_ref().map(|party| &**party),
        owner: env.keys.media.hash_source(Source::of(from.remote.ip())),
        now: env.now.since_epoch(),
    };
    let Some(description) = description else {
        let begun = relay.begin(&passage(Role::Offer { exchange }));
        return begun.map(|()| None).map_err(|error| refusal(&error, env));
    };
    let mut described = Err(RelayError::NoOffer);
    for role in roles {
        described = relay.describe(&passage(*role), description);
        if described != Err(RelayError::NoOffer) {
            break;
        }
    }
    match described {
        Ok(described) => Ok(described.map(|text| spliced(request, description, text))),
        // The other end judges what this relay cannot read.
        Err(RelayError::Description(_) | RelayError::NoOffer) => Ok(None),
        Err(error) => Err(refusal(&error, env)),
    }
}

/// Returns the body of the response `answer`, which came on the flow `from`, as it is sent on the
/// flow `to`, if it changes.
pub(super) fn body_of_response(
    answer: &Answer<'_, '_>,
    from: &Flow,
    to: &Flow,
    env: &Env<'_>,
) -> Option<Vec<u8>> {
    let Answer { message: response, said } = answer;
    let [from, to] = [&seen(from), &seen(to)];
    let (relay, status) = (env.relay?, response.status()?);
    let now = env.now.since_epoch();
    // Both ends of the dialog live. A refresh of the session is an UPDATE without a description.
    if (200..300).contains(&status) && !matches!(said.cseq.method, Method::Invite | Method::Bye) {
        relay.note_answer(said.call_id, [said.from_tag, said.to_tag], now);
    }
    if !matches!(said.cseq.method, Method::Invite | Method::Prack | Method::Update) {
        return None;
    }
    let via = response.top_via().ok()?;
    let branch = via.branch()?;
    if said.cseq.method == Method::Invite && (101..200).contains(&status) {
        relay.progress(said.call_id, branch, (180..190).contains(&status), now);
    }
    let (exchange, description) = (said.cseq.number, response.session_description());
    #[cfg(feature = "office")]
    if description.is_none() && said.cseq.method == Method::Invite && (200..300).contains(&status) {
        let _ = describe(answer, (branch, Role::Confirmation { exchange }), &[], [from, to], env);
        return None;
    }
    description.and_then(|description| {
        let role = Role::Response { exchange, is_final: status >= 200 };
        let text = describe(answer, (branch, role), description, [from, to], env)?;
        Some(spliced(response, description, text))
    })
}

/// Returns the `description` of `answer`, in this place of the exchange, as the other end gets it,
/// if it changes.
fn describe(
    answer: &Answer<'_, '_>,
    (branch, role): (&[u8], Role),
    description: &[u8],
    [from, to]: [&Flow; 2],
    env: &Env<'_>,
) -> Option<String> {
    let Answer { message: response, said } = answer;
    let relay = env.relay?;
    let permits = [permits(from, env), permits(to, env)];
    let mut callee = end(from, Keying::Passed, false, &permits[0], env);
    callee.takes_digits = is_b2bua(to) && takes_digits(response);
    let passage = Passage {
        call_id: said.call_id,
        branch: (said.cseq.method == Method::Invite).then_some(branch),
        from_tag: said.to_tag,
        to_tag: said.from_tag,
        from: callee,
        // An answer has the keying of the call. An offer may begin it.
        to: end(to, offered_to(to, description, env), false, &permits[1], env),
        role,
        side: Side::Callee,
        begins: false,
        parties: [&[]; 2],
        owner: 0,
        now: env.now.since_epoch(),
    };
    relay.describe(&passage, description).unwrap_or_else(|error| {
        count_refusal(&error, env);
        // A response cannot be refused. The other end gets neither these keys nor this address.
        match forbids(&error) {
            true => relay::reject(description, passage.to.advertised),
            false => None,
        }
    })
}

/// True if `flow` leads to the B2BUA.
fn is_b2bua(flow: &Flow) -> bool {
    flow.endpoint() == Some(Endpoint::B2bua)
}

/// The flow of an end as the relay sees it: the media server has its media on this host, and not
/// at the address of the caller, which its flow has.
fn seen(flow: &Flow) -> Flow {
    match flow.endpoint() {
        Some(Endpoint::MediaServer) if cfg!(feature = "office") => {
            Flow { remote: flow.local, ..*flow }
        }
        _ => *flow,
    }
}

/// Confirms a relayed call by its 2xx `answer`, which was sent as `passed` on the flow `to` of the
/// caller. `invite` is its request as it was sent on the flow `from` of the callee, and `earlier`
/// the report about the branches that have ended before.
pub(super) fn on_answer(
    (invite, earlier): (&[u8], Option<&CallReport>),
    answer: &Answer<'_, '_>,
    passed: &[u8],
    [to, from]: [Flow; 2],
    env: &Env<'_>,
) {
    let Answer { message: response, said } = answer;
    let via = response.top_via().ok();
    let (Some(relay), Some(branch)) = (env.relay, via.as_ref().and_then(|via| via.branch())) else {
        return;
    };
    let now = env.now.since_epoch();
    if let Some(earlier) = earlier {
        relay.follow(said.call_id, branch, earlier);
    }
    let needs_byes = relay.confirm(said.call_id, branch, said.to_tag, now);
    if needs_byes
        && let (Ok(invite), Ok(passed)) = (Message::parse(invite), Message::parse(passed))
        && let Some(hangup) = Hangup::of(&invite, &passed, [to, from], env)
    {
        relay.attach(said.call_id, branch, hangup);
    }
}

/// The value without escapes of the parameter `name` in the Route of the pass, with which the
/// B2BUA has sent the INVITE `request`.
pub(super) fn param_of_pass<'m>(request: &Message<'m>, name: &str) -> Option<Cow<'m, [u8]>> {
    let route = request.elements(HeaderName::Route).next()?;
    match NameAddr::parse(HeaderName::Route, route).ok()?.uri() {
        Ok(Uri::Sip(uri)) => uri.params.value(name).map(sip::uri::unescape),
        _ => None,
    }
}

/// The label of the B2BUA, which has sent the INVITE `request`: the Route of its pass has the
/// Call-ID of the caller's leg, and the trunk of the call.
pub(super) fn label_of(request: &Message<'_>) -> String {
    let call_id = param_of_pass(request, "caller").unwrap_or_default();
    let mut label = [INTERNAL, &String::from_utf8_lossy(&call_id)].concat();
    if let Some(trunk) = param_of_pass(request, "trunk") {
        label.push(TRUNK);
        label.push_str(&String::from_utf8_lossy(&trunk));
    }
    label
}

/// The URIs of the caller and of the callee of the INVITE `request`, which came on the flow `from`.
/// The From of a call to a trunk is what the trunk expects: the caller stands in the Route of the
/// pass.
pub(super) fn parties_of<'m>(request: &Message<'m>, from: &Flow) -> [Cow<'m, [u8]>; 2] {
    let named = || param_of_pass(request, "user-of-caller").filter(|_| from.is_internal());
    let caller = named().unwrap_or_else(|| Cow::Borrowed(uri_of(request, HeaderName::From)));
    [caller, Cow::Borrowed(uri_of(request, HeaderName::To))]
}

/// Restricts the media of the first offer of a call on a trunk, between `ends`, by those of the
/// `trunk`. `names` are its codecs.
fn restrict<'a>(
    ends: &mut [End<'a>; 2],
    trunk: &'a TrunkMedia,
    names: &'a [&'a str],
    is_to_trunk: bool,
) {
    let [caller, callee] = ends;
    if !is_to_trunk && matches!(trunk.keying, Some(Keying::Required | Keying::Optional)) {
        if trunk.keying == Some(Keying::Required) {
            caller.keying = Keying::Required;
        }
        // The keys of the trunk end at the relay.
        if callee.keying == Keying::Passed {
            callee.keying = Keying::Clear;
        }
    }
    if names.is_empty() {
        return;
    }
    callee.codecs.except = names;
    if is_to_trunk {
        (callee.codecs.mask, callee.codecs.transcode) = (&ALL, &trunk.codecs);
    } else {
        callee.codecs.strip = &ALL;
    }
}

/// All codecs, in [`CodecRules`](relay::CodecRules).
const ALL: [&str; 1] = ["all"];

/// The label of the called end for the record: the way of the call by call services, and the user
/// or group that the called number belongs to. That is in the request URI of the B2BUA.
fn label_of_callee(
    request: &Message<'_>,
    named: Option<&[u8]>,
    target: &Target,
    from: &Flow,
) -> Option<String> {
    let way = target.retargeted.as_ref().map(|it| it.label());
    if !cfg!(feature = "office") {
        return way;
    }
    let of_b2bua = || request.request_uri().filter(|_| is_b2bua(from));
    let user = |uri: &[u8]| match Uri::parse(uri) {
        Ok(Uri::Sip(uri)) => {
            let name = sip::uri::unescape(uri.user?);
            Some(alloc::format!("{}@{}", String::from_utf8_lossy(&name), uri.host))
        }
        _ => None,
    };
    let owner = named.or_else(of_b2bua).and_then(user);
    let dialed = user(uri_of(request, HeaderName::To));
    match owner.filter(|owner| dialed.as_ref() != Some(owner)) {
        Some(owner) => Some([&way.unwrap_or_default(), OWNER, &owner].concat()),
        None => way,
    }
}

/// The URI in From or To. Empty if there is none.
pub(super) fn uri_of<'m>(message: &Message<'m>, name: HeaderName) -> &'m [u8] {
    let address = message.value(name).and_then(|value| NameAddr::parse(name, value).ok());
    address.map_or(&[], |address| address.uri_bytes)
}

/// The number of the request that a PRACK acknowledges (RFC 3262 section 7.2).
fn rack_of(request: &Message<'_>) -> Option<u32> {
    Some(RAck::parse(request.value(HeaderName::RAck)?).ok()?.cseq.number)
}

/// The keys in the first offer to `target` on the flow `to`, for this offer of the caller.
fn keying(target: &Target, to: &Flow, offer: Option<&[u8]>, env: &Env<'_>) -> Keying {
    let takes_browsers = env.relay.is_some_and(|relay| relay.takes_browsers());
    let by_setting = || match env.settings.config.media_keys {
        MediaKeys::Passed | MediaKeys::Converted
            if takes_browsers && offer.is_some_and(is_from_browser) =>
        {
            Keying::Clear
        }
        MediaKeys::Passed | MediaKeys::Converted => Keying::Passed,
        MediaKeys::Offered => Keying::Optional,
        MediaKeys::Required if is_secured(to) => Keying::Required,
        MediaKeys::Required => Keying::Optional,
    };
    target.keying.unwrap_or_else(|| match takes_browsers && is_browser(target, to) {
        true => Keying::Dtls,
        false => by_setting(),
    })
}

/// The keys in an offer of a callee to the caller on the flow `to`.
fn offered_to(to: &Flow, offer: &[u8], env: &Env<'_>) -> Keying {
    let takes_browsers = env.relay.is_some_and(|relay| relay.takes_browsers());
    match (is_web(to), takes_browsers && is_from_browser(offer)) {
        (false, true) => Keying::Clear,
        _ => Keying::Passed,
    }
}

/// True if a target is a browser. Its contact has a name that does not exist, since a page does not
/// know its address. Other phones with WebSocket name their own.
fn is_browser(target: &Target, to: &Flow) -> bool {
    let has_no_address = |name: &[u8]| {
        let end = name.len().checked_sub(INVALID.len()).and_then(|start| name.get(start..));
        end.is_some_and(|end| end.eq_ignore_ascii_case(INVALID))
    };
    match Uri::parse(target.request_uri()) {
        Ok(Uri::Sip(uri)) if is_web(to) => {
            matches!(uri.host, Host::Name(name) if has_no_address(name))
        }
        _ => false,
    }
}

const fn is_web(flow: &Flow) -> bool {
    matches!(flow.transport, Transport::Ws | Transport::Wss)
}

/// The top-level domain of names that do not exist (RFC 2606, RFC 7118 section 5).
const INVALID: &[u8] = b".invalid";

/// [`Keying::Required`] if the offers of the end at `from` must have keys.
fn required_of(from: &Flow, env: &Env<'_>) -> Keying {
    match env.settings.config.media_keys {
        MediaKeys::Required if is_secured(from) => Keying::Required,
        _ => Keying::Passed,
    }
}

const fn is_secured(flow: &Flow) -> bool {
    flow.transport.is_secure()
}

/// The keys for another offer to a callee that refused `request`: none if the caller has keys, and
/// keys if it has none, or if it is a browser, for which the callee was offered none. `None` if the
/// offer is not changed.
pub(super) fn other_keys(request: &Message<'_>, env: &Env<'_>) -> Option<Keying> {
    Some(further_keys(request, env)?[0])
}

/// The keys for the last offer to a callee that refused that of [`other_keys`], too: those of a
/// handshake alone, or those in the description if the caller has a handshake. `None` if there is
/// no further offer.
pub(super) fn last_keys(request: &Message<'_>, env: &Env<'_>) -> Option<Keying> {
    let [_, last] = further_keys(request, env)?;
    let takes_handshakes = env.relay.is_some_and(|relay| relay.takes_browsers());
    (last != Keying::Handshake || takes_handshakes).then_some(last)
}

/// The keys for two further offers to a callee that refused `request`.
fn further_keys(request: &Message<'_>, env: &Env<'_>) -> Option<[Keying; 2]> {
    let config = &env.settings.config;
    let relay = env.relay?;
    if config.media_keys != MediaKeys::Converted
        || config.relaying == Relaying::Off
        || !DialogFields::read(request)?.to_tag.is_empty()
    {
        return None;
    }
    let description = request.session_description()?;
    let session = SessionDescription::parse(description).ok()?;
    let medium = session.media.iter().find(|medium| medium.port != 0)?;
    let has_keys = medium.attributes("crypto").next().is_some();
    match Profile::of(medium.protocol)? {
        Profile::Dtls if !relay.takes_browsers() => None,
        Profile::Dtls if is_from_browser(description) => {
            Some([Keying::Required, Keying::Handshake])
        }
        Profile::Dtls => Some([Keying::Clear, Keying::Required]),
        Profile::Secure => Some([Keying::Clear, Keying::Handshake]),
        Profile::Plain if has_keys => Some([Keying::Clear, Keying::Handshake]),
        Profile::Plain => Some([Keying::Required, Keying::Handshake]),
    }
}

/// True if the offer of `request` has the profile of DTLS-SRTP, which older phones do not know.
pub(super) fn offers_handshake(request: &Message<'_>) -> bool {
    let description = request.session_description();
    let session = description.and_then(|description| SessionDescription::parse(description).ok());
    session.is_some_and(|session| {
        let mut media = session.media.iter().filter(|medium| medium.port != 0);
        media.next().is_some_and(|it| Profile::of(it.protocol) == Some(Profile::Dtls))
    })
}

/// True if the media of a new call are to be relayed.
fn is_wanted(
    description: Option<&[u8]>,
    [from, to]: [&Flow; 2],
    target: &Target,
    keying: Keying,
    env: &Env<'_>,
) -> bool {
    let ends_keys = match keying {
        Keying::Passed => false,
        // Two browsers may reach each other.
        Keying::Dtls => !description.is_some_and(is_from_browser),
        _ => true,
    };
    match env.settings.config.relaying {
        Relaying::Off => false,
        Relaying::Needed if ends_keys => true,
        Relaying::Needed if from.is_internal() => true,
        Relaying::All => true,
        Relaying::Needed => {
            let named = [description.and_then(host_in), contact_of(target)];
            is_needed([from, to], named, env)
        }
    }
}

/// True if one of the ends at these flows may not reach the other at the address that the other
/// names for itself.
fn is_needed(flows: [&Flow; 2], named: [Option<IpAddr>; 2], env: &Env<'_>) -> bool {
    let hosts = flows.map(|flow| flow.remote.ip().to_canonical());
    let is_other_family = |ip: IpAddr| ip.is_ipv4() != hosts[1].is_ipv4();
    if hosts[0].is_ipv4() != hosts[1].is_ipv4() || named[0].is_some_and(is_other_family) {
        return true;
    }
    // They are behind the same address translation, or on the same host.
    if hosts[0] == hosts[1] {
        return false;
    }
    let scopes = hosts.map(|host| env.settings.scope(host));
    let is_translated = |(host, named): (IpAddr, Option<IpAddr>)| {
        named.is_some_and(|named| named != host && Scope::of(named) != Scope::Global)
    };
    scopes[0] != scopes[1] || hosts.into_iter().zip(named).any(is_translated)
}

/// The address of the first medium in a description.
fn host_in(description: &[u8]) -> Option<IpAddr> {
    let session = SessionDescription::parse(description).ok()?;
    let medium = session.media.iter().find(|medium| medium.port != 0)?;
    session.address(medium)?.parse::<IpAddr>().ok().map(|ip| ip.to_canonical())
}

/// The address in the contact URI of a target.
fn contact_of(target: &Target) -> Option<IpAddr> {
    match Uri::parse(target.request_uri()) {
        Ok(Uri::Sip(uri)) => uri.host.ip().map(|ip| ip.to_canonical()),
        _ => None,
    }
}

/// True if the author of `message` takes digits by INFO, as far as it tells.
pub(super) fn takes_digits(message: &Message<'_>) -> bool {
    let mut methods = message.values(HeaderName::Allow).flat_map(tokens);
    methods.any(|method| method == Method::Info.as_bytes())
}

/// The addresses that an end may have packets sent to.
fn permits<'a>(flow: &Flow, env: &'a Env<'_>) -> impl Fn(SocketAddr) -> bool + use<'a> {
    let origin = env.settings.scope_of(flow);
    move |place| env.settings.may_reach(origin, Transport::Udp, place)
}

fn end<'a>(
    flow: &Flow,
    keying: Keying,
    is_proven: bool,
    permits: &'a dyn Fn(SocketAddr) -> bool,
    env: &'a Env<'_>,
) -> End<'a> {
    let mut end = End::new(flow.remote, flow.local.ip(), permits);
    end.codecs.transcode = &env.settings.config.transcode;
    (end.keying, end.is_proven) = (keying, is_proven);
    end.advertised = env.settings.called_by(flow, || Some(flow.remote.ip())).ip();
    end
}

/// The body of `message` with `text` in place of its session description.
fn spliced(message: &Message<'_>, description: &[u8], text: String) -> Vec<u8> {
    let body = message.body();
    let start = description.as_ptr() as usize - body.as_ptr() as usize;
    let mut out = Vec::with_capacity(body.len() + text.len());
    out.extend_from_slice(&body[..start]);
    out.extend_from_slice(text.as_bytes());
    out.extend_from_slice(&body[start + description.len()..]);
    out
}
