//! The attackers' messages, as chosen by a step of the script.

use super::draft::{
    Draft, branch, method, record_routes, response, tag_of, text, uri_of, value, via,
};
use super::known::Known;
use super::parties::{BOB, DOMAIN, GATEWAY, HONEST, SERVER, sources};
use super::step::Step;
use sip::{HeaderName, Message};
use sip_server::Flow;

const METHODS: [&str; 16] = [
    "INVITE",
    "ACK",
    "BYE",
    "UPDATE",
    "MESSAGE",
    "SUBSCRIBE",
    "NOTIFY",
    "REFER",
    "CANCEL",
    "INFO",
    "OPTIONS",
    "REGISTER",
    "INVITE",
    "ACK",
    "PUBLISH",
    "PRACK",
];
const STATUSES: [u16; 16] =
    [180, 200, 200, 183, 407, 401, 486, 302, 503, 603, 202, 100, 480, 487, 199, 299];

/// The flow of a step.
pub(super) fn source(step: &Step) -> Flow {
    let sources = sources();
    sources[usize::from(step.source) % sources.len()]
}

/// Returns true if the source is forged.
pub(super) fn is_forged(step: &Step) -> bool {
    usize::from(step.source) % sources().len() >= 5
}

/// URIs of reachable and unreachable destinations, for Request-URIs, Contacts and Routes.
pub(super) fn place(number: u8) -> String {
    match number % 16 {
        0 => format!("sip:00900123@{GATEWAY}"),
        1 => format!("sip:00900123@{GATEWAY}:5060;transport=tcp"),
        2 => "sip:x@127.0.0.1:5070".into(),
        3 => "sip:x@10.0.0.9".into(),
        4 => format!("sip:x@{SERVER}"),
        5 => "sip:x@gw.example.net".into(),
        6 => "sip:x@192.0.2.99".into(),
        7 => "sip:x@[::ffff:127.0.0.1]:5070".into(),
        8 => "sip:x@169.254.169.254:80".into(),
        9 => "sip:bob@198.51.100.21".into(),
        10 => "sip:x@224.0.1.75".into(),
        11 => HONEST[1].contact.into(),
        12 => HONEST[0].contact.into(),
        13 => format!("sip:bob@{DOMAIN}"),
        14 => format!("sip:x@{GATEWAY};maddr=192.0.2.99"),
        _ => HONEST[2].contact.into(),
    }
}

/// Names of local and foreign users; `None` for 0.
fn name(number: u8) -> Option<String> {
    Some(match number % 12 {
        0 => return None,
        1 => format!("sip:alice@{DOMAIN}"),
        2 => format!("sip:bob@{DOMAIN}"),
        3 => format!("sip:carol@{DOMAIN}"),
        4 => "sip:alice@203.0.113.1".into(),
        5 => format!("sip:%61lice@{DOMAIN}"),
        6 => "sip:x@foreign.example".into(),
        7 => "sip:alice@EXAMPLE.COM.:5099".into(),
        8 => "tel:+12015550123".into(),
        9 => format!("sips:alice@{DOMAIN}"),
        10 => format!("sip:dave@{DOMAIN}"),
        _ => format!("sip:nobody@{DOMAIN}"),
    })
}

/// The header fields of a request within the dialog of a message.
struct Within {
    from: String,
    to: String,
    call_id: String,
    target: Option<String>,
    routes: Vec<String>,
}

impl Within {
    fn of(message: &Message<'_>) -> Self {
        let mut routes = record_routes(message);
        let (mut from, mut to) = (value(message, HeaderName::From), value(message, HeaderName::To));
        if message.status().is_some() {
            routes.reverse();
        } else {
            if tag_of(message, HeaderName::To).is_none() {
                to += ";tag=bt";
            }
            (from, to) = (to, from);
        }
        let target = uri_of(message, HeaderName::Contact);
        Self { from, to, call_id: value(message, HeaderName::CallId), target, routes }
    }
}

/// Replaces the URI of an address and keeps its tag.
fn renamed(address: &str, uri: &str) -> String {
    let tag = address.split(";tag=").nth(1).map(|tag| format!(";tag={tag}"));
    format!("<{uri}>{}", tag.unwrap_or_default())
}

fn retagged(address: &str, tag: &str) -> String {
    let bare = address.split(";tag=").next().unwrap_or_default();
    if tag.is_empty() { bare.into() } else { format!("{bare};tag={tag}") }
}

/// A request of the attackers.
pub(super) fn request(step: &Step, known: &mut Known) -> (Flow, Draft) {
    let flow = source(step);
    let serial = known.next();
    let method = METHODS[usize::from(step.method) % METHODS.len()];
    let base = known.message(step.base).and_then(|(_, bytes)| Message::parse(bytes).ok());
    let fresh = Within {
        from: format!("<sip:x@foreign.example>;tag=x{serial}"),
        to: String::new(),
        call_id: format!("x{serial}"),
        target: None,
        routes: Vec::new(),
    };
    let within = base.as_ref().map_or(fresh, Within::of);
    let target = within.target.clone().unwrap_or_else(|| format!("sip:bob@{DOMAIN}"));
    let uri = uri(step, &target, &within, method);
    let (mut from, mut to) = (within.from.clone(), within.to.clone());
    if to.is_empty() {
        to = if method == "REGISTER" { format!("<sip:bob@{DOMAIN}>") } else { format!("<{uri}>") };
        if method == "REGISTER" {
            from = format!("<sip:bob@{DOMAIN}>;tag=x{serial}");
        }
    }
    if let Some(name) = name(step.from) {
        from = renamed(&from, &name);
    }
    if let Some(name) = name(step.to) {
        to = renamed(&to, &name);
    }
    let mut call_id = within.call_id.clone();
    let other = known.message(step.base.wrapping_add(1));
    let other = other.and_then(|(_, bytes)| Message::parse(bytes).ok());
    match step.call % 8 {
        1 => call_id = format!("y{serial}"),
        2 => {
            let tag = |address: &str| address.split(";tag=").nth(1).unwrap_or_default().to_owned();
            (from, to) = (retagged(&from, &tag(&to)), retagged(&to, &tag(&from)));
        }
        3 => to = retagged(&to, ""),
        4 => from = retagged(&from, "other"),
        5 => to = retagged(&to, "other"),
        6 => call_id = other.as_ref().map_or(call_id, |it| value(it, HeaderName::CallId)),
        7 => call_id = format!("call-{}", step.extra % 4),
        _ => {}
    }
    let mut draft = Draft { method: method.into(), uri, ..Draft::default() };
    for via in vias(step, &flow, serial, base.as_ref(), known.last.as_ref()) {
        draft = draft.and("Via", via);
    }
    for route in routes(step, &within, other.as_ref()) {
        draft = draft.and("Route", route);
    }
    draft = draft
        .and("From", from)
        .and("To", to)
        .and("Call-ID", call_id)
        .and("CSeq", format!("{serial} {method}"));
    if let Some(contact) = contact(step, &flow) {
        draft = draft.and("Contact", contact);
    }
    draft = extras(draft, step, &within);
    (flow, prove(draft, step, &flow, known))
}

fn uri(step: &Step, target: &str, within: &Within, method: &str) -> String {
    let rest = target.split_once('@').map_or("198.51.100.21", |(_, rest)| rest);
    let user = target.split(['@', ':']).nth(1).unwrap_or("bob");
    match step.uri % 32 {
        0 if method == "REGISTER" => format!("sip:{DOMAIN}"),
        0 => target.into(),
        1 => format!("sip:bob@{DOMAIN}"),
        2 => format!("sip:alice@{DOMAIN}"),
        3 => format!("sip:carol@{DOMAIN}"),
        4 => "tel:+12015550123".into(),
        5 => format!("sip:00900123@{rest}"),
        6 => format!("sip:{user}@{GATEWAY}"),
        7 => format!("{target};maddr={GATEWAY}"),
        8 => format!("{target};transport=tcp"),
        9 => format!("sip:{DOMAIN}"),
        // In the form sent by a strict router.
        10 => within.routes.first().and_then(|route| address_of(route)).unwrap_or(target.into()),
        11 => format!("sip:dave@{DOMAIN}"),
        12 => format!("sip:{user}@192.0.2.99"),
        number => place(number),
    }
}

/// The URI of a Route element.
fn address_of(route: &str) -> Option<String> {
    Some(route.split_once('<')?.1.split('>').next()?.to_owned())
}

fn vias(
    step: &Step,
    flow: &Flow,
    serial: u32,
    base: Option<&Message<'_>>,
    last: Option<&(Flow, Draft)>,
) -> Vec<String> {
    let fresh = format!("z9hG4bKx{serial}");
    let own = via(flow, &fresh);
    let transport = flow.transport.via_name();
    match step.via % 10 {
        1 => vec![format!("{own};rport")],
        2 => vec![format!("SIP/2.0/{transport} 10.0.0.77:5060;branch={fresh}")],
        3 => vec![format!("SIP/2.0/{transport} {GATEWAY}:5060;branch={fresh};rport")],
        4 => vec![base.map_or(own, |base| via(flow, &branch(base)))],
        // The Via of the sender of the base request, as seen by the attackers.
        5 => match base.and_then(|base| base.elements(HeaderName::Via).nth(1)) {
            Some(theirs) => vec![text(theirs)],
            None => vec![own],
        },
        6 => vec![own, format!("SIP/2.0/UDP 192.0.2.60;branch={fresh}a")],
        7 => vec![format!("SIP/2.0/{transport} {};branch={serial}", flow.remote)],
        8 | 9 => match last {
            Some((_, last)) => vec![last.value("Via").to_owned()],
            None => vec![own],
        },
        _ => vec![own],
    }
}

fn routes(step: &Step, within: &Within, other: Option<&Message<'_>>) -> Vec<String> {
    let own = within.routes.clone();
    let element = |number: u8| format!("<{};lr>", place(number));
    let others = || other.map(record_routes).unwrap_or_default();
    match step.routes % 16 {
        0 => own,
        1 => Vec::new(),
        2 => [own, vec![element(step.extra)]].concat(),
        3 => vec![element(step.extra)],
        4 => [vec![element(step.extra)], own].concat(),
        5 => others(),
        6 => [others(), own].concat(),
        7 => [own.clone(), own].concat(),
        8 => [vec![format!("<sip:{SERVER};lr>")], own].concat(),
        9 => [own, vec![format!("<sip:{SERVER};lr>"), element(step.extra)]].concat(),
        // Without the routes behind the own entry.
        10 => own.into_iter().take(1).collect(),
        // To a strict router.
        11 => [own, vec![format!("<{}>", place(step.extra))]].concat(),
        12 => own.iter().rev().cloned().collect(),
        // As sent to this server as a strict router.
        13 => [own.into_iter().skip(1).collect(), vec![element(step.extra)]].concat(),
        14 => {
            [own.into_iter().skip(1).collect(), vec![format!("<{}>", target_of(within))]].concat()
        }
        _ => own.iter().map(|route| changed(route)).collect(),
    }
}

fn target_of(within: &Within) -> String {
    within.target.clone().unwrap_or_else(|| format!("sip:bob@{DOMAIN}"))
}

/// Changes a character in the middle, where a token may be.
fn changed(route: &str) -> String {
    let mut changed = route.as_bytes().to_vec();
    if let Some(byte) = changed.get_mut(20) {
        *byte = if *byte == b'A' { b'B' } else { b'A' };
    }
    text(&changed)
}

fn contact(step: &Step, flow: &Flow) -> Option<String> {
    let remote = flow.remote;
    Some(match step.contact % 32 {
        0 => format!("<sip:x@{remote}>"),
        1 => return None,
        2 => format!("<sip:x@{remote};ob>"),
        3 => format!("<sip:x@{}:5099>", remote.ip()),
        4 => format!("<sip:{}@{GATEWAY}>", "9".repeat(2000)),
        5 => {
            let contacts = (0..6).map(|number| format!("<sip:{number}@{GATEWAY}:7000>"));
            contacts.collect::<Vec<_>>().join(", ")
        }
        6 => format!("<sip:carol@{DOMAIN}>"),
        7 => format!("<sip:x@{remote}>;q=0.9, <sip:00900123@{GATEWAY}>;q=0.9"),
        8 => format!("<sip:x@{remote}>;q=0.9, <sip:00900123@{GATEWAY}>;q=0.1"),
        9 => format!("<sip:bob@{DOMAIN}>"),
        10 => "*".into(),
        number => format!("<{}>", place(number)),
    })
}

fn extras(draft: Draft, step: &Step, within: &Within) -> Draft {
    match (step.extra >> 4) % 16 {
        1 => draft.and("Record-Route", format!("<{};lr>", place(step.extra))),
        2 => within.routes.iter().fold(draft, |draft, route| draft.and("Record-Route", route)),
        3 => draft.and("Subscription-State", "terminated"),
        4 => draft.and("Subscription-State", "active"),
        5 => draft.and("Max-Forwards", "1"),
        6 => Draft { body: 1400, ..draft },
        7 => draft.and("To", format!("<sip:alice@{DOMAIN}>")),
        8 => draft.and("Path", format!("<{};lr>", place(step.extra))),
        9 => draft.and("Expires", "0"),
        10 => draft.and("Max-Breadth", "2"),
        11 => draft.and("P-Asserted-Identity", format!("<sip:alice@{DOMAIN}>")),
        _ => draft,
    }
}

fn prove(draft: Draft, step: &Step, flow: &Flow, known: &mut Known) -> Draft {
    let count = known.next();
    let challenge = known.challenge(Some(flow)).map(|(name, value)| (name, value.to_owned()));
    let name = if draft.method == "REGISTER" { "Authorization" } else { "Proxy-Authorization" };
    match (step.proof % 12, challenge) {
        (1, Some((_, challenge))) => draft.proving("bob", name, &challenge, count, None),
        (3, _) => match known.lured.last() {
            Some(lured) => draft.and(name, lured),
            None => draft,
        },
        (4, Some((_, challenge))) => {
            draft.proving("bob", name, &challenge, count, Some("sip:x@192.0.2.99"))
        }
        (5, Some((_, challenge))) => draft.proving("bob", name, &challenge, 1, None),
        (6, Some((_, challenge))) => {
            let lured = known.lured.last().cloned();
            let draft = draft.proving("bob", name, &challenge, count, None);
            lured.into_iter().fold(draft, |draft, lured| draft.and(name, lured))
        }
        (7, Some((_, challenge))) => draft.proving("bob", "Authorization", &challenge, count, None),
        // Credentials of alice with bob's password.
        (8, Some((_, challenge))) => {
            let draft = draft.proving("bob", name, &challenge, count, None);
            let value = draft.value(name).replace("\"bob\"", "\"alice\"");
            draft.with(name, value)
        }
        // With a nonce possibly issued to another host.
        (11, _) => match known.challenge(None).map(|(_, value)| value.to_owned()) {
            Some(challenge) => draft.proving("bob", name, &challenge, count, None),
            None => draft,
        },
        (9, _) => match known.lured.first() {
            Some(lured) => draft.and(name, lured),
            None => draft,
        },
        _ => draft,
    }
}

/// Returns true if the step is repeated with bob's credentials after a challenge.
pub(super) const fn proves(step: &Step) -> bool {
    matches!(step.proof % 12, 2 | 10)
}

/// A response of the attackers to a received request.
pub(super) fn answer(step: &Step, known: &Known) -> Option<(Flow, Vec<u8>)> {
    let (came_to, bytes) = known.request(step.base)?;
    let request = Message::parse(bytes).ok()?;
    if method(&request) == "ACK" {
        return None;
    }
    let status = STATUSES[usize::from(step.method) % STATUSES.len()];
    let flow = if step.source == 0 { came_to } else { source(step) };
    let tag = match step.call % 4 {
        0 | 1 => Some("bt"),
        2 => Some("bt2"),
        _ => None,
    };
    let own = record_routes(&request);
    let other = known.message(step.base.wrapping_add(2));
    let other = other.and_then(|(_, bytes)| Message::parse(bytes).ok());
    let others = other.as_ref().map(record_routes).unwrap_or_default();
    let element = format!("<{};lr>", place(step.extra));
    let routes = match step.routes % 8 {
        1 => Vec::new(),
        2 => [vec![element], own].concat(),
        3 => others,
        4 => [own, vec![element]].concat(),
        5 => [others, own].concat(),
        6 => own.iter().map(|route| changed(route)).collect(),
        _ => own,
    };
    let mut lines: String =
        routes.iter().map(|route| format!("Record-Route: {route}\r\n")).collect();
    lines.extend(contact(step, &flow).map(|contact| format!("Contact: {contact}\r\n")));
    lines += &challenge_lines(step, known);
    let mut answer = response(&request, status, tag, &lines);
    if step.via % 4 > 1 {
        answer = of_other_branch(&answer, &branch(&request), step.via % 4 - 1);
    }
    Some((flow, answer))
}

fn challenge_lines(step: &Step, known: &Known) -> String {
    let nonce = |value: &str| Some(value.split("nonce=\"").nth(1)?.split('"').next()?.to_owned());
    let nonce = known.challenge(None).and_then(|(_, value)| nonce(value));
    let nonce = nonce.unwrap_or_else(|| "0".repeat(32));
    let of = |realm: &str| format!("Digest {realm}, nonce=\"{nonce}\", qop=\"auth\"");
    match step.proof % 10 {
        1 => format!("Proxy-Authenticate: {}\r\n", of("realm=\"example.com\"")),
        2 => format!("WWW-Authenticate: {}\r\n", of("realm=\"example.com\"")),
        3 => format!("proxy-authenticate: {}\r\n", of("REALM = \"Example.COM\"")),
        4 => format!(
            "WWW-Authenticate: {}, {}\r\n",
            of("realm=\"other\""),
            of("realm=\"example.com\"")
        ),
        5 => format!("WWW-Authenticate: {}\r\n", of("realm=\"example\\.com\"")),
        6 => format!("WWW-Authenticate: {}\r\n", of("realm=\"other\"")),
        7 => format!(
            "WWW-Authenticate: {}\r\nWWW-Authenticate: {}\r\n",
            of("realm=\"other\""),
            of("realm=example.com")
        ),
        8 => format!("Proxy-Authenticate:\r\n {}\r\n", of("realm=\r\n \"example.com\"")),
        _ => String::new(),
    }
}

/// Changes the response to refer to another branch of the same request. The branch parameter
/// contains the number of the branch.
fn of_other_branch(answer: &[u8], own: &str, further: u8) -> Vec<u8> {
    // Cookie and kind, then the slot and the shard with two digits per byte.
    const AT: usize = "z9hG4bKbb".len() + 10;
    let index = own.get(AT..AT + 2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
    let Some(index) = index else { return answer.to_vec() };
    let other = format!("{}{:02x}{}", &own[..AT], index ^ further, &own[AT + 2..]);
    text(answer).replace(own, &other).into_bytes()
}

/// Bob's initial registration, at a host where bob answers by default.
pub(super) fn first_registration(choice: u8) -> Step {
    let contact = match choice % 8 {
        0..=2 => 25,
        3 => 0,
        4 => 2,
        5 => 21,
        6 => 8,
        _ => 7,
    };
    Step {
        what: Step::REQUEST,
        source: BOB as u8,
        method: 11,
        contact,
        proof: 2,
        ..Step::default()
    }
}

/// The URI that a phone calls.
pub(super) fn wanted(step: &Step) -> String {
    match step.uri % 4 {
        0 => format!("sip:bob@{DOMAIN}"),
        1 => "sip:x@192.0.2.99".into(),
        2 => format!("sip:carol@{DOMAIN}"),
        _ => place(step.extra),
    }
}

/// The method that a phone uses.
pub(super) fn wanted_method(step: &Step) -> &'static str {
    METHODS[usize::from(step.method) % METHODS.len()]
}

/// A request for which an attacker challenges alice's phone: one to the attacker or to bob.
pub(super) fn lure(step: &Step) -> (String, &'static str) {
    let uri = match step.uri % 4 {
        0 => "sip:x@192.0.2.99".into(),
        1 => format!("sip:bob@{DOMAIN}"),
        2 => format!("sip:{DOMAIN}"),
        _ => "sip:bob@198.51.100.21".into(),
    };
    (uri, wanted_method(step))
}
