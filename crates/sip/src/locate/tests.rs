use alloc::collections::BTreeMap;
use alloc::string::ToString;
use alloc::vec;

use proptest::prelude::*;

use super::RecordType::{A, Aaaa, Naptr as NaptrType, Srv as SrvType};
use super::Transport::{Tcp, Tls, Udp};
use super::*;

const ALL: &[Transport] = &[Tls, Tcp, Udp];

/// A DNS zone in lines: `NAPTR name order preference flags service replacement`, `SRV name priority
/// weight port target`, `A name address`, `FAIL type name`.
struct Dns(BTreeMap<Query, Answer>);

impl Dns {
    fn new(zone: &str) -> Self {
        let mut records = BTreeMap::new();
        for line in zone.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let number = |i: usize| words[i].parse::<u16>().unwrap();
            let Some(&first) = words.first() else { continue };
            let (record, name) = match first {
                "NAPTR" => (NaptrType, words[1]),
                "SRV" => (SrvType, words[1]),
                "A" => (A, words[1]),
                "AAAA" => (Aaaa, words[1]),
                _ => (if words[1] == "SRV" { SrvType } else { A }, words[2]),
            };
            let query = Query { record, name: name.into() };
            let answer = records.entry(query).or_insert_with(|| empty(record));
            match answer {
                _ if first == "FAIL" => *answer = Answer::Failure,
                Answer::Naptr(list) => list.push(Naptr {
                    order: number(2),
                    preference: number(3),
                    flags: words[4].into(),
                    service: words[5].into(),
                    replacement: words[6].into(),
                }),
                Answer::Srv(list) => list.push(Srv {
                    priority: number(2),
                    weight: number(3),
                    port: number(4),
                    target: words[5].into(),
                }),
                Answer::Addresses(list) => list.push(words[2].parse().unwrap()),
                Answer::Failure => {}
            }
        }
        Self(records)
    }

    fn answer(&self, query: &Query) -> Answer {
        self.0.get(query).cloned().unwrap_or_else(|| empty(query.record))
    }
}

fn empty(record: RecordType) -> Answer {
    match record {
        NaptrType => Answer::Naptr(vec![]),
        SrvType => Answer::Srv(vec![]),
        A | Aaaa => Answer::Addresses(vec![]),
    }
}

/// Parses `sip:host[:port][;transport]`, or the same with `sips:`.
fn destination(uri: &str) -> Destination {
    let (scheme, rest) = uri.split_once(':').unwrap();
    let (rest, transport) = match rest.split_once(';') {
        Some((rest, name)) => (rest, Some(Transport::parse(name.as_bytes()).unwrap())),
        None => (rest, None),
    };
    let (host, port) = match rest.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port.parse().unwrap())),
        _ => (rest, None),
    };
    let host = Host::parse(host.as_bytes()).unwrap();
    Destination { host, port, transport, sips: scheme == "sips" }
}

/// The queries and the result, as text.
fn locate(
    dns: &Dns,
    uri: &str,
    ours: &[Transport],
    families: AddressFamilies,
) -> (Vec<String>, String) {
    let mut locator = Locator::new(destination(uri), ours, families);
    let mut asked = Vec::new();
    loop {
        match locator.step() {
            LocateStep::Query(query) => {
                assert_eq!(locator.step(), LocateStep::Query(query.clone()));
                asked.push(format!("{:?} {}", query.record, query.name));
                locator.on_dns_answer(dns.answer(&query), &mut |_| 0);
            }
            LocateStep::Done(targets) => {
                let text =
                    targets.iter().map(|t| format!("{} {}", t.transport.uri_name(), t.address));
                return (asked, text.collect::<Vec<_>>().join(", "));
            }
            LocateStep::Failed(failure) => return (asked, failure.to_string()),
        }
    }
}

/// The domain of RFC 3263 section 4.1, completed.
const EXAMPLE: &str = "
    NAPTR example.com 90 50 s SIP+D2T _sip._tcp.example.com.
    NAPTR example.com 50 50 S sips+d2t _sips._tcp.example.com.
    NAPTR example.com 100 50 s SIP+D2U _sip._udp.example.com.
    NAPTR example.com 10 50 s SIP+D2S _sip._sctp.example.com.
    NAPTR example.com 10 50 u SIP+D2U _other._udp.example.com.
    SRV _sip._tcp.example.com 0 1 5060 server1.example.com
    SRV _sip._tcp.example.com 0 2 5060 Server2.Example.com.
    SRV _sips._tcp.example.com 0 1 5061 server1.example.com
    SRV _sip._udp.example.com 1 0 5070 server2.example.com
    SRV _sip._udp.example.com 0 0 5060 server1.example.com
    A server1.example.com 192.0.2.1
    A server2.example.com 192.0.2.2
    AAAA server2.example.com 2001:db8::2
    A example.com 192.0.2.9
";

#[test]
fn the_rules_of_rfc_3263_one_by_one() {
    const V4: AddressFamilies = AddressFamilies::V4;
    for (what, zone, uri, ours, families, queries, outcome) in [
        ("a numeric address", "", "sip:192.0.2.7", ALL, V4, "", "udp 192.0.2.7:5060"),
        ("with a port", "", "sip:[2001:db8::7]:5080", ALL, V4, "", "udp [2001:db8::7]:5080"),
        ("with a transport", "", "sip:192.0.2.7;tls", ALL, V4, "", "tls 192.0.2.7:5061"),
        ("of a SIPS URI", "", "sips:192.0.2.7", ALL, V4, "", "tls 192.0.2.7:5061"),
        ("TCP and SIPS is TLS", "", "sips:192.0.2.7;tcp", ALL, V4, "", "tls 192.0.2.7:5061"),
        ("without UDP here", "", "sip:192.0.2.7", &[Tcp, Tls], V4, "", "tcp 192.0.2.7:5060"),
        (
            "a port means no NAPTR and no SRV",
            EXAMPLE,
            "sip:example.com:5060",
            ALL,
            AddressFamilies::V4First,
            "A example.com, Aaaa example.com",
            "udp 192.0.2.9:5060",
        ),
        (
            "a port with SIPS",
            EXAMPLE,
            "sips:example.com:5062",
            ALL,
            V4,
            "A example.com",
            "tls 192.0.2.9:5062",
        ),
        (
            "NAPTR in its order, then each SRV",
            EXAMPLE,
            "sip:Example.COM.",
            ALL,
            V4,
            "Naptr example.com, Srv _sips._tcp.example.com, A server1.example.com, \
             Srv _sip._tcp.example.com, A server1.example.com, A server2.example.com, \
             Srv _sip._udp.example.com, A server1.example.com, A server2.example.com",
            "tls 192.0.2.1:5061, tcp 192.0.2.1:5060, tcp 192.0.2.2:5060, \
             udp 192.0.2.1:5060, udp 192.0.2.2:5070",
        ),
        (
            "unsupported services are skipped",
            EXAMPLE,
            "sip:example.com",
            &[Udp],
            AddressFamilies::V6First,
            "Naptr example.com, Srv _sip._udp.example.com, \
             Aaaa server1.example.com, A server1.example.com, \
             Aaaa server2.example.com, A server2.example.com",
            "udp 192.0.2.1:5060, udp [2001:db8::2]:5070, udp 192.0.2.2:5070",
        ),
        (
            "a SIPS URI takes SIPS services alone",
            EXAMPLE,
            "sips:example.com",
            ALL,
            V4,
            "Naptr example.com, Srv _sips._tcp.example.com, A server1.example.com",
            "tls 192.0.2.1:5061",
        ),
        (
            "a transport means no NAPTR",
            EXAMPLE,
            "sip:example.com;tcp",
            ALL,
            AddressFamilies::V6,
            "Srv _sip._tcp.example.com, Aaaa server1.example.com, Aaaa server2.example.com",
            "tcp [2001:db8::2]:5060",
        ),
        (
            "a replacement in another domain",
            "NAPTR a.example 1 1 s SIP+D2U _sip._udp.b.example
             SRV _sip._udp.b.example 0 0 5060 c.example
             A c.example 192.0.2.3",
            "sip:a.example",
            ALL,
            V4,
            "Naptr a.example, Srv _sip._udp.b.example, A c.example",
            "udp 192.0.2.3:5060",
        ),
        (
            "unusable NAPTR records count as absent",
            "NAPTR a.example 1 1 s SIP+D2S _sip._sctp.a.example
             NAPTR a.example 1 1 s SIP+D2U .
             SRV _sip._tcp.a.example 0 0 5060 c.example
             A c.example 192.0.2.3",
            "sip:a.example",
            &[Udp, Tcp],
            V4,
            "Naptr a.example, Srv _sip._udp.a.example, Srv _sip._tcp.a.example, A c.example",
            "tcp 192.0.2.3:5060",
        ),
        (
            "no NAPTR: SRV of every usable transport in order of preference",
            "",
            "sip:a.example",
            ALL,
            V4,
            "Naptr a.example, Srv _sips._tcp.a.example, Srv _sip._tcp.a.example, \
             Srv _sip._udp.a.example, A a.example",
            "DNS has no address for the destination",
        ),
        (
            "no SRV: the name's own address at the default port by UDP",
            "A a.example 192.0.2.4
             A a.example 192.0.2.5
             AAAA a.example 2001:db8::4",
            "sip:a.example",
            &[Tcp, Udp],
            AddressFamilies::V4First,
            "Naptr a.example, Srv _sip._tcp.a.example, Srv _sip._udp.a.example, \
             A a.example, Aaaa a.example",
            "udp 192.0.2.4:5060, udp 192.0.2.5:5060, udp [2001:db8::4]:5060",
        ),
        (
            "no SRV, by TLS for a SIPS URI",
            "A a.example 192.0.2.4",
            "sips:a.example",
            ALL,
            V4,
            "Naptr a.example, Srv _sips._tcp.a.example, A a.example",
            "tls 192.0.2.4:5061",
        ),
        (
            "no SRV, by the transport that NAPTR chose",
            "NAPTR a.example 1 1 s SIP+D2T _sip._tcp.a.example
             A a.example 192.0.2.4",
            "sip:a.example",
            ALL,
            V4,
            "Naptr a.example, Srv _sip._tcp.a.example, A a.example",
            "tcp 192.0.2.4:5060",
        ),
        (
            "no SRV, by the transport of the URI",
            "A a.example 192.0.2.4",
            "sip:a.example;tcp",
            ALL,
            V4,
            "Srv _sip._tcp.a.example, A a.example",
            "tcp 192.0.2.4:5060",
        ),
        (
            "the root as a target means that the service is not available",
            "SRV _sip._udp.a.example 0 0 0 .
             A a.example 192.0.2.4",
            "sip:a.example;udp",
            ALL,
            V4,
            "Srv _sip._udp.a.example",
            "DNS has no address for the destination",
        ),
        (
            "the same address twice is one target",
            "SRV _sip._udp.a.example 0 0 5060 c.example
             SRV _sip._udp.a.example 1 0 5060 d.example
             A c.example 192.0.2.3
             A d.example 192.0.2.3",
            "sip:a.example;udp",
            ALL,
            V4,
            "Srv _sip._udp.a.example, A c.example, A d.example",
            "udp 192.0.2.3:5060",
        ),
        (
            "failed queries do not stop the search",
            "FAIL SRV _sip._udp.a.example
             A a.example 192.0.2.4",
            "sip:a.example;udp",
            ALL,
            V4,
            "Srv _sip._udp.a.example, A a.example",
            "udp 192.0.2.4:5060",
        ),
        (
            "unless nothing else is found",
            "FAIL A a.example",
            "sip:a.example:5060",
            ALL,
            V4,
            "A a.example",
            "a DNS query for the destination failed",
        ),
        (
            "an unsupported transport",
            "",
            "sip:a.example;tls",
            &[Udp, Tcp],
            V4,
            "",
            "the transport that the destination asks for is not served",
        ),
        (
            "UDP cannot be SIPS",
            "",
            "sips:192.0.2.7;udp",
            ALL,
            V4,
            "",
            "the transport that the destination asks for is not served",
        ),
    ] {
        let (asked, result) = locate(&Dns::new(zone), uri, ours, families);
        assert_eq!(asked.join(", "), queries, "{what}");
        assert_eq!(result, outcome, "{what}");
    }
}

#[test]
fn queries_and_targets_have_limits() {
    let mut zone = String::new();
    for i in 0..40 {
        zone += &format!("SRV _sip._udp.a.example {i} 0 5060 s{i}.example\n");
        zone += &format!("A s{i}.example 192.0.2.{i}\n");
        zone += &format!("A b.example 192.0.2.{i}\n");
    }
    let dns = Dns::new(&zone);
    let (asked, found) = locate(&dns, "sip:a.example;udp", ALL, AddressFamilies::V4);
    assert_eq!((asked.len(), found.split(", ").count()), (16, 15));
    let (asked, found) = locate(&dns, "sip:b.example:5060", ALL, AddressFamilies::V4First);
    assert_eq!((asked.len(), found.split(", ").count()), (1, 32));
}

#[test]
fn servers_are_drawn_by_weight_within_their_priority() {
    let srv = |priority, weight| Srv { priority, weight, port: 1, target: "s.example".into() };
    let records = [srv(2, 5), srv(1, 10), srv(1, 0), srv(1, 30)];
    // Each draw is scripted: the requested bound and the returned number.
    for (draws, order) in [
        ([(41, 0), (41, 0), (31, 0), (6, 0)], [(1, 0), (1, 10), (1, 30), (2, 5)]),
        ([(41, 1), (31, 1), (1, 0), (6, 5)], [(1, 10), (1, 30), (1, 0), (2, 5)]),
        ([(41, 10), (31, 0), (31, 30), (6, 5)], [(1, 10), (1, 0), (1, 30), (2, 5)]),
        ([(41, 11), (11, 10), (1, 0), (6, 1)], [(1, 30), (1, 10), (1, 0), (2, 5)]),
        ([(41, 40), (11, 0), (11, 99), (6, 9)], [(1, 30), (1, 0), (1, 10), (2, 5)]),
    ] {
        let mut script = draws.into_iter();
        let sorted = dns::in_order(records.to_vec(), &mut |bound| {
            let (expected, drawn) = script.next().unwrap();
            assert_eq!(bound, expected, "{draws:?}");
            drawn
        });
        let sorted: Vec<_> = sorted.iter().map(|srv| (srv.priority, srv.weight)).collect();
        assert_eq!(sorted, order, "{draws:?}");
    }
}

#[test]
fn hosts() {
    let name = |text: &str| Ok(Host::Name(text.into()));
    let ip = |text: &str| Ok(Host::Ip(text.parse().unwrap()));
    let label = "a".repeat(64);
    for (text, host) in [
        ("Example.COM", name("example.com")),
        ("example.com.", name("example.com")),
        ("localhost", name("localhost")),
        ("_sip._udp.a", name("_sip._udp.a")),
        ("192.0.2.1", ip("192.0.2.1")),
        ("[2001:DB8::1]", ip("2001:db8::1")),
        ("2001:db8::1", ip("2001:db8::1")),
        ("", Err(HostError::Name)),
        (".", Err(HostError::Name)),
        ("a..b", Err(HostError::Name)),
        ("a b", Err(HostError::Name)),
        ("[192.0.2.1]", Err(HostError::Address)),
        ("[::1", Err(HostError::Address)),
        ("ex\u{e4}mple.com", Err(HostError::Name)),
        (label.as_str(), Err(HostError::Name)),
    ] {
        assert_eq!(Host::parse(text.as_bytes()), host, "{text:?}");
    }
    assert_eq!(Host::parse(b"\xff"), Err(HostError::Name));
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![Just("."), Just(""), Just("a.example"), Just("b.example."), Just("_sip._udp.c")]
        .prop_map(Into::into)
}

fn answers() -> impl Strategy<Value = Answer> {
    let service = prop_oneof![Just("SIP+D2U"), Just("SIPS+D2T"), Just("sip+d2t"), Just("x")];
    let naptr = (any::<u16>(), any::<u16>(), "[sSu]?", service, text()).prop_map(
        |(order, preference, flags, service, replacement)| Naptr {
            order,
            preference,
            flags,
            service: service.into(),
            replacement,
        },
    );
    let srv = (0u16..3, any::<u16>(), any::<u16>(), text())
        .prop_map(|(priority, weight, port, target)| Srv { priority, weight, port, target });
    prop_oneof![
        proptest::collection::vec(naptr, 0..50).prop_map(Answer::Naptr),
        proptest::collection::vec(srv, 0..50).prop_map(Answer::Srv),
        proptest::collection::vec(any::<IpAddr>(), 0..50).prop_map(Answer::Addresses),
        Just(Answer::Failure),
    ]
}

proptest! {
    #[test]
    fn the_location_ends_for_any_answers(
        ip in proptest::option::of(any::<IpAddr>()),
        port in proptest::option::of(any::<u16>()),
        transport in proptest::sample::select(&[None, Some(Udp), Some(Tcp), Some(Tls)]),
        sips: bool,
        ours in proptest::collection::vec(proptest::sample::select(ALL), 0..6),
        families in proptest::sample::select(
            &[AddressFamilies::V4, AddressFamilies::V6, AddressFamilies::V4First, AddressFamilies::V6First],
        ),
        answers in proptest::collection::vec(answers(), 17),
        honest: bool,
        seed: u32,
    ) {
        let host = ip.map_or_else(|| Host::Name("a.example".into()), Host::Ip);
        let destination = Destination { host, port, transport, sips };
        let mut locator = Locator::new(destination, &ours, families);
        let mut queries = 0;
        let mut answers = answers.into_iter();
        while let LocateStep::Query(query) = locator.step() {
            queries += 1;
            prop_assert!(queries <= MAX_QUERIES);
            prop_assert!(dns::is_name(&query.name) && !query.name.ends_with('.'));
            let answer = answers.next().unwrap();
            let of_type = matches!(
                (&answer, query.record),
                (Answer::Naptr(_), NaptrType)
                    | (Answer::Srv(_), SrvType)
                    | (Answer::Addresses(_), A | Aaaa)
            );
            let answer = if honest && !of_type { empty(query.record) } else { answer };
            locator.on_dns_answer(answer, &mut |bound| if honest { seed % bound } else { seed });
        }
        if let LocateStep::Done(targets) = locator.step() {
            prop_assert!((1..=MAX_TARGETS).contains(&targets.len()));
            for target in targets {
                prop_assert!(ours.contains(&target.transport));
                prop_assert!(!sips || target.transport == Tls);
            }
        }
        let before = locator.step();
        locator.on_dns_answer(Answer::Failure, &mut |_| 0);
        prop_assert_eq!(locator.step(), before, "an additional answer changes nothing");
    }

    #[test]
    fn arbitrary_hosts_do_not_panic(text in proptest::collection::vec(any::<u8>(), 0..80)) {
        if let Ok(Host::Name(name)) = Host::parse(&text) {
            prop_assert!(dns::is_name(&name));
        }
    }
}
