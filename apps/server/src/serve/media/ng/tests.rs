//! The front end on a relay with numbers in place of ports.

use super::Front;
use super::surroundings::Surroundings;
use crate::ng::NgSettings;
use ng::bencode::{Dictionary, Value};
use parking_lot::RawMutex;
use relay::{CallReport, Calls, Host, Limits, NoPort, Ports, Relay, Stream};
use sip_server::Party;
use std::cell::RefCell;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// A host with the ports from 20000 on, and the local addresses of the last stream.
#[derive(Default)]
struct Fake {
    opened: AtomicU16,
    open: Arc<AtomicUsize>,
}

struct FakePorts([u16; 2], Arc<AtomicUsize>);

impl Ports for FakePorts {
    fn rtp(&self) -> [u16; 2] {
        self.0
    }
}

impl Drop for FakePorts {
    fn drop(&mut self) {
        self.1.fetch_sub(1, Relaxed);
    }
}

impl Host<RawMutex> for Fake {
    type Ports = FakePorts;

    fn open(&self, _: &Arc<Stream<RawMutex>>, _: [IpAddr; 2]) -> Result<FakePorts, NoPort> {
        if self.open.fetch_add(1, Relaxed) >= 8 {
            self.open.fetch_sub(1, Relaxed);
            return Err(NoPort);
        }
        let first = 20_000 + 4 * self.opened.fetch_add(1, Relaxed);
        Ok(FakePorts([first, first + 2], Arc::clone(&self.open)))
    }

    fn random(&self, bytes: &mut [u8]) {
        bytes.fill(7);
    }
}

const PROXY: &str = "127.0.0.1:40000";
const CALLER: &str = "198.51.100.1";
const CALLEE: &str = "203.0.113.1";

struct Rig {
    front: Front,
    relay: Relay<RawMutex, Fake>,
    cookie: u32,
    now: Duration,
    /// The calls that were recorded, with the parties that ended them.
    ended: RefCell<Vec<(CallReport, Party)>>,
}

impl Rig {
    fn new(interfaces: &[&str], limits: Limits) -> Self {
        let settings = NgSettings {
            listen: None,
            clients: vec![sip_server::config::Network {
                address: [127, 0, 0, 1].into(),
                prefix: 32,
            }],
            interfaces: interfaces.iter().map(|text| text.parse().unwrap()).collect(),
        };
        let relay = Relay::new(Fake::default(), limits);
        let (front, now) = (Front::new(settings), Duration::from_secs(100));
        Self { front, relay, cookie: 0, now, ended: RefCell::default() }
    }

    fn receive(&mut self, source: &str, datagram: &[u8]) -> Option<Vec<u8>> {
        let is_global =
            |ip: IpAddr| matches!(ip, IpAddr::V4(ip) if !ip.is_private() && !ip.is_loopback());
        let surroundings = Surroundings {
            calls: &self.relay,
            local: &|_| Some([192, 0, 2, 1].into()),
            // As by the scopes of the engine.
            permits: &|origin, place| is_global(place.ip()) || !is_global(origin),
            ended: &|call, by| self.ended.borrow_mut().push((call, by)),
            now: self.now,
            wall: Duration::from_secs(1_700_000_000),
        };
        let mut out = Vec::new();
        let source = source.parse().unwrap();
        self.front.receive(&surroundings, source, datagram, &mut out).then_some(out)
    }

    /// Sends a request, `keys` with sorted names. Returns the response without its cookie.
    fn request(&mut self, keys: &[(&str, &str)]) -> Vec<u8> {
        self.cookie += 1;
        let cookie = format!("{}_1 ", self.cookie);
        let datagram = cookie.clone() + &dictionary(keys);
        let response = self.receive(PROXY, datagram.as_bytes()).expect("a response");
        response.strip_prefix(cookie.as_bytes()).expect("the cookie").to_vec()
    }

    /// Sends an offer or an answer of the end at `host`. `tags` are those of the offerer and the
    /// other end.
    fn describe(
        &mut self,
        command: &str,
        host: &str,
        tags: [&str; 2],
        flags: &str,
        sdp: &str,
    ) -> String {
        let received = format!("l3:IP4{}:{host}e", host.len());
        let mut keys = vec![("call-id", "c"), ("command", command), ("from-tag", tags[0])];
        keys.extend([("received-from", &*received), ("rtpp-flags", flags), ("sdp", sdp)]);
        keys.extend([("to-tag", tags[1])].into_iter().filter(|(_, tag)| !tag.is_empty()));
        let response = self.request(&keys);
        match text(&response, "sdp") {
            Some(sdp) => sdp,
            None => String::from_utf8(response).unwrap(),
        }
    }

    fn offer(&mut self, flags: &str, sdp: &str) -> String {
        self.describe("offer", CALLER, ["a", ""], flags, sdp)
    }

    fn answer(&mut self, sdp: &str) -> String {
        self.describe("answer", CALLEE, ["a", "b"], "", sdp)
    }

    /// The destinations that the ends have announced, and that are permitted.
    fn announced(&self) -> [Option<SocketAddr>; 2] {
        let report = self.relay.reports().pop().expect("a call");
        report.streams[0].each_ref().map(|direction| direction.announced)
    }

    fn open(&self) -> usize {
        self.relay.host().open.load(Relaxed)
    }
}

/// A dictionary with these entries. A value such as `l1:ae` is a list.
fn dictionary(keys: &[(&str, &str)]) -> String {
    let entry = |(key, value): &(&str, &str)| {
        let is_list = value.strip_prefix('l').is_some_and(|it| it.starts_with(char::is_numeric));
        let value = match is_list {
            true => (*value).to_owned(),
            false => format!("{}:{value}", value.len()),
        };
        format!("{}:{key}{value}", key.len())
    };
    format!("d{}e", keys.iter().map(entry).collect::<String>())
}

fn with<T>(response: &[u8], act: impl FnOnce(Dictionary<'_>) -> T) -> T {
    act(Value::parse(response).expect("bencode").as_dictionary().expect("a dictionary"))
}

/// The text of a key in a response.
fn text(response: &[u8], key: &str) -> Option<String> {
    with(response, |entries| {
        let (_, value) = entries.entries().find(|(name, _)| *name == key.as_bytes())?;
        Some(String::from_utf8(value.as_string()?.to_vec()).unwrap())
    })
}

fn sdp(host: &str, port: u16, protocol: &str) -> String {
    format!(
        "v=0\r\no=- 1 1 IN IP4 {host}\r\ns=-\r\nc=IN IP4 {host}\r\nt=0 0\r\n\
         m=audio {port} {protocol} 0\r\n"
    )
}

fn place(host: &str, port: u16) -> Option<SocketAddr> {
    Some(SocketAddr::new(host.parse().unwrap(), port))
}

#[test]
fn a_call_is_relayed_until_it_is_deleted() {
    let mut rig = Rig::new(&[], Limits::default());
    let offer = rig.offer("replace-origin", &sdp(CALLER, 4000, "RTP/AVP"));
    assert_eq!(offer, sdp("192.0.2.1", 20002, "RTP/AVP"));
    assert_eq!(rig.answer(&sdp(CALLEE, 6000, "RTP/AVP")), sdp("192.0.2.1", 20000, "RTP/AVP"));
    assert_eq!(rig.announced(), [place(CALLER, 4000), place(CALLEE, 6000)]);
    // The callee holds: its tag is that of the offerer.
    let hold = sdp(CALLEE, 6000, "RTP/AVP") + "a=inactive\r\n";
    let offer = rig.describe("offer", CALLEE, ["b", "a"], "", &hold);
    assert!(offer.contains("m=audio 20000 ") && offer.contains("a=inactive"), "{offer}");
    let answer = rig.describe("answer", CALLER, ["b", "a"], "", &sdp(CALLER, 4000, "RTP/AVP"));
    assert!(answer.contains("m=audio 20002 "), "{answer}");
    let calls = rig.request(&[("command", "list")]);
    assert_eq!(calls, b"d5:callsl1:ce6:result2:oke");
    let query = String::from_utf8(rig.request(&[("call-id", "c"), ("command", "query")])).unwrap();
    for part in
        ["6:result2:ok", "16:in dialogue with1:a", "10:local porti20002e", "8:protocol7:RTP/AVP"]
    {
        assert!(query.contains(part), "{part} {query}");
    }
    let delete = [("call-id", "c"), ("command", "delete"), ("from-tag", "b")];
    assert_eq!(text(&rig.request(&delete), "result").unwrap(), "ok");
    assert_eq!((rig.relay.count(), rig.open()), (0, 0));
    let again = rig.request(&delete);
    assert_eq!(text(&again, "result").unwrap(), "ok");
    assert!(text(&again, "warning").unwrap().contains("not found"));
    let fatal = [delete[0], delete[1], ("flags", "l5:fatale"), delete[2]];
    assert_eq!(text(&rig.request(&fatal), "result").unwrap(), "error");
    let query = rig.request(&[("call-id", "c"), ("command", "query")]);
    assert_eq!(text(&query, "result").unwrap(), "error");
}

#[test]
fn a_repetition_has_no_effect_and_another_client_gets_nothing() {
    let mut rig = Rig::new(&[], Limits::default());
    let offer = sdp(CALLER, 4000, "RTP/AVP");
    let keys = [("call-id", "c"), ("command", "offer"), ("from-tag", "a"), ("sdp", &*offer)];
    let datagram = format!("1_1 {}", dictionary(&keys)).into_bytes();
    let first = rig.receive(PROXY, &datagram).unwrap();
    assert_eq!(rig.receive(PROXY, &datagram), Some(first));
    for stranger in ["127.0.0.2:40000", "192.0.2.9:2223", "[::1]:9"] {
        assert_eq!(rig.receive(stranger, &datagram), None);
        assert_eq!(rig.receive(stranger, b"2_1 d7:command4:pinge"), None);
    }
    // An address of IPv4 in the form of IPv6.
    assert!(rig.receive("[::ffff:127.0.0.1]:9", b"2_1 d7:command4:pinge").is_some());
    assert_eq!(rig.receive(PROXY, b"junk"), None);
    assert!(rig.receive(PROXY, b"3_1 junk").is_some());
    assert_eq!((rig.relay.count(), rig.open()), (1, 1));
    let counts = rig.front.counts();
    assert_eq!((counts.requests, counts.repeated), (3, 1));
    assert_eq!((counts.refused, counts.dropped), (1, 7));
}

/// The host that media go to, by the address in the description and the flags.
#[test]
fn media_go_where_the_end_may_have_them_sent() {
    for (host, named, flags, expected) in [
        (CALLER, CALLER, "", place(CALLER, 4000)),
        (CALLER, "192.0.2.77", "trust-address", place("192.0.2.77", 4000)),
        (CALLER, "192.0.2.77", "SIP-source-address", place(CALLER, 4000)),
        (CALLER, "192.0.2.77", "media-address=192.0.2.78", place("192.0.2.78", 4000)),
        // A phone on the internet names a service beside the relay.
        (CALLER, "10.0.0.7", "trust-address", None),
        (CALLER, "127.0.0.1", "", None),
        (CALLER, "224.0.0.1", "", None),
        (CALLER, "0.0.0.0", "", None),
        (CALLER, "10.0.0.7", "SIP-source-address", place(CALLER, 4000)),
        ("10.0.0.3", "10.0.0.7", "", place("10.0.0.7", 4000)),
        ("10.0.0.3", "224.0.0.1", "", None),
        // The script names the address.
        (CALLER, CALLER, "media-address=10.0.0.7", place("10.0.0.7", 4000)),
    ] {
        let mut rig = Rig::new(&[], Limits::default());
        rig.describe("offer", host, ["a", ""], flags, &sdp(named, 4000, "RTP/AVP"));
        rig.answer(&sdp(CALLEE, 6000, "RTP/AVP"));
        assert_eq!(rig.announced()[0], expected, "{host} {named} {flags}");
    }
}

#[test]
fn branches_are_told_apart_and_deleted_by_their_via() {
    let mut rig = Rig::new(&[], Limits::default());
    let body = sdp(CALLER, 4000, "RTP/AVP");
    let mut ports = Vec::new();
    for (branch, tag) in [("z1", "b1"), ("z2", "b2")] {
        let keys = [("call-id", "c"), ("command", "offer"), ("from-tag", "a"), ("sdp", &*body)];
        let offer = rig.request(&[&keys[..], &[("via-branch", branch)]].concat());
        ports.push(text(&offer, "sdp").unwrap());
        let answer = [
            ("call-id", "c"),
            ("command", "answer"),
            ("from-tag", "a"),
            ("sdp", &*body),
            ("to-tag", tag),
            ("via-branch", branch),
        ];
        assert!(text(&rig.request(&answer), "sdp").is_some());
    }
    assert_ne!(ports[0], ports[1]);
    assert_eq!(rig.relay.count(), 2);
    let delete =
        |via| [("call-id", "c"), ("command", "delete"), ("from-tag", "a"), ("via-branch", via)];
    rig.request(&delete("z1"));
    assert!(rig.ended.borrow().is_empty());
    assert_eq!(rig.relay.reports().pop().map(|call| call.callee_tag), Some((*b"b2").into()));
    // The branch of the BYE is not one of the call: the tag decides.
    rig.request(&delete("z9"));
    // The branches are one call, which the caller has ended.
    let ended = rig.ended.take();
    let [(call, Party::Caller)] = &ended[..] else { panic!("{ended:?}") };
    assert_eq!((&*call.call_id, &*call.callee_tag), (&b"c"[..], &b"b2"[..]));
    assert_eq!((rig.relay.count(), rig.open()), (0, 0));
}

#[test]
fn an_offer_gets_the_address_of_its_interface() {
    let interfaces = ["in 10.0.0.5", "out 10.0.1.5 as 203.0.113.5", "out 2001:db8::5"];
    for (flags, connection) in [
        ("", "IP4 10.0.0.5"),
        ("direction=in direction=out", "IP4 203.0.113.5"),
        ("direction=out direction=in", "IP4 10.0.0.5"),
        ("direction=in direction=out address-family=IP6", "IP6 2001:db8::5"),
    ] {
        let mut rig = Rig::new(&interfaces, Limits::default());
        let offer = rig.offer(flags, &sdp(CALLER, 4000, "RTP/AVP"));
        assert!(offer.contains(&format!("c=IN {connection}\r\n")), "{flags} {offer}");
        let answer = rig.answer(&sdp(CALLEE, 6000, "RTP/AVP"));
        let expected = if flags.starts_with("direction=out") { "203.0.113.5" } else { "10.0.0.5" };
        assert!(answer.contains(&format!("c=IN IP4 {expected}\r\n")), "{flags} {answer}");
    }
    for (interfaces, flags, reason) in [
        (&interfaces[..], "direction=in direction=dmz", "no interface \"dmz\""),
        (&[], "direction=in direction=out", "no interface \"in\""),
        (&interfaces[..], "direction=in direction=in address-family=IP6", "no address of this"),
        (&[], "address-family=IP6", "no address of this"),
    ] {
        let mut rig = Rig::new(interfaces, Limits::default());
        let refused = rig.offer(flags, &sdp(CALLER, 4000, "RTP/AVP"));
        assert!(refused.contains("6:result5:error") && refused.contains(reason), "{refused}");
        assert_eq!((rig.relay.count(), rig.open()), (0, 0));
    }
}

#[test]
fn keys_begin_and_end_at_the_relay_as_the_flags_say() {
    let keys =
        "a=crypto:1 AES_CM_128_HMAC_SHA1_80 inline:MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5\r\n";
    for (offered, has_keys, flags, written, count) in [
        ("RTP/AVP", false, "", "RTP/AVP", 0),
        ("RTP/SAVP", true, "", "RTP/SAVP", 1),
        ("RTP/AVP", true, "", "RTP/AVP", 1),
        ("RTP/AVP", true, "SDES-off", "RTP/AVP", 0),
        ("RTP/AVP", false, "RTP/AVP", "RTP/AVP", 0),
        ("RTP/AVP", true, "RTP/AVP", "RTP/AVP", 0),
        ("RTP/AVP", true, "RTP/AVP OSRTP-offer", "RTP/AVP", 1),
        ("RTP/AVP", false, "RTP/SAVP", "RTP/SAVP", 2),
        ("RTP/AVP", false, "OSRTP-offer", "RTP/AVP", 2),
        ("RTP/SAVP", true, "RTP/AVP", "RTP/AVP", 0),
        ("RTP/SAVP", true, "RTP/SAVP", "RTP/SAVP", 1),
        ("RTP/SAVP", true, "RTP/AVP OSRTP-offer", "RTP/AVP", 2),
        ("UDP/TLS/RTP/SAVPF", false, "", "UDP/TLS/RTP/SAVPF", 0),
    ] {
        let mut rig = Rig::new(&[], Limits::default());
        let body = sdp(CALLER, 4000, offered) + if has_keys { keys } else { "" };
        let offer = rig.offer(flags, &body);
        let case = format!("{offered} {has_keys} {flags}: {offer}");
        assert!(offer.contains(&format!(" {written} 0\r\n")), "{case}");
        assert_eq!(offer.matches("a=crypto:").count(), count, "{case}");
    }
    for (offered, flags) in
        [("UDP/TLS/RTP/SAVPF", "RTP/AVP"), ("RTP/AVP", "UDP/TLS/RTP/SAVPF"), ("RTP/SAVP", "DTLS")]
    {
        let refused = Rig::new(&[], Limits::default()).offer(flags, &sdp(CALLER, 4000, offered));
        assert!(refused.contains("DTLS passes the relay"), "{offered} {flags} {refused}");
    }
}

#[test]
fn the_profile_and_the_ports_of_reports_are_as_the_flags_say() {
    let feedback = "a=rtcp-fb:0 nack\r\n";
    let mux = "a=rtcp-mux\r\n";
    for (offered, flags, written, has_feedback, has_mux) in [
        ("RTP/AVPF", "", "RTP/AVPF", true, true),
        ("RTP/AVPF", "RTP/AVP", "RTP/AVP", false, true),
        ("RTP/AVP", "RTP/AVPF", "RTP/AVPF", true, true),
        ("RTP/AVPF", "AVP", "RTP/AVP", false, true),
        ("RTP/SAVPF", "RTP/SAVP rtcp-mux-demux", "RTP/SAVP", false, false),
        ("RTP/AVPF", "transport-protocol=RTP/SAVP rtcp-mux=[demux]", "RTP/SAVP", false, false),
        ("RTP/SAVPF", "RTP/AVP rtcp-mux-offer", "RTP/AVP", false, true),
        ("RTP/AVPF", "rtcp-mux-reject", "RTP/AVPF", true, true),
    ] {
        let mut rig = Rig::new(&[], Limits::default());
        let body = sdp(CALLER, 4000, offered) + feedback + mux;
        let offer = rig.offer(flags, &body);
        let case = format!("{offered} {flags}: {offer}");
        assert!(offer.contains(&format!(" {written} 0\r\n")), "{case}");
        assert_eq!(offer.contains(feedback), has_feedback, "{case}");
        assert_eq!(offer.contains(mux), has_mux, "{case}");
        assert_eq!(rig.front.counts().flags.iter().count(), 0, "{case}");
    }
    for (flags, answered, accepted) in [
        ("RTP/AVP rtcp-mux-demux", "", mux),
        ("RTP/AVP rtcp-mux-accept", "", mux),
        ("RTP/AVP rtcp-mux-reject", mux, ""),
        ("RTP/AVP", mux, mux),
        ("RTP/AVP", "", ""),
    ] {
        let mut rig = Rig::new(&[], Limits::default());
        rig.offer(flags, &(sdp(CALLER, 4000, "RTP/AVPF") + mux));
        let answer = rig.answer(&(sdp(CALLEE, 6000, "RTP/AVP") + answered));
        assert!(answer.contains(" RTP/AVPF 0\r\n"), "{flags}: {answer}");
        assert_eq!(answer.contains(mux), !accepted.is_empty(), "{flags} {answered}: {answer}");
    }
    let mut rig = Rig::new(&[], Limits::default());
    let required = rig.offer("rtcp-mux-require", &sdp(CALLER, 4000, "RTP/AVP"));
    assert!(required.contains("m=audio 20002 ") && required.contains("a=rtcp:20002\r\n"));
}

#[test]
fn codecs_are_added_removed_and_converted() {
    let body = |formats: &str| {
        let text = sdp(CALLER, 4000, "RTP/AVP");
        text.replace("RTP/AVP 0\r\n", &format!("RTP/AVP {formats}\r\n"))
    };
    for (flags, offered, answered) in [
        ("codec-transcode-PCMA transcode-G722", "0 18 3 8 9", "0"),
        ("codec=[transcode=[PCMA/8000 telephone-event] strip=[G729]]", "0 3 8", "0"),
        ("codec-mask-all codec-except-G729 codec-transcode-PCMA", "18 8", "0"),
        ("codec-consume-PCMU codec-strip-GSM codec-transcode-PCMA", "18 8", "0"),
        ("codec-strip-all codec-offer-GSM codec-transcode-PCMA", "3 8", "3"),
    ] {
        let mut rig = Rig::new(&[], Limits::default());
        let offer = rig.offer(flags, &body("0 18 3"));
        assert!(offer.contains(&format!(" RTP/AVP {offered}\r\n")), "{flags}: {offer}");
        let answer = rig.answer(&body("8"));
        assert!(answer.contains(&format!(" RTP/AVP {answered}\r\n")), "{flags}: {answer}");
        assert_eq!(rig.front.counts().flags.iter().count(), 0, "{flags}");
    }
}

#[test]
fn flags_without_an_effect_are_counted() {
    let mut rig = Rig::new(&[], Limits::default());
    let honoured = "trust-address replace-origin replace-session-connection symmetric \
                    strict-source ICE=remove RTP/AVPF rtcp-mux-demux label=caller SDES-off no-rtcp-attribute";
    rig.offer(honoured, &sdp(CALLER, 4000, "RTP/AVP"));
    assert_eq!(rig.front.counts().flags.iter().count(), 0);
    let ignored = "asymmetric codec-accept-PCMA ICE=force record-call transcode-G729";
    rig.offer(ignored, &sdp(CALLER, 4000, "RTP/AVP"));
    rig.offer(ignored, &sdp(CALLER, 4000, "RTP/AVP"));
    let flags: Vec<_> = rig.front.counts().flags.iter().collect();
    let expected =
        ["ICE=force", "asymmetric", "codec-accept", "codec-transcode=G729", "record-call"];
    assert_eq!(flags, expected.map(|flag| (flag, 2)));
}

#[test]
fn limits_are_told_in_the_words_of_the_protocol() {
    let mut rig = Rig::new(&[], Limits { calls: 9, calls_of_owner: 9, ..Limits::default() });
    let body = sdp(CALLER, 4000, "RTP/AVP");
    let offer =
        |call_id| [("call-id", call_id), ("command", "offer"), ("from-tag", "a"), ("sdp", &*body)];
    for call_id in ["0", "1", "2", "3", "4", "5", "6", "7"] {
        assert!(text(&rig.request(&offer(call_id)), "sdp").is_some());
    }
    let refused = rig.request(&offer("8"));
    assert_eq!(text(&refused, "error-reason").as_deref(), Some("Ran out of ports"));
    let supports = [&offer("8")[..], &[("supports", "l10:load limite")]].concat();
    assert_eq!(text(&rig.request(&supports), "result").as_deref(), Some("load limit"));
    let answer = [
        ("call-id", "9"),
        ("command", "answer"),
        ("from-tag", "a"),
        ("sdp", &*body),
        ("to-tag", "b"),
    ];
    let refused = rig.request(&answer);
    assert!(text(&refused, "error-reason").unwrap().contains("not found"));
    assert_eq!(rig.relay.count(), 8);
}
